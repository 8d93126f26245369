"""One node as a session finds it: what is free, when more becomes free, and when a reservation closes it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from portal.slurm.jobs import Job, Phase
from portal.slurm.nodes import Node, Reservation, expand

ANY_GPU = "gpu"


@dataclass(frozen=True)
class Ask:
    """What one session asks of one node; ``gres`` is ``gpu`` or ``gpu:KIND``, as in ``--gres``."""

    gpus: int
    cores: int
    memory_mib: int
    gres: str = ANY_GPU
    is_whole_node: bool = False


@dataclass(frozen=True, order=True)
class Closure:
    """A reservation of a node by others: a session has to be over before it begins, or begins after it."""

    starts_at: datetime
    ends_at: datetime
    is_maintenance: bool = True


@dataclass(frozen=True)
class NodePlace:
    """What one node has; nodes that are alike in all of it are one place.

    Attributes:
        is_open: jobs can start here now.
        ends: when each job here ends at the latest, the soonest first; ``None`` = that is not known.
        closures: those that are not over, the first one first.
    """

    gpus: tuple[tuple[str, int], ...]
    gpus_used: tuple[tuple[str, int], ...]
    cores: int
    cores_used: int
    memory_mib: int
    memory_used_mib: int
    is_open: bool
    ends: tuple[datetime | None, ...]
    closures: tuple[Closure, ...]

    def holds(self, ask: Ask) -> bool:
        """Whether the node is large enough, were it empty."""
        return self._has(ask, used=0.0)

    def has_room(self, ask: Ask) -> bool:
        """Whether it has that much free now."""
        return self.is_open and not (ask.is_whole_node and self.ends) and self._has(ask, used=1.0)

    def room_at(self, ask: Ask, now: datetime) -> datetime | None:
        """When it has that much, as far as the ends of its jobs tell; ``None`` = not known, or never.

        The queue does not say what each job uses, so they count as if they shared it alike.
        """
        if not self.holds(ask):
            return None
        if self._has(ask, used=1.0) and not (ask.is_whole_node and self.ends):
            return now
        for ended, at in enumerate(self.ends, start=1):
            if at is None:
                return None
            left = 1 - ended / len(self.ends)
            if self._has(ask, used=left) and not (ask.is_whole_node and left):
                return max(at, now)
        return None

    def _has(self, ask: Ask, used: float) -> bool:
        """Whether it has that much while only this part of what is used now is used."""
        has_size = (
            self.cores - _part(self.cores_used, used) >= ask.cores
            and self.memory_mib - _part(self.memory_used_mib, used) >= ask.memory_mib
        )
        return has_size and gpus_of(self.gpus, ask.gres) - _part(gpus_of(self.gpus_used, ask.gres), used) >= ask.gpus


def _part(used: int, part: float) -> int:
    """So much of what is used, to the next whole one above."""
    return used if part == 1 else -int(-used * part // 1)


def gpus_of(gpus: Iterable[tuple[str, int]], gres: str) -> int:
    """The GPUs that a name of ``--gres`` means: all, or those of one kind."""
    kind = gres.partition(":")[2]
    return sum(count for name, count in gpus if not kind or name == kind)


def place_of(node: Node, jobs: Iterable[Job], closures: Iterable[Closure], now: datetime) -> NodePlace | None:
    """What a node has; ``None`` where nobody knows when a job can start there again."""
    coming = tuple(sorted(one for one in closures if now < one.ends_at))
    is_closed = node.is_only_reserved and any(one.starts_at <= now for one in coming)
    if not node.is_usable and not is_closed:
        return None
    ends = [job.ends_at for job in jobs]
    return NodePlace(
        gpus=tuple(sorted(node.gpus.items())),
        gpus_used=tuple(sorted(node.gpus_used.items())),
        cores=node.cores,
        cores_used=node.cores_used,
        memory_mib=node.memory_mib,
        memory_used_mib=node.memory_used_mib,
        is_open=node.is_usable,
        ends=(*sorted(end for end in ends if end), *(None for end in ends if not end)),
        closures=coming,
    )


def places_of(
    nodes: Iterable[Node], jobs: Iterable[Job], reservations: Iterable[Reservation], now: datetime
) -> Mapping[str, tuple[NodePlace, ...]]:
    """The places of each partition, of those that are alike one."""
    running = _by_node(jobs)
    closures: dict[str, list[Closure]] = {}
    for one in reservations:
        for name in one.nodes:
            closures.setdefault(name, []).append(Closure(one.starts_at, one.ends_at, one.is_maintenance))
    found: dict[str, dict[NodePlace, None]] = {}
    for node in nodes:
        place = place_of(node, running.get(node.name, ()), closures.get(node.name, ()), now)
        for partition in node.partitions:
            alike = found.setdefault(partition, {})
            if place:
                alike[place] = None
    return {partition: tuple(places) for partition, places in found.items()}


def _by_node(jobs: Iterable[Job]) -> Mapping[str, list[Job]]:
    """The jobs that hold something of each node; a list of nodes that cannot be read belongs to no node."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        if job.node and job.phase not in (Phase.ENDED, Phase.UNKNOWN):
            for name in _names(job.node):
                found.setdefault(name, []).append(job)
    return found


def _names(nodes: str) -> Iterator[str]:
    if "[" not in nodes and "," not in nodes:
        yield nodes
        return
    try:
        yield from expand(nodes)
    except ValueError:
        return
