"""What was begun with a session whose route the hub takes away ends, whatever answers in the session."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from tests.unit.test_proxy import Portal, portal, started
from tests.unit.test_proxy_guard import answering, is_open
from tests.unit.test_proxy_sockets import Upgrading, asked

__all__ = ["portal"]
OUTLIVES_S = 0.3
CLOSED_WITHIN_S = 10


class Stays(Upgrading):
    """A program in the session's place, which lets go of no connection."""

    def do_GET(self) -> None:
        """A web socket, or half of an answer."""
        if self.path.endswith("/socket"):
            super().do_GET()
            self.wfile.flush()
        else:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
        self.rfile.read(1)


@pytest.fixture
def upstream() -> Iterator[str]:
    """The sessions of two people."""
    with answering(Stays) as url:
        yield url


def begun(portal: Portal, path: str) -> socket.socket:
    """A connection on which an answer has begun."""
    browser = asked(portal, path)
    assert browser.recv(12) == (b"HTTP/1.1 101" if path.endswith("/socket") else b"HTTP/1.1 200")
    return browser


def plain(portal: Portal, path: str) -> socket.socket:
    """The same, where no web socket was asked for."""
    browser = socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=CLOSED_WITHIN_S)
    browser.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert browser.recv(12) == b"HTTP/1.1 200"
    return browser


def ends(browser: socket.socket) -> bool:
    """Whether it is closed within the time."""
    try:
        while browser.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("comes_back", [False, True])
async def test_what_was_begun_ends_with_the_route_and_nobody_elses_does(
    portal: Portal, upstream: str, comes_back: bool
) -> None:
    hub = portal.hub(without_route_s=OUTLIVES_S)
    await started(hub)
    for name in ("alice", "bob"):
        await hub.api_request(f"/user/{name}/", method="POST", body={"target": upstream, "user": name})
    theirs = [begun(portal, "/user/bob/socket"), begun(portal, "/user/bob/half"), plain(portal, "/user/bob/half")]
    hers = [begun(portal, "/user/alice/socket"), plain(portal, "/user/alice/half")]

    await hub.api_request("/user/bob/", method="DELETE")
    if comes_back:
        await hub.api_request("/user/bob/", method="POST", body={"target": upstream, "user": "bob"})
        theirs.append(begun(portal, "/user/bob/socket"))

    assert all([await asyncio.to_thread(ends, one) for one in theirs[:3]])
    for one in (*hers, *theirs[3:]):
        one.setblocking(False)
        while is_open(one) and _read(one):
            pass
        assert is_open(one)
    for one in (*hers, *theirs):
        one.close()


def _read(browser: socket.socket) -> bytes:
    """What is there."""
    try:
        return browser.recv(65536)
    except BlockingIOError:
        return b""
