"""What a :class:`~portal.testing.fake_slurm.FakeSlurm` is made of: partitions, reservations and jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from portal.testing.behaviours import Behaviour, Status

# Of each node.
CORES = 40
MEMORY_MIB = 393216
GPUS = 4


@dataclass(frozen=True)
class FakePartition:
    """One partition, its nodes, and the longest time that a job may ask for."""

    name: str
    nodes: tuple[str, ...]
    time_limit_min: int = 24 * 60


# Those of the demo cluster.
PARTITIONS = (
    FakePartition("sxm2", ("gpu01", "gpu02", "gpu03")),
    FakePartition("hipri", ("gpu01", "gpu02", "gpu03"), 12 * 60),
    FakePartition("iq", ("gpu04",), 4 * 60),
    FakePartition("requestq", ("gpu01", "gpu02", "gpu03", "gpu04"), 8 * 60),
)


@dataclass(frozen=True)
class FakeReservation:
    """One reservation for maintenance."""

    name: str
    starts_at: datetime
    ends_at: datetime
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Usage:
    """What a job uses, as accounting has it; of its GPUs nothing where the site does not gather it."""

    cpu_s: float = 0.002
    memory_kib: int = 388
    gpu_percent: int | None = None
    gpu_memory_mib: int | None = None
    energy_j: int = 0


@dataclass
class FakeJob:
    """One job that was taken; ``options`` are those of sbatch without their dashes."""

    id: str
    user: str
    submitted_at: datetime
    partition: FakePartition
    behaviour: Behaviour
    options: Mapping[str, str] = field(default_factory=dict)
    usage: Usage = Usage()
    printed: tuple[str, Status, str] | None = None  # its last line of squeue, with the columns and what it showed

    @property
    def name(self) -> str:
        """Its name; sbatch calls a job without one after its script."""
        return self.options.get("job-name", "session.sh")

    @cached_property
    def limit(self) -> timedelta:
        """Its time limit; the demo's ``DefaultTime`` is an hour."""
        return timedelta(minutes=int(self.options.get("time", 60)))

    def status(self, now: datetime) -> Status:
        """What the job is at a moment: nothing runs longer than its time limit."""
        age_s = (now - self.submitted_at).total_seconds()
        status = self.behaviour.at(age_s)
        due_s = (status.starts_s or 0) + self.limit.total_seconds()
        if not status.is_running or age_s < due_s:
            return status
        return Status("TIMEOUT", "TimeLimit", "0:15", status.run, status.submitted_s, status.starts_s, due_s)

    def when(self, seconds: float | None) -> datetime | None:
        """A moment of its status."""
        return None if seconds is None else self.submitted_at + timedelta(seconds=seconds)

    def node(self, status: Status) -> str:
        """The node of its run, the next one after each requeue; none while it waits."""
        waits = status.run == 0 or status.state == "PENDING"
        return "" if waits else self.partition.nodes[(status.run - 1) % len(self.partition.nodes)]

    @property
    def cores(self) -> int:
        """Cores it asks for."""
        return int(self.options.get("cpus-per-task", 1))

    @property
    def memory_mib(self) -> int:
        """Memory it asks for; the demo's ``DefMemPerCPU`` is 6 GiB."""
        return int(self.options.get("mem", f"{6144 * self.cores}M").rstrip("M"))

    @property
    def gpus(self) -> int:
        """GPUs it asks for."""
        return int(self.options.get("gres", "gpu:0").rpartition(":")[2])


def by_name(options: Iterable[str]) -> dict[str, str]:
    """``NAME=VALUE`` as a dict; an option without a value has ``""``."""
    found = {}
    for option in options:
        name, _, value = option.partition("=")
        found[name] = value
    return found
