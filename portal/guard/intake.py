"""How much of a request the hub reads, for how long, and how many of one person it works on at a time.

What it holds in memory is bounded, whoever sends, and nobody waits behind all that somebody else asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError
from tornado.web import Finish, HTTPError, RequestHandler

from portal.addresses import address_of, counted, is_in_parts
from portal.guard.failures import in_plain_text, new_id
from portal.journal import SENDER, Sender

BODY_MAX = 2**20
BIG_BODY = 2**14
DIGITS_MOST = 18  # of a length that is read as a number
BIG_AT_ONCE = 32  # requests with more than BIG_BODY that are read, and as many that wait: what the hub holds is bounded
BODY_WITHIN_S = 20.0
OF_THE_HUB = "jupyterhub"  # the client of tokens that no OAuth login made
PROXIES = "portal_proxies"  # of the hub's settings: the networks of proxies in front that the site names
HEADERS_MAX = 2**14 + 2**12  # bytes: what the proxy lets through, and what it adds
LINES_MOST = 200  # of headers; browsers and proxies in front send some forty
COOKIES_MOST = 400  # of a request: browsers keep 180 for a domain, and each is read several times, by whoever asks
OWN_AT_ONCE = 16  # requests of one person or service
ADDRESS_AT_ONCE = 128  # of those who have not logged in, of one address: as many as the proxy lets through
HEADERS_WITHIN_S = 60.0  # and how long a connection may be idle
WORDS_FOLLOW = "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: "
log = logging.getLogger(__name__)


def limit(server: Any) -> None:
    """Limit what the hub's HTTP server reads, and for how long; a request of before is not touched."""
    server.conn_params.max_body_size = BODY_MAX
    server.conn_params.body_timeout = BODY_WITHIN_S
    server.conn_params.max_header_size = HEADERS_MAX
    server.conn_params.header_timeout = HEADERS_WITHIN_S
    server.max_buffer_size = 4 * BODY_MAX
    server.request_callback = Intake(server.request_callback)


class Intake(HTTPServerConnectionDelegate):
    """The application, behind a count of the big requests that are just read."""

    def __init__(self, application: HTTPServerConnectionDelegate) -> None:
        self.application = application
        self.big = 0

    def start_request(self, server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
        """One request begins; of whom is not known yet."""
        SENDER.set(None)
        return Reading(self, self.application.start_request(server_conn, request_conn), request_conn)

    def on_close(self, server_conn: object) -> None:
        """A connection has ended."""
        self.application.on_close(server_conn)


class _Sender(NamedTuple):
    """As much of a request as tells where it comes from."""

    connection: Any
    headers: HTTPHeaders


class Reading(HTTPMessageDelegate):
    """One request while it is read."""

    def __init__(self, intake: Intake, message: HTTPMessageDelegate, connection: Any) -> None:
        self._intake = intake
        self._message = message
        self._connection = connection
        self._is_counted = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        """Refuse a body that is too big, before any of it is read."""
        self._note_address(headers)
        method = getattr(start_line, "method", "")
        if method not in RequestHandler.SUPPORTED_METHODS:  # JupyterHub (6.1) keeps a metric of each for ever
            return self._refuse(405, "Method Not Allowed", "")
        if headers.get("Cookie", "").count(";") >= COOKIES_MOST or sum(1 for _ in headers.get_all()) > LINES_MOST:
            return self._refuse(431, "Request Header Fields Too Large", "")
        if is_in_parts(headers):
            return self._refuse(415, "Unsupported Media Type", "")
        stated = headers.get("Content-Length", "0")
        is_number = stated.isdecimal() and len(stated) <= DIGITS_MOST
        length = int(stated) if is_number else BIG_BODY + 1  # Tornado reads what is none in its own way, or refuses it
        if length > BODY_MAX:
            return self._refuse(413, "Content Too Large", "")
        if length > BIG_BODY or "Transfer-Encoding" in headers:
            if self._intake.big >= BIG_AT_ONCE:
                return self._refuse(503, "Service Unavailable", "Retry-After: 5\r\n")
            self._intake.big += 1
            self._is_counted = True
        received: Awaitable[None] | None = self._message.headers_received(start_line, headers)
        return received

    def _note_address(self, headers: HTTPHeaders) -> None:
        """Who asks is one address in every log and count; Tornado (6.5) has taken what a header claims for it."""
        proxies = getattr(self._intake.application, "settings", {}).get(PROXIES, ())
        context = self._connection.context
        try:
            context.remote_ip = address_of(_Sender(self._connection, headers), proxies)
        except (OSError, AttributeError):  # the connection has ended, and is closed in a moment
            context.remote_ip = str(context.address[0])
        SENDER.set(Sender(counted(context.remote_ip)))

    async def _refuse(self, status: int, name: str, headers: str) -> None:
        stream = self._connection.detach()
        failure_id = new_id()
        log.warning("Failure %s: %s before it was read", failure_id, status)
        words = in_plain_text(status, failure_id).encode()
        head = f"HTTP/1.1 {status} {name}\r\nConnection: close\r\n{headers}{WORDS_FOLLOW}{len(words)}\r\n\r\n"
        with suppress(StreamClosedError):
            await stream.write(head.encode() + words)
        stream.close()

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """A part of the body."""
        received: Awaitable[None] | None = self._message.data_received(chunk)
        return received

    def finish(self) -> None:
        """All of it is there."""
        self._release()
        self._message.finish()

    def on_connection_close(self) -> None:
        """It never came, or not in time."""
        self._release()
        self._message.on_connection_close()

    def _release(self) -> None:
        if self._is_counted:
            self._intake.big -= 1
            self._is_counted = False


class OwnTurn:
    """Before a handler of pages or of the REST API: of one person it works on some requests, and the others wait.

    A turn is over with the answer, or when its beginning is sent: what tells a page of a start goes on for minutes. A
    start takes none: for a while it is waited for, and who starts a session for each of many people does that at once.
    """

    request: Any
    settings: dict[str, Any]
    get_token: Any
    get_current_user_token: Callable[[], Any]
    get_current_user_cookie: Callable[[], Any]
    _jupyterhub_user: Any
    _token_authenticated = False  # JupyterHub (6.1) looks for it where nobody came with a token, and fails
    _turns: ClassVar[WeakValueDictionary[str, asyncio.Semaphore]] = WeakValueDictionary()
    _turn: asyncio.Semaphore | None = None
    _big: ClassVar[set[OwnTurn]] = set()  # what waits with a big body
    _is_too_much = False

    async def get_current_user(self) -> Any:
        """Find out who asks, which is the first that is done for a request, and wait for a turn of theirs."""
        user = await super().get_current_user()  # type: ignore[misc]
        if user:
            SENDER.set(Sender(f"{type(user).__name__} {user.name}", is_known=True))
        if self._turn or self.request.connection.stream.closed():
            return user
        turn = self._turns.setdefault(self._whose(user), asyncio.Semaphore(OWN_AT_ONCE if user else ADDRESS_AT_ONCE))
        has_to_wait = turn.locked()
        if has_to_wait and len(self.request.body) > BIG_BODY:
            if len(self._big) >= BIG_AT_ONCE:
                self._is_too_much = True
                return user
            self._big.add(self)
        try:
            await turn.acquire()
        finally:
            self._big.discard(self)
        self._turn = turn
        return await self._asks_still() if user and has_to_wait else user

    def _whose(self, user: Any) -> str:
        """Whose turns a request takes: a session that somebody visits has a token of theirs, and turns for that."""
        if user is None:
            return counted(str(self.request.remote_ip))  # as it was noted
        token = self.get_token() if self._token_authenticated else None
        return f"{type(user).__name__} {user.name} {token.client_id if token else OF_THE_HUB}"

    async def _asks_still(self) -> Any:
        """Who asks by now: while this waited the login or the token may have ended."""
        del self._jupyterhub_user
        vars(self).pop("_refreshed_users", None)
        self.get_token.cache_clear()
        return await super().get_current_user()  # type: ignore[misc]

    async def refresh_auth(self, user: Any, force: bool = False) -> Any:
        """Look whether somebody may go on, which is waited for: who asks may have been logged out meanwhile."""
        looked_at = user._auth_refreshed
        refreshed = await super().refresh_auth(user, force)  # type: ignore[misc]
        is_new = refreshed is not None and user._auth_refreshed != looked_at
        return None if is_new and not self._is_valid_still() else refreshed

    def _is_valid_still(self) -> bool:
        """Whether the login, or the token, that this came with has not ended."""
        self.get_token.cache_clear()
        found = self.get_current_user_token() if self._token_authenticated else self.get_current_user_cookie()
        return found is not None

    async def prepare(self) -> None:
        """Do as JupyterHub does, and then no more for who has gone meanwhile."""
        prepared = super().prepare()  # type: ignore[misc]
        if prepared is not None:  # that of a site's own page may be no coroutine
            await prepared
        if self._is_too_much:  # JupyterHub (6.1) takes what is raised sooner for somebody unknown
            raise HTTPError(503)
        if self.request.connection.stream.closed():
            raise Finish

    async def _execute(self, *arguments: Any, **named: Any) -> None:
        """Do all of a request; its turn is over then, also where neither the answer nor its failure could be sent."""
        try:
            await super()._execute(*arguments, **named)  # type: ignore[misc]
        finally:
            self._end_turn()

    async def spawn_single_user(self, *arguments: Any, **named: Any) -> None:
        """Start a session: most of that is Slurm's work."""
        self._end_turn()
        await super().spawn_single_user(*arguments, **named)  # type: ignore[misc]

    def flush(self, *arguments: Any, **named: Any) -> Awaitable[None]:
        """The answer begins, or goes on."""
        self._end_turn()
        flushed: Awaitable[None] = super().flush(*arguments, **named)  # type: ignore[misc]
        return flushed

    def on_finish(self) -> None:
        """The answer has ended."""
        self._end_turn()
        super().on_finish()  # type: ignore[misc]

    async def without_turn(self, waited: asyncio.Future[Any]) -> None:
        """Wait for something; others of this person's are worked on meanwhile, as a session's questions about them."""
        turn = self._turn
        self._end_turn()
        await asyncio.wait([waited])
        if turn:
            await turn.acquire()
            self._turn = turn

    def _end_turn(self) -> None:
        if self._turn:
            self._turn.release()
            self._turn = None
