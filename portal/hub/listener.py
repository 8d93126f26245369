"""The hub's own port, which takes TLS and plain HTTP: with internal TLS, some who call it do not know of that yet.

Sessions that were started without it go on to ask the hub at the same address, until they end; so do services. What is
started with it trusts nothing but TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import tornado.httpserver

TLS_HELLO = b"\x16"  # RFC 8446, 5.1: a handshake; no method of HTTP begins with it
SAYS_WITHIN_S = 10.0


class EitherServer(tornado.httpserver.HTTPServer):
    """Looks at the first byte of a connection, and leaves it there."""

    def _handle_connection(self, connection: socket.socket, address: Any) -> None:
        if self.ssl_options is None:
            super()._handle_connection(connection, address)
            return
        loop = asyncio.get_running_loop()
        connection.setblocking(False)
        too_late = loop.call_later(SAYS_WITHIN_S, _close, connection)
        loop.add_reader(connection.fileno(), self._hear, connection, address, too_late)

    def _hear(self, connection: socket.socket, address: Any, too_late: asyncio.TimerHandle) -> None:
        too_late.cancel()
        asyncio.get_running_loop().remove_reader(connection.fileno())
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except OSError:
            first = b""
        if not first:
            connection.close()
        elif first == TLS_HELLO:
            super()._handle_connection(connection, address)
        else:
            self._handle_plain(connection, address)

    def _handle_plain(self, connection: socket.socket, address: Any) -> None:
        options = self.ssl_options
        self.ssl_options = None
        try:
            super()._handle_connection(connection, address)
        finally:
            self.ssl_options = options


def _close(connection: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(connection.fileno())
    connection.close()


@contextlib.contextmanager
def either_protocol() -> Iterator[None]:
    """Meanwhile a web server that is made takes both (JupyterHub 6.1 makes its own in ``start``)."""
    usual = tornado.httpserver.HTTPServer
    tornado.httpserver.HTTPServer = EitherServer  # type: ignore[misc]
    try:
        yield
    finally:
        tornado.httpserver.HTTPServer = usual  # type: ignore[misc]
