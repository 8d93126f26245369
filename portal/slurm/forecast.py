"""When a waiting job may start, as far as the snapshots of the cluster show: pure numbers, no promises.

The start that Slurm itself plans is :attr:`portal.slurm.jobs.Job.starts_at` of a waiting job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.slurm.jobs import Job, Phase
from portal.slurm.nodes import Node, Reservation

# squeue(1), JOB REASON CODES: such jobs take no place in the queue, however high their priority.
_REASONS_WITHOUT_PLACE = {
    "JobHeldUser",
    "JobHeldAdmin",
    "job requeued in held state",
    "Dependency",
    "DependencyNeverSatisfied",
    "BeginTime",
}
# The same page: limits of a person, an account or an array; what such a job does not take others may have.
_LIMITS = ("QOS", "Assoc", "JobArrayTaskLimit")


def position(job: Job, jobs: Iterable[Job]) -> int:
    """The place of a waiting job in the queue of its partitions: 1 is next, 0 is a job that does not wait.

    Ahead are jobs of a higher priority, or of the same and with a lower number. A job array is one.
    """
    if not _is_waiting(job):
        return 0
    partitions = set(job.partitions)
    rank = _rank(job)
    candidates = (other for other in jobs if other.priority >= job.priority and _has_place(other))
    return 1 + sum(_rank(other) < rank and not partitions.isdisjoint(other.partitions) for other in candidates)


def _is_waiting(job: Job) -> bool:
    return job.phase is Phase.WAITING and not job.node


def _has_place(job: Job) -> bool:
    return _is_waiting(job) and job.priority > 0 and job.reason not in _REASONS_WITHOUT_PLACE


def is_in_line(job: Job) -> bool:
    """Whether a job that waits may take what is free; not one that waits for a limit of its own person, or is held."""
    return _has_place(job) and not job.reason.startswith(_LIMITS)


def _rank(job: Job) -> tuple[int, int, str]:
    """Sorts jobs as Slurm starts them: by priority, then by number; the rest of an id is that of a job array."""
    digits = len(job.id) - len(job.id.lstrip("0123456789"))
    return -job.priority, int(job.id[:digits] or 0), job.id[digits:]


@dataclass(frozen=True)
class Free:
    """What no job uses on the usable nodes of a partition.

    ``gpus_on_one_node`` is the largest number of GPUs that one session could get now, of whatever kind.
    """

    gpus: Mapping[str, int]
    cores: int
    memory_mib: int
    gpus_on_one_node: int


def free(nodes: Iterable[Node], partition: str) -> Free:
    """What is free in a partition now. A GPU of a node without a free core or without free memory is not free."""
    usable = list(_usable(nodes, partition))
    gpus = Counter[str]()
    for node in usable:
        gpus.update(free_gpus(node))
    return Free(
        gpus=dict(gpus),
        cores=sum(node.cores_free for node in usable),
        memory_mib=sum(node.memory_free_mib for node in usable),
        gpus_on_one_node=max((sum(free_gpus(node).values()) for node in usable), default=0),
    )


def _usable(nodes: Iterable[Node], partition: str) -> Iterator[Node]:
    return (node for node in nodes if node.is_usable and partition in node.partitions)


def free_gpus(node: Node) -> Mapping[str, int]:
    """The free GPUs of a node by kind: none when no core or no memory is free for them."""
    if node.cores_free and node.memory_free_mib:
        return node.gpus_free
    return dict.fromkeys(node.gpus, 0)


def next_maintenance(
    reservations: Iterable[Reservation], now: datetime, within: timedelta, nodes: Collection[str] | None = None
) -> Reservation | None:
    """The first maintenance that runs now or begins ``within`` a time; with ``nodes``, of one of these at least."""
    coming = (
        one
        for one in reservations
        if one.is_maintenance
        and now < one.ends_at
        and one.starts_at <= now + within
        and (nodes is None or not one.nodes.isdisjoint(nodes))
    )
    return min(coming, key=lambda one: (one.starts_at, one.name), default=None)
