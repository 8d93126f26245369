"""One picture of the cluster for all who look at a form: what the three snapshots say, counted once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from portal.forecasts.places import Ask, NodePlace, gpus_of, places_of
from portal.forecasts.starts import Opening, Start, StartState, openings, start
from portal.slurm.forecast import free_gpus, is_in_line
from portal.slurm.nodes import Node, Partition
from portal.slurm.snapshot import NEVER, NodesSnapshot, PartitionsSnapshot, QueueSnapshot

STALE_S = 120.0  # what is older is not known any more
COUNTED_AT_MOST = 50  # different sessions: those that were asked for most often
KEPT_AT_MOST = 500  # what is asked for beside is counted each time
Gpus = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Picture:
    """The cluster at one moment, by partition.

    Attributes:
        taken_at: of the older one of queue and nodes, on the clock of the queries; never, before all three were there.
        made_at: the time of day.
        is_silent: Slurm did not answer the last query.
        gpus: those of nodes on which jobs can start, by kind; ``gpus_free`` of these without a job.
        ahead: the jobs in line for the same nodes.
        in_line: the partition of each of them, by its number; ``rivals`` are the partitions with nodes in common.
    """

    taken_at: float
    made_at: datetime
    is_silent: bool
    places: Mapping[str, tuple[NodePlace, ...]]
    gpus: Mapping[str, Gpus]
    gpus_free: Mapping[str, Gpus]
    ahead: Mapping[str, int]
    partitions: Mapping[str, Partition]
    in_line: Mapping[str, str] = field(default_factory=dict)
    rivals: Mapping[str, set[str]] = field(default_factory=dict)
    _openings: dict[tuple[str, Ask], tuple[bool, tuple[Opening, ...]]] = field(default_factory=dict, compare=False)
    _asked: Counter[tuple[str, Ask]] = field(default_factory=Counter, compare=False)

    def is_known(self, clock: float) -> bool:
        """Whether what it shows may be told as what is now."""
        return not self.is_silent and clock - self.taken_at <= STALE_S

    def free(self, partition: str, gres: str) -> tuple[int, int] | None:
        """How many GPUs of a name of ``--gres`` are free, and of how many; ``None`` = not known."""
        if partition not in self.places or gres.startswith("shard"):
            return None
        return gpus_of(self.gpus_free[partition], gres), gpus_of(self.gpus[partition], gres)

    def start(self, partition: str, ask: Ask, hours: int, now: datetime, instead_of: str = "") -> Start:
        """When a session would start in a partition; ``instead_of`` is the job whose place it takes."""
        slurms = self.partitions.get(partition)
        if slurms and not slurms.is_up:
            return Start(StartState.CLOSED)
        if partition not in self.places or (ask.gpus and ask.gres.startswith("shard")):
            return Start(StartState.UNKNOWN)
        if slurms and slurms.time_limit_min is not None and hours * 60 > slurms.time_limit_min:
            return Start(StartState.TOO_LONG)
        is_held, rooms = self._rooms(partition, ask)
        return start(rooms, is_held=is_held, hours=hours, ahead=self._still_ahead(partition, instead_of), now=now)

    def _still_ahead(self, partition: str, instead_of: str) -> int:
        """The jobs in line for nodes of a partition, without the one that goes."""
        goes = instead_of in self.in_line and _meets(self.in_line[instead_of], self.rivals.get(partition, set()))
        return self.ahead.get(partition, 0) - goes

    def count_as(self, before: Picture) -> None:
        """Count what an earlier picture was asked for, before anybody waits for it."""
        for partition, ask in before.most_asked():
            if partition in self.places:
                self._rooms(partition, ask)
        self._asked.clear()

    def most_asked(self) -> list[tuple[str, Ask]]:
        """What most looks at this picture asked for: one person who asks for very much does not push out the others."""
        return [key for key, _ in Counter(dict(self._asked)).most_common(COUNTED_AT_MOST)]

    def _rooms(self, partition: str, ask: Ask) -> tuple[bool, tuple[Opening, ...]]:
        """Counted once for all who ask for the same."""
        key = (partition, ask)
        known = self._openings.get(key)
        if known is None:
            places = self.places[partition]
            known = any(place.holds(ask) for place in places), openings(places, ask, self.made_at)
            if len(self._openings) < KEPT_AT_MOST:
                self._openings[key] = known
        if key in self._openings:
            self._asked[key] += 1
        return known


def picture(queue: QueueSnapshot, nodes: NodesSnapshot, partitions: PartitionsSnapshot, now: datetime) -> Picture:
    """The picture that these snapshots make."""
    gpus: dict[str, Counter[str]] = {}
    gpus_free: dict[str, Counter[str]] = {}
    for node in nodes.nodes.values():
        for name in node.partitions:
            all_of = gpus.setdefault(name, Counter())
            free_of = gpus_free.setdefault(name, Counter())
            if node.is_usable:
                all_of.update(node.gpus)
                free_of.update(free_gpus(node))
    reservations = partitions.reservations.values()
    in_line = {job.id: job.partition for job in queue.jobs.values() if is_in_line(job)}
    rivals = _rivals(nodes.nodes.values())
    return Picture(
        taken_at=NEVER if partitions.taken_at == NEVER else min(queue.taken_at, nodes.taken_at),
        made_at=now,
        is_silent=bool(queue.error or nodes.error or partitions.error),
        places=places_of(nodes.nodes.values(), queue.jobs.values(), reservations, now),
        gpus={name: tuple(sorted(counts.items())) for name, counts in gpus.items()},
        gpus_free={name: tuple(sorted(counts.items())) for name, counts in gpus_free.items()},
        ahead=_ahead(rivals, in_line.values()),
        partitions=partitions.partitions,
        in_line=in_line,
        rivals=rivals,
    )


NOTHING = Picture(NEVER, datetime.min, False, {}, {}, {}, {}, {})


def _rivals(nodes: Iterable[Node]) -> Mapping[str, set[str]]:
    """The partitions that share nodes with each one, itself among them."""
    rivals: dict[str, set[str]] = {}
    for together in {node.partitions for node in nodes}:
        for name in together:
            rivals.setdefault(name, set()).update(together)
    return rivals


def _ahead(rivals: Mapping[str, set[str]], in_line: Iterable[str]) -> Mapping[str, int]:
    """How many jobs are in line for nodes of each partition: those of other partitions on the same nodes as well."""
    waiting = Counter(in_line).items()
    return {name: sum(count for named, count in waiting if _meets(named, others)) for name, others in rivals.items()}


def _meets(named: str, partitions: set[str]) -> bool:
    """Whether a job that names partitions is for one of them."""
    return not partitions.isdisjoint(named.split(","))
