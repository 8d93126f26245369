"""Who has something worked out now: one look for each person, and so many in all; who comes beside is told to wait.

And what each person has once in a second alone, however often it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

IN_ALL = 100  # of a thousand open pages, far fewer look in the same moment
AGAIN_AFTER_S = 1
REMEMBERED = 1000
WORDS = "Another look of yours is under way, or too many are. Ask again in a second."


class LookBusyError(Exception):
    """A look is not begun beside those that are under way."""


class LookTurns:
    """The looks that are under way. Used by the event loop alone."""

    def __init__(self, in_all: int = IN_ALL) -> None:
        self._in_all = in_all
        self._taken: set[tuple[str, str]] = set()

    @contextmanager
    def taken(self, what: str, whose: str) -> Iterator[None]:
        """Have the turn of one person for one kind of look, until it is over.

        Raises:
            LookBusyError: this person has one of this kind, or too many others have one.
        """
        turn = what, whose
        if turn in self._taken or len(self._taken) >= self._in_all:
            raise LookBusyError(WORDS)
        self._taken.add(turn)
        try:
            yield
        finally:
            self._taken.discard(turn)


class Pace:
    """What each person has at most once in :data:`AGAIN_AFTER_S`.

    Arguments:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._had: dict[tuple[str, str], float] = {}

    def is_due(self, what: str, whose: str) -> bool:
        """Whether this person's turn has come; then it is taken."""
        now = self._clock()
        if now - self._had.get((what, whose), float("-inf")) < AGAIN_AFTER_S:
            return False
        if len(self._had) >= REMEMBERED:
            self._had = {one: at for one, at in self._had.items() if now - at < AGAIN_AFTER_S}
        self._had[what, whose] = now
        return True
