"""What people without a login may leave in a session's server: so much, however often they come.

Everybody who reaches the portal can send a request to a session, and is led to the login, or refused. Jupyter (server
2.21) and JupyterHub (6.1) keep something of each: where to go after the login, for ten minutes; where a file of a page
was found, for ever; a line of the log, which lies in the person's home, with all of the address in it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from jupyter_server.base.handlers import FileFindHandler
from jupyterhub.services.auth import _ExpiringDict

LOGINS_MOST = 20_000  # that are under way
NEXT_LONGEST = 1000  # letters of an address that a login leads to
PLACES_MOST = 2000  # of files
PLACE_LONGEST = 300
ANSWERS_MOST = 2000  # of the hub, about tokens
LINE_LONGEST = 2000
LOG_AT_ONCE = 2**20  # bytes
LOG_BYTES_S = 512.0  # and so many for ever: 44 MB a day
TRACEBACK = 4000  # bytes that one counts for


class Few(_ExpiringDict):  # type: ignore[misc]
    """JupyterHub's memory of some minutes, with so many entries: the oldest goes for a new one."""

    def __init__(self, most: int, max_age: int) -> None:
        super().__init__(max_age)
        self._most = most

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        while len(self.values) > self._most:
            del self[next(iter(self.values))]


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


class LogBound(logging.Filter):
    """Cuts long lines of a log, and leaves lines out while there are too many, which the next one says.

    Arguments:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._left = float(LOG_AT_ONCE)
        self._at = clock()
        self._missing = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            return True  # logging itself says what is wrong with it
        if len(text) > LINE_LONGEST:
            text = f"{text[:LINE_LONGEST]} …"
            record.msg = text
            record.args = ()
        with self._lock:
            missing = self._taken(len(text.encode(errors="replace")) + (TRACEBACK if record.exc_info else 0))
        if missing:
            record.msg = f"({missing} lines before this one were left out: they were too many) {text}"
            record.args = ()
        return missing is not None

    def _taken(self, size: int) -> int | None:
        """How many lines are missing before one that is written; ``None`` for one that is not."""
        now = self._clock()
        self._left = min(LOG_AT_ONCE, self._left + (now - self._at) * LOG_BYTES_S)
        self._at = now
        if size > self._left:
            self._missing += 1
            return None
        self._left -= size
        missing = self._missing
        self._missing = 0
        return missing


def bound(log: logging.Logger, hub_auth: Any) -> None:
    """From now on a session's server keeps no more of what strangers send.

    Arguments:
        log: the server's.
        hub_auth: JupyterHub's; ``None`` where no hub gives the login.
    """
    FileFindHandler._static_paths = Places()
    if hub_auth is not None:
        hub_auth._oauth_states = Logins(LOGINS_MOST, hub_auth.oauth_state_max_age)
        hub_auth.cache = Few(ANSWERS_MOST, hub_auth.cache_max_age)
    of_log = LogBound()
    for handler in _handlers(log):
        handler.addFilter(of_log)


def _handlers(log: logging.Logger | None) -> Iterator[logging.Handler]:
    """All that write what this logger is told."""
    while log:
        yield from log.handlers
        log = log.parent if log.propagate else None
