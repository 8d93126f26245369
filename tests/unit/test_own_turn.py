"""How many requests of one person the hub works on at a time: nobody else waits behind all that somebody asks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jupyterhub import orm
from jupyterhub.apihandlers.hub import RootAPIHandler
from jupyterhub.apihandlers.users import SelfAPIHandler, SpawnProgressAPIHandler
from jupyterhub.handlers.base import BaseHandler

from portal.addresses import networks
from portal.guard import intake
from portal.hub.app import PortalHub
from portal.hub.logins import end_logins
from tests.unit.served_hub import ServedHub, served_hub

MANY = 3 * intake.OWN_AT_ONCE


class Work:
    """What the hub works on, by person, until it may end."""

    def __init__(self) -> None:
        self.going: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.begun: Counter[str] = Counter()
        self.may_end = asyncio.Event()

    async def of(self, handler: Any) -> None:
        """Answer a request when that may be."""
        name = handler.current_user.name if handler.current_user else handler.request.remote_ip
        self.begun[name] += 1
        self.going[name] += 1
        self.most[name] = max(self.most[name], self.going[name])
        await self.may_end.wait()
        self.going[name] -= 1
        handler.write({"name": name})


@pytest.fixture
async def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Two kinds of requests are slow ones; the second is anybody's."""
    monkeypatch.setattr(intake, "ADDRESS_AT_ONCE", intake.OWN_AT_ONCE)  # 128 connections more show nothing else
    work = Work()

    async def get(handler: Any) -> None:
        await work.of(handler)

    for kind in (SelfAPIHandler, RootAPIHandler):
        monkeypatch.setattr(kind, "get", get)
    return work


@pytest.fixture
async def served(tmp_path: Path, work: Work) -> AsyncIterator[ServedHub]:
    """A hub that alice and bob have been at."""
    assert not work.going
    async with served_hub(tmp_path) as served:
        for name in ("alice", "bob"):
            await served.browser(name)
        yield served


def asks(served: ServedHub, name: str, path: str = "/hub/api/user", token: str = "") -> asyncio.Task[httpx.Response]:
    """A program asks with a connection of its own."""

    async def ask() -> httpx.Response:
        headers = {"Authorization": f"token {token}"}
        async with httpx.AsyncClient(base_url=served.url, headers=headers, timeout=60) as client:
            return await client.get(path)

    token = token or served.token(name)
    return asyncio.create_task(ask())


async def asks_without_login(served: ServedHub, address: str, last_proxy: str = "") -> httpx.Response:
    """A browser that has not logged in asks, or a proxy in front for it."""
    told = ", ".join(filter(None, (address, last_proxy)))
    async with httpx.AsyncClient(base_url=served.url, headers={"X-Forwarded-For": told}, timeout=60) as client:
        return await client.get("/hub/api/")


async def until(work: Work, name: str, count: int) -> None:
    """So many of a person's requests are worked on, and a moment later no more than that."""
    async with asyncio.timeout(20):
        while work.going[name] < count:  # noqa: ASYNC110  it is the test's own view of a hub
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)


async def test_of_one_person_some_requests_are_worked_on_and_those_of_others_do_not_wait(
    served: ServedHub, work: Work
) -> None:
    bobs = [asks(served, "bob") for _ in range(MANY)]
    await until(work, "bob", intake.OWN_AT_ONCE)
    alices = asks(served, "alice")
    await until(work, "alice", 1)
    assert work.most == {"bob": intake.OWN_AT_ONCE, "alice": 1}

    work.may_end.set()
    answers = [*await asyncio.gather(*bobs), await alices]
    assert [answer.json()["name"] for answer in answers] == ["bob"] * MANY + ["alice"]
    assert work.most["bob"] == intake.OWN_AT_ONCE


async def test_a_request_whose_client_goes_while_it_waits_is_not_worked_on(served: ServedHub, work: Work) -> None:
    bobs = [asks(served, "bob") for _ in range(intake.OWN_AT_ONCE)]
    await until(work, "bob", intake.OWN_AT_ONCE)
    gone = [asks(served, "bob") for _ in range(8)]
    await asyncio.sleep(0.5)
    for one in gone:
        one.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    last = asks(served, "bob")
    work.may_end.set()
    assert {answer.status_code for answer in await asyncio.gather(*bobs, last)} == {200}
    assert work.begun["bob"] == intake.OWN_AT_ONCE + 1


async def test_a_page_that_is_told_of_a_start_for_minutes_takes_no_turn(
    served: ServedHub, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(handler: Any, *_: str) -> None:
        handler.set_header("Content-Type", "text/event-stream")
        handler.write("data: {}\n\n")
        await handler.flush()
        await work.of(handler)

    monkeypatch.setattr(SpawnProgressAPIHandler, "get", get)
    followed = [asks(served, "bob", "/hub/api/users/bob/server/progress") for _ in range(MANY)]
    await until(work, "bob", MANY)
    work.may_end.set()
    assert {answer.status_code for answer in await asyncio.gather(*followed)} == {200}


async def test_forms_that_wait_for_the_end_of_a_session_take_no_turn(
    served: ServedHub, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session asks the hub about its visitors, and such a question would wait behind these for as long."""
    work.may_end.set()
    bob = await served.browser("bob")
    spawner = served.hub.users["bob"].spawner
    spawner.end_seen = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(type(spawner), "ready", property(lambda this: not this.end_seen.done()))

    forms = [asyncio.create_task(bob.get("/hub/spawn/bob")) for _ in range(MANY)]
    await until_waiting(spawner.end_seen, MANY)
    assert (await asks(served, "bob")).json()["name"] == "bob"

    spawner.end_seen.set_result(None)
    assert {answer.status_code for answer in await asyncio.gather(*forms)} == {200}


async def until_waiting(waited: asyncio.Future[None], count: int) -> None:
    """So many wait for something."""
    async with asyncio.timeout(20):
        while len(waited._callbacks or ()) < count:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)


async def test_who_starts_many_sessions_waits_for_none_of_them(
    served: ServedHub, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(handler: Any) -> None:
        await handler.spawn_single_user(handler.current_user)

    async def spawned(handler: Any, _person: Any) -> None:
        await work.of(handler)

    monkeypatch.setattr(SelfAPIHandler, "get", get)
    monkeypatch.setattr(BaseHandler, "spawn_single_user", spawned)
    starts = [asks(served, "bob") for _ in range(MANY)]
    await until(work, "bob", MANY)
    work.may_end.set()
    assert {answer.status_code for answer in await asyncio.gather(*starts)} == {200}


async def test_an_answer_that_fails_twice_ends_its_turn(
    served: ServedHub, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing: list[Any] = []
    finish = BaseHandler.finish

    async def get(handler: Any) -> None:
        if handler.get_argument("fails", ""):
            failing.append(handler)
            raise ValueError("once")

    def fails(handler: Any, *arguments: Any) -> Any:
        if handler in failing:
            raise ValueError("and twice")
        return finish(handler, *arguments)

    monkeypatch.setattr(SelfAPIHandler, "get", get)
    monkeypatch.setattr(BaseHandler, "finish", fails)
    asked = [asks(served, "bob", "/hub/api/user?fails=1") for _ in range(intake.OWN_AT_ONCE)]
    async with asyncio.timeout(20):
        while len(failing) < intake.OWN_AT_ONCE:  # noqa: ASYNC110  it is the test's own view of a hub
            await asyncio.sleep(0.01)
        assert (await asks(served, "bob")).status_code == 200

    for one in asked:
        one.cancel()


async def test_what_is_nowhere_has_its_turn_too(served: ServedHub, work: Work) -> None:
    """JupyterHub (6.1) answers that before it comes to a handler's own work."""
    bobs = [asks(served, "bob") for _ in range(intake.OWN_AT_ONCE)]
    await until(work, "bob", intake.OWN_AT_ONCE)
    nowhere = asks(served, "bob", "/hub/api/nowhere")
    done, _ = await asyncio.wait([nowhere], timeout=1)
    assert not done
    work.may_end.set()
    assert (await nowhere).status_code == 404
    await asyncio.gather(*bobs)


async def test_who_has_not_logged_in_is_known_by_the_address(served: ServedHub, work: Work) -> None:
    asked = [asyncio.create_task(asks_without_login(served, "192.0.2.1")) for _ in range(MANY)]
    await until(work, "192.0.2.1", intake.OWN_AT_ONCE)
    other = asyncio.create_task(asks_without_login(served, "192.0.2.2"))
    await until(work, "192.0.2.2", 1)
    assert work.most["192.0.2.1"] == intake.OWN_AT_ONCE
    work.may_end.set()
    assert {answer.status_code for answer in await asyncio.gather(*asked, other)} == {200}


async def test_of_ipv6_a_network_of_64_bits_has_the_turns_of_one_address(served: ServedHub, work: Work) -> None:
    addresses = [f"2001:db8::{number:x}" for number in range(1, MANY + 1)]
    asked = [asyncio.create_task(asks_without_login(served, address)) for address in addresses]
    async with asyncio.timeout(20):
        while work.going.total() < intake.OWN_AT_ONCE:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert work.going.total() == intake.OWN_AT_ONCE
    work.may_end.set()
    await asyncio.gather(*asked)


async def test_people_behind_a_proxy_that_the_site_names_do_not_wait_for_each_other(
    served: ServedHub, work: Work
) -> None:
    front = "198.51.100.7"
    served.hub.tornado_application.settings[intake.PROXIES] = networks([front])
    asked = [asyncio.create_task(asks_without_login(served, "192.0.2.1", front)) for _ in range(MANY)]
    await until(work, "192.0.2.1", intake.OWN_AT_ONCE)
    asked.append(asyncio.create_task(asks_without_login(served, "192.0.2.2", front)))
    await until(work, "192.0.2.2", 1)
    work.may_end.set()
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}


async def test_what_has_waited_is_not_done_with_a_token_that_has_ended_meanwhile(served: ServedHub, work: Work) -> None:
    bobs = [asks(served, "bob") for _ in range(intake.OWN_AT_ONCE)]
    await until(work, "bob", intake.OWN_AT_ONCE)
    waiting = asks(served, "bob")
    await asyncio.sleep(0.5)
    for token in orm.User.find(served.hub.db, "bob").api_tokens:
        served.hub.db.delete(token)
    served.hub.db.commit()
    work.may_end.set()
    await asyncio.gather(*bobs, waiting)
    assert work.begun["bob"] == intake.OWN_AT_ONCE


@pytest.mark.parametrize("is_program", [True, False], ids=["token", "cookie"])
async def test_nothing_is_done_for_who_is_logged_out_while_the_directory_is_asked(
    served: ServedHub, work: Work, monkeypatch: pytest.MonkeyPatch, is_program: bool
) -> None:
    asked = asyncio.Event()
    answered = asyncio.Event()

    async def refresh_user(_user: Any, _handler: Any) -> bool:
        asked.set()
        await answered.wait()
        return True

    work.may_end.set()
    browser = await served.browser("bob")
    token = served.token("bob")
    monkeypatch.setattr(served.hub.authenticator, "refresh_user", refresh_user)
    served.hub.users["bob"]._auth_refreshed = 0  # long ago
    asking = asks(served, "bob", token=token) if is_program else asyncio.create_task(browser.get("/hub/api/user"))
    await asked.wait()
    end_logins(served.hub.db, orm.User.find(served.hub.db, "bob"), own_tokens=True)
    answered.set()
    await asking
    assert "bob" not in work.begun, "it is nobody's"


async def test_a_colleagues_session_that_a_person_has_visited_takes_none_of_their_turns(
    served: ServedHub, work: Work
) -> None:
    """It has a token of the visitor's by the login with OAuth."""
    client_id = "jupyterhub-user-alice"
    served.hub.db.add(orm.OAuthClient(identifier=client_id))
    served.hub.db.commit()
    kept = orm.User.find(served.hub.db, "bob").new_api_token(client_id=client_id, scopes=[])
    left = [asks(served, "bob", token=kept) for _ in range(MANY)]
    await until(work, "bob", intake.OWN_AT_ONCE)
    own = asks(served, "bob")
    await until(work, "bob", intake.OWN_AT_ONCE + 1)
    work.may_end.set()
    assert {answer.status_code for answer in await asyncio.gather(*left, own)} == {200}


async def test_of_what_waits_the_hub_holds_few_big_requests(
    served: ServedHub, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "BIG_AT_ONCE", 2)
    bobs = [asks(served, "bob") for _ in range(intake.OWN_AT_ONCE)]
    await until(work, "bob", intake.OWN_AT_ONCE)
    headers = {"Authorization": f"token {served.token('bob')}"}
    async with httpx.AsyncClient(base_url=served.url, headers=headers, timeout=60) as client:
        body = b" " * (intake.BIG_BODY + 1)
        sent = []
        for _ in range(3):  # one after the other: of what is just read there is a bound of its own
            sent.append(asyncio.create_task(client.post("/hub/api/user", content=body)))
            await asyncio.sleep(0.3)
        small = asyncio.create_task(client.post("/hub/api/user", content=b"{}"))
        await asyncio.sleep(0.3)
        assert [one.done() for one in (*sent, small)] == [False, False, True, False]
        assert (await sent[2]).status_code == 503

        work.may_end.set()
        await asyncio.gather(*bobs)
        assert [(await one).status_code for one in (*sent[:2], small)] == [405] * 3
        assert (await client.post("/hub/api/user", content=body)).status_code == 405


class PlainPage(BaseHandler):  # type: ignore[misc]
    """A page of a site whose beginning is no coroutine, which Tornado takes as well."""

    def prepare(self) -> None:
        """Nothing is to be found out."""
        self._jupyterhub_user = None

    def get(self) -> None:
        """The page."""
        self.finish("here")


async def test_a_page_of_a_site_may_begin_without_waiting_for_anything(tmp_path: Path) -> None:
    def prepare(hub: PortalHub) -> None:
        hub.extra_handlers = [(r"/plain", PlainPage)]

    async with served_hub(tmp_path, prepare) as served:
        answer = await (await served.browser()).get("/hub/plain")
    assert (answer.status_code, answer.text) == (200, "here")
