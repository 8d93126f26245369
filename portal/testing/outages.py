"""What may be wrong with the whole of a :class:`~portal.testing.fake_slurm.FakeSlurm`: one name for each.

The outage may answer a command in the place of the cluster. Each docstring says what the real Slurm does, and where
that was seen: "recorded" are outputs of Slurm 22.05.8 (the cases' names in tests/fixtures/slurm), "seen" is Slurm
22.05.8 in the demo cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Literal

from portal.slurm.runner import Result, RunError


class Outage:
    """What is wrong with the whole cluster; as it stands here nothing is.

    ``takes_jobs`` says what becomes of a job whose ``sbatch`` is answered by the outage: slurmctld never hears of
    it, takes it, or takes it when the outage ends. ``cancels_jobs`` says whether a ``scancel`` is done that the outage
    answers.
    """

    takes_jobs: ClassVar[Literal["never", "now", "afterwards"]] = "never"
    cancels_jobs: ClassVar[bool] = False

    def launch(self) -> Result | None:
        """What sudo answers in the place of portal-launch; ``None``: portal-launch itself does."""
        return None

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """The answer to one of Slurm's commands, ``since_s`` after the outage began; ``None``: the cluster's own.

        Raises:
            RunError: the command does not end within ``timeout_s``.
        """
        return None


class NoOutage(Outage):
    """Everything answers."""


@dataclass
class Lasting:
    """An outage since its beginning, and what was sent meanwhile to a slurmctld that hangs."""

    outage: Outage
    since: datetime
    sent: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)


@dataclass(frozen=True)
class SlurmSilent(Outage):
    """slurmctld hangs: commands wait for ``message_timeout_s`` (``MessageTimeout``) and say so. What sbatch sent
    meanwhile is taken when slurmctld resumes. slurmdbd answers.

    Recorded: ctldhang-*; seen with ``SIGSTOP``, the job that is taken afterwards too.
    """

    message_timeout_s: float = 20
    takes_jobs: ClassVar[Literal["never", "now", "afterwards"]] = "afterwards"

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """A time-out from all commands but sacct."""
        if command[0] == "sacct":
            return None
        if timeout_s < self.message_timeout_s:
            raise RunError(f"{command[0]} did not answer within {timeout_s:g} s")
        return no_answer(command, "Socket timed out on send/recv operation")


@dataclass(frozen=True)
class SbatchSays(Outage):
    """A wrapper around sbatch prints a number that is not the job's; the job is taken (no recording)."""

    job_id: str
    takes_jobs: ClassVar[Literal["never", "now", "afterwards"]] = "now"

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """Another number, of sbatch only."""
        return Result(0, f"{self.job_id}\n", "") if command[0] == "sbatch" else None


@dataclass(frozen=True)
class ControllerDown(Outage):
    """slurmctld is not there, and ``scontrol ping`` says so at once; slurmdbd answers (recorded: ctlddown-*; seen)."""

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """A refused connection from all commands but sacct."""
        if command[0] == "sacct":
            return None
        return no_answer(command, "Unable to contact slurm controller (connect failure)")


@dataclass(frozen=True)
class ControllerRestarts(ControllerDown):
    """slurmctld is down for ``for_s`` and comes back with every job it had; jobs run on meanwhile (seen)."""

    for_s: float = 20

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """As of a controller that is down, for a while."""
        return super().answer(command, since_s, timeout_s) if since_s < self.for_s else None


@dataclass(frozen=True)
class MungeDown(Outage):
    """munged is dead on the hub's host: nothing can prove who it is, accounting neither (recorded: mungedead-*; seen).

    A munged that hangs is another thing: every command waits without an end, as in ``SlurmSilent(math.inf)``.
    """

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """A failed authentication from every command."""
        refused = no_answer(command, "Protocol authentication error")
        socket = 'Failed to access "/run/munge/munge.socket.2": No such file or directory (Did you start munged?)'
        munge = ("If munged is up, restart with --num-threads=10", f"Munge encode failed: {socket}")
        lines = "".join(f"{command[0]}: error: {line}\n" for line in munge)
        return replace(refused, stderr=lines + refused.stderr)


@dataclass(frozen=True)
class SlurmGarbage(Outage):
    """squeue prints something else than the queue; :func:`portal.testing.bad_answers.bad_answers` has many."""

    stdout: str
    stderr: str = ""
    returncode: int = 0

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """The given output, from squeue only."""
        return Result(self.returncode, self.stdout, self.stderr) if command[0] == "squeue" else None


@dataclass(frozen=True)
class SlurmEmpty(ControllerDown):
    """squeue prints an empty queue and exit status 0, though the controller is not up.

    Slurm 22.05 does so with ``--json`` (recorded: ctlddown-squeue-json), in plain text it was not seen.
    """

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """Nothing from squeue, and a refused connection from the other commands."""
        return Result(0, "", "") if command[0] == "squeue" else super().answer(command, since_s, timeout_s)


@dataclass(frozen=True)
class JobsHidden(Outage):
    """Slurm is well and shows nobody's jobs to the hub's account (``PrivateData=jobs``, slurm.conf(5))."""

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """No job from squeue and sacct, and an unknown one from scontrol."""
        if command[:2] == ("scontrol", "ping") or command[0] not in ("squeue", "scontrol", "sacct"):
            return None
        return no_answer(command, "Invalid job id specified") if "job" in command else Result(0, "", "")


@dataclass(frozen=True)
class AccountingDown(Outage):
    """slurmdbd is dead; jobs are submitted and run as always (recorded: dbddown-*; seen)."""

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """A refused connection from sacct only."""
        if command[0] != "sacct":
            return None
        return Result(1, "", "sacct: error: Problem talking to the database: Connection refused\n")


@dataclass(frozen=True)
class SbatchAnswerLost(Outage):
    """slurmctld takes the job, and its answer does not reach sbatch (seen: slurmctld that hangs for a while)."""

    takes_jobs: ClassVar[Literal["never", "now", "afterwards"]] = "now"

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """A time-out from sbatch only."""
        if command[0] != "sbatch":
            return None
        return no_answer(command, "Socket timed out on send/recv operation")


@dataclass(frozen=True)
class ScancelUnanswered(Outage):
    """slurmctld never hears of what scancel asks for (seen: slurmctld that hangs)."""

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """A time-out from scancel only."""
        if command[0] != "scancel":
            return None
        return no_answer(command, "Socket timed out on send/recv operation")


@dataclass(frozen=True)
class ScancelAnswerLost(ScancelUnanswered):
    """slurmctld cancels the job, and its answer does not reach scancel (as of sbatch above)."""

    cancels_jobs: ClassVar[bool] = True


@dataclass(frozen=True)
class LauncherFails(Outage):
    """sudo does not start portal-launch: a directory of accounts that is away, a rule that was lost (sudo(8))."""

    message: str = "sudo: account validation failure, is your account locked?"

    def launch(self) -> Result | None:
        """sudo's own words, and the exit status 1."""
        return Result(1, "", f"{self.message}\n")


@dataclass(frozen=True)
class SbatchRefuses(Outage):
    """sbatch says no, with a message of Slurm's (recorded: bad-*)."""

    message: str = "Invalid account or account/partition combination specified"

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """The refusal, from sbatch only."""
        return no_answer(command, self.message) if command[0] == "sbatch" else None


def no_answer(command: tuple[str, ...], message: str) -> Result:
    """How each command says that it has no answer (recorded: ctlddown-*, mungedead-*)."""
    if command[:2] == ("scontrol", "ping"):
        return Result(1, "Slurmctld(primary) at head is DOWN\n", "")
    prefixes = {
        "sbatch": "sbatch: error: Batch job submission failed",
        "scancel": f"scancel: error: Kill job error on job id {command[-1]}",
        "sacct": "sacct: error: Sending PersistInit msg",
    }
    prefix = prefixes.get(command[0], f"slurm_load_{_loaded(command)} error")
    return Result(1, "", f"{prefix}: {message}\n")


def _loaded(command: tuple[str, ...]) -> str:
    """What squeue and ``scontrol show`` load, as Slurm's messages call it."""
    if "show" not in command:
        return "jobs"
    kind = command[command.index("show") + 1]
    names = {"job": "jobs", "config": "ctl_conf", "partition": "partitions", "reservation": "reservations"}
    return names.get(kind, kind)
