"""The hub's own port, which takes TLS and plain HTTP: with internal TLS, some who call it do not know of that yet.

Sessions that were started without it go on to ask the hub at the same address, until they end; so do services. What is
started with it trusts nothing but TLS.

The nodes reach it, and so does everybody on them and on this host: of one address it has so many connections at a time,
and the oldest goes. The proxy's, which show its certificate, are not counted, and they alone are believed when they say
who asks. Without internal TLS nothing tells the proxy from others on this host: so it is with all of this host's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tornado.httpserver
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate
from tornado.iostream import SSLIOStream

from portal.addresses import counted
from portal.internal_tls.contexts import with_usual_group

TLS_HELLO = b"\x16"  # RFC 8446, 5.1: a handshake; no method of HTTP begins with it
SAYS_WITHIN_S = 10.0
LOOPBACK = "127.0.0.1"
OF_ONE_ADDRESS = 512  # a node with hundreds of sessions has a few at a time
OWN_UNPROVEN = 2048  # of this host, which may be the proxy's: so many do not come while one of them shows what it is
PROXY = "proxy-client"  # JupyterHub's word (6.1, ``init_internal_ssl``) for what the proxy shows where it connects


class Callers:
    """The open connections of each address, the oldest first: it is closed when there are too many."""

    def __init__(self, most: int) -> None:
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

    proxys = b""  # its certificate, in DER
    callers: Callers
    unproven: Callers  # this host's, that may still turn out to be the proxy's

    def initialize(self, *arguments: Any, **named: Any) -> None:
        """Begin with no callers."""
        super().initialize(*arguments, **named)
        self.callers = Callers(OF_ONE_ADDRESS)
        self.unproven = Callers(OWN_UNPROVEN)
        self.has_tls = self.ssl_options is not None
        if isinstance(self.ssl_options, ssl.SSLContext):
            with_usual_group(self.ssl_options)

    def _handle_connection(self, connection: socket.socket, address: Any) -> None:
        if self.ssl_options is None:
            super()._handle_connection(connection, address)
            return
        loop = asyncio.get_running_loop()
        connection.setblocking(False)
        client = counts_for(address[0])
        callers = self.unproven if is_of_this_host(connection, address) else self.callers

        def give_up() -> None:
            too_late.cancel()
            callers.leave(client, connection)
            loop.remove_reader(connection.fileno())
            connection.close()

        def hear() -> None:
            too_late.cancel()
            callers.leave(client, connection)
            loop.remove_reader(connection.fileno())
            self._hear(connection, address)

        too_late = loop.call_later(SAYS_WITHIN_S, give_up)
        loop.add_reader(connection.fileno(), hear)
        callers.enter(client, connection, give_up)

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
        is_own = is_of_this_host(stream.socket, address)
        if self.has_tls or not is_own:
            stream.portal_client = counts_for(address[0])
            may_be_proxy = is_own and isinstance(stream, SSLIOStream)
            callers = self.unproven if may_be_proxy else self.callers
            callers.enter(stream.portal_client, stream, stream.close)
            if may_be_proxy:
                stream.wait_for_handshake().add_done_callback(lambda shown: self._shown(stream, shown))
        super().handle_stream(stream, address)

    def _shown(self, stream: Any, shown: asyncio.Future[Any]) -> None:
        """A certificate of the hub's authorities, by a connection of this host; or it has ended before."""
        self.unproven.leave(stream.portal_client, stream)
        if shown.cancelled() or shown.exception() or stream.closed():
            return
        if self.proxys and stream.socket.getpeercert(binary_form=True) == self.proxys:
            stream.portal_client = ""
        else:
            self.callers.enter(stream.portal_client, stream, stream.close)

    def start_request(self, server_conn: Any, request_conn: Any) -> Any:
        """One request: what its headers say of who asks is believed of this host's own proxy alone."""
        usual = self.xheaders
        self.xheaders = False
        try:
            request = super().start_request(server_conn, request_conn)
        finally:
            self.xheaders = usual
        return Believed(request, request_conn) if usual else request

    def on_close(self, server_conn: Any) -> None:
        """Such a connection has ended."""
        stream = server_conn.stream
        client = getattr(stream, "portal_client", "")
        self.callers.leave(client, stream)
        self.unproven.leave(client, stream)
        super().on_close(server_conn)


class Believed(tornado.httpserver._ProxyAdapter):
    """A request whose headers are believed if the proxy has sent them: at its beginning TLS may not have told yet."""

    def headers_received(self, start_line: Any, headers: Any) -> Any:
        """Here it has."""
        if getattr(self.connection.stream, "portal_client", ""):  # type: ignore[attr-defined]
            return self.delegate.headers_received(start_line, headers)
        return super().headers_received(start_line, headers)


def counts_for(address: str) -> str:
    """What a connection is counted with: who is on this host has millions of addresses of it to choose from."""
    return LOOPBACK if address.startswith("127.") else counted(address)


def is_of_this_host(connection: socket.socket, address: Any) -> bool:
    """Whether a connection comes from the address that it leads to, or from that which Linux takes for 127.0.1.1."""
    try:
        return bool(address[0] in (LOOPBACK, connection.getsockname()[0]))
    except OSError:  # it has ended already
        return False


@contextlib.contextmanager
def either_protocol(certificates: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Meanwhile a web server that is made takes both (JupyterHub 6.1 makes its own in ``start``).

    Arguments:
        certificates: JupyterHub's ``internal_proxy_certs``; nothing in it without internal TLS.
    """
    usual = tornado.httpserver.HTTPServer
    file = certificates.get(PROXY, {}).get("certfile")
    EitherServer.proxys = load_pem_x509_certificate(Path(file).read_bytes()).public_bytes(Encoding.DER) if file else b""
    tornado.httpserver.HTTPServer = EitherServer  # type: ignore[misc]
    try:
        yield
    finally:
        tornado.httpserver.HTTPServer = usual  # type: ignore[misc]
