"""Who entered a session with a name stays readable for its person, whatever an administrator does to that session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from jupyterhub import orm, roles
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from jupyterhub.objects import Server

from portal.administration import enter, role
from portal.login.holders import OneAccount
from portal.session_state import TOLD_AT_LEAST_S, TOLD_FOR_S
from portal.testing.behaviours import PendingForever
from tests.unit.served_hub import PASSWORD, PATIENCE_S, ServedHub, eventually
from tests.unit.test_several_sessions import hub_of_two, main_of, user_of

REASON = "a stuck kernel"
PLACE = "/hub/api/users/alice/servers/training"
FIELDS = {"partition": "sxm2", "gpus": "1", "hours": "2"}


class OurPeople(OneAccount, SharedPasswordAuthenticator):  # type: ignore[misc]
    """One password for all."""

    user_password = PASSWORD


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    """A hub whose people may have two sessions, and whose administrator carol has just entered one of Alice's."""
    async with hub_of_two(tmp_path, load_roles=[role.role(())], authenticator_class=OurPeople) as hub:
        for name in ("alice", "carol"):
            await hub.browser(name)
        roles.grant_role(hub.hub.db, orm.User.find(hub.hub.db, "carol"), role.NAME)
        await hub.clients[0].get("/hub/spawn/alice/training")
        user_of(hub).spawners["training"].note_entry("carol", REASON)
        yield hub


async def removed_by(hub: ServedHub, name: str, place: str = PLACE) -> tuple[int, str]:
    """What the removal of the session answers to a program of this person."""
    headers = {"Authorization": f"token {hub.token(name)}"}
    answer = await hub.clients[0].request("DELETE", place, headers=headers, json={"remove": True})
    return answer.status_code, answer.text


async def test_an_administrator_does_not_remove_what_says_who_entered(served: ServedHub) -> None:
    status, words = await removed_by(served, "carol")

    assert status == 409
    assert "alice has to read first that carol entered" in words
    assert REASON in main_of(await served.clients[0].get("/hub/home"))


async def test_an_administrator_removes_what_nobody_has_to_read_any_more(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.session_state.TOLD_FOR_S", -TOLD_FOR_S)

    assert (await removed_by(served, "carol"))[0] == 204


async def test_the_person_removes_a_session_that_somebody_entered(served: ServedHub) -> None:
    assert (await removed_by(served, "alice"))[0] == 204


async def test_who_may_not_remove_it_is_not_told_who_entered(served: ServedHub) -> None:
    await served.browser("bob")

    status, words = await removed_by(served, "bob")

    assert (status, "carol" in words) == (404, False)


async def start(hub: ServedHub, place: str) -> None:
    """Alice presses Start, and her job waits."""
    alice = hub.clients[0]
    hub.slurm.next_job(PendingForever())
    before = len(hub.slurm.known())
    await alice.post(f"/hub/spawn/{place}", data=FIELDS | {"_xsrf": alice.cookies["_xsrf"]})
    await eventually(lambda: len(hub.slurm.known()) > before)


async def test_who_was_let_into_a_session_is_not_let_into_the_next_one(served: ServedHub) -> None:
    row = user_of(served).spawners["training"].orm_spawner
    enter.grant(served.hub.db, row, orm.User.find(served.hub.db, "carol"))
    assert [share.user.name for share in row.shares] == ["carol"]

    await start(served, "alice/training")

    assert row.shares == []
    entries = user_of(served).spawners["training"].session.state.entries
    assert [(entry.who, entry.reason) for entry in entries] == [("carol", REASON)], "she may not have read it"


async def test_an_entry_of_long_ago_is_not_told_of_the_next_session(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.session_state.TOLD_AT_LEAST_S", -TOLD_AT_LEAST_S)

    await start(served, "alice/training")

    assert user_of(served).spawners["training"].session.state.entries == ()


async def test_who_has_sessions_and_starts_that_wait_is_deleted_with_all_of_them(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.session_state.TOLD_FOR_S", -TOLD_FOR_S)
    await start(served, "alice")
    await start(served, "alice/training")

    assert await removed_by(served, "carol", "/hub/api/users/alice") == (204, "")

    assert orm.User.find(served.hub.db, "alice") is None
    await eventually(lambda: not [job for job, status in served.slurm.known() if status.state == "PENDING"])


async def test_who_has_two_sessions_and_a_program_that_starts_them_again_is_deleted_all_the_same(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.session_state.TOLD_FOR_S", -TOLD_FOR_S)
    places = ("/hub/api/users/alice/server", "/hub/api/users/alice/servers/training")
    headers = {"Authorization": f"token {served.token('alice')}"}
    clients = {place: await served.browser() for place in places}
    for place in ("alice", "alice/training"):
        await start(served, place)
    refusals = set()

    async def start_again(place: str) -> None:
        while True:
            served.slurm.next_job(PendingForever())
            body = {"partition": "sxm2", "gpus": 1, "hours": 2}
            answer = await clients[place].post(place, json=body, headers=headers)
            if "is just deleting alice" in answer.text:
                refusals.add(answer.status_code)
            await asyncio.sleep(0.05)

    program = asyncio.gather(*map(start_again, places))
    answer = await removed_by(served, "carol", "/hub/api/users/alice")
    program.cancel()
    with suppress(asyncio.CancelledError):
        await program

    assert answer == (204, "")
    assert refusals == {409}
    assert orm.User.find(served.hub.db, "alice") is None
    await eventually(lambda: not [job for job, status in served.slurm.known() if status.state == "PENDING"])


async def test_who_is_being_deleted_is_not_deleted_by_a_second_one_meanwhile(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.session_state.TOLD_FOR_S", -TOLD_FOR_S)
    await start(served, "alice")

    both = [removed_by(served, "carol", "/hub/api/users/alice") for _ in range(2)]
    answers = await asyncio.gather(*both)

    assert sorted(status for status, _ in answers) == [204, 409]


async def test_a_removal_that_has_begun_takes_no_entry_along(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawner = user_of(served).spawners["training"]
    spawner.session.state = replace(spawner.session.state, entries=())
    spawner.orm_spawner.state = {}
    spawner.server = Server(
        orm_server=orm.Server(proto="http", ip="127.0.0.1", port=1, base_url="/user/alice/training/", cookie_name="c")
    )
    served.hub.db.commit()
    asked = asyncio.Event()
    answered = asyncio.Event()

    async def poll() -> None:  # Slurm takes its time
        asked.set()
        await answered.wait()

    monkeypatch.setattr(spawner, "poll", poll)
    removal = asyncio.ensure_future(removed_by(served, "carol"))
    async with asyncio.timeout(PATIENCE_S):
        await asked.wait()
    spawner.note_entry("carol", REASON)
    answered.set()
    status, words = await removal

    assert (status, "alice has to read first that carol entered" in words) == (409, True)


@pytest.mark.parametrize("authenticator", [OurPeople, SharedPasswordAuthenticator])
async def test_nobody_is_renamed_whatever_the_login(tmp_path: Path, authenticator: type) -> None:
    async with hub_of_two(tmp_path, authenticator_class=authenticator) as hub:
        for name in ("alice", "dave"):
            await hub.browser(name)
        roles.grant_role(hub.hub.db, orm.User.find(hub.hub.db, "dave"), "admin")
        headers = {"Authorization": f"token {hub.token('dave')}"}
        change = partial(hub.clients[1].patch, "/hub/api/users/alice", headers=headers)
        renamed = await change(json={"name": "erin"})
        changed = await change(json={"name": "alice", "admin": False})

        assert renamed.status_code == 400
        assert "alice is the name of an account of this cluster" in renamed.text
        assert changed.status_code == 200
        assert orm.User.find(hub.hub.db, "alice")


async def test_who_has_a_session_that_does_not_end_is_deleted_later(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.session_state.TOLD_FOR_S", -TOLD_FOR_S)
    user_of(served).spawners["training"]._stop_pending = True

    status, words = await removed_by(served, "carol", "/hub/api/users/alice")

    assert (status, "A session of alice has not ended yet" in words) == (409, True)
    assert orm.User.find(served.hub.db, "alice")
