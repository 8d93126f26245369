"""A session's port takes few connections that show no certificate, and not for long."""

from __future__ import annotations

import asyncio
import socket
import ssl

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from portal.singleuser.handshakes import Handshakes
from tests.unit.test_listener import Shown, files

__all__ = ["files"]
AT_ONCE = 5
WITHIN_S = 1.0


async def is_closed(connection: socket.socket) -> bool:
    """Whether the other end has closed it."""
    loop = asyncio.get_running_loop()
    try:
        return await asyncio.wait_for(loop.sock_recv(connection, 1), 0.1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def test_who_says_nothing_makes_place_and_goes_soon_and_who_has_shown_a_certificate_stays(
    files: dict[str, str],
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files["cert"], files["key"])
    server = HTTPServer(Application([("/", Shown)]), ssl_options=context)
    Handshakes(WITHIN_S, AT_ONCE).watch(server)
    (listener,) = bind_sockets(0, "127.0.0.1")
    server.add_socket(listener)
    place = ("127.0.0.1", listener.getsockname()[1])
    trusted = ssl.create_default_context(cafile=files["ca"])
    reader, writer = await asyncio.open_connection(*place, ssl=trusted)
    silent = []
    for _ in range(AT_ONCE + 3):
        silent.append(socket.socket())
        silent[-1].setblocking(False)
        await asyncio.get_running_loop().sock_connect(silent[-1], place)

    assert [await is_closed(one) for one in silent] == [True] * 3 + [False] * AT_ONCE
    await asyncio.sleep(WITHIN_S)
    assert all([await is_closed(one) for one in silent])

    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"https")
    writer.close()
    for one in silent:
        one.close()
    server.stop()
