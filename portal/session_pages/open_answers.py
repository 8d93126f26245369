"""What is sent or received while its login ends: an answer that is read slowly would outlive a logout by hours.

A request is noted when all of it is there, and one with much to send when its login was asked for. When the login ends
the connection is closed, as where a client goes: a handler hears that, and the proxy breaks off what it hands on. What
is read without a login is public, and ends with none, but after a while (:mod:`portal.session_pages.askers`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tornado.httpclient import HTTPClientError
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application, HTTPError, RequestHandler

from portal.session_pages.askers import Askers, is_open
from portal.session_pages.questions import Questions

Login = tuple[str, ...]

LOOK_EVERY_S = 5.0
GIVES_A_LOGIN = "oauth_callback"  # below the session's path: who goes there may bring a login that has ended


class _Head(NamedTuple):
    """The head of a request."""

    start_line: RequestStartLine
    headers: HTTPHeaders


class _Nobody:
    """In the place of a connection: whoever only looks at a request shall not be told how it ends."""

    def set_close_callback(self, _callback: object) -> None:
        """Nothing is told."""


class OpenAnswers:
    """The requests of this session's server that are under way.

    Arguments:
        application: whose requests they are.
        tokens: those that a request brings, whatever they are worth, and what else their worth hangs on; none: ().
        is_login: whether the login with which a request came goes on; raises when the hub does not answer.
        is_known: whether the hub has lately said that it does.
        askers: those of whom no login is known.
    """

    def __init__(
        self,
        application: Application,
        tokens: Callable[[Any], Login],
        is_login: Callable[[Any], Awaitable[bool]],
        is_known: Callable[[Any], bool],
        askers: Askers,
    ) -> None:
        self._application = application
        self._tokens = tokens
        self.is_login = is_login
        self._is_known = is_known
        self.askers = askers
        self._questions = Questions()
        self._asked: WeakKeyDictionary[Any, _Head] = WeakKeyDictionary()  # by Tornado's connection, one a request

    def begin(self, connection: Any, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        """A request is under way, until the last byte of its answer is sent."""
        self._asked[connection] = _Head(start_line, headers)

    def is_known(self, start_line: RequestStartLine, headers: HTTPHeaders) -> bool:
        """Whether the login of a request is one that the hub has lately known; of none that cannot be read."""
        try:
            return self._is_known(self._handler(_Head(start_line, headers)))
        except Exception:  # whatever a head is made of: who asks this works for everybody
            return False

    async def look(self) -> None:
        """Close the connections of those whose login has ended, or who had none and take long.

        Each login is asked for once, and none waits for what is said of another.
        """
        by_login: dict[Login, list[Any]] = {}
        for connection, asked in list(self._asked.items()):
            if is_open(connection) and not self._gives_a_login(asked):
                by_login.setdefault(self._login(self._handler(asked)), []).append(connection)
        by_login.pop((), None)
        ends = {login: partial(self._end, connections) for login, connections in by_login.items()}
        await self._questions.ask_about(ends, LOOK_EVERY_S)
        self.askers.look()

    def _handler(self, asked: _Head) -> RequestHandler:
        request = HTTPServerRequest(connection=_Nobody(), start_line=asked.start_line, headers=asked.headers)  # type: ignore[arg-type]
        return RequestHandler(self._application, request)

    def _login(self, handler: RequestHandler) -> Login:
        """What JupyterHub reads out of a request, not how it is written: one token can be written in many ways."""
        try:
            return self._tokens(handler)
        except HTTPError:  # no text
            return ()

    def _gives_a_login(self, asked: _Head) -> bool:
        base = str(self._application.settings.get("base_url", "/"))
        return asked.start_line.path.partition("?")[0] == f"{base}{GIVES_A_LOGIN}"

    async def _end(self, connections: Iterable[Any]) -> None:
        """End those of one login, if it has ended."""
        try:
            goes_on = await self.is_login(self._handler(self._asked[next(iter(connections))]))
        except (HTTPError, HTTPClientError, OSError, RuntimeError):
            return
        for connection in connections:
            if not goes_on and is_open(connection):
                connection.stream.close()


def is_login_in_body(headers: HTTPHeaders) -> bool:
    """Whether JupyterHub (6.1) would look for a token in what follows the head, where nobody looks again.

    It does so of a request that says it is for a web socket, and such a request has no body (RFC 6455 §4.1).
    """
    has_body = headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers
    return has_body and headers.get("Sec-Fetch-Mode") == "websocket"
