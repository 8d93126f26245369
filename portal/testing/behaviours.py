"""What a job of a :class:`~portal.testing.fake_slurm.FakeSlurm` may do: one name for each thing that happens to jobs.

A behaviour gives the job's state from the seconds since it was submitted. Each docstring says what the real Slurm
does, and where that was seen: "recorded" are outputs of Slurm 22.05.8 (the jobs' names in tests/fixtures/slurm),
"seen" is Slurm 22.05.8 in the demo cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

BEGIN_WAIT_S = 121.0  # how long a job that was requeued must wait (recorded: job 9 of the main scene; seen)


@dataclass(frozen=True)
class Status:
    """A job at one moment. Times are seconds since its submission; a job that slurmctld has forgotten has no state.

    ``run`` counts its starts (each on another node), ``accounted`` is accounting's state where that is another one.
    """

    state: str
    reason: str = "None"
    exit_code: str = "0:0"
    run: int = 0
    submitted_s: float = 0
    starts_s: float | None = None
    ended_s: float | None = None
    cancelled_by: str = ""
    held: bool = False
    accounted: str | None = None

    @property
    def is_running(self) -> bool:
        """It has a node, and may still end in any way."""
        return self.state == "RUNNING"


class Behaviour(Protocol):
    """What a job does."""

    def at(self, age_s: float) -> Status:
        """The job ``age_s`` seconds after its submission."""
        ...


@dataclass(frozen=True)
class Runs:
    """Starts ``after_s`` after its submission and runs until its time limit (recorded: run1, p-priority)."""

    after_s: float = 0

    def at(self, age_s: float) -> Status:
        """Pending for its priority, then running."""
        if age_s < self.after_s:
            return Status("PENDING", "Priority", starts_s=self.after_s)
        return Status("RUNNING", run=1, starts_s=self.after_s)


@dataclass(frozen=True)
class PendingForever:
    """Waits, and Slurm says why: one of squeue(1), JOB REASON CODES (recorded: 20 of them, p-*)."""

    reason: str = "Resources"

    def at(self, age_s: float) -> Status:
        """Pending, at any time."""
        return Status("PENDING", self.reason)


@dataclass(frozen=True)
class Held:
    """Held by its owner, or by an administrator ("JobHeldAdmin"): it waits with the priority 0.

    ``scontrol hold`` of a job that runs lets it run (seen). Recorded: p-heldbyuser, p-heldbyadmin.
    """

    reason: str = "JobHeldUser"

    def at(self, age_s: float) -> Status:
        """Pending and held, at any time."""
        return Status("PENDING", self.reason, held=True)


@dataclass(frozen=True)
class Happening:
    """Something that happens to a job ``after_s`` after its submission; ``before`` is what it did until then."""

    after_s: float = field(default=60, kw_only=True)
    before: Behaviour = field(default_factory=Runs, kw_only=True)

    def at(self, age_s: float) -> Status:
        """What it did before, until this happens; then what this makes of it."""
        if age_s < self.after_s:
            return self.before.at(age_s)
        return self.then(self.before.at(self.after_s), age_s - self.after_s)

    def then(self, was: Status, since_s: float) -> Status:
        """The job, which ``was`` so when it happened ``since_s`` ago."""
        raise NotImplementedError


class Ends(Happening):
    """The job ends, in one of Slurm's final states; a job that has not started keeps the reason it waited for."""

    state: ClassVar[str] = "COMPLETED"
    reason: ClassVar[str] = "None"
    code: ClassVar[str] = "0:0"

    def then(self, was: Status, since_s: float) -> Status:
        """Ended, at the moment when this happened."""
        if was.is_running:
            return replace(was, state=self.state, reason=self.reason, exit_code=self.exit_code, ended_s=self.after_s)
        return replace(was, state=self.state, starts_s=self.after_s, ended_s=self.after_s)

    @property
    def exit_code(self) -> str:
        """Exit code and signal as slurmctld gives them; accounting has no signal of Slurm's own SIGTERM."""
        return self.code


class Completes(Ends):
    """Its script ends with the exit code 0 (recorded: ok)."""


@dataclass(frozen=True)
class FailsWith(Ends):
    """Its script ends with an exit code: FAILED, NonZeroExitCode (recorded: fail3)."""

    status: int
    state: ClassVar[str] = "FAILED"
    reason: ClassVar[str] = "NonZeroExitCode"

    @property
    def exit_code(self) -> str:
        """The exit code of the script, and no signal."""
        return f"{self.status}:0"


class OutOfMemory(Ends):
    """The kernel kills a process of it: OUT_OF_MEMORY with 0:125, by cgroups only (recorded: oom; seen)."""

    state: ClassVar[str] = "OUT_OF_MEMORY"
    reason: ClassVar[str] = "OutOfMemory"
    code: ClassVar[str] = "0:125"


class TimeLimit(Ends):
    """Its time is up before its own ``--time``: an administrator made it shorter (seen: ``EndTime=now+1``).

    Every job ends so at its time limit. slurmctld checks twice a minute, so a real one lives up to 30 s longer.
    Recorded: timeout, which ran for 82 of its 60 s.
    """

    state: ClassVar[str] = "TIMEOUT"
    reason: ClassVar[str] = "TimeLimit"
    code: ClassVar[str] = "0:15"


@dataclass(frozen=True)
class Cancelled(Ends):
    """``scancel`` by an account; only accounting says by whom (recorded: cancelme, cancelpend)."""

    by: str
    state: ClassVar[str] = "CANCELLED"
    code: ClassVar[str] = "0:15"

    def then(self, was: Status, since_s: float) -> Status:
        """Ended, with the account that cancelled it."""
        return replace(super().then(was, since_s), cancelled_by=self.by)


@dataclass(frozen=True)
class CancelledByAdmin(Cancelled):
    """root says ``scancel``: CANCELLED, "CANCELLED by 0" in accounting (recorded: cancelme)."""

    by: str = "0"


@dataclass(frozen=True)
class Requeued(Happening):
    """Goes back into the queue (``scontrol requeue``), waits there for ``wait_s``, and runs again elsewhere.

    Its id stays, it counts as submitted anew, and it waits for BeginTime. Recorded: requeued-by-user; seen.
    """

    wait_s: float = field(default=BEGIN_WAIT_S, kw_only=True)
    accounted: ClassVar[str] = "REQUEUED"

    def then(self, was: Status, since_s: float) -> Status:
        """Pending until the wait is over, then running once more.

        For a moment accounting still has the state in which the first run ended.
        """
        again = Status("PENDING", "BeginTime", submitted_s=self.after_s, starts_s=self.after_s + self.wait_s)
        if since_s < self.wait_s:
            return replace(again, run=was.run, accounted=self.accounted if since_s < 1 else None)
        return replace(again, state="RUNNING", reason="None", run=was.run + 1)


@dataclass(frozen=True)
class NodeFails(Ends):
    """Its node fails: NODE_FAIL, NodeDown; with ``requeue`` (as the portal submits) it is requeued instead.

    Then accounting says NODE_FAIL for a second, though the job lives (seen). Recorded: nodefail, requeued-by-nodefail.
    """

    requeue: bool = field(default=False, kw_only=True)
    state: ClassVar[str] = "NODE_FAIL"
    reason: ClassVar[str] = "NodeDown"

    def then(self, was: Status, since_s: float) -> Status:
        """Requeued where that was asked for, ended otherwise."""
        return _lost(self, was, since_s) if self.requeue else super().then(was, since_s)


@dataclass(frozen=True)
class Preempted(Ends):
    """A job of a higher partition or QOS takes its place; with ``requeue`` where ``PreemptMode=REQUEUE``.

    Recorded: x-preempted (PREEMPTED, submitted with ``--no-requeue``), preempted (requeued).
    """

    requeue: bool = field(default=False, kw_only=True)
    state: ClassVar[str] = "PREEMPTED"
    code: ClassVar[str] = "0:15"

    def then(self, was: Status, since_s: float) -> Status:
        """Requeued where that was asked for, ended otherwise."""
        return _lost(self, was, since_s) if self.requeue else super().then(was, since_s)


def _lost(event: Ends, was: Status, since_s: float) -> Status:
    again = Requeued(after_s=event.after_s).then(was, since_s)
    return replace(again, accounted=event.state) if again.accounted else again


@dataclass(frozen=True)
class Vanishes(Happening):
    """slurmctld does not know it any more: ``MinJobAge`` is over, or it lost its state. ``accounted`` is what
    accounting says then: nothing where there is none, RUNNING of a job that it never saw end.

    Recorded: scontrol-show-job-unknown, sacct-unknown-job.
    """

    accounted: str = field(default="", kw_only=True)

    def then(self, was: Status, since_s: float) -> Status:
        """Unknown to slurmctld from then on."""
        return replace(was, state="", accounted=self.accounted)
