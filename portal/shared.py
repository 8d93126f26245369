"""One look for everybody who asks: single flight, with a time, an age, and the error of the last try."""

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
class Seen:
    """What was seen last: ``taken_at`` in seconds on the clock of the look, and the error of the last try, if any.

    With an error, everything else is that of the last good answer.
    """

    taken_at: float = NEVER
    error: SlurmUnavailable | None = None

    def age_s(self, now: float) -> float:
        """How old the picture is, in seconds."""
        return now - self.taken_at


S = TypeVar("S", bound=Seen)


class Shared(Generic[S]):
    """Asks when what was seen is too old for somebody, once for all who ask meanwhile.

    Args:
        ask: one look; it raises :class:`SlurmUnavailable` on anything but a good answer.
        nothing: what is seen before the first good answer.
        clock: seconds, never going back.
        what: what is asked, for the log.
    """

    def __init__(self, ask: Callable[[], Awaitable[S]], nothing: S, clock: Callable[[], float], what: str) -> None:
        self._ask, self._seen, self._clock, self._what = ask, nothing, clock, what
        self._tried_at = NEVER
        self._flight: asyncio.Task[None] | None = None

    @property
    def last(self) -> S:
        """What was seen last, without a new look."""
        return self._seen

    async def get(self, max_age_s: float) -> S:
        """What is seen, asked anew when the last try is older than ``max_age_s``; it never raises."""
        if self._clock() - self._tried_at > max_age_s:
            if self._flight is None or self._flight.done():
                self._flight = asyncio.create_task(self._look())
            await asyncio.shield(self._flight)
        return self._seen

    async def _look(self) -> None:
        started = self._clock()
        try:
            seen = replace(await self._ask(), taken_at=started, error=None)
        except SlurmUnavailable as error:
            seen = replace(self._seen, error=error)
        except Exception as error:  # a fault of ours must not end a session either
            log.exception("What %s says could not be worked on", self._what)
            seen = replace(self._seen, error=SlurmUnavailable("Slurm's answer cannot be read.", detail=str(error)))
        self._tell(self._seen.error, seen.error)
        self._seen, self._tried_at = seen, self._clock()

    def _tell(self, before: SlurmUnavailable | None, now: SlurmUnavailable | None) -> None:
        if now and not before:
            log.warning("%s does not answer; every session is kept as it was: %s", self._what, now.detail)
        elif before and not now:
            log.warning("%s answers again", self._what)
