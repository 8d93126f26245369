"""Pages change what is another person's for an administrator who has given the password not long ago alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from jupyterhub.handlers import default_handlers
from jupyterhub.handlers.base import BaseHandler

from portal.administration import again, role
from portal.testing.behaviours import PendingForever
from spawners.slurm import SlurmSessionSpawner
from tests.unit.served_hub import PASSWORD, ServedHub, served_hub
from tests.unit.test_several_sessions import user_of

FIELDS = {"partition": "sxm2", "gpus": "1", "hours": "2"}
STOP = "/hub/dsportal/stop/alice"


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
    roles = [{**role.role([]), "users": ["carol"]}]
    async with served_hub(tmp_path, prepare, authenticator_class=Own, load_roles=roles) as hub:
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

    asked = {path for path, handler in again.asking(routes) if issubclass(handler, again.Asking)}

    assert {path for path, handler in routes if issubclass(handler, BaseHandler)} == asked
    assert r"/spawn/([^/]+)" in asked
    assert [path for path in asked if "dsportal/stop" in path]
    assert [path for path in asked if "dsportal/change" in path]
