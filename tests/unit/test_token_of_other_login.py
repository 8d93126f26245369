"""Behind a login that a site has set itself, a token is made by a cookie within minutes of the login, and not later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.administration import again
from tests.unit.served_hub import PASSWORD, ServedHub, served_hub
from tests.unit.test_name_of_before import Own

TOKENS = "/hub/api/users/alice/tokens"
LATER_S = again.FOR_ADMINISTRATORS_S


@pytest.fixture
def now() -> list[float]:
    """The time, by the hub's clock."""
    return [0.0]


@pytest.fixture
async def served(tmp_path: Path, now: list[float]) -> AsyncIterator[ServedHub]:
    def prepare(hub: Any) -> None:
        hub.config.Own.user_password = PASSWORD
        hub.config.Own.state_folder = str(tmp_path)
        hub.tornado_settings[again.SETTING] = again.Checks(lambda: now[0])

    async with served_hub(tmp_path, prepare, authenticator_class=Own) as hub:
        yield hub


async def make(browser: httpx.AsyncClient) -> httpx.Response:
    """Make a token by the cookies of a browser, as the page Token does."""
    page = str(browser.base_url.copy_with(path="/hub/token"))
    headers = {"X-XSRFToken": browser.cookies["_xsrf"], "Referer": page, "Sec-Fetch-Site": "same-origin"}
    return await browser.post(TOKENS, headers=headers, json={})


async def test_who_has_just_logged_in_makes_a_token(served: ServedHub, now: list[float]) -> None:
    alice = await served.browser("alice")
    now[0] = LATER_S - 1

    assert (await alice.get("/hub/token")).url.path == "/hub/token"
    assert (await make(alice)).status_code == 201


async def test_a_cookie_of_a_login_of_before_makes_no_token_until_the_next_login(
    served: ServedHub, now: list[float]
) -> None:
    alice = await served.browser("alice")
    now[0] = LATER_S

    page = await alice.get("/hub/token")

    assert page.url.path == "/hub/again"
    assert "needs a login of the last 15 minutes" in page.text
    assert (await make(alice)).status_code == 403
    await alice.post("/hub/logout", data={"_xsrf": alice.cookies["_xsrf"]})
    await alice.get("/hub/login")
    await alice.post("/hub/login", data={"username": "alice", "password": PASSWORD, "_xsrf": alice.cookies["_xsrf"]})
    assert (await alice.get("/hub/again", params={"next": "/hub/token"})).url.path == "/hub/token"
    assert (await make(alice)).status_code == 201


async def test_a_copied_login_cookie_alone_makes_no_token_at_once(served: ServedHub) -> None:
    alice = await served.browser("alice")
    thief = await served.browser()
    (cookie,) = (one for one in alice.cookies.jar if one.name.startswith("jupyterhub-hub-login"))
    thief.cookies.set(cookie.name, str(cookie.value), domain=cookie.domain, path=cookie.path)

    page = await thief.get("/hub/token")

    assert page.url.path == "/hub/again"
    assert (await make(thief)).status_code == 403


async def test_a_program_with_a_token_is_asked_for_no_login(served: ServedHub, now: list[float]) -> None:
    await served.browser("alice")
    now[0] = LATER_S
    program = await served.browser()

    made = await program.post(TOKENS, headers={"Authorization": f"token {served.token('alice')}"}, json={})

    assert made.status_code == 201
