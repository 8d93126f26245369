"""One query for everybody who asks: single flight, with a time, an age, and the error of the last try."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from portal.errors import SlurmUnavailable

log = logging.getLogger(__name__)
NEVER = float("-inf")


@dataclass(frozen=True)
class Snapshot:
    """What Slurm said last: ``taken_at`` in seconds on the clock of the query, and the error of the last try, if any.

    With an error, everything else is that of the last good answer.
    """

    taken_at: float = NEVER
    error: SlurmUnavailable | None = None

    def age_s(self, now: float) -> float:
        """How old the snapshot is, in seconds."""
        return now - self.taken_at


S = TypeVar("S", bound=Snapshot)


class SnapshotCache(Generic[S]):
    """Asks when the last snapshot is too old for somebody, once for all who ask meanwhile.

    Args:
        query: one query; it raises :class:`SlurmUnavailable` on anything but a good answer.
        empty: the snapshot before the first good answer.
        clock: seconds, never going back.
        what: what is asked, for the log.
    """

    def __init__(self, query: Callable[[], Awaitable[S]], empty: S, clock: Callable[[], float], what: str) -> None:
        self._query = query
        self._last = empty
        self._clock = clock
        self._what = what
        self._tried_at = NEVER
        self._flight: asyncio.Task[None] | None = None

    @property
    def last(self) -> S:
        """The last snapshot, without a new query."""
        return self._last

    async def get(self, max_age_s: float) -> S:
        """The snapshot, taken anew when the last try is older than ``max_age_s``; it never raises."""
        if self._clock() - self._tried_at > max_age_s:
            if self._flight is None or self._flight.done():
                self._flight = asyncio.create_task(self._take())
            await asyncio.shield(self._flight)
        return self._last

    async def _take(self) -> None:
        started = self._clock()
        try:
            taken = replace(await self._query(), taken_at=started, error=None)
        except SlurmUnavailable as error:
            taken = replace(self._last, error=error)
        except Exception as error:  # a fault of ours must not end a session either
            log.exception("What %s says could not be worked on", self._what)
            taken = replace(self._last, error=SlurmUnavailable("Slurm's answer cannot be read.", detail=str(error)))
        self._log_change(self._last.error, taken.error)
        self._last = taken
        self._tried_at = self._clock()

    def _log_change(self, before: SlurmUnavailable | None, now: SlurmUnavailable | None) -> None:
        if now and not before:
            log.warning("%s does not answer; every session is kept as it was: %s", self._what, now.detail)
        elif before and not now:
            log.warning("%s answers again", self._what)
