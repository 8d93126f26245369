"""Who has something worked out now: one look for each person, and so many in all; who comes beside is told to wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

IN_ALL = 100  # of a thousand open pages, far fewer look in the same moment
AGAIN_AFTER_S = 1
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
