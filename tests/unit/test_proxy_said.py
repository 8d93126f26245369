"""An answer that breaks HTTP's rules keeps nobody waiting, and the proxy's own log has no fault of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import ask, routed

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
