"""Requests for web sockets through the real proxy: what a session may say with its answer, and what becomes of none."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
from collections.abc import Iterator

import pytest

from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import OVER_ITS_PLACE, Told, answering, ask, is_open, routed

__all__ = ["portal"]
MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
CLOSED_WITHIN_S = 10
BIG_PER_ADDRESS = 8


class Upgrading(Told):
    """Answers a request for a web socket with one, and with headers that reach over its place."""

    def do_GET(self) -> None:
        """The answer's head; ``/page`` is none of a web socket."""
        if not self.path.endswith("/socket"):
            super().do_GET()
            return
        accepted = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + MAGIC).encode()).digest()  # noqa: S324  RFC 6455
        self.send_response(101)
        for name, value in {"Connection": "Upgrade", "Upgrade": "websocket", **OVER_ITS_PLACE}.items():
            self.send_header(name, value)
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accepted).decode())
        self.send_header("Set-Cookie", "a=2; Domain=portal.example; Path=/; HttpOnly")
        self.end_headers()
        self.close_connection = True


@pytest.fixture
def upstream() -> Iterator[str]:
    """A hub and a session."""
    with answering(Upgrading) as url:
        yield url


def asked(portal: Portal, path: str, host: str = "localhost") -> socket.socket:
    """A connection on which a web socket was asked for."""
    browser = socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=CLOSED_WITHIN_S)
    upgrade = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}"
    browser.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{upgrade}\r\n\r\n".encode())
    return browser


@pytest.mark.parametrize(("path", "status"), [("/user/alice/socket", 101), ("/user/alice/page", 200)])
async def test_a_sessions_answer_for_a_web_socket_does_not_reach_over_its_own_place_either(
    portal: Portal, upstream: str, path: str, status: int
) -> None:
    await routed(portal, upstream)

    with asked(portal, path) as browser:
        head = (await asyncio.to_thread(browser.recv, 65536)).decode().partition("\r\n\r\n")[0].lower()

    assert head.startswith(f"http/1.1 {status} ")
    assert "set-cookie: a=2; path=/" in head
    assert [word for word in ("domain=", *OVER_ITS_PLACE) if word.lower() in head] == []


@pytest.mark.parametrize("path", ["//", "/%ff", "/user/%ff", "/constructor/x"])
@pytest.mark.parametrize("with_domain", [False, True])
async def test_a_connection_on_which_no_web_socket_came_to_be_is_closed(
    portal: Portal, upstream: str, path: str, with_domain: bool
) -> None:
    host = f"localhost:{portal.ports['port']}"
    portal.public_url = f"http://{host}" if with_domain else ""
    await routed(portal, upstream)

    with asked(portal, path, host) as here, asked(portal, path, "elsewhere.example") as elsewhere:
        for browser in (here, elsewhere):
            browser.setblocking(False)
        async with asyncio.timeout(CLOSED_WITHIN_S):
            while any(_still_open(browser) for browser in (here, elsewhere)):  # noqa: ASYNC110  the proxy closes them
                await asyncio.sleep(0.05)


def _still_open(browser: socket.socket) -> bool:
    """Whether the proxy has not closed it; what it says is read."""
    while is_open(browser):
        try:
            browser.recv(65536)
        except BlockingIOError:
            return True
    return False


async def test_behind_a_front_door_each_browser_has_its_own_share_of_big_requests(
    portal: Portal, upstream: str
) -> None:
    await routed(portal, upstream, trusted_proxies=["127.0.0.1"])
    begun = b"POST /hub/login HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 20000\r\n\r\n"
    held = [socket.create_connection(("127.0.0.1", portal.ports["port"])) for _ in range(BIG_PER_ADDRESS)]
    for one in held:
        one.sendall(begun)

    async def answer_to(browser: str) -> int:
        url = f"{portal.url}/hub/login"
        return (await ask("POST", url, content=b"x" * 20_000, headers={"X-Forwarded-For": browser})).status_code

    async with asyncio.timeout(20):
        while await answer_to("192.0.2.1") != 429:  # noqa: ASYNC110  the proxy hears of them soon
            await asyncio.sleep(0.1)
    assert await answer_to("192.0.2.2") == 200
    for one in held:
        one.close()
