"""Requests of whom no login is known: so many at once, the oldest goes first, and none for long.

Everybody who reaches the portal can have a session begin an answer, and not read it, or send a request in part. Each of
those holds a file of the session's server: without one it can take no connection, also not its person's.

A connection of the proxy brings the requests of everybody, one after the other. So what counts is the request, from the
moment that its connection waits for it.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import ref

MOST = 1024  # a quarter of the files that Jupyter has, and each answer may read one more
WITHIN_S = 60.0  # a page before the login is some megabytes


class Asker:
    """Who sends a request; once known, always known."""

    def __init__(self, connection: Any = None) -> None:
        self._connection: Callable[[], Any] = ref(connection) if connection is not None else lambda: None
        self.asked_at: float | None = None
        self._looks: Callable[[], bool] = lambda: False
        self._was_known = False

    def asks(self, looks: Callable[[], bool], now: float) -> None:
        """The head of the request has come; from now on ``looks`` says whether it has a login."""
        self._looks = looks
        self.asked_at = now

    def gone(self) -> asyncio.Future[Any] | None:
        """Done when nobody waits for the answer any more; ``None``: there is no connection."""
        connection = self._connection()
        finished: asyncio.Future[Any] | None = getattr(connection, "_finish_future", None)
        return finished

    def is_known(self) -> bool:
        """Whether a login was found behind the request, by whatever has asked for it."""
        self._was_known = self._was_known or self._looks()
        return self._was_known


ASKER: ContextVar[Asker | None] = ContextVar("ASKER", default=None)  # of the request at work; None: the server itself


class Askers:
    """Those of a session's server who are not known, the oldest first.

    Arguments:
        most: how many there may be; never more than a quarter of the files that the server may open.
        within_s: how long one may be answered.
        clock: seconds, never going back.
    """

    def __init__(
        self, most: int = MOST, within_s: float = WITHIN_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = most if files == resource.RLIM_INFINITY else min(most, files // 4)
        self._within_s = within_s
        self._clock = clock
        self._waiting: OrderedDict[Any, tuple[Any, Asker]] = OrderedDict()  # by Tornado's connection, with its request

    def begin(self, server_conn: Any, connection: Any) -> Asker:
        """A connection waits for a request; Tornado does so also of one that has just been closed."""
        asker = Asker(connection)
        ASKER.set(asker)
        self.over(server_conn)
        if not connection.stream.closed():
            self._waiting[server_conn] = connection, asker
        while len(self._waiting) > self._most:
            _, (oldest, other) = self._waiting.popitem(last=False)
            if not other.is_known() and is_open(oldest):
                oldest.stream.close()
        return asker

    def asks(self, asker: Asker, looks: Callable[[], bool]) -> None:
        """The head of its request has come."""
        asker.asks(looks, self._clock())
        asker.is_known()

    def over(self, server_conn: Any) -> None:
        """A connection has ended, or its request: what that has begun goes on, and is of whom it has found."""
        if waited := self._waiting.pop(server_conn, None):
            waited[1].is_known()

    def look(self) -> None:
        """Close the connections of those who have been answered for too long; who has a login is left alone."""
        last = self._clock() - self._within_s
        for server_conn, (connection, asker) in list(self._waiting.items()):
            if asker.is_known() or not is_open(connection):
                self.over(server_conn)
            elif asker.asked_at is not None and asker.asked_at < last:
                connection.stream.close()


def is_open(connection: Any) -> bool:
    """Whether a request of Tornado (6.5) is under way; its stream serves the next one afterwards, or a web socket."""
    return not connection._finish_future.done() and connection.stream is not None and not connection.stream.closed()
