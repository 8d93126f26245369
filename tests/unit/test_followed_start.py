"""What the hub tells of a start ends with the login, the token or the right with which it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock

import httpx
import pytest
from jupyterhub import orm, roles
from jupyterhub.apihandlers.users import SpawnProgressAPIHandler
from sqlalchemy.exc import OperationalError

from portal.guard.intake import OwnTurn
from portal.testing.behaviours import PendingForever
from tests.unit.served_hub import ServedHub, eventually, served_hub

PROGRESS = "/hub/api/users/alice/server/progress"
FIELDS = {"partition": "sxm2", "gpus": "1", "hours": "2"}


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServedHub]:
    """A hub that tells those who follow a start often that it is there."""
    monkeypatch.setattr(SpawnProgressAPIHandler, "keepalive_interval", 0.05)
    async with served_hub(tmp_path) as served:
        served.hub.proxy.delete_user = AsyncMock()
        served.slurm.next_job(PendingForever())
        yield served
        for user in served.hub.users.values():
            await user.spawner.stop()


async def starts(served: ServedHub) -> httpx.AsyncClient:
    """Alice has a session started, which waits."""
    alice = await served.browser("alice")
    await alice.post("/hub/spawn", data=FIELDS | {"_xsrf": alice.cookies["_xsrf"]})
    return alice


def as_a_page(alice: httpx.AsyncClient) -> dict[str, str]:
    """What a page that follows her start sends, from wherever her cookies were copied to."""
    said = {"Accept": "text/event-stream", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in alice.cookies.jar)
    return said | {"X-XSRFToken": alice.cookies["_xsrf"], "Cookie": cookies}


class Follower:
    """Who follows the start, and hears of it until it ends."""

    def __init__(self) -> None:
        self.heard = 0
        self.text = ""

    def has_heard(self, words: str) -> bool:
        """Whether these were among it."""
        return words in self.text

    async def listen(self, answer: httpx.Response) -> None:
        """Count what comes, and keep it."""
        try:
            async for text in answer.aiter_text():
                self.heard += 1
                self.text += text
        except httpx.TransportError:  # the connection was closed
            return


@asynccontextmanager
async def following(served: ServedHub, headers: dict[str, str]) -> AsyncIterator[tuple[Follower, asyncio.Task[None]]]:
    """Somebody who has heard of the start, and hears on."""
    follower = Follower()
    async with (
        httpx.AsyncClient(base_url=served.url, timeout=60) as client,
        client.stream("GET", PROGRESS, headers=headers) as answer,
    ):
        assert answer.status_code == 200
        task = asyncio.create_task(follower.listen(answer))
        await eventually(lambda: follower.heard > 3)
        yield follower, task
        task.cancel()


async def test_what_a_copied_cookie_follows_ends_with_the_logout(served: ServedHub) -> None:
    alice = await starts(served)
    async with following(served, as_a_page(alice)) as (_, task):
        await alice.post("/hub/logout", data={"_xsrf": alice.cookies["_xsrf"]})
        await eventually(task.done)


async def test_what_a_token_follows_ends_with_the_token(served: ServedHub) -> None:
    await starts(served)
    token = served.token("alice")
    async with following(served, {"Authorization": f"token {token}"}) as (_, task):
        served.hub.db.delete(orm.APIToken.find(served.hub.db, token))
        served.hub.db.commit()
        await eventually(task.done)


async def test_a_login_that_goes_on_hears_on_also_while_the_database_is_away(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await starts(served)
    async with following(served, as_a_page(alice)) as (follower, task):
        bob = await served.browser("bob")
        await bob.post("/hub/logout", data={"_xsrf": bob.cookies["_xsrf"]})

        def away(_self: object) -> bool:
            raise OperationalError("SELECT", {}, Exception("away"))

        monkeypatch.setattr(OwnTurn, "_is_valid_still", away)
        before = follower.heard
        await eventually(lambda: follower.heard > before + 3)
        assert not task.done()


@pytest.fixture
def news(served: ServedHub, monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[str]:
    """What a start tells next."""
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def told(_spawner: object) -> AsyncIterator[dict[str, object]]:
        while True:
            yield {"progress": 5, "message": await queue.get()}

    monkeypatch.setattr(served.hub.spawner_class, "progress", told)
    return queue


def stripped(served: ServedHub, person: orm.User, _monkeypatch: pytest.MonkeyPatch) -> None:
    """The right is taken back."""
    roles.strip_role(served.hub.db, person, "admin")


def refused(served: ServedHub, _person: orm.User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory says that they may not use the portal, and nothing of theirs was ended yet."""
    served.hub.users["bob"]._auth_refreshed = None  # it is asked anew
    monkeypatch.setattr(served.hub.authenticator, "refresh_user", AsyncMock(return_value=False))


@pytest.mark.parametrize("loses", [stripped, refused])
async def test_what_an_administrator_follows_of_somebody_else_ends_with_the_right(
    served: ServedHub,
    news: asyncio.Queue[str],
    monkeypatch: pytest.MonkeyPatch,
    loses: Callable[[ServedHub, orm.User, pytest.MonkeyPatch], None],
) -> None:
    await starts(served)
    bob = await served.browser("bob")
    person = orm.User.find(served.hub.db, "bob")
    roles.grant_role(served.hub.db, person, "admin")
    async with following(served, as_a_page(bob)) as (follower, task):
        news.put_nowait("It waits for a node.")
        await eventually(lambda: "It waits for a node." in follower.text)

        loses(served, person, monkeypatch)
        news.put_nowait("Asked at night.")
        await eventually(task.done)

    assert "at night" not in follower.text


async def test_an_administrator_hears_on_while_the_right_lasts(served: ServedHub, news: asyncio.Queue[str]) -> None:
    await starts(served)
    bob = await served.browser("bob")
    roles.grant_role(served.hub.db, orm.User.find(served.hub.db, "bob"), "admin")
    async with following(served, as_a_page(bob)) as (follower, _):
        for words in ("It waits for a node.", "It starts soon."):
            news.put_nowait(words)
            await eventually(partial(follower.has_heard, words))
