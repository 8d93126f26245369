"""What people without a login may leave in a session's server: so much, however often they come.

Everybody who reaches the portal can send a request to a session, and is led to the login, or refused. Jupyter (server
2.21) and JupyterHub (6.1) keep something of each: where to go after the login, for ten minutes; where a file of a page
was found, for ever; a line of the log, which lies in the person's home, with all of the address in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jupyter_server.base.handlers import FileFindHandler
from jupyterhub.services.auth import _ExpiringDict

from portal.journal import LineBound, Plain, Room, is_fault
from portal.session_pages.askers import ASKER

LOGINS_MOST = 20_000  # that are under way
NEXT_LONGEST = 1000  # letters of an address that a login leads to
PLACES_MOST = 2000  # of files
PLACE_LONGEST = 300
ANSWERS_MOST = 2000  # of the hub, about tokens
LINE_LONGEST = 2000
LOG_AT_ONCE = 2**20  # bytes
LOG_BYTES_S = 512.0  # and so many for ever: 44 MB a day
FAULTS_AT_ONCE = 2**18
FAULTS_BYTES_S = 128.0
KEY_LONGEST = 500  # letters of what an answer of the hub is kept by: a session's number and a token


class Few(_ExpiringDict):  # type: ignore[misc]
    """JupyterHub's memory of some minutes, with so many entries: the oldest goes for a new one."""

    def __init__(self, most: int, max_age: int) -> None:
        super().__init__(max_age)
        self._most = most

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        while len(self.values) > self._most:
            del self[self._next_to_go()]

    def _next_to_go(self) -> str:
        oldest: str = next(iter(self.values))
        return oldest


class Answers(Few):
    """What the hub has said of tokens; what is too long to be one is not kept.

    What is nobody's goes first: so made-up tokens take no place of the answers about the person's own.
    """

    def __setitem__(self, key: str, value: Any) -> None:
        if len(key) <= KEY_LONGEST:
            super().__setitem__(key, value)

    def _next_to_go(self) -> str:
        return next((key for key, found in self.values.items() if not found), super()._next_to_go())


class Logins(Few):
    """The logins that are under way; one that would lead to a very long address leads to the session itself."""

    def __setitem__(self, key: str, value: Any) -> None:
        if len(value.get("next_url") or "") > NEXT_LONGEST:
            value = {**value, "next_url": None}
        super().__setitem__(key, value)


class Places(dict[str, str]):
    """Where files of pages were found, by the path that was asked for; of long paths and of too many none is kept."""

    def __setitem__(self, path: str, place: str) -> None:
        if len(path) <= PLACE_LONGEST:
            super().__setitem__(path, place)
        while len(self) > PLACES_MOST:
            del self[next(iter(self))]


class LogBound(LineBound):
    """Cuts long lines of a session's log, and leaves lines out while there are too many.

    Errors and tracebacks have room of their own, which no stranger's line takes; those of requests without a login, of
    which Jupyter has some for whoever asks, and of connections, have another one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(LINE_LONGEST, clock)
        self._usual = (Room(LOG_AT_ONCE, LOG_BYTES_S, clock()),)
        self._faults = (Room(FAULTS_AT_ONCE, FAULTS_BYTES_S, clock()),)
        self._of_strangers = (Room(FAULTS_AT_ONCE, FAULTS_BYTES_S, clock()),)

    def rooms(self, record: logging.LogRecord) -> tuple[Room, ...]:
        """Of errors, of those that strangers have caused, or of all others."""
        if not is_fault(record):
            return self._usual
        asker = ASKER.get()
        is_of_stranger = record.name == "asyncio" or (asker is not None and not asker.is_known())
        return self._of_strangers if is_of_stranger else self._faults


def bound(hub_auth: Any) -> None:
    """From now on a session's server keeps no more of what strangers send.

    Arguments:
        hub_auth: JupyterHub's; ``None`` where no hub gives the login.
    """
    FileFindHandler._static_paths = Places()
    if hub_auth is not None:
        hub_auth._oauth_states = Logins(LOGINS_MOST, hub_auth.oauth_state_max_age)
        hub_auth.cache = Answers(ANSWERS_MOST, hub_auth.cache_max_age)


def bound_logs(logs: Iterable[logging.Logger]) -> None:
    """From now on these loggers, all of one file, write no more than there is room for; nor do those with no handler.

    What has none is written to standard error, which is that file, too. What strangers have sent is text there.
    """
    of_logs = LogBound()
    plain = Plain()
    last = filter(None, (logging.lastResort,))
    for handler in {*last, *(handler for log in logs for handler in _handlers(log))}:
        handler.addFilter(of_logs)
        handler.addFilter(plain)


def bound_others(log: logging.Logger) -> None:
    """From now on Python's warnings, asyncio's and the portal's own words are lines of this log, and bounded as these.

    A file that somebody opens may give rise to any number, and so may connections that cannot be taken.
    """
    for name in ("py.warnings", "portal", "asyncio"):
        other = logging.getLogger(name)
        other.propagate = False
        other.handlers[:] = set(_handlers(log))
    logging.captureWarnings(True)


def _handlers(log: logging.Logger | None) -> Iterator[logging.Handler]:
    """All that write what this logger is told."""
    while log:
        yield from log.handlers
        log = log.parent if log.propagate else None
