"""What is sent or received while its login ends: an answer that is read slowly would outlive a logout by hours.

A request is noted when all of it is there, and one with much to send when its login was asked for. When the login ends
the connection is closed, as where a client goes: a handler hears that, and the proxy breaks off what it hands on. What
is read without a login is public, and ends with none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tornado.httpclient import HTTPClientError
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application, HTTPError, RequestHandler

GIVES_A_LOGIN = "oauth_callback"  # below the session's path: who goes there may bring a login that has ended


class _Head(NamedTuple):
    """The head of a request."""

    start_line: RequestStartLine
    headers: HTTPHeaders

    @property
    def shown(self) -> tuple[str, ...]:
        """Whatever in it may be a login: those that show the same are of one."""
        query = self.start_line.path.partition("?")[2]
        names = ("Cookie", "Authorization", "Sec-Fetch-Mode")
        return (*(self.headers.get(name, "") for name in names), query if "token" in query else "")


class _Nobody:
    """In the place of a connection: whoever only looks at a request shall not be told how it ends."""

    def set_close_callback(self, _callback: object) -> None:
        """Nothing is told."""


class OpenAnswers:
    """The requests of this session's server that are under way.

    Arguments:
        application: whose requests they are.
        shows_login: whether a request brings a token, whatever it is worth.
        is_login: whether the login with which a request came goes on; raises when the hub does not answer.
    """

    def __init__(
        self,
        application: Application,
        shows_login: Callable[[Any], bool],
        is_login: Callable[[Any], Awaitable[bool]],
    ) -> None:
        self._application = application
        self._shows_login = shows_login
        self.is_login = is_login
        self._asked: WeakKeyDictionary[Any, _Head] = WeakKeyDictionary()  # by Tornado's connection, one a request

    def begin(self, connection: Any, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        """A request is under way, until the last byte of its answer is sent."""
        self._asked[connection] = _Head(start_line, headers)

    async def look(self) -> None:
        """Close the connections of those whose login has ended; each login is asked for once."""
        by_login: dict[tuple[str, ...], list[Any]] = {}
        for connection, asked in list(self._asked.items()):
            if is_open(connection) and not self._gives_a_login(asked):
                by_login.setdefault(asked.shown, []).append(connection)
        await asyncio.gather(*map(self._end, by_login.values()))

    def _gives_a_login(self, asked: _Head) -> bool:
        base = str(self._application.settings.get("base_url", "/"))
        return asked.start_line.path.partition("?")[0] == f"{base}{GIVES_A_LOGIN}"

    async def _end(self, connections: Iterable[Any]) -> None:
        """End those of one login, if it has ended."""
        asked = self._asked[next(iter(connections))]
        request = HTTPServerRequest(connection=_Nobody(), start_line=asked.start_line, headers=asked.headers)  # type: ignore[arg-type]
        handler = RequestHandler(self._application, request)
        if not self._shows_login(handler):
            return
        try:
            goes_on = await self.is_login(handler)
        except (HTTPError, HTTPClientError, OSError):
            return
        for connection in connections:
            if not goes_on and is_open(connection):
                connection.stream.close()


def is_open(connection: Any) -> bool:
    """Whether a request of Tornado (6.5) is under way; its stream serves the next one afterwards, or a web socket."""
    return not connection._finish_future.done() and connection.stream is not None and not connection.stream.closed()
