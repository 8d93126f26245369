"""What is still sent or received when its login ends is broken off; what others have under way goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.services.auth import HubOAuth
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.testing import bind_unused_port
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler, create_signed_value

from portal.forwarding.private_proxy import PrivateProxy
from portal.session_pages.open_answers import OpenAnswers
from portal.singleuser.logins import SMALL_BODY, guard_bodies

BASE = "/user/alice/"
NAME = "jupyterhub-user-alice"
LARGE = 2**26
PART = 2**16
WITHIN_S = 10.0


class Hub(HubOAuth):  # type: ignore[misc]
    """JupyterHub's own, but for the call of the hub."""

    is_silent = False
    has_no_thread = False  # as on a node full of processes
    tokens: set[str]
    asked: list[str]
    both = asyncio.Event()  # have sent so much that they were asked for

    async def _check_hub_authorization(
        self, url: str, api_token: str, *, cache_key: str, **_: Any
    ) -> dict[str, Any] | None:
        self.asked.append(api_token)
        if len(self.asked) == 2:
            self.both.set()
        if self.is_silent:
            raise HTTPError(500, "Failed to connect to Hub API")
        if self.has_no_thread:
            raise RuntimeError("can't start new thread")
        said = {"name": "alice", "scopes": ["access:servers"]} if api_token in self.tokens else None
        self.cache[cache_key] = said
        return said


class Streams(RequestHandler):
    """Sends for ever."""

    async def get(self) -> None:
        with contextlib.suppress(StreamClosedError):
            while True:
                self.write(b"x" * PART)
                await self.flush()


class Whole(RequestHandler):
    """Is done at once with an answer that is larger than what the network holds."""

    def get(self) -> None:
        self.write(b"x" * LARGE)


class Waits(RequestHandler):
    """Answers a long time after it was asked, and hears that its client has gone."""

    asked = asyncio.Event()
    goes = asyncio.Event()
    gone = asyncio.Event()

    async def get(self) -> None:
        self.asked.set()
        await self.goes.wait()
        self.write("at last")

    def on_connection_close(self) -> None:
        self.gone.set()


class Takes(RequestHandler):
    """Takes what is sent."""

    def post(self) -> None:
        self.write(str(len(self.request.body)))


class Proxied(PrivateProxy):
    """Hands on what another program answers; who asks is known to the server around it."""

    async def prepare(self, *_: Any, **__: Any) -> None:
        self.proxy_base = "program"

    def _record_activity(self) -> None:
        pass

    async def http_get(self, port: str, path: str) -> None:
        await self.proxy("localhost", int(port), path)


class World:
    """A session's server, and what the hub says of logins."""

    def __init__(self, hub: Hub, answers: OpenAnswers, port: int) -> None:
        self.hub = hub
        self.answers = answers
        self.port = port
        self.writers: list[asyncio.StreamWriter] = []

    async def send(self, path: str, *headers: str, method: str = "GET", body: bytes = b"") -> asyncio.StreamReader:
        """Where the answer to a request is read."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=PART)
        self.writers.append(writer)
        head = (f"{method} {BASE}{path} HTTP/1.1", "Host: alice.example", *headers, "", "")
        writer.write("\r\n".join(head).encode() + body)
        return reader

    def end(self, token: str) -> None:
        """The hub knows a login no more, and is asked again."""
        self.hub.tokens.discard(token)
        self.hub.cache.clear()


def cookie(token: str) -> str:
    """The header of a browser that is logged in."""
    return f"Cookie: _xsrf=1; {NAME}={create_signed_value('secret', NAME, token).decode()}"


HERS = cookie("hers")
OTHER = cookie("other")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    (tmp_path / "large.bin").write_bytes(b"x" * LARGE)
    hub = Hub(
        api_token="own",
        api_url="http://127.0.0.1:1/hub/api",
        oauth_client_id=NAME,
        access_scopes={"access:servers"},
        base_url=BASE,
    )
    hub.tokens = {"hers", "other"}
    hub.asked = []
    hub.both = asyncio.Event()
    for event in ("asked", "goes", "gone"):
        setattr(Waits, event, asyncio.Event())
    pages: list[Any] = [
        (f"{BASE}streams", Streams),
        (f"{BASE}whole", Whole),
        (f"{BASE}oauth_callback", Waits),
        (f"{BASE}waits", Waits),
        (f"{BASE}takes", Takes),
        (f"{BASE}files/(.*)", StaticFileHandler, {"path": str(tmp_path)}),
        (f"{BASE}program/([0-9]+)/(.*)", Proxied),
    ]
    application = Application(pages, base_url=BASE, cookie_secret="secret")
    server = HTTPServer(application, max_body_size=2**27)
    answers = guard_bodies(server, application, hub)
    assert answers
    sock, port = bind_unused_port()
    server.add_socket(sock)
    made = World(hub, answers, port)
    yield made
    for writer in made.writers:
        writer.close()
    server.stop()
    await server.close_all_connections()


async def begun(reader: asyncio.StreamReader) -> asyncio.StreamReader:
    """An answer whose head has come."""
    async with asyncio.timeout(WITHIN_S):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    return reader


async def is_cut(reader: asyncio.StreamReader, most: int = LARGE // 2) -> bool:
    """Whether a connection ends before so much has come."""
    read = 0
    with contextlib.suppress(ConnectionResetError):
        while read < most:
            async with asyncio.timeout(WITHIN_S):
                part = await reader.read(PART)
            if not part:
                return True
            read += len(part)
        return False
    return True


async def whole(reader: asyncio.StreamReader, size: int) -> bytes:
    """So much of an answer."""
    async with asyncio.timeout(WITHIN_S):
        return await reader.readexactly(size)


@pytest.mark.parametrize("path", ["streams", "whole", "files/large.bin"])
async def test_an_answer_that_is_read_slowly_ends_with_its_login_and_no_other_does(world: World, path: str) -> None:
    mine = await begun(await world.send(path, HERS))
    other = await begun(await world.send(path, OTHER))
    await world.answers.look()
    await whole(mine, PART)
    world.end("hers")

    await world.answers.look()

    assert await is_cut(mine)
    await whole(other, LARGE - PART)


async def test_a_long_download_of_a_login_that_goes_on_is_whole(world: World) -> None:
    mine = await begun(await world.send("files/large.bin", HERS))
    for _ in range(8):
        await world.answers.look()
        assert await whole(mine, LARGE // 8) == b"x" * (LARGE // 8)


async def test_who_is_told_that_a_client_has_gone_is_told_so_too(world: World) -> None:
    mine = await world.send("waits", HERS)
    await asyncio.wait_for(Waits.asked.wait(), WITHIN_S)
    await world.answers.look()
    world.end("hers")

    await world.answers.look()

    assert await is_cut(mine)
    await asyncio.wait_for(Waits.gone.wait(), WITHIN_S)


async def test_what_is_being_received_ends_with_its_login(world: World) -> None:
    size = f"Content-Length: {SMALL_BODY * 100}"
    mine = await world.send("takes", HERS, size, method="POST", body=b"x" * SMALL_BODY)
    other = await world.send("takes", OTHER, size, method="POST", body=b"x" * SMALL_BODY)
    await asyncio.wait_for(world.hub.both.wait(), WITHIN_S)
    world.end("hers")

    await world.answers.look()

    assert await is_cut(mine)
    world.writers[1].write(b"x" * SMALL_BODY * 99)
    assert await whole(await begun(other), 7) == str(SMALL_BODY * 100).encode()


async def test_a_token_that_was_taken_back_ends_what_it_is_read_with(world: World) -> None:
    mine = await begun(await world.send("streams", "Authorization: token hers"))
    other = await begun(await world.send("streams", "Authorization: Bearer other"))
    world.end("hers")

    await world.answers.look()

    assert await is_cut(mine)
    await whole(other, LARGE)


async def test_a_token_of_another_program_beside_a_login_ends_nothing(world: World) -> None:
    """JupyterHub, too, looks at the cookie where the header's token is none of its own."""
    mine = await begun(await world.send("streams", HERS, "Authorization: Bearer of-a-program"))

    await world.answers.look()

    await whole(mine, LARGE)


async def test_a_hub_that_is_silent_ends_nothing(world: World) -> None:
    mine = await begun(await world.send("streams", HERS))
    world.end("hers")
    world.hub.is_silent = True

    await world.answers.look()

    await whole(mine, LARGE)


async def test_where_no_thread_starts_what_is_under_way_is_looked_at_the_next_time(world: World) -> None:
    mine = await begun(await world.send("streams", HERS))
    world.end("hers")
    world.hub.has_no_thread = True
    await world.answers.look()
    world.hub.has_no_thread = False

    await world.answers.look()

    assert await is_cut(mine)


async def test_a_connection_whose_answer_is_over_serves_the_next_login(world: World) -> None:
    """The proxy uses its connections for one person's requests after the other."""
    reader = await world.send("takes", HERS, "Content-Length: 1", method="POST", body=b"x")
    assert await whole(await begun(reader), 1) == b"1"
    world.end("hers")

    await world.answers.look()

    assert world.hub.asked == []  # there was nothing to ask for
    world.writers[0].write(f"GET {BASE}streams HTTP/1.1\r\nHost: alice.example\r\n{OTHER}\r\n\r\n".encode())
    await begun(reader)
    await world.answers.look()
    await whole(reader, LARGE)


@pytest.mark.parametrize("headers", [[], ["Cookie: _xsrf=1"]])
async def test_what_is_read_without_a_login_ends_with_none(world: World, headers: list[str]) -> None:
    stranger = await begun(await world.send("streams", *headers))

    await world.answers.look()

    assert world.hub.asked == []
    await whole(stranger, LARGE)


async def test_who_is_just_logging_in_with_a_cookie_of_before_is_not_cut(world: World) -> None:
    reader = await world.send("oauth_callback?code=x", cookie("yesterday"))
    await asyncio.wait_for(Waits.asked.wait(), WITHIN_S)

    await world.answers.look()

    Waits.goes.set()
    assert await whole(await begun(reader), 7) == b"at last"


async def test_a_small_body_that_is_not_there_yet_asks_the_hub_nothing(world: World) -> None:
    """Who has no login would have the hub asked about as many made-up ones as there are connections."""
    for number in range(5):
        await world.send("takes", f"Authorization: token {number}", "Content-Length: 9", method="POST", body=b"x")
    await asyncio.sleep(0.1)

    await world.answers.look()

    assert world.hub.asked == []


async def test_the_hub_is_asked_once_about_a_login_with_much_under_way(world: World) -> None:
    for _ in range(5):
        await begun(await world.send("streams", HERS))

    await world.answers.look()

    assert world.hub.asked == ["hers"]


class Events(RequestHandler):
    """A program's answer, of more than the network holds."""

    async def get(self) -> None:
        with contextlib.suppress(StreamClosedError):
            for _ in range(200):
                self.write(b"data: x\n\n" * 2**14)
                await self.flush()


@pytest.fixture
async def program() -> AsyncIterator[int]:
    """The port of a program behind the session's server."""
    server = HTTPServer(Application([("/.*", Events)]))
    sock, port = bind_unused_port()
    server.add_socket(sock)
    yield port
    server.stop()
    await server.close_all_connections()


@pytest.mark.parametrize("accept", ["text/event-stream", "*/*"])
async def test_what_a_program_answers_through_the_sessions_proxy_ends_with_the_login(
    world: World, program: int, accept: str
) -> None:
    mine = await begun(await world.send(f"program/{program}/", HERS, f"Accept: {accept}"))
    other = await begun(await world.send(f"program/{program}/", OTHER, f"Accept: {accept}"))
    world.end("hers")

    await world.answers.look()

    assert await is_cut(mine, 2**24)
    await whole(other, 2**24)


SOCKET = "Sec-Fetch-Mode: websocket"  # JupyterHub looks for a token in the address then


@pytest.mark.parametrize("name", ["token", "t%6Fken", "%74oken"])
async def test_a_token_in_the_address_ends_what_it_is_read_with_however_it_is_written(world: World, name: str) -> None:
    strangers = await begun(await world.send("streams", SOCKET))
    mine = await begun(await world.send(f"streams?{name}=hers", SOCKET))
    other = await begun(await world.send(f"streams?{name}=other", SOCKET))
    world.end("hers")

    await world.answers.look()

    assert await is_cut(mine)
    await whole(other, LARGE)
    await whole(strangers, LARGE)


async def test_an_address_that_is_no_text_keeps_no_other_answer_open(world: World) -> None:
    await begun(await world.send("streams?token=%ff", SOCKET))
    mine = await begun(await world.send("streams", HERS))
    world.end("hers")

    await world.answers.look()

    assert await is_cut(mine)


@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
async def test_a_request_for_a_web_socket_has_no_body_in_which_a_token_could_lie(world: World, method: str) -> None:
    kind = "Content-Type: application/x-www-form-urlencoded"
    reader = await world.send("takes", SOCKET, kind, "Content-Length: 10", method=method, body=b"token=hers")

    assert (await whole(reader, 13)) == b"HTTP/1.1 400 "
