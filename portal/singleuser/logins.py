"""What hangs on the login with which a request came, apart from what is answered.

Web sockets end with it, and what is sent or received (:mod:`portal.session_pages.open_answers`): an open terminal would
outlive a logout, and a changed password. And only who has one may send much: a server of Jupyter holds what comes, up
to 512 MiB, in memory before it asks who sends it. What is no page is for the session's own pages and for programs: a
link, frame or picture of somebody else's would have it read or started by whoever sees it. A notebook as another format
is read in a tab: who has no login is led through that, who has one opens it by a click.

The hub is asked as for any other request, and through the same cache. A hub that does not answer ends no web socket.
Nor does a node on which no thread starts to look its name up (RuntimeError): it is asked again at the next look.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from http import HTTPStatus
from typing import Any
from weakref import WeakSet

from tornado.httpclient import HTTPClientError
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketHandler

from portal.forwarding.session_paths import SessionPaths
from portal.session_pages.askers import Asker, Askers
from portal.session_pages.guard_refusal import GuardRefusal
from portal.session_pages.open_answers import LOOK_EVERY_S, OpenAnswers, is_login_in_body
from portal.session_pages.page_guards import refusal
from portal.session_pages.questions import Questions, key_of
from portal.tensorboard import error_page

GONE = 4001  # a number of our own (RFC 6455 §7.4.2)
WHY = "this login has ended"
SMALL_BODY = 2**16  # bytes that are read from whoever sends them
SMALL_WITHIN_S = 20.0
NO_LOGIN = "There is no login to this session behind this request: it was not read. Log in again, and send it again."
NO_HUB = "The portal does not answer, so this session does not know who sent this: it was not read. Send it again soon."
ELSEWHERE = "Another page, a picture or a bare address asked for this: nothing was done. Use this session's own pages."
NO_METHOD = "HTTP has no such method: nothing was done."
NO_SOCKET = "A request for a web socket has no body: nothing was done."
NO_PART = "A part of JupyterLab did not reach your browser"
NO_PART_ADVICE = (
    "No page goes on without it: it keeps other people's files from being more than shown. Go back. If this comes "
    "again, close other people's pages, and remove the cookies of this address and of the portal's in your browser."
)
A_NOTEBOOK = "a notebook as a page"
NOTEBOOK_ADVICE = "It is made of what lies in your files, as you. Open it if you meant to."
DIGITS_MOST = 18  # of a length that is read as a number

Login = Callable[[Any], Awaitable[bool]]


class OpenSockets:
    """The open web sockets of this session.

    Args:
        is_login: whether the login with which a request came goes on; raises when the hub does not answer.
        login: what all that came with one login have in common.
    """

    def __init__(self, is_login: Login, login: Callable[[Any], Hashable]) -> None:
        self._is_login = is_login
        self._login = login
        self._questions = Questions()
        self._sockets: WeakSet[WebSocketHandler] = WeakSet()

    def watch(self) -> None:
        """From now on notice every web socket that is opened in this process, whatever opens it."""
        opened = WebSocketHandler.get_websocket_protocol

        def noticed(handler: WebSocketHandler) -> Any:
            self._sockets.add(handler)
            return opened(handler)

        WebSocketHandler.get_websocket_protocol = noticed  # type: ignore[method-assign, assignment]

    async def look(self) -> None:
        """Close those whose login has ended; each is asked for once, and none waits for what is said of another."""
        by_login: dict[Hashable, list[WebSocketHandler]] = {}
        for handler in [one for one in self._sockets if one.ws_connection is not None]:
            by_login.setdefault(self._login(handler), []).append(handler)
        await self._questions.ask_about(
            {login: partial(self._end, handlers) for login, handlers in by_login.items()}, LOOK_EVERY_S
        )

    async def _end(self, handlers: list[WebSocketHandler]) -> None:
        try:
            goes_on = await self._is_login(handlers[0])
        except (HTTPError, HTTPClientError, OSError, RuntimeError):
            return
        for handler in handlers:
            if not goes_on and handler.ws_connection is not None:
                handler.close(GONE, WHY)


def login_of_hub(hub_auth: Any) -> Login:
    """Whether a token with which a request came still opens this session (HubOAuth of JupyterHub 6.1).

    The cookie's too, as there, where another one is of no login: that of a person's own program.
    """

    async def is_login(handler: Any) -> bool:
        shown = {"session_id": hub_auth.get_session_id(handler), "sync": False}
        for token in dict.fromkeys((hub_auth.get_token(handler), hub_auth._get_token_cookie(handler))):
            found = await hub_auth.user_for_token(token, **shown) if token else None
            if found and hub_auth.check_scopes(hub_auth.access_scopes, found):
                return True
        return False

    return is_login


def known_to(hub_auth: Any, handler: Any) -> bool:
    """Whether one of the tokens that :func:`login_of_hub` asks about is kept as a login; nobody is asked (6.1)."""
    session = hub_auth.get_session_id(handler)
    for token in filter(None, (hub_auth.get_token(handler), hub_auth._get_token_cookie(handler))):
        found = hub_auth.cache.get(key_of(token, session)) or hub_auth.cache.get(key_of(token, ""))
        if found and hub_auth.check_scopes(hub_auth.access_scopes, found):
            return True
    return False


def tokens_of(hub_auth: Any, handler: Any) -> tuple[str, ...]:
    """What :func:`login_of_hub` asks about; () where a request brings no token.

    Not the number of the browser's session: it is what the sender says, and no login hangs on it.
    """
    token = hub_auth.get_token(handler)
    return (token, hub_auth._get_token_cookie(handler) or "") if token else ()


def guard_bodies(server: Any, application: Application, hub_auth: Any) -> OpenAnswers | None:
    """From now on a session's HTTP server reads :data:`SMALL_BODY` from strangers, and more from its logins alone.

    Arguments:
        hub_auth: JupyterHub's; ``None`` where no hub gave the login, and nothing changes.
    """
    if hub_auth is None:
        return None
    tokens = partial(tokens_of, hub_auth)
    is_known = partial(known_to, hub_auth)
    answers = OpenAnswers(application, tokens, login_of_hub(hub_auth), is_known, Askers())
    server.request_callback = Bodies(application, answers)
    usual = server.on_close

    def on_close(server_conn: object) -> None:
        """A connection has ended, which Tornado (6.5) tells nobody else."""
        answers.askers.over(server_conn)
        usual(server_conn)

    server.on_close = on_close
    return answers


class Bodies(HTTPServerConnectionDelegate):
    """The application, behind a question for the login of who sends much.

    Args:
        answers: are told of each request, and know whose login goes on.
    """

    def __init__(self, application: Application, answers: OpenAnswers) -> None:
        self.application = application
        self.answers = answers

    def start_request(self, server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
        """One request begins."""
        asker = self.answers.askers.begin(server_conn, request_conn)
        return Body(self, self.application.start_request(server_conn, request_conn), request_conn, asker)

    @property
    def paths(self) -> SessionPaths:
        """Those of this session."""
        return SessionPaths(str(self.application.settings.get("base_url", "/")))


class Body(HTTPMessageDelegate):
    """One request while it is read; one that is refused is read to its end, for so long, and kept nowhere."""

    def __init__(self, bodies: Bodies, message: HTTPMessageDelegate, connection: Any, asker: Asker) -> None:
        self._bodies = bodies
        self._message = message
        self._connection = connection
        self._refusal: GuardRefusal | None = None
        self._asker = asker
        self._has_answer = True
        self._begin: Callable[[], None] = lambda: None

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        """Ask about the login of a body that is not small."""
        if isinstance(start_line, RequestStartLine):
            self._has_answer = start_line.method != "HEAD"
            answers = self._bodies.answers
            self._begin = partial(answers.begin, self._connection, start_line, headers)
            answers.askers.asks(self._asker, partial(answers.is_known, start_line, headers))
            if start_line.method not in RequestHandler.SUPPORTED_METHODS:  # each is a metric for ever
                self._refuse(GuardRefusal(HTTPStatus.METHOD_NOT_ALLOWED, NO_METHOD))
                return None
            if is_login_in_body(headers):
                self._refuse(GuardRefusal(HTTPStatus.BAD_REQUEST, NO_SOCKET))
                return None
            paths = self._bodies.paths
            if refused := refusal(paths, start_line, headers):
                self._refuse(refused)
                return None
            if paths.is_own_part(start_line, headers):
                words = error_page.page(NO_PART, NO_PART_ADVICE, paths.base)
                self._refuse(GuardRefusal(HTTPStatus.CONFLICT, words, is_page=True))
                return None
            if paths.refuses(start_line.path, headers):
                if paths.is_tab(start_line, headers):
                    return self._lead(start_line, headers)
                self._refuse(GuardRefusal(HTTPStatus.FORBIDDEN, ELSEWHERE))
                return None
        stated = headers.get("Content-Length", "0")
        is_number = stated.isdecimal() and len(stated) <= DIGITS_MOST
        if "Transfer-Encoding" in headers or not is_number or int(stated) > SMALL_BODY:
            return self._ask(start_line, headers)
        return self._take_little(start_line, headers)

    def _refuse(self, refusal: GuardRefusal) -> None:
        """Read to its end what is not answered by the application, for so long."""
        self._refusal = refusal
        self._connection.set_body_timeout(SMALL_WITHIN_S)

    def _take_little(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        self._connection.set_body_timeout(SMALL_WITHIN_S)
        self._connection.set_max_body_size(SMALL_BODY)
        return self._message.headers_received(start_line, headers)

    async def _ask(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        is_login = await self._is_login(start_line, headers)
        if is_login is None:
            self._refuse(GuardRefusal(HTTPStatus.SERVICE_UNAVAILABLE, NO_HUB))
        elif not is_login:
            self._refuse(GuardRefusal(HTTPStatus.FORBIDDEN, NO_LOGIN))
        else:
            self._begin()
            if received := self._message.headers_received(start_line, headers):
                await received

    async def _lead(self, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        """To the login who has none, which does nothing else; who has one to a page with a link."""
        is_login = await self._is_login(start_line, headers)
        if is_login is None:
            self._refuse(GuardRefusal(HTTPStatus.SERVICE_UNAVAILABLE, NO_HUB))
        elif is_login:
            words = error_page.from_elsewhere(
                self._request(start_line, headers), self._bodies.paths.base, A_NOTEBOOK, NOTEBOOK_ADVICE
            )
            self._refuse(GuardRefusal(HTTPStatus.FORBIDDEN, words, is_page=True))
        elif received := self._take_little(start_line, headers):
            await received

    async def _is_login(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> bool | None:
        """Whether a request has a login; ``None`` while the hub does not answer."""
        handler = RequestHandler(self._bodies.application, self._request(start_line, headers))
        try:
            return await self._bodies.answers.is_login(handler)
        except (HTTPError, HTTPClientError, OSError, RuntimeError):
            return None

    def _request(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> HTTPServerRequest:
        return HTTPServerRequest(connection=self._connection, start_line=start_line, headers=headers)  # type: ignore[arg-type]

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """A part of the body."""
        return None if self._refusal else self._message.data_received(chunk)

    def finish(self) -> None:
        """All of it is there."""
        if self._refusal is None:
            self._begin()
            self._message.finish()
            return
        line = ResponseStartLine("HTTP/1.1", self._refusal.status, self._refusal.status.phrase)
        self._connection.write_headers(line, self._refusal.headers, self._refusal.body if self._has_answer else None)
        self._connection.finish()

    def on_connection_close(self) -> None:
        """It never came, or not in time."""
        if self._refusal is None:
            self._message.on_connection_close()
