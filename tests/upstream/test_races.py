"""Whoever starts and stops a session in several tabs at once is told what came first; nothing of it is a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import pytest
import requests
from jupyterhub.tests import utils as test_utils
from jupyterhub.tests.utils import add_user, api_request, public_host

from tests.upstream.portal_parts import SpawnerOnFakeSlurm

pytestmark = pytest.mark.usefixtures("our_pages", "named_servers", "slow")
REMOVE = '{"remove": true}'
WAITED_FOR = {"slow_spawn_timeout": 30, "slow_stop_timeout": 5}


@pytest.fixture
def slow(app: Any) -> Iterator[None]:
    """Starts and stops take longer than what comes between, and who asks for one waits for it."""
    stop = SpawnerOnFakeSlurm.stop

    async def slow_stop(self: SpawnerOnFakeSlurm, now: bool = False) -> None:
        await asyncio.sleep(1)
        await stop(self, now)

    with (
        mock.patch.dict(app.tornado_settings, WAITED_FOR),
        mock.patch.object(SpawnerOnFakeSlurm, "takes_s", 20.0),
        mock.patch.object(SpawnerOnFakeSlurm, "stop", slow_stop),
        mock.patch.object(test_utils, "async_requests", AtOnce()),
    ):
        yield


class AtOnce:
    """In the place of JupyterHub's own, which asks one thing after the other."""

    @property
    def executor(self) -> AtOnce:
        return self

    def submit(self, ask: Callable[..., Any], *arguments: Any, **named: Any) -> asyncio.Future[Any]:
        return asyncio.ensure_future(asyncio.to_thread(ask, *arguments, **named))

    def __getattr__(self, method: str) -> Callable[..., asyncio.Future[Any]]:
        return partial(self.submit, getattr(requests, method), timeout=60)


@pytest.fixture(params=["", "second"], ids=["first-session", "second-session"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def address(name: str) -> str:
    return f"users/alice/servers/{name}" if name else "users/alice/server"


async def until(is_so: Callable[[], bool], within_s: float = 30) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110  JupyterHub has no event for it
            await asyncio.sleep(0.02)


async def begun(app: Any, name: str) -> tuple[Any, asyncio.Task[Any]]:
    """The spawner of a session of Alice's that is just being started, and the request for that."""
    alice = app.users.get("alice") or add_user(app.db, app, name="alice")
    start = asyncio.ensure_future(api_request(app, address(name), method="post", name="alice"))
    await until(lambda: name in alice.spawners and bool(alice.spawners[name]._spawn_future))
    return alice.spawners[name], start


async def test_several_stops_of_a_start_hold(app: Any, name: str) -> None:
    spawner, start = await begun(app, name)
    stops = (api_request(app, address(name), method="delete", name="alice") for _ in range(3))

    *told, started = await asyncio.gather(*stops, start)

    assert [one.status_code in (202, 204) for one in told] == [True] * 3, [one.text for one in told]
    assert started.status_code == 409, started.text
    assert "was stopped while it started" in started.json()["message"]
    await until(lambda: not spawner.pending)
    assert not spawner.ready


async def test_a_page_that_starts_a_session_says_that_it_was_stopped(app: Any) -> None:
    cookies = await app.login_user("alice")
    page = f"{public_host(app)}{app.hub.base_url}spawn/alice?_xsrf={cookies['_xsrf']}"
    fields = {"gpus": "0", "hours": "1"}
    start = asyncio.ensure_future(AtOnce().post(page, data=fields, cookies=cookies, allow_redirects=False))
    spawner = app.users["alice"].spawners[""]
    await until(lambda: bool(spawner._spawn_future))

    spawner._spawn_future.cancel()  # as a stop does it; the page waits for a second
    shown = await start
    await until(lambda: not spawner.pending)

    assert shown.status_code == 409, shown.text
    assert "This session was stopped while it started." in shown.text


async def test_a_session_that_is_removed_again_and_again_is_gone(app: Any) -> None:
    spawner, start = await begun(app, "second")
    removals = (api_request(app, address("second"), method="delete", name="alice", data=REMOVE) for _ in range(3))

    *told, started = await asyncio.gather(*removals, start)

    assert started.status_code == 409
    assert {one.status_code for one in told} <= {202, 204, 404, 409}
    await until(lambda: not spawner.pending)
    await until(lambda: "second" not in app.users["alice"].orm_spawners)
