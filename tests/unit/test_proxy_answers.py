"""What one client may leave unread of the hub's answers, at the real proxy."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from tests.ports import held_port
from tests.unit.test_proxy import Portal, portal, started
from tests.unit.test_proxy_guard import Told, answering, ask, raw_get, routed

__all__ = ["portal"]
BIG = 40_000_000  # more than the kernels of all three hold
WITHIN_S = 3.0  # on a busy machine a reader that has its turn seldom takes nothing in a second
EVENTS_AFTER_S = 6.0


class Big(Told):
    """Answers with much, or with events that come late."""

    def do_GET(self) -> None:
        """As it is asked."""
        with contextlib.suppress(OSError):
            if self.path.endswith("/events"):
                self._send("text/event-stream", b": one\n\n", EVENTS_AFTER_S, b": two\n\n")
            elif self.path.endswith("/big"):
                self._send("text/javascript", b"x" * BIG)
            else:
                super().do_GET()

    def _send(self, media_type: str, first: bytes, pause_s: float = 0, second: bytes = b"") -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(first + second)))
        self.end_headers()
        self.wfile.write(first)
        time.sleep(pause_s)
        self.wfile.write(second)


@pytest.fixture
def upstream() -> Iterator[str]:
    with answering(Big) as url:
        yield url


def asking(portal: Portal, path: str, kept: int = 4096) -> socket.socket:
    """A browser that has asked and has not read yet; its system keeps some bytes for it."""
    browser = socket.socket()
    browser.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kept)
    browser.connect(("127.0.0.1", portal.ports["port"]))
    browser.settimeout(30)
    browser.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return browser


def all_of(browser: socket.socket, pause_s: float = 0, enough: int = BIG) -> int:
    """How much comes until there is no more."""
    read = 0
    with browser, contextlib.suppress(ConnectionError):
        while read < enough and (piece := browser.recv(2**16)):
            read += len(piece)
            time.sleep(pause_s)
    return read


async def test_an_answer_that_nobody_reads_ends_and_one_that_is_read_is_whole(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream, taken_within_s=WITHIN_S)
    unread = [asking(portal, "/hub/big") for _ in range(3)]
    session = asking(portal, "/user/alice/big")

    events = asyncio.create_task(ask("GET", f"{portal.url}/hub/events"))
    whole = await ask("GET", f"{portal.url}/hub/big")
    told = await events

    assert len(whole.content) == BIG
    assert told.text == ": one\n\n: two\n\n", f"they came {EVENTS_AFTER_S} s apart"
    for browser in unread:
        assert await asyncio.to_thread(all_of, browser) < BIG / 2
    assert await asyncio.to_thread(all_of, session) >= BIG, "a session's answers are its person's own"


async def test_of_answers_that_are_read_slowly_the_oldest_end(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream, taken_within_s=WITHIN_S, slow_per_address=2)
    slow = [asking(portal, "/hub/big", 2**16) for _ in range(4)]

    read = await asyncio.gather(*(asyncio.to_thread(all_of, browser, 0.02, 20_000_000) for browser in slow))

    ended = [one for one in read if one < 20_000_000]
    assert len(ended) == 2
    assert (await ask("GET", f"{portal.url}/hub/")).status_code == 200


@pytest.mark.parametrize("begins", [False, True], ids=["waiting", "begun"])
async def test_a_page_about_a_session_that_is_away_is_asked_for_no_longer_than_its_client_waits(
    portal: Portal, begins: bool
) -> None:
    asked = asyncio.Event()
    gone = asyncio.Event()

    async def hub_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if begins:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n<html>")
        asked.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        gone.set()
        writer.close()

    hub = portal.hub()
    await started(hub)
    await hub.add_route("/user/alice/", f"http://127.0.0.1:{held_port()}", {"user": "alice"})
    server = await asyncio.start_server(hub_answers, "127.0.0.1", portal.ports["hub_port"])
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", portal.ports["port"])
        writer.write(b"GET /user/alice/lab HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(asked.wait(), 10)
        if begins:
            assert await asyncio.wait_for(reader.readline(), 10) == b"HTTP/1.1 503 Service Unavailable\r\n"
        assert not gone.is_set()

        writer.close()

        await asyncio.wait_for(gone.wait(), 10)
    assert "custom error page" not in (portal.state / "proxy" / "proxy.log").read_text()
    assert (await asyncio.to_thread(raw_get, portal, "/user/alice/lab")).startswith("HTTP/1.1 503 ")
