"""What a session asks its hub: about each token once at a time, and nothing that it was told is believed for longer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jupyterhub.services import auth
from jupyterhub.services.auth import HubOAuth
from tornado.web import HTTPError

from portal.session_pages import questions
from portal.session_pages.askers import ASKER, Asker
from portal.session_pages.questions import CODES_AT_ONCE, AskedOnce

SCOPES = {"access:servers!server=alice/"}
KEPT_S = 20


class SessionAuth(AskedOnce, HubOAuth):  # type: ignore[misc]
    """As a session has it; the hub's part is played."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.known: set[str] = set()

    async def _api_request(self, method: str, _url: str, /, **given: Any) -> Any:
        token = given["headers"]["Authorization"] if method == "GET" else "code"
        self.asked.append(token.removeprefix("token "))
        await self.may_answer.wait()
        if method == "POST":
            return {"access_token": "given"}
        return {"name": "alice", "scopes": sorted(SCOPES)} if self.asked[-1] in self.known else None


@pytest.fixture
def session() -> SessionAuth:
    given = {"api_url": "http://127.0.0.1:1/hub/api", "api_token": "own", "access_scopes": SCOPES}
    return SessionAuth(**given, base_url="/user/alice/", oauth_client_id="alice", cache_max_age=KEPT_S)


async def whose(session: SessionAuth, token: str, number: str = "") -> Any:
    return await session.user_for_token(token, session_id=number, sync=False)


async def begun(*tasks: asyncio.Task[Any]) -> None:
    """They are under way."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


async def test_a_token_is_asked_about_once_whatever_numbers_come_with_it(session: SessionAuth) -> None:
    session.known.add("guests")
    asked = [asyncio.create_task(whose(session, "guests", str(number))) for number in range(50)]
    await begun(*asked)
    asked[0].cancel()  # who began may go away

    session.may_answer.set()

    assert {found["name"] for found in await asyncio.gather(*asked[1:])} == {"alice"}
    assert (await whose(session, "guests"))["name"] == "alice", "and what comes without a number"
    assert session.asked == ["guests"]


async def test_of_tokens_that_never_opened_this_session_some_are_asked_about_at_once(
    session: SessionAuth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "OTHERS_WAITING", questions.OTHERS_AT_ONCE + 10)
    session.known.add("programs")
    session.may_answer.set()
    assert await whose(session, "programs"), "that of a program of the person's"
    session.cache.clear()
    session.may_answer.clear()

    others = [asyncio.create_task(whose(session, f"made-up-{number}")) for number in range(questions.OTHERS_WAITING)]
    await begun(*others)
    assert len(session.asked) == 1 + questions.OTHERS_AT_ONCE
    with pytest.raises(HTTPError, match="503"):
        await whose(session, "made-up")
    program = asyncio.create_task(whose(session, "programs"))
    await begun(program)
    assert session.asked[-1] == "programs"

    session.may_answer.set()
    assert await asyncio.gather(*others, program)


async def test_who_is_nobody_is_so_for_as_long_as_the_hub_has_said_it_however_often_one_asks(
    session: SessionAuth, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(auth.time, "monotonic", lambda: now)
    session.may_answer.set()
    assert await whose(session, "programs") is None
    session.known.add("programs")

    while now < KEPT_S - 1:
        now += 1
        assert await whose(session, "programs") is None
    now += 2

    assert (await whose(session, "programs"))["name"] == "alice"


class Connection:
    """One that somebody waits at, or not any more."""

    def __init__(self) -> None:
        self._finish_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stream = self

    def closed(self) -> bool:
        return False


async def test_of_logins_that_end_some_are_asked_for_at_once_and_none_of_who_has_gone(session: SessionAuth) -> None:
    connections = [Connection() for _ in range(3 * CODES_AT_ONCE)]

    async def end(connection: Connection) -> Any:
        ASKER.set(Asker(connection))
        return await session.token_for_code("x", sync=False)

    logins = [asyncio.create_task(end(one)) for one in connections]
    await begun(*logins)
    assert session.asked == ["code"] * CODES_AT_ONCE
    for gone in connections[CODES_AT_ONCE : 2 * CODES_AT_ONCE]:
        gone._finish_future.set_result(None)

    session.may_answer.set()
    found = await asyncio.gather(*logins, return_exceptions=True)

    assert [found.count("given"), sum(isinstance(one, HTTPError) for one in found)] == [32, 16]
    assert len(session.asked) == 2 * CODES_AT_ONCE
