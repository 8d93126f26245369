"""An answer that breaks HTTP's rules keeps nobody waiting, and the proxy's own log has no fault of it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import ask, routed
from tests.unit.test_proxy_sockets import asked

__all__ = ["portal"]
LENGTH = "Content-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def saying(answer: str) -> AsyncIterator[str]:
    """A session that says these letters to each request."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer.encode("latin-1"))
        await reader.read()  # until the proxy has enough of it
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def told(portal: Portal, answer: str) -> httpx.Response:
    """What a browser gets of it."""
    async with saying(answer) as session:
        await routed(portal, session)
        return await ask("GET", f"{portal.url}/user/alice/lab")


@pytest.mark.parametrize(
    "answer",
    [
        f"HTTP/1.1 200 OK\r\nTrailer: X\r\n{LENGTH}",
        f"HTTP/1.1 200 O\x01K\r\n{LENGTH}",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
    ],
    ids=["trailer", "words", "chunks"],
)
async def test_an_answer_is_handed_on_without_what_cannot_be(portal: Portal, answer: str) -> None:
    got = await told(portal, answer)

    assert (got.status_code, got.text, got.reason_phrase) == (200, "hello", "OK")
    assert "trailer" not in got.headers


@pytest.mark.parametrize(
    "answer",
    [
        f"HTTP/1.1 000 X\r\n{LENGTH}",
        "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw",
    ],
    ids=["no status", "socket"],
)
async def test_an_answer_that_is_none_is_told(portal: Portal, answer: str) -> None:
    got = await told(portal, answer)

    assert (got.status_code, got.text) == (502, "What was to answer here gave an answer that is none (HTTP).\n")


async def test_an_answer_that_has_neither_body_nor_chunks_may_have_named_trailers(portal: Portal) -> None:
    got = await told(portal, "HTTP/1.1 204 N\r\nTrailer: X\r\n\r\n")

    assert (got.status_code, got.text) == (204, "")


def all_of(browser: socket.socket) -> str:
    """All that comes until the connection ends."""
    with browser:
        return b"".join(iter(lambda: browser.recv(65536), b"")).decode()


@pytest.mark.parametrize(
    ("answer", "first"),
    [
        (f"HTTP/1.1 000 X\r\n{LENGTH}", "HTTP/1.1 502 Bad Gateway"),
        (f"HTTP/1.1 204 N\r\nConnection: keep-alive\r\n{LENGTH}", "HTTP/1.1 204 N"),
        (f"HTTP/1.1 200 OK\r\n{LENGTH} more", "HTTP/1.1 200 OK"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", "HTTP/1.1 200 OK"),
    ],
    ids=["no status", "body of none", "too much", "no chunk"],
)
async def test_who_wants_a_web_socket_gets_one_answer_and_hears_that_it_ends(
    portal: Portal, answer: str, first: str
) -> None:
    async with saying(answer) as session:
        await routed(portal, session)
        got = await asyncio.to_thread(all_of, asked(portal, "/user/alice/ws"))

    assert got.splitlines()[0] == first
    assert got.count("HTTP/1.1") == 1
    assert [line for line in got.lower().splitlines() if line.startswith("connection:")] == ["connection: close"]


async def test_a_web_socket_that_breaks_gets_no_answer_in_its_midst(portal: Portal) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw")
        await asyncio.sleep(0.2)
        own = writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        writer.transport.abort()

    async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
        await routed(portal, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        got = await asyncio.to_thread(all_of, asked(portal, "/user/alice/ws"))

    assert got.startswith("HTTP/1.1 101")
    assert got.endswith("\r\n\r\nraw")
