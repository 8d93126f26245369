"""Web sockets of a login that has ended are closed; those of others, and all while the hub is silent, stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jupyterhub.services.auth import HubOAuth
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.websocket import WebSocketClientConnection, WebSocketHandler, websocket_connect

from portal.forwarding.private_proxy import PrivateProxy
from portal.singleuser import logins
from portal.singleuser.logins import GONE, WHY, OpenSockets, login_of_hub


class Echo(WebSocketHandler):
    """Answers what it hears."""

    def on_message(self, message: str | bytes) -> None:
        self.write_message(message)


class Proxied(PrivateProxy):
    """Hands on to the server itself; who asks is known."""

    async def prepare(self, *_: Any, **__: Any) -> None:
        """Ask for no login."""

    def _record_activity(self) -> None:
        """There is none."""

    async def open(self, port: str) -> None:
        await self.proxy_open("localhost", int(port), "/?login=program")


class World:
    """A server with web sockets, and what the hub says of logins."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.is_silent = False
        self.asked: list[str] = []
        self.held: dict[str, asyncio.Event] = {}
        self.without_thread: set[str] = set()
        self.port = 0
        self.opened: list[WebSocketClientConnection] = []

    async def is_login(self, handler: Any) -> bool:
        login = handler.get_query_argument("login")
        self.asked.append(login)
        if login in self.held:
            await self.held[login].wait()
        if self.is_silent:
            raise web.HTTPError(500, "Failed to connect to Hub API")
        if handler.get_query_argument("login") in self.without_thread:
            raise RuntimeError("can't start new thread")  # as of a look-up of a name, on a node full of processes
        return handler.get_query_argument("login") not in self.ended

    async def open(self, login: str, path: str = "") -> WebSocketClientConnection:
        self.opened.append(await websocket_connect(f"ws://127.0.0.1:{self.port}/{path}?login={login}"))
        return self.opened[-1]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    server = HTTPServer(web.Application([("/", Echo), ("/proxied/([0-9]+)", Proxied)]))
    sock, made.port = bind_unused_port()
    server.add_socket(sock)
    yield made
    for connection in made.opened:
        connection.close()
    server.stop()
    await server.close_all_connections()


@pytest.fixture
def sockets(world: World, monkeypatch: pytest.MonkeyPatch) -> OpenSockets:
    monkeypatch.setattr(WebSocketHandler, "get_websocket_protocol", WebSocketHandler.get_websocket_protocol)
    made = OpenSockets(world.is_login, lambda handler: handler.get_query_argument("login"))
    made.watch()
    return made


async def lives(connection: WebSocketClientConnection) -> bool:
    """Whether somebody answers."""
    await connection.write_message("word")
    return await connection.read_message() == "word"


async def test_an_ended_login_closes_its_own_sockets_and_no_other(world: World, sockets: OpenSockets) -> None:
    mine = await world.open("mine")
    other = await world.open("other")
    await sockets.look()
    assert await lives(mine)
    world.ended.add("mine")

    await sockets.look()

    assert await mine.read_message() is None
    assert (mine.close_code, mine.close_reason) == (GONE, WHY)
    assert await lives(other)


async def test_none_waits_for_what_the_hub_says_of_another_and_each_login_is_asked_for_once(
    world: World, sockets: OpenSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has a login may keep the hub at work, which answers late then."""
    monkeypatch.setattr(logins, "LOOK_EVERY_S", 0.1)
    slow = [await world.open("slow") for _ in range(3)]
    mine = await world.open("mine")
    world.held["slow"] = asyncio.Event()
    world.ended |= {"mine", "slow"}

    for _ in range(3):
        await sockets.look()

    assert await mine.read_message() is None
    assert world.asked.count("slow") == 1
    assert all([await lives(one) for one in slow])
    world.held["slow"].set()
    assert [await one.read_message() for one in slow] == [None, None, None]


async def test_a_web_socket_of_a_program_behind_the_proxy_ends_with_its_login_too(
    world: World, sockets: OpenSockets
) -> None:
    mine = await world.open("mine", f"proxied/{world.port}")
    other = await world.open("other", f"proxied/{world.port}")
    assert await lives(mine)
    world.ended.add("mine")

    await sockets.look()

    assert await mine.read_message() is None
    assert mine.close_code == GONE
    assert await lives(other)


@pytest.mark.parametrize(
    ("scopes", "goes_on"),
    [
        (["access:servers!user=alice"], True),
        (["access:servers!server=alice/"], True),
        (["read:users!user=carol"], False),
    ],
)
async def test_a_login_that_may_not_use_this_session_any_more_has_ended_here(scopes: list[str], goes_on: bool) -> None:
    """An administrator who entered, for one: the login goes on, the access is taken back."""

    async def told(token: str, **_more: object) -> dict[str, object]:
        return {"name": "carol", "scopes": scopes}

    access = {"access:servers!user=alice", "access:servers!server=alice/"}
    hub_auth = HubOAuth(access_scopes=access)
    hub_auth.get_token = lambda handler: "token"
    hub_auth._get_token_cookie = lambda handler: None
    hub_auth.get_session_id = lambda handler: ""
    hub_auth.user_for_token = told

    assert await login_of_hub(hub_auth)(object()) is goes_on


async def test_a_hub_that_is_silent_closes_nothing(world: World, sockets: OpenSockets) -> None:
    mine = await world.open("mine")
    world.ended.add("mine")
    world.is_silent = True

    await sockets.look()

    assert await lives(mine)


async def test_where_no_thread_starts_the_others_are_looked_at_and_that_one_the_next_time(
    world: World, sockets: OpenSockets
) -> None:
    opened = {login: await world.open(login) for login in ("first", "second", "third")}
    world.ended = set(opened)
    for login in ("first", "third"):
        world.without_thread = {"first", "second", "third"} - {login}
        await sockets.look()
        assert await opened[login].read_message() is None
    assert await lives(opened["second"])
    world.without_thread = set()

    await sockets.look()

    assert await opened["second"].read_message() is None
