"""Who entered a session with a name stays readable for its person, whatever an administrator does to that session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from jupyterhub import orm, roles

from portal.administration import role
from portal.session_state import TOLD_FOR_S
from tests.unit.served_hub import ServedHub
from tests.unit.test_several_sessions import hub_of_two, main_of, user_of

REASON = "a stuck kernel"
PLACE = "/hub/api/users/alice/servers/training"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    """A hub whose people may have two sessions, and whose administrator carol has just entered one of Alice's."""
    async with hub_of_two(tmp_path, load_roles=[role.role(())]) as hub:
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
