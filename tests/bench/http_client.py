"""A small HTTP/1.1 client on asyncio streams: keep-alive, cookies by name, nothing else.

A driver on the same cores must cost less than what it measures; `bench storm` shows what this one costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeVar

LIMIT_S = 120.0  # no answer by then is a connection error
Item = TypeVar("Item")


@dataclass(frozen=True)
class Answer:
    """Status, headers (names in small letters, repeated ones in order) and body."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str:
        """The first header of that name, or ``""``."""
        return next((value for key, value in self.headers if key == name), "")


@dataclass
class Connection:
    """One connection to one port of this machine, opened when it is needed."""

    port: int
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connection."""
        if self._streams:
            self._streams[1].close()
            with contextlib.suppress(OSError):
                await self._streams[1].wait_closed()
        self._streams = None

    async def request(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> Answer:
        """One request.

        Raises:
            OSError: no connection, or no answer; also ``TimeoutError``.
        """
        text = self._text(method, path, body, kind)
        is_kept = self._streams is not None
        try:
            return await self._exchange(text)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            await self.close()
            if not is_kept:
                raise ConnectionError(f"{method} {path}: {error or type(error).__name__}") from error
        return await self._exchange(text)  # the other side had closed a kept connection

    def _text(self, method: str, path: str, body: bytes, kind: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Content-Length: {len(body)}"]
        lines += [f"Content-Type: {kind}"] if body else []
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.cookies:
            lines.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def _exchange(self, text: bytes) -> Answer:
        async with asyncio.timeout(LIMIT_S):
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
            reader, writer = self._streams
            writer.write(text)
            answer = await read_answer(reader)
        if answer.header("connection").lower() == "close":
            await self.close()
        self._keep_cookies(answer)
        return answer

    def _keep_cookies(self, answer: Answer) -> None:
        for key, value in answer.headers:
            if key == "set-cookie":
                name, _, rest = value.partition("=")
                self.cookies[name.strip()] = rest.partition(";")[0].strip('"')


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read one answer whole."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(lines[0].split()[1])
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = tuple((key.strip().lower(), value.strip()) for key, _, value in pairs)
    head = Answer(status, headers)
    if head.header("transfer-encoding") == "chunked":
        return Answer(status, headers, await read_chunks(reader))
    return Answer(status, headers, await reader.readexactly(int(head.header("content-length") or 0)))


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    """A body in chunks."""
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(parts)


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], at_once: int) -> None:
    """Do ``work`` for every item, so many at a time."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())
