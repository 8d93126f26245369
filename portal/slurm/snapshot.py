"""One query for all sessions: single flight, with a time, an age, and the error of the last query; and a silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from portal.errors import SlurmUnavailable
from portal.journal import SENDER
from portal.language.texts import N_
from portal.slurm.jobs import Job
from portal.slurm.nodes import Node, Partition, Reservation

log = logging.getLogger(__name__)
NEVER = float("-inf")
T = TypeVar("T")
A = TypeVar("A")
_THREADS = ThreadPoolExecutor(2, thread_name_prefix="slurm")


@dataclass(frozen=True)
class Snapshot:
    """Slurm's last answer: ``taken_at`` in seconds on the clock of the query, and the error of the last query, if any.

    With an error, everything else is that of the last good answer.
    """

    taken_at: float = NEVER
    error: SlurmUnavailable | None = None

    def age_s(self, now: float) -> float:
        """How old the snapshot is, in seconds."""
        return now - self.taken_at


@dataclass(frozen=True)
class QueueSnapshot(Snapshot):
    """The queue at one moment: ``jobs`` by id."""

    jobs: Mapping[str, Job] = field(default_factory=dict)


@dataclass(frozen=True)
class NodesSnapshot(Snapshot):
    """The nodes at one moment, by name."""

    nodes: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionsSnapshot(Snapshot):
    """The partitions and the reservations, by name."""

    partitions: Mapping[str, Partition] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)


class Silence:
    """Since when Slurm does not answer what is asked again and again, whoever needs it: nothing is asked for this.

    Args:
        clock: seconds, never going back.

    Attributes:
        since: on that clock, the beginning of the first question that had no answer; ``None`` while Slurm answers.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.since: float | None = None
        self._clock = clock
        self._heard = NEVER  # the beginning of the last question that was answered

    async def noted(self, question: Awaitable[T]) -> T:
        """The answer to a question; an older one that fails after it says nothing."""
        asked_at = self._clock()
        try:
            answer = await question
        except SlurmUnavailable:
            if self.since is None and asked_at >= self._heard:
                self.since = asked_at
            raise
        self._heard = max(self._heard, asked_at)
        self.since = None
        return answer

    @property
    def for_s(self) -> float:
        """How long it has lasted, in seconds; 0 while Slurm answers."""
        return 0.0 if self.since is None else max(self._clock() - self.since, 0.001)


S = TypeVar("S", bound=Snapshot)


class SnapshotCache(Generic[S]):
    """Keeps the last snapshot; when it is too old for a caller, one query answers all who call meanwhile.

    Args:
        query: one query; it raises :class:`SlurmUnavailable` on anything but a good answer.
        empty: the snapshot before the first good answer.
        clock: seconds, never going back.
        what: what is queried, for the log.
    """

    def __init__(self, query: Callable[[], Awaitable[S]], empty: S, clock: Callable[[], float], what: str) -> None:
        self._query = query
        self._last = empty
        self._clock = clock
        self._what = what
        self._tried_at = NEVER
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def last(self) -> S:
        """The last snapshot, without a new query."""
        return self._last

    async def get(self, max_age_s: float) -> S:
        """The snapshot, with a new query when the last one is ``max_age_s`` old, or older; it never raises."""
        if self._clock() - self._tried_at >= max_age_s:
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(self._refresh())
            await asyncio.shield(self._refreshing)
        return self._last

    async def _refresh(self) -> None:
        SENDER.set(None)  # it is for many
        started = self._clock()
        try:
            taken = replace(await self._query(), taken_at=started, error=None)
        except SlurmUnavailable as error:
            taken = replace(self._last, error=error)
        except Exception as error:  # a fault of ours must not end a session either
            log.exception("What %s says could not be worked on", self._what)
            taken = replace(self._last, error=SlurmUnavailable(N_("Slurm's answer cannot be read."), detail=str(error)))
        self._log_change(self._last.error, taken.error)
        self._last = taken
        self._tried_at = self._clock()

    def _log_change(self, before: SlurmUnavailable | None, now: SlurmUnavailable | None) -> None:
        if now and not before:
            log.warning("%s does not answer; every session is kept as it was: %s", self._what, now.detail)
        elif before and not now:
            log.warning("%s answers again", self._what)


async def in_thread(work: Callable[[A], T], given: A) -> T:
    """Read a listing in a thread of our own: those of the event loop may all wait for the address of some node."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work, given)
