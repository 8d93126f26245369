"""One look at the cluster for all open forms: few questions to Slurm, and nobody waits for one that is dead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from typing import TypeVar

from portal.forecasts.picture import NOTHING, Picture, picture
from portal.forecasts.turns import LookTurns
from portal.journal import SENDER
from portal.slurm.cluster import Cluster
from portal.slurm.snapshot import NEVER, NodesSnapshot, PartitionsSnapshot, QueueSnapshot, in_thread

WITHIN_S = 0.06  # a form waits so long for a picture; then it is shown without, and looks again by itself
FORM_WITHIN_S = 0.25  # and so long, in all, for what is worked out of it
FRESH_S = 5.0
STILL_SHOWN_S = 30.0  # a picture younger than this is shown while the next one is made: nobody waits for that
QUEUE_MAX_AGE_S = 10.0
NODES_MAX_AGE_S = 15.0

log = logging.getLogger(__name__)
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="forecasts")
T = TypeVar("T")
Snapshots = tuple[QueueSnapshot, NodesSnapshot, PartitionsSnapshot]


def _now() -> datetime:
    return datetime.now(UTC)


class SharedLook:
    """The picture of one cluster. It is made while somebody looks at a form, and at no other time.

    Args:
        cluster: where the snapshots come from.
        now: the time of day, with its zone; a seam for tests.
        within_s: how long a form waits for the picture.

    Attributes:
        form_within_s: how long a form waits in all; then it is shown without, and looks again by itself.
        turns: who has something worked out now.
    """

    def __init__(self, cluster: Cluster, now: Callable[[], datetime] = _now, within_s: float = WITHIN_S) -> None:
        self.now = now
        self.form_within_s = within_s + FORM_WITHIN_S
        self.turns = LookTurns()
        self._cluster = cluster
        self._within_s = within_s
        self._last = NOTHING
        self._made_at = NEVER
        self._making: asyncio.Task[None] | None = None

    def clock(self) -> float:
        """The time on the clock of the snapshots."""
        return self._cluster.now()

    async def picture(self) -> Picture:
        """The last picture, after a short wait for a newer one where it is old; it never raises."""
        if self.clock() - self._made_at > FRESH_S:
            if self._making is None or self._making.done():
                self._making = asyncio.create_task(self._make())
            if self.clock() - self._last.taken_at > STILL_SHOWN_S:
                await asyncio.wait([self._making], timeout=self._within_s)
        return self._last

    async def work(self, on: Callable[[Picture], T]) -> T:
        """Work something out of the last picture, in a thread where no long listing is in the way.

        What is cancelled before it has begun is not begun. One who asks has a turn meanwhile (:attr:`turns`).
        """
        return await asyncio.get_running_loop().run_in_executor(_THREAD, copy_context().run, on, await self.picture())

    async def _make(self) -> None:
        SENDER.set(None)  # it is for many
        asking: asyncio.Future[Snapshots] = asyncio.gather(
            self._cluster.queue(QUEUE_MAX_AGE_S), self._cluster.nodes(NODES_MAX_AGE_S), self._cluster.partitions()
        )
        try:
            self._last = await in_thread(self._picture_of, await asking)
        except Exception:  # a fault of ours must not keep anybody from the form; the picture grows old, and says so
            log.exception("The picture of the cluster could not be made")
        self._made_at = self.clock()

    def _picture_of(self, snapshots: Snapshots) -> Picture:
        """The next picture, in which what was asked for of the last one is counted already."""
        made = picture(*snapshots, self.now())
        made.count_as(self._last)
        return made
