"""The hub's own questions, to its proxy and to sessions that start: none keeps another one, or the hub, waiting."""

from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp
import pytest
from jupyterhub.httpclient import JupyterHubHTTPClient, fetch
from jupyterhub.utils import wait_for_http_server
from traitlets.config import Config

from portal.guard import questions
from portal.hub import config
from portal.site import Site

MANY = 150  # sessions whose servers do not answer, as where homes hang; aiohttp's own bound is 100
WITHIN_S = 20
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n"


class TheirSession:
    """A server in a session's place.

    Attributes:
        asked: released with each question.
        heads: of the questions.
    """

    def __init__(self, answer: bytes) -> None:
        self.asked = asyncio.Semaphore(0)
        self.heads: list[str] = []
        self._answer = answer

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; an answer without an end is sent for as long as somebody reads it."""
        with suppress(ConnectionError):
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            self.asked.release()
            while self._answer:
                writer.write(self._answer)
                await writer.drain()
                if self._answer.startswith(ANSWER):
                    break
            else:
                await reader.read()
        writer.close()


@pytest.fixture
async def hub(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The hub's client, as the portal configures it, in the place of that of other tests."""
    c = Config()
    config.addresses(c, Site())
    client = JupyterHubHTTPClient(config=c)
    monkeypatch.setattr(JupyterHubHTTPClient, "_instance", client)
    yield
    await client.close()


async def serving(session: TheirSession) -> tuple[asyncio.Server, str]:
    """The server, and its address; by a name, for no cookie is for a number."""
    server = await asyncio.start_server(session.take, "127.0.0.1", 0)
    return server, f"http://localhost:{server.sockets[0].getsockname()[1]}/api"


async def test_however_many_sessions_do_not_answer_the_hub_asks_its_proxy_and_the_others(hub: None) -> None:
    silent = TheirSession(b"")
    server, url = await serving(silent)
    questions = [asyncio.ensure_future(fetch(url)) for _ in range(MANY)]
    try:
        async with asyncio.timeout(WITHIN_S):
            for _ in questions:
                await silent.asked.acquire()
    finally:
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        server.close()


@pytest.mark.parametrize("head", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"])
async def test_of_an_answer_that_never_begins_the_hub_reads_little(hub: None, head: bytes) -> None:
    server, url = await serving(TheirSession(head * 1000))

    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(aiohttp.ClientConnectionError, match="no answer"):
            await fetch(url)

    server.close()


async def test_what_one_session_gives_the_hub_to_keep_is_not_sent_to_another(hub: None) -> None:
    first = TheirSession(ANSWER + b"Set-Cookie: kept=1; Path=/; Domain=localhost\r\nSet-Cookie: too=1; Path=/\r\n\r\n")
    second = TheirSession(ANSWER + b"\r\n")
    theirs, url = await serving(first)
    others, other_url = await serving(second)

    assert (await fetch(url)).status == 200
    assert (await fetch(other_url)).status == 200

    assert "cookie" not in second.heads[0].lower()
    theirs.close()
    others.close()


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        *(
            (version, version)
            for version in ("6.1.1", "5.3.0.dev", "7.0.0rc1", "7.0.0b1.dev", "6.1.1.post1", "5.2.1+site")
        ),
        *((other, None) for other in ("6", "none", f"7.0.0+{4000 * 'x'}", 4500 * "9", "7.0.0, 8.0.0")),
    ],
)
async def test_of_a_sessions_version_the_hub_hears_what_is_one(hub: None, said: str, heard: str | None) -> None:
    server, url = await serving(TheirSession(ANSWER + f"X-JupyterHub-Version: {said}\r\n\r\n".encode()))

    answer = await fetch(url)

    server.close()
    assert (answer.status, answer.headers.get("X-JupyterHub-Version")) == (200, heard)


def packed(size: int) -> bytes:
    """So many zeros as gzip has them, of which no end comes."""
    return zlib.compressobj(wbits=31).compress(bytes(size))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
PART = b"x" * 2**16
ENDLESS = {
    "until-its-end": (HEAD + b"\r\n", PART),
    "in-chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + PART + b"\r\n"),
    "in-tiny-chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10_000),
    "stated": (HEAD + b"Content-Length: 1000000000000\r\n\r\n", PART),
    "packed": (HEAD + b"Content-Encoding: gzip\r\n\r\n" + packed(2**28), PART),
}
HEAPS = 2**24  # bytes; more than the kernel holds of a connection, and far less than a session sends


@pytest.mark.parametrize("answer", ENDLESS)
async def test_of_an_answer_without_an_end_the_hub_holds_little_and_not_for_long(
    hub: None, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "WHOLE_WITHIN_S", 1.0)
    head, part = ENDLESS[answer]
    sent = 0
    gone = asyncio.Event()

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            writer.write(head)
            while True:
                writer.write(part)
                await writer.drain()
                sent += len(part)
        gone.set()
        writer.close()

    server = await asyncio.start_server(send, "127.0.0.1", 0)
    tracemalloc.start()
    try:
        found = await wait_for_http_server(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api", WITHIN_S)
        for _ in range(200):  # turns of the loop, in which more would be read
            await asyncio.sleep(0)
        assert found.status == 200
        assert tracemalloc.get_traced_memory()[1] < HEAPS
    finally:
        tracemalloc.stop()
    assert sent < HEAPS
    await asyncio.wait_for(gone.wait(), WITHIN_S)
    server.close()
