"""The hub's own port, which takes TLS and plain HTTP: with internal TLS, some who call it do not know of that yet.

Sessions that were started without it go on to ask the hub at the same address, until they end; so do services. What is
started with it trusts nothing but TLS.

The nodes reach it, and so does everybody on them: of one address it has so many connections at a time, and the oldest
goes. Its own host's, which are the proxy's, are not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import tornado.httpserver

from portal.addresses import counted

TLS_HELLO = b"\x16"  # RFC 8446, 5.1: a handshake; no method of HTTP begins with it
SAYS_WITHIN_S = 10.0
OF_ONE_ADDRESS = 512  # a node with hundreds of sessions has a few at a time


class Callers:
    """The open connections of each address, the oldest first: it is closed when there are too many."""

    def __init__(self, most: int = OF_ONE_ADDRESS) -> None:
        self._most = most
        self._open: dict[str, OrderedDict[Hashable, Callable[[], None]]] = {}

    def enter(self, address: str, connection: Hashable, close: Callable[[], None]) -> None:
        """One more; ``close`` ends it."""
        theirs = self._open.setdefault(address, OrderedDict())
        theirs[connection] = close
        if len(theirs) > self._most:
            _, close_oldest = theirs.popitem(last=False)
            close_oldest()

    def leave(self, address: str, connection: Hashable) -> None:
        """One has ended, or was closed here."""
        theirs = self._open.get(address, OrderedDict())
        theirs.pop(connection, None)
        if not theirs:
            self._open.pop(address, None)


class EitherServer(tornado.httpserver.HTTPServer):
    """Looks at the first byte of a connection, and leaves it there."""

    callers: Callers

    def initialize(self, *arguments: Any, **named: Any) -> None:
        """Begin with no callers."""
        super().initialize(*arguments, **named)
        self.callers = Callers()

    def _handle_connection(self, connection: socket.socket, address: Any) -> None:
        if self.ssl_options is None:
            super()._handle_connection(connection, address)
            return
        loop = asyncio.get_running_loop()
        connection.setblocking(False)
        client = client_of(connection, address)

        def give_up() -> None:
            too_late.cancel()
            self.callers.leave(client, connection)
            loop.remove_reader(connection.fileno())
            connection.close()

        def hear() -> None:
            too_late.cancel()
            self.callers.leave(client, connection)
            loop.remove_reader(connection.fileno())
            self._hear(connection, address)

        too_late = loop.call_later(SAYS_WITHIN_S, give_up)
        loop.add_reader(connection.fileno(), hear)
        if client:
            self.callers.enter(client, connection, give_up)

    def _hear(self, connection: socket.socket, address: Any) -> None:
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

    def handle_stream(self, stream: Any, address: Any) -> None:
        """A connection that has begun to speak."""
        client = client_of(stream.socket, address)
        if client:
            stream.portal_client = client
            self.callers.enter(client, stream, stream.close)
        super().handle_stream(stream, address)

    def start_request(self, server_conn: Any, request_conn: Any) -> Any:
        """One request: what its headers say of who asks is believed of this host's own proxy alone."""
        usual = self.xheaders
        self.xheaders = usual and not getattr(server_conn.stream, "portal_client", "")
        try:
            return super().start_request(server_conn, request_conn)
        finally:
            self.xheaders = usual

    def on_close(self, server_conn: Any) -> None:
        """Such a connection has ended."""
        stream = server_conn.stream
        self.callers.leave(getattr(stream, "portal_client", ""), stream)
        super().on_close(server_conn)


def client_of(connection: socket.socket, address: Any) -> str:
    """The address that a connection counts for; ``""`` for this host's own."""
    try:
        own = connection.getsockname()[0]
    except OSError:  # it has ended already
        own = ""
    return "" if address[0] == own else counted(address[0])


@contextlib.contextmanager
def either_protocol() -> Iterator[None]:
    """Meanwhile a web server that is made takes both (JupyterHub 6.1 makes its own in ``start``)."""
    usual = tornado.httpserver.HTTPServer
    tornado.httpserver.HTTPServer = EitherServer  # type: ignore[misc]
    try:
        yield
    finally:
        tornado.httpserver.HTTPServer = usual  # type: ignore[misc]
