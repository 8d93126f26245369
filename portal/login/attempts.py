"""How often logins may be tried: LDAP is not asked for those that were tried too often.

Four counts of the last five minutes, each with its reason:

- of a name from an address, in all its spellings: who guesses one password.
- of an address: who invents names. Right passwords do not count: a whole institute may be behind one address.
- of a name, from everywhere: who guesses one password from many addresses.
- of all: then LDAP is asked for strangers a few at a time, and nobody is refused for it.

Whoever has logged in from an address before is known there, and is concerned by the first count alone: so nobody locks
out somebody else. Only right passwords make somebody known, a restart of the hub forgets none of it, and each person's
own logins alone push out what is known of them.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from tornado import web

from portal.addresses import counted
from portal.errors import DirectoryError, DirectoryUnavailable, LoginRefused
from portal.language.texts import N_, _, ngettext
from portal.login.kept import Kept

BUSY = N_("Very many people are logging in just now. Try again in a minute.")
WITHIN_S = 300.0
FAILURES = 10  # of one name from one address
FAILURES_OF_ADDRESS = 300  # of whatever names
FAILURES_OF_NAME = 100  # from whatever addresses
FAILURES_OF_ALL = 1000
REMEMBERED = 50_000  # of each count
KNOWN = 20_000  # people
KNOWN_EACH = 40  # spellings and addresses of one person
KNOWN_DAYS = 90  # after the last login from there
KNOWN_FILE = "known_addresses.jsonl"  # below portal.state_folder


class TooManyAttempts(LoginRefused):
    """This was tried too often; LDAP is not asked. ``wait_s`` is for how long not."""

    reason = "too_many_attempts"
    wait_s: int = 0


STATUS = {TooManyAttempts: 429, DirectoryUnavailable: 503}


class Refusal(web.HTTPError):
    """A login that is none; JupyterHub shows ``jupyterhub_message`` on its login page."""

    def __init__(self, error: DirectoryError) -> None:
        super().__init__(STATUS.get(type(error), 403), f"login refused: {error.reason}")
        self.jupyterhub_message = _(error.message)
        self.headers = {"Retry-After": str(error.wait_s)} if isinstance(error, TooManyAttempts) else {}


class Window:
    """When things happened, by a key, within a time."""

    def __init__(self, clock: Callable[[], float], remembered: int = REMEMBERED) -> None:
        self._clock = clock
        self._remembered = remembered
        self.happened: dict[Hashable, deque[float]] = {}

    def of(self, key: Hashable) -> deque[float]:
        """The moments of one key that are not too long ago."""
        moments = self.happened.get(key)
        if moments is None:
            return deque()
        while moments and self._clock() - moments[0] >= WITHIN_S:
            moments.popleft()
        if not moments:
            del self.happened[key]
        return moments

    def add(self, key: Hashable, moment: float | None = None) -> float:
        """It happened now, or at a moment that another window has noted; answers the moment."""
        if key not in self.happened and len(self.happened) >= self._remembered:
            self._forget_some()
        moment = self._clock() if moment is None else moment
        self.happened.setdefault(key, deque()).append(moment)
        return moment

    def take_back(self, key: Hashable) -> None:
        """The last one did not happen."""
        if moments := self.happened.get(key):
            moments.pop()

    def _forget_some(self) -> None:
        """What is too old; then a tenth, beginning with what happened least often and longest ago."""
        for key in list(self.happened):
            self.of(key)
        few = sorted(self.happened, key=lambda key: (len(self.happened[key]), self.happened[key][-1]))
        for key in few[: max(0, len(few) - self._remembered * 9 // 10)]:
            del self.happened[key]


Spelled = tuple[str, str]  # a name as it was spelled, and an address as it counts


class Tried(NamedTuple):
    """A name as it was tried.

    Attributes:
        key: the same for every spelling that may mean one person; attempts are counted by it.
        spelling: of this attempt, its domain included.
    """

    key: str
    spelling: str


class KnownAddresses:
    """From where, and by which spelling of the name, each person has logged in.

    Args:
        kept: where that is known after a restart, too.
        today: the day, as a number.
    """

    def __init__(self, kept: Kept | None = None, today: Callable[[], int] = lambda: int(time.time() // 86_400)) -> None:
        self._kept = kept
        self._today = today
        self._of: OrderedDict[str, dict[Spelled, int]] = OrderedDict()  # of each person, with the day
        self._whose: dict[Spelled, str] = {}
        self._read(kept.words() if kept else {})

    def note(self, person: str, spelling: str, address: str) -> None:
        """Somebody has logged in, and is known there by her own name from now on, too."""
        known = self._of.setdefault(person, {})
        self._of.move_to_end(person)
        before = dict(known)
        for one in ((spelling, address), (person, address)):
            known.pop(one, None)
            known[one] = self._today()
            self._whose[one] = person
        self._forget(person, list(known)[:-KNOWN_EACH])
        if known != before:
            self._keep(person)
        while len(self._of) > KNOWN:
            longest_ago = next(iter(self._of))
            self._forget(longest_ago, list(self._of[longest_ago]))
            self._keep(longest_ago)
            del self._of[longest_ago]

    def has(self, spelling: str, address: str) -> bool:
        """Whether somebody of that name has logged in from there, and not long ago."""
        person = self._whose.get((spelling, address))
        return person is not None and self._is_fresh(self._of[person][spelling, address])

    def _is_fresh(self, day: int) -> bool:
        return day > self._today() - KNOWN_DAYS

    def _forget(self, person: str, spelled: Iterable[Spelled]) -> None:
        for one in spelled:
            del self._of[person][one]
            if self._whose.get(one) == person:
                del self._whose[one]

    def _read(self, words: Mapping[str, str]) -> None:
        """What a hub of before has kept, who came last at the end; what is too old goes, from the file, too."""
        kept = {person: _spelled(text) for person, text in words.items() if text}
        for person in sorted(kept, key=lambda one: max(kept[one].values(), default=0)):
            self._of[person] = {one: day for one, day in kept[person].items() if self._is_fresh(day)}
            self._whose |= dict.fromkeys(self._of[person], person)
        self._keep(*(person for person in kept if self._of[person] != kept[person]))
        for person in [person for person, known in self._of.items() if not known]:
            del self._of[person]

    def _keep(self, *people: str) -> None:
        if self._kept is not None:
            known = {person: [[*one, day] for one, day in self._of[person].items()] for person in people}
            self._kept.keep({person: json.dumps(pairs) if pairs else "" for person, pairs in known.items()})


def _spelled(text: str) -> dict[Spelled, int]:
    """What is kept of one person; nothing of what was not written by us."""
    try:
        return {(str(spelling), str(address)): int(day) for spelling, address, day in json.loads(text)}
    except (TypeError, ValueError):
        return {}


class Attempts:
    """Logins that have not turned out well, in memory.

    An attempt with a name from an address counts from its beginning: many at the same time are as many as one after the
    other. For the other counts it counts when it has failed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, known: KnownAddresses | None = None) -> None:
        self._clock = clock
        self._known = known or KnownAddresses()
        self._begun = Window(clock)
        self._spelled = Window(clock)  # the same, each spelling for itself
        self._of_address = Window(clock)
        self._of_name = Window(clock)
        self._all: deque[float] = deque(maxlen=FAILURES_OF_ALL)

    def begin(self, name: Tried, address: str) -> None:
        """Count an attempt.

        Raises:
            TooManyAttempts: there were too many; this one does not count.
        """
        key = (name.key, counted(address))
        self._refuse_more(self._begun.of(key), FAILURES, N_("Too many attempts with this name from here."))
        self.check(name, address)
        self._spelled.add((*key, name.spelling), self._begun.add(key))

    def check(self, name: Tried, address: str) -> None:
        """Look again, right before LDAP is asked: meanwhile others may have failed.

        Raises:
            TooManyAttempts: there were too many from this address, or with this name.
        """
        if self.knows(name, address):
            return
        of_address = self._of_address.of(counted(address))
        self._refuse_more(of_address, FAILURES_OF_ADDRESS, N_("Too many attempts from here."))
        self._refuse_more(self._of_name.of(name.key), FAILURES_OF_NAME, N_("Too many attempts with this name."))

    def _refuse_more(self, moments: deque[float], most: int, words: str) -> None:
        if len(moments) < most:
            return
        wait_s = WITHIN_S - (self._clock() - moments[0])
        minutes = math.ceil(wait_s / 60)
        again = ngettext("Try again in {number} minute.", "Try again in {number} minutes.", minutes)
        error = TooManyAttempts(f"{_(words)} {again.format(number=minutes)}")
        error.wait_s = math.ceil(wait_s)
        raise error

    def knows(self, name: Tried, address: str) -> bool:
        """Whether this person has logged in from there before."""
        return self._known.has(name.spelling, counted(address))

    @property
    def is_flooded(self) -> bool:
        """Whether very many have failed, from wherever."""
        return len(self._all) == FAILURES_OF_ALL and self._clock() - self._all[0] < WITHIN_S

    def failed(self, name: Tried, address: str) -> None:
        """The password was wrong, or there is no such person."""
        self._of_address.add(counted(address))
        self._of_name.add(name.key)
        self._all.append(self._clock())

    def take_back(self, name: Tried, address: str) -> None:
        """The last attempt says nothing about the password."""
        key = (name.key, counted(address))
        self._begun.take_back(key)
        self._spelled.take_back((*key, name.spelling))

    def forget(self, name: Tried, address: str, person: str) -> None:
        """The password was right: what was before with this spelling counts no more, and this person is known here.

        What was tried with another spelling may have been somebody else: of another domain, for one.
        """
        key = (name.key, counted(address))
        begun = self._begun.of(key)
        for moment in self._spelled.happened.pop((*key, name.spelling), ()):
            with contextlib.suppress(ValueError):  # it is too long ago
                begun.remove(moment)
        self._known.note(person, name.spelling, counted(address))
