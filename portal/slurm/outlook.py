"""What the shared snapshots know of a job's wait: asked for only while somebody looks at the page."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from portal.slurm import forecast
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Job, Phase
from portal.slurm.nodes import Node, Reservation
from portal.slurm.snapshot import NEVER

KEPT_S = 1.0  # pages look every second: all those of one session share a look


@dataclass(frozen=True)
class Outlook:
    """What is known about a job's wait: its place in the queue (1 = the next), what is free, and what comes.

    ``gpus_free`` are all of the partition's, ``gpus_on_one_node`` the most that one node has free;
    ``maintenance_at`` is the next one's begin.
    """

    position: int = 0
    gpus_free: int | None = None
    gpus_on_one_node: int = 0
    maintenance_at: datetime | None = None


NOTHING_KNOWN = Outlook()


class QueueOutlook:
    """The outlook of one session, for whoever asks in the same second; its place is counted once for each snapshot."""

    def __init__(self, cluster: Cluster, maintenance_within: timedelta) -> None:
        self._cluster = cluster
        self._maintenance_within = maintenance_within
        self._counted_at = NEVER
        self._position = 0
        self._made = NOTHING_KNOWN
        self._made_of: Job | None = None
        self._made_at = NEVER

    async def of(self, job: Job | None) -> Outlook:
        """What is known of the wait of ``job``; nothing of one that does not wait."""
        if job is None or job.phase is not Phase.WAITING:
            return NOTHING_KNOWN
        nodes = (await self._cluster.nodes()).nodes
        reservations = (await self._cluster.partitions()).reservations.values()
        now = self._cluster.now()  # from here on nothing waits: who asks at the same time finds what the first has made
        if job != self._made_of or now - self._made_at >= KEPT_S:
            self._made = self._outlook(job, nodes.values(), reservations)
            self._made_of = job
            self._made_at = now
        return self._made

    def _outlook(self, job: Job, nodes: Collection[Node], reservations: Iterable[Reservation]) -> Outlook:
        free = forecast.free(nodes, job.partition) if nodes else None
        there = [node.name for node in nodes if job.partition in node.partitions]
        coming = forecast.next_maintenance(reservations, datetime.now(UTC), self._maintenance_within, there or None)
        return Outlook(
            position=self._position_of(job),
            gpus_free=sum(free.gpus.values()) if free else None,
            gpus_on_one_node=free.gpus_on_one_node if free else 0,
            maintenance_at=coming.starts_at if coming else None,
        )

    def _position_of(self, job: Job) -> int:
        queue = self._cluster.last_queue
        if self._counted_at != queue.taken_at:
            self._counted_at = queue.taken_at
            self._position = forecast.position(job, queue.jobs.values())
        return self._position
