"""What a job, or the whole of a :class:`~portal.fake_slurm.FakeSlurm`, may do: one name for each thing Slurm does.

A job's behaviour tells its state from the seconds since it was submitted. A cluster's weather may answer a command
in the place of the cluster. The texts are those that Slurm 22.05 to 25.11 print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from portal.runner import Result, RunError

FIRST_NODE, SECOND_NODE = "gpu01", "gpu02"


@dataclass(frozen=True)
class Status:
    """A job at one moment. ``started_s`` and ``ended_s`` are seconds since its submission; a job that nobody knows
    any more has the state ``""``."""

    state: str
    reason: str = "None"
    exit_code: str = "0:0"
    node: str = ""
    started_s: float | None = None
    ended_s: float | None = None
    cancelled_by: str = ""
    held: bool = False


class Behaviour(Protocol):
    """What a job does."""

    def at(self, age_s: float) -> Status:
        """The job ``age_s`` seconds after its submission."""
        ...


@dataclass(frozen=True)
class Runs:
    """Waits for ``after_s``, then runs for ever."""

    after_s: float = 0

    def at(self, age_s: float) -> Status:
        """See :class:`Behaviour`."""
        if age_s < self.after_s:
            return Status("PENDING", "Priority")
        return Status("RUNNING", node=FIRST_NODE, started_s=self.after_s)


@dataclass(frozen=True)
class PendingForever:
    """Waits, and Slurm says why."""

    reason: str = "Resources"

    def at(self, age_s: float) -> Status:
        """See :class:`Behaviour`."""
        return Status("PENDING", self.reason)


@dataclass(frozen=True)
class Held:
    """Held by its owner or by an administrator: it waits with the priority 0."""

    reason: str = "JobHeldUser"

    def at(self, age_s: float) -> Status:
        """See :class:`Behaviour`."""
        return Status("PENDING", self.reason, held=True)


@dataclass(frozen=True)
class Ends:
    """Runs at once and ends after ``after_s`` in one of Slurm's final states."""

    state: str
    exit_code: str = "0:0"
    reason: str = "None"
    after_s: float = 60
    cancelled_by: str = ""

    def at(self, age_s: float) -> Status:
        """See :class:`Behaviour`."""
        if age_s < self.after_s:
            return Runs().at(age_s)
        return Status(self.state, self.reason, self.exit_code, FIRST_NODE, 0, self.after_s, self.cancelled_by)


def Completes(after_s: float = 60) -> Ends:
    """Ends by itself with the exit code 0."""
    return Ends("COMPLETED", after_s=after_s)


def FailsWith(code: int, after_s: float = 60) -> Ends:
    """Its script ends with an exit code."""
    return Ends("FAILED", f"{code}:0", "NonZeroExitCode", after_s)


def OutOfMemory(after_s: float = 60) -> Ends:
    """A process of it is killed for the memory it took (cgroups)."""
    return Ends("OUT_OF_MEMORY", "0:125", "OutOfMemory", after_s)


def TimeLimit(after_s: float = 60) -> Ends:
    """Its time is up."""
    return Ends("TIMEOUT", "0:15", "TimeLimit", after_s)


def NodeFails(after_s: float = 60) -> Ends:
    """Its node fails, and it was submitted with ``--no-requeue``."""
    return Ends("NODE_FAIL", "1:0", "NodeDown", after_s)


def Preempted(after_s: float = 60) -> Ends:
    """A job of a higher partition or QOS takes its place (``PreemptMode=CANCEL``)."""
    return Ends("PREEMPTED", "0:15", "None", after_s)


def CancelledByAdmin(after_s: float = 60) -> Ends:
    """root says ``scancel``; who it was is only known to accounting."""
    return Ends("CANCELLED", "0:15", "None", after_s, cancelled_by="0")


@dataclass(frozen=True)
class Requeued:
    """Runs, goes back into the queue after ``after_s``, waits there for ``wait_s``, and runs again elsewhere."""

    after_s: float = 60
    wait_s: float = 120

    def at(self, age_s: float) -> Status:
        """See :class:`Behaviour`."""
        if age_s < self.after_s:
            return Runs().at(age_s)
        if age_s < self.after_s + self.wait_s:
            return Status("PENDING", "BeginTime")
        return Status("RUNNING", node=SECOND_NODE, started_s=self.after_s + self.wait_s)


@dataclass(frozen=True)
class Vanishes:
    """Runs, and after ``after_s`` neither slurmctld nor accounting knows it (``MinJobAge`` is over, no slurmdbd)."""

    after_s: float = 60

    def at(self, age_s: float) -> Status:
        """See :class:`Behaviour`."""
        return Runs().at(age_s) if age_s < self.after_s else Status("")


# -- weather --------------------------------------------------------------------------------------------


class Weather(Protocol):
    """What goes on in the whole cluster."""

    def answer(self, argv: Sequence[str]) -> Result | None:
        """The answer to one of Slurm's commands, or ``None``: the cluster answers as always.

        Raises:
            RunError: the command does not end.
        """
        ...


@dataclass(frozen=True)
class Fair:
    """Everything answers."""

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`."""
        return None


@dataclass(frozen=True)
class SlurmSilent:
    """slurmctld hangs: no command ends in time."""

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`."""
        raise RunError(f"{argv[0]} did not answer within 15 s")


@dataclass(frozen=True)
class ControllerDown:
    """slurmctld is stopped, for a restart or for longer; accounting still answers."""

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`."""
        if argv[:2] == ("scontrol", "ping"):
            return Result(1, "Slurmctld(primary) at head is DOWN\n", "")
        down = Result(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
        return None if argv[0] == "sacct" else down


@dataclass(frozen=True)
class MungeDown:
    """munged is dead on the hub's host: nothing can prove who it is."""

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`."""
        lines = [
            f"{argv[0]}: error: If munged is up, restart with --num-threads=10",
            f'{argv[0]}: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"',
            "slurm_load_jobs error: Protocol authentication error",
        ]
        return Result(1, "", "\n".join(lines) + "\n")


@dataclass(frozen=True)
class SlurmGarbage:
    """squeue prints something else than a queue."""

    stdout: str
    stderr: str = ""
    returncode: int = 0

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`."""
        return Result(self.returncode, self.stdout, self.stderr) if argv[0] == "squeue" else None


@dataclass(frozen=True)
class SlurmEmpty:
    """squeue prints an empty queue and exit status 0, though the controller is not up."""

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`."""
        return Result(0, "", "") if argv[0] == "squeue" else ControllerDown().answer(argv)


@dataclass(frozen=True)
class AccountingDown:
    """slurmdbd is dead, or the cluster has none."""

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`."""
        told = "sacct: error: Problem talking to the database: Connection refused\n"
        return Result(1, "", told) if argv[0] == "sacct" else None


@dataclass(frozen=True)
class SbatchAnswerLost:
    """slurmctld takes the job, and its answer does not reach sbatch."""

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`; what happens to sbatch is told by the cluster itself."""
        return None


@dataclass(frozen=True)
class SbatchRefuses:
    """sbatch says no, in Slurm's words."""

    words: str = (
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    )

    def answer(self, argv: Sequence[str]) -> Result | None:
        """See :class:`Weather`; what happens to sbatch is told by the cluster itself."""
        return None
