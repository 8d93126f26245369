"""What comes to the real proxy in very small pieces: it goes on whole, and neither memory nor time of others is its."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest

from portal.proxy import proxy_process
from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import answering, ask, routed

__all__ = ["portal"]
TEXT = random.Random(1).randbytes(30_000)  # noqa: S311  no secret
MIXED = TEXT[:1500].join([TEXT[:500]] * 20)
END = b"0\r\n\r\n"
ENDLESS = b"1\r\nx\r\n" * 8000
MANY = 40
TOO_MANY = 70  # each is read once before it waits
MEMORY_MOST = 200 * 2**20  # bytes; without the bound it was 3 GiB
WITHIN_S = 30
FIRST = b"data: first\n\n"
UPGRADE = (
    "GET /user/alice/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def chunks(text: bytes) -> bytes:
    """A body in chunks of one byte each."""
    return b"".join(b"1\r\n%c\r\n" % byte for byte in text) + END


class Session(BaseHTTPRequestHandler):
    """A session that answers in small pieces, and one that reads nothing of what is sent."""

    protocol_version = "HTTP/1.1"
    may_go_on = threading.Event()

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """As it is asked."""
        with contextlib.suppress(OSError):
            if self.path.endswith("/socket"):
                self._echo()
            elif self.path.endswith("/page"):
                self._say(b"page")
            else:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                self._pieces()

    def do_POST(self) -> None:
        """Answer with what was sent, or read none of it."""
        if self.path.endswith("/unread"):
            self.may_go_on.wait(WITHIN_S)
            return
        read = b""
        while size := int(self.rfile.readline(), 16):
            read += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        self._say(read)

    def _pieces(self) -> None:
        if self.path.endswith("/text"):
            self.wfile.write(chunks(TEXT))
        elif self.path.endswith("/mixed"):
            self.wfile.write((b"5dc\r\n" + TEXT[:1500] + b"\r\n").join([chunks(TEXT[:500])[: -len(END)]] * 20))
            self.wfile.write(END)
        elif self.path.endswith("/events"):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(FIRST), FIRST))
            self.may_go_on.wait(WITHIN_S)
            self.wfile.write(END)
        while self.path.endswith("/endless"):
            self.connection.sendall(ENDLESS)

    def _echo(self) -> None:
        self.wfile.write(b"HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        while byte := self.connection.recv(1):
            self.wfile.write(byte)

    def _say(self, text: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def upstream() -> Iterator[str]:
    """A hub, and sessions."""
    Session.may_go_on.clear()
    with answering(Session) as url:  # type: ignore[arg-type]
        yield url
        Session.may_go_on.set()


def memory(portal: Portal) -> int:
    """What the proxy has in memory, in bytes."""
    running = proxy_process.running_in(portal.state)
    assert running
    status = Path(f"/proc/{running.pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


@contextlib.contextmanager
def clients(portal: Portal, sent: bytes, reads: bool) -> Iterator[None]:
    """Many of them, each with a connection, who have sent the same."""

    def one(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client.sendall(sent)
            while reads and client.recv(2**18):
                pass

    made = [socket.create_connection(("127.0.0.1", portal.ports["port"])) for _ in range(MANY)]
    threads = [threading.Thread(target=one, args=(client,)) for client in made]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for client in made:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            client.close()
        for thread in threads:
            thread.join(WITHIN_S)


async def others_meanwhile(portal: Portal) -> int:
    """The most memory that the proxy takes while others are answered again and again."""
    most = 0
    for _ in range(10):
        answer = await ask("GET", f"{portal.url}/user/bob/page")
        assert answer.text == "page"
        most = max(most, memory(portal))
        await asyncio.sleep(0.3)
    return most


async def test_an_answer_in_chunks_of_one_byte_arrives_as_it_was_sent(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    answer = await ask("GET", f"{portal.url}/user/alice/text")
    assert answer.content == TEXT


async def test_large_pieces_between_small_ones_arrive_in_their_place(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    answer = await ask("GET", f"{portal.url}/user/alice/mixed")
    assert answer.content == MIXED


async def test_a_request_in_chunks_of_one_byte_arrives_as_it_was_sent(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    head = (
        b"POST /user/alice/text HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", portal.ports["port"])
    writer.write(head + chunks(TEXT))
    async with asyncio.timeout(WITHIN_S):
        answer = await reader.read()
    writer.close()
    assert answer.endswith(b"\r\n\r\n" + TEXT)


async def test_a_small_piece_is_handed_on_while_the_answer_goes_on(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    async with (
        httpx.AsyncClient(trust_env=False, timeout=WITHIN_S / 2) as client,
        client.stream("GET", f"{portal.url}/user/alice/events") as answer,
    ):
        pieces = answer.aiter_raw()
        assert await anext(pieces) == FIRST
        Session.may_go_on.set()
        assert [piece async for piece in pieces] == []


async def test_a_web_socket_hands_on_small_pieces_in_their_order(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    reader, writer = await asyncio.open_connection("127.0.0.1", portal.ports["port"])
    writer.write(UPGRADE.encode())
    async with asyncio.timeout(WITHIN_S):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        for start in range(0, 300, 3):
            writer.write(TEXT[start : start + 3])
            await writer.drain()
        assert await reader.readexactly(300) == TEXT[:300]
        writer.write(TEXT)
        assert await reader.readexactly(len(TEXT)) == TEXT
    writer.close()


@pytest.mark.parametrize("reads", [True, False], ids=["read", "unread"])
async def test_many_answers_in_chunks_of_one_byte_do_not_fill_the_memory(
    portal: Portal, upstream: str, reads: bool
) -> None:
    await routed(portal, upstream)
    with clients(portal, b"GET /user/alice/endless HTTP/1.1\r\nHost: localhost\r\n\r\n", reads):
        assert await others_meanwhile(portal) < MEMORY_MOST


async def test_many_requests_in_chunks_of_one_byte_do_not_fill_the_memory(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    head = b"POST /user/alice/unread HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with clients(portal, head + ENDLESS * 40, reads=False):
        assert await others_meanwhile(portal) < MEMORY_MOST


def answer_to(portal: Portal, sent: bytes) -> bytes:
    """What a client reads that has sent this, until its connection ends."""
    read = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", portal.ports["port"])) as client:
        client.settimeout(WITHIN_S / 3)
        client.sendall(sent)
        while part := client.recv(2**16):
            read += part
    return read


async def test_who_sends_too_many_pieces_is_told_so_and_the_log_says_it_once(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    head = b"POST /user/alice/unread HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with ThreadPoolExecutor(TOO_MANY) as threads:
        asked = [threads.submit(answer_to, portal, head + ENDLESS * 3) for _ in range(TOO_MANY)]
        answers = [await asyncio.wrap_future(one) for one in asked]

    refused = [one for one in answers if one.startswith(b"HTTP/1.1 429 ")]
    assert len(refused) > 1
    assert all(b"Retry-After: 5" in one for one in refused)
    lines = (portal.state / "proxy" / "proxy.log").read_text().splitlines()
    told = [line for line in lines if "very small pieces" in line]
    assert len(told) == 1, told
    assert "127.0.0.1" in told[0]
    assert "warn" in told[0]
    answer = await ask("GET", f"{portal.url}/user/bob/page")
    assert answer.text == "page"
