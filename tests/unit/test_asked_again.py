"""Pages change what is another person's for an administrator who has given the password not long ago alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from jupyterhub import orm
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from jupyterhub.handlers import default_handlers
from jupyterhub.handlers.base import BaseHandler

from portal.administration import again, others, role, shares
from portal.hub.logins import end_logins
from portal.testing.behaviours import PendingForever
from spawners.slurm import SlurmSessionSpawner
from tests.unit.served_hub import PASSWORD, ServedHub, served_hub
from tests.unit.test_several_sessions import user_of

FIELDS = {"partition": "sxm2", "gpus": "1", "hours": "2"}
STOP = "/hub/dsportal/stop/alice"
SCOPES = ["servers!group=course", "shares!group=course", "groups!group=course", "users:activity!group=course"]
TUTOR = {"name": "tutor", "scopes": SCOPES, "users": ["tess"]}
HELPER = {"name": "helper", "scopes": ["servers!server=alice/"], "users": ["hal"]}
SHARING = {"name": "user", "scopes": ["self", "shares!user", "read:users:name", "read:groups:name"]}
SHARES: dict[str, dict[str, Any]] = {"shares": {"user": "bob"}, "share-codes": {}}
NEEDED = "needs your password"
CHOICES = {"name": "mine", "options": FIELDS | {"gpus": 1, "hours": 2}}
# What a role for a group, or for one session, lets somebody change at these addresses of the REST API.
BY_GROUP: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "users/alice/activity", {"last_activity": "2026-01-01T00:00:00Z"}),
    ("PUT", "dsportal/choices/alice", CHOICES),
    ("POST", "dsportal/extend/alice", {"minutes": 5}),
    ("POST", "shares/alice/", {"user": "tess"}),
    ("POST", "share-codes/alice/", {}),
    ("DELETE", "groups/course/users", {"users": ["alice"]}),
    ("PUT", "groups/course/properties", {"a": 1}),
    ("DELETE", "users/alice/server", {}),
]


class Own(SharedPasswordAuthenticator):  # type: ignore[misc]
    """A login whose administrators have the portal's role, as those of a directory."""

    admins_by_role = True
    checks = again.Checks()

    def get_handlers(self, app: Any) -> list[Any]:
        return [*super().get_handlers(app), *again.HANDLERS]


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServedHub]:
    def prepare(hub: Any) -> None:
        hub.config.Own.user_password = PASSWORD

    monkeypatch.setattr(Own, "checks", again.Checks())
    roles = [{**role.role([]), "users": ["carol"]}, TUTOR, HELPER]
    people = {"course": {"users": ["alice"]}}
    async with served_hub(tmp_path, prepare, authenticator_class=Own, load_roles=roles, load_groups=people) as hub:
        hub.hub.proxy.delete_user = AsyncMock()
        yield hub


@pytest.fixture
async def alice(served: ServedHub) -> httpx.AsyncClient:
    """Alice's browser; her session waits."""
    browser = await served.browser("alice")
    served.slurm.next_job(PendingForever())
    await browser.post("/hub/spawn", data=FIELDS | {"_xsrf": browser.cookies["_xsrf"]})
    assert user_of(served).spawner.active
    return browser


async def stopped(served: ServedHub) -> bool:
    for _ in range(40):
        if not user_of(served).spawner.active:
            return True
        await asyncio.sleep(0.05)
    return False


async def test_a_page_that_stops_another_persons_session_asks_for_the_password_first(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    carol = await served.browser("carol")
    xsrf = {"_xsrf": carol.cookies["_xsrf"]}

    asked = await carol.post(STOP, data=xsrf)

    assert (asked.url.path, asked.url.params["next"]) == ("/hub/again", STOP)
    assert not await stopped(served)

    Own.checks.note(carol.cookies["jupyterhub-session-id"], "carol")
    await carol.post(STOP, data=xsrf)
    assert await stopped(served)


async def test_who_stops_ones_own_is_asked_for_nothing(served: ServedHub, alice: httpx.AsyncClient) -> None:
    await alice.post(STOP, data={"_xsrf": alice.cookies["_xsrf"]})

    assert await stopped(served)


async def test_who_may_change_nothing_of_others_is_refused_and_asked_for_nothing(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    bob = await served.browser("bob")

    answer = await bob.post(STOP, data={"_xsrf": bob.cookies["_xsrf"]})

    assert answer.status_code in (403, 404)
    assert not await stopped(served)


def test_every_page_of_a_person_stands_behind_the_question() -> None:
    SlurmSessionSpawner.add_handlers()
    routes = [(path, handler) for path, handler, *_ in default_handlers if isinstance(handler, type)]

    asked = {path for path, handler in others.asking(routes) if issubclass(handler, others.Asking)}

    assert {path for path, handler in routes if issubclass(handler, BaseHandler)} == asked
    assert r"/spawn/([^/]+)" in asked
    assert [path for path in asked if "dsportal/stop" in path]
    assert [path for path in asked if "dsportal/change" in path]


async def called(browser: httpx.AsyncClient, method: str, place: str, body: dict[str, Any]) -> httpx.Response:
    """The answer of the REST API to a page of the hub's."""
    home = str(browser.base_url.copy_with(path="/hub/home"))
    headers = {"X-XSRFToken": browser.cookies["_xsrf"], "Referer": home, "Sec-Fetch-Site": "same-origin"}
    return await browser.request(method, f"/hub/api/{place}", headers=headers, json=body)


async def test_who_has_a_role_for_a_group_gives_the_password_before_changing_its_people(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    tess = await served.browser("tess")

    asked = {place: await called(tess, method, place, body) for method, place, body in BY_GROUP}

    assert {place: answer.status_code for place, answer in asked.items()} == dict.fromkeys(asked, 403)
    assert [place for place, answer in asked.items() if NEEDED not in answer.json()["message"]] == []
    assert (await called(tess, "PUT", "dsportal/choices/tess", CHOICES)).status_code == 200  # her own

    Own.checks.note(tess.cookies["jupyterhub-session-id"], "tess")
    later = [await called(tess, method, place, body) for method, place, body in BY_GROUP]
    assert [answer.url for answer in later if NEEDED in answer.text] == []


async def test_who_has_a_role_for_one_session_gives_the_password_before_stopping_it(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    hal = await served.browser("hal")

    asked = await called(hal, "DELETE", "users/alice/server", {})

    assert asked.status_code == 403
    assert NEEDED in asked.json()["message"]
    assert not await stopped(served)


@pytest.mark.parametrize("address", ["shares/alice/", "share-codes/alice/"])
async def test_a_share_of_ones_own_session_is_made_as_a_token_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Where a site has turned sharing on: it has no end, and whoever has a browser for a minute would keep it."""

    def prepare(hub: Any) -> None:
        hub.config.Own.user_password = PASSWORD

    monkeypatch.setattr(Own, "checks", again.Checks())
    async with served_hub(tmp_path, prepare, authenticator_class=Own, load_roles=[role.role([]), SHARING]) as hub:
        alice = await hub.browser("alice")
        await hub.browser("bob")
        await alice.get("/hub/spawn/alice")
        asked = {"user": "bob"} if address.startswith("shares") else {}
        own = {"X-XSRFToken": alice.cookies["_xsrf"], "Sec-Fetch-Site": "same-origin"}
        Own.checks = again.Checks()  # it was long ago

        refused = await alice.post(f"/hub/api/{address}", headers=own, json=asked)
        Own.checks.note(alice.cookies["jupyterhub-session-id"], "alice")
        made = await alice.post(f"/hub/api/{address}", headers=own, json=asked)
        monkeypatch.setattr(shares, "CODES_MOST", 1)
        more = await alice.post(f"/hub/api/{address}", headers=own, json=asked)

    assert (refused.status_code, "needs your password" in refused.json()["message"]) == (403, True)
    assert made.status_code == 200, made.text
    assert more.status_code == (200 if address.startswith("shares") else 409), "there are so many codes"


@pytest.mark.parametrize("address", ["shares/alice/", "share-codes/alice/"])
async def test_bodies_of_shares_that_are_odd_are_refused_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    odd: list[Any] = [[1], "x", 1, True, {"scopes": "x"}, {"scopes": [1]}, {"scopes": ["x"]}, {"user": []}]
    odd.append({"scopes": ["access:servers!x"]})
    own = {"Sec-Fetch-Site": "same-origin"}
    async with served_hub(tmp_path, load_roles=[SHARING]) as hub:
        alice = await hub.browser("alice")
        await alice.get("/hub/spawn/alice")
        own["X-XSRFToken"] = alice.cookies["_xsrf"]
        for method in ("POST", "PATCH") if address.startswith("shares") else ("POST",):
            for body in odd:
                answer = await alice.request(method, f"/hub/api/{address}", headers=own, json=body)
                assert answer.status_code == 400, (body, answer.text)
        if address.startswith("shares"):
            assert (await alice.post(f"/hub/api/{address}", headers=own, json={"user": ""})).status_code == 400
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("own", [True, False], ids=["new password", "logout"])
async def test_a_new_password_ends_the_shares_that_were_made_before(tmp_path: Path, own: bool) -> None:
    async with served_hub(tmp_path, load_roles=[SHARING]) as hub:
        alice, _bob, dave = [await hub.browser(name) for name in ("alice", "bob", "dave")]
        await alice.get("/hub/spawn/alice")
        made = [await called(alice, "POST", f"{kind}/alice/", body) for kind, body in SHARES.items()]
        assert [answer.status_code for answer in made] == [200, 200]
        token = {"Authorization": f"token {hub.token('bob')}"}

        async def may() -> bool:
            asked = await (await hub.browser()).get("/hub/api/user", headers=token)
            return any("alice" in scope for scope in asked.json()["scopes"])

        assert await may()
        end_logins(hub.hub.db, orm.User.find(hub.hub.db, "alice"), own_tokens=own)
        form = {"code": made[1].json()["code"], "_xsrf": dave.cookies["_xsrf"]}
        taken = await dave.post("/hub/accept-share", data=form, follow_redirects=False)

        assert await may() is not own
        assert taken.status_code == (400 if own else 302), taken.text
