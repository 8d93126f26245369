"""How often logins may be tried: LDAP is not asked for those that were tried too often."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from portal.errors import LoginRefused

FAILURES = 10  # of one name from one address, within WITHIN_S; attempts of the last REMEMBERED pairs are kept
WITHIN_S = 300.0
REMEMBERED = 10_000


class TooManyAttempts(LoginRefused):
    """This name was tried too often from this address; LDAP is not asked."""

    reason = "too_many_attempts"


class Attempts:
    """Logins by name and address that have not turned out well, in memory.

    By both, so that nobody can lock somebody else out from another address. An attempt counts from its
    beginning: many at the same time are as many as one after the other.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def begin(self, name: str, address: str) -> None:
        """Count an attempt.

        Raises:
            TooManyAttempts: there were too many; this one does not count.
        """
        begun = self._begun.setdefault((name, address), deque())
        while begun and self._clock() - begun[0] >= WITHIN_S:
            begun.popleft()
        if len(begun) >= FAILURES:
            minutes = math.ceil((WITHIN_S - (self._clock() - begun[0])) / 60)
            unit = "minute" if minutes == 1 else "minutes"
            raise TooManyAttempts(f"Too many attempts with this name from here. Try again in {minutes} {unit}.")
        begun.append(self._clock())
        self._begun.move_to_end((name, address))
        if len(self._begun) > REMEMBERED:  # a flood of names must not fill the memory
            self._begun.popitem(last=False)

    def take_back(self, name: str, address: str) -> None:
        """The last attempt says nothing about the password."""
        if begun := self._begun.get((name, address)):
            begun.pop()

    def forget(self, name: str, address: str) -> None:
        """The password was right: what was before does not count any more."""
        self._begun.pop((name, address), None)
