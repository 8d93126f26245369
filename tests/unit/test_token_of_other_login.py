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
from tests.unit.test_own_form_token import field_of

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


def cookies_of(browser: httpx.AsyncClient) -> str:
    """All cookies of a browser."""
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies.jar)


def fields_of(page: str) -> dict[str, str]:
    """The login form, filled in."""
    return {"username": "alice", "password": PASSWORD, "_xsrf": field_of(page)}


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


async def test_a_number_that_a_page_has_left_in_two_browsers_makes_no_login_of_one_young_for_the_other(
    served: ServedHub, now: list[float]
) -> None:
    left = {"Cookie": f"jupyterhub-session-id={'1' * 32}"}
    at_work = await served.browser("alice")
    (cookie,) = (one for one in at_work.cookies.jar if one.name.startswith("jupyterhub-hub-login"))
    now[0] = LATER_S
    at_home = await served.browser()
    page = await at_home.get("/hub/login", headers=left)
    await at_home.post(
        "/hub/login", data=fields_of(page.text), headers={"Cookie": f"{cookies_of(at_home)}; {left['Cookie']}"}
    )

    # at work the browser was opened anew since, and has the login alone
    sent = {"Cookie": f"{cookie.name}={cookie.value}; {left['Cookie']}"}
    stranger = await served.browser()
    page = await stranger.get("/hub/token", headers=sent, follow_redirects=False)
    kept = await at_work.get("/hub/token", headers={"Cookie": f"{cookies_of(at_work)}; {left['Cookie']}"})

    assert (await at_home.get("/hub/token")).url.path == "/hub/token"
    assert page.headers["location"].startswith("/hub/again")
    assert kept.url.path == "/hub/again"


async def test_a_program_with_a_token_is_asked_for_no_login(served: ServedHub, now: list[float]) -> None:
    await served.browser("alice")
    now[0] = LATER_S
    program = await served.browser()

    made = await program.post(TOKENS, headers={"Authorization": f"token {served.token('alice')}"}, json={})

    assert made.status_code == 201
