"""How much of a request the hub reads, and for how long: what it holds in memory is bounded, whoever sends."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from portal.guard.failures import in_plain_text, new_id

BODY_MAX = 2**20
BIG_BODY = 2**14
DIGITS_MOST = 18  # of a length that is read as a number
BIG_AT_ONCE = 32  # requests with more than BIG_BODY: what the hub holds of them is bounded
BODY_WITHIN_S = 20.0
HEADERS_WITHIN_S = 60.0  # and how long a connection may be idle
WORDS_FOLLOW = "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: "
log = logging.getLogger(__name__)


def limit(server: Any) -> None:
    """Limit what the hub's HTTP server reads, and for how long; a request of before is not touched."""
    server.conn_params.max_body_size = BODY_MAX
    server.conn_params.body_timeout = BODY_WITHIN_S
    server.conn_params.header_timeout = HEADERS_WITHIN_S
    server.max_buffer_size = 4 * BODY_MAX
    server.request_callback = Intake(server.request_callback)


class Intake(HTTPServerConnectionDelegate):
    """The application, behind a count of the big requests that are just read."""

    def __init__(self, application: HTTPServerConnectionDelegate) -> None:
        self.application = application
        self.big = 0

    def start_request(self, server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
        """One request begins."""
        return Reading(self, self.application.start_request(server_conn, request_conn), request_conn)

    def on_close(self, server_conn: object) -> None:
        """A connection has ended."""
        self.application.on_close(server_conn)


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
        method = getattr(start_line, "method", "")
        if method not in RequestHandler.SUPPORTED_METHODS:  # JupyterHub (6.1) keeps a metric of each for ever
            return self._refuse(405, "Method Not Allowed", "")
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
