"""Forwards a page to TensorBoard's Unix socket. Imported with the first page: it costs a server 0.2 s."""

from __future__ import annotations

from typing import Any

from jupyter_server_proxy.handlers import RewritableResponse
from tornado.httputil import HTTPHeaders

from portal.forwarding import origins
from portal.forwarding.private_proxy import PrivateProxy
from portal.tensorboard.boards import Board, BoardFailed, Boards
from portal.tensorboard.error_page import (
    NOT_AHEAD,
    NOT_AHEAD_ADVICE,
    from_elsewhere,
    is_ahead,
    is_from_elsewhere,
    is_own_click,
    page,
)

_PAGES = ("", "/", "/index.html")
PAGE_WAIT_S = 4  # so long a start is waited for before a page says that it starts
DATA_WAIT_S = 25  # less than a proxy before the portal waits for an answer (nginx: 60)
LOOK_AGAIN_S = 2
STARTING = "TensorBoard is starting"


def is_page(path: str) -> bool:
    """Whether a path is the page, also with an encoded ``?`` or ``#`` behind it, which the proxy sends plain."""
    return path.partition("?")[0].partition("#")[0] in _PAGES


def fonts_stay_here(response: RewritableResponse, path: str) -> None:
    """TensorBoard's page asks for its fonts at the root of the host, which is the hub's."""
    if path in _PAGES:
        response.body = response.body.replace(b"url(/font-roboto/", b"url(font-roboto/")


class BoardHandler(PrivateProxy):
    """``tensorboard/<id>/…``: the page, its data and its web sockets, for the person of this session only."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An open page asks for new data again and again: that does not keep a session alive.
        super().__init__(*args, update_last_activity=False, rewrite_response=fonts_stay_here, **kwargs)

    def initialize(self, boards: Boards) -> None:
        """Take the boards of this session."""
        self.boards = boards

    async def http_get(self, board_id: str, path: str) -> None:
        """Forward a request."""
        if await self._found(board_id, is_page=is_page(path)):
            await self.proxy("localhost", 0, path)

    post = head = http_get

    async def open(self, board_id: str, path: str) -> None:
        """Forward a web socket."""
        if await self._found(board_id, is_page=False):
            await self.proxy_open("localhost", 0, path)

    async def _found(self, board_id: str, *, is_page: bool) -> bool:
        """Point the proxy at the board; otherwise answer with a page that says what is wrong, or that it starts."""
        is_start = self.boards.ready(board_id) is None and not is_ahead(self.request)
        if is_from_elsewhere(self.request) or (is_start and not self._may_start(is_page=is_page)):
            self.set_status(403)
            self.finish(from_elsewhere(self.request, self.base_url))
            return False
        if is_ahead(self.request):
            return self._found_ahead(self.boards.ready(board_id))
        try:
            board = await self.boards.use(board_id, PAGE_WAIT_S if is_page else DATA_WAIT_S, wakes=is_page)
        except BoardFailed as error:
            self.log.warning("%s\n%s", error.message, error.detail)
            self._say(500, error.message, "Open it again; its last words are below.", error.detail)
            return False
        if board is None:
            advice = "Open it again: select its folder in the files, then press TensorBoard."
            self._say(404, "This TensorBoard belongs to an earlier session.", advice)
            return False
        if not board.is_ready:
            self._say_that_it_starts(board.folder.name, is_page=is_page)
            return False
        self._point_at(board)
        return True

    def _may_start(self, *, is_page: bool) -> bool:
        """Whether the person opens it, or a script of a page of it that is still open asks for data."""
        is_asked_by_script = self.request.headers.get("Sec-Fetch-Dest") in ("empty", "websocket")
        is_its_own = is_asked_by_script and origins.is_from_own_page(self.request.headers)
        return is_own_click(self.request) or (is_its_own and not is_page)

    def _found_ahead(self, board: Board | None) -> bool:
        """What a browser draws before the person comes is of a board that runs; it neither starts one nor uses it."""
        if board is None:
            self.set_header("Cache-Control", "no-store")
            self._say(503, NOT_AHEAD, NOT_AHEAD_ADVICE)
            return False
        self._point_at(board)
        return True

    def _point_at(self, board: Board) -> None:
        self.unix_socket = str(board.socket)
        self.proxy_base = f"tensorboard/{board.id}"

    def _say_that_it_starts(self, folder: str, *, is_page: bool) -> None:
        """A page that looks again by itself; what a page of it asks for meanwhile is not there yet."""
        self.set_header("Cache-Control", "no-store")
        if is_page:
            self.set_header("Refresh", str(LOOK_AGAIN_S))
        advice = f"It will show “{folder}”. This page looks again by itself."
        self._say(200 if is_page else 503, f"{STARTING} …", advice)

    def _say(self, status: int, fault: str, advice: str, detail: str = "") -> None:
        self.set_status(status)
        self.finish(page(fault, advice, self.base_url, detail))

    def proxy_request_headers(self) -> HTTPHeaders:
        """Those of every proxy here; the page itself is not packed."""
        headers = super().proxy_request_headers()
        if self.path_args[-1] in _PAGES:
            headers.pop("Accept-Encoding", None)  # the page is read on its way: fonts_stay_here
        return headers
