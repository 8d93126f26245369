"""The token of a form: the person's own counts, whatever cookies of that name other hosts of the domain have left."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import httpx
import pytest
from jupyterhub import _xsrf_utils

from tests.unit.served_hub import PASSWORD, served_hub

MADE_UP = 180  # cookies that Chromium keeps of a domain; Firefox has the same number
LATER_S = 5  # a form is sent some seconds after it was read


@contextmanager
def seconds_later() -> Iterator[None]:
    """What is signed meanwhile has another time than what was signed before."""
    now = time.time
    with mock.patch.object(time, "time", lambda: now() + LATER_S):
        yield


def with_cookie(client: httpx.AsyncClient, left: str) -> dict[str, str]:
    """All cookies of a browser, after one that a page has left for a longer path: browsers send that first."""
    own = "; ".join(f"{cookie.name}={cookie.value}" for cookie in client.cookies.jar)
    return {"Cookie": f"_xsrf={left}; {own}"}


def with_number(client: httpx.AsyncClient, *left: str) -> dict[str, str]:
    """All cookies of a browser, before numbers that pages have left for a domain above: younger ones come behind."""
    own = [f"{cookie.name}={cookie.value}" for cookie in client.cookies.jar]
    return {"Cookie": "; ".join([*own, *(f"jupyterhub-session-id={number}" for number in left)])}


def made_up() -> str:
    """A number of a browser's session as the hub gives them."""
    return secrets.token_hex(16)


def field_of(page: str) -> str:
    """The token in the form of a page."""
    found = re.search(r'name="_xsrf" value="([^"]+)"', page)
    assert found
    return found[1]


@pytest.mark.parametrize("kind", ["of a colleague", "made up", ""])
async def test_a_cookie_of_the_same_name_keeps_nobody_from_a_form(tmp_path: Path, kind: str) -> None:
    async with served_hub(tmp_path) as served:
        bob = await served.browser("bob")
        left = {"of a colleague": str(bob.cookies["_xsrf"]), "made up": "2%7Cmade", "": ""}[kind]
        alice = await served.browser("alice")
        page = await alice.get("/hub/logout", headers=with_cookie(alice, left))
        with seconds_later():
            headers = with_cookie(alice, left)
            answer = await alice.post("/hub/logout", data={"_xsrf": field_of(page.text)}, headers=headers)

    assert answer.status_code == 200
    assert answer.url.path == "/hub/login"


async def test_as_many_cookies_of_the_same_name_as_a_browser_keeps_keep_nobody_from_a_form(tmp_path: Path) -> None:
    """A page may leave one for each folder of an address, each domain above its own, and each of two kinds."""
    async with served_hub(tmp_path) as served:
        bob = await served.browser("bob")
        alice = await served.browser("alice")
        left = "; _xsrf=".join([str(bob.cookies["_xsrf"]), *(f"made{number}" for number in range(MADE_UP))])
        page = await alice.get("/hub/logout", headers=with_cookie(alice, left))
        with seconds_later():
            headers = with_cookie(alice, left)
            answer = await alice.post("/hub/logout", data={"_xsrf": field_of(page.text)}, headers=headers)

    assert answer.url.path == "/hub/login"


async def test_a_cookie_of_the_same_name_keeps_nobody_from_the_login(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as served:
        bob = await served.browser("bob")
        alice = await served.browser()
        left = str(bob.cookies["_xsrf"])
        await alice.get("/hub/login")
        page = await alice.get("/hub/login", headers=with_cookie(alice, left))
        fields = {"username": "alice", "password": PASSWORD, "_xsrf": field_of(page.text)}
        with seconds_later():
            answer = await alice.post("/hub/login", data=fields, headers=with_cookie(alice, left))

    assert answer.status_code == 200


@pytest.mark.parametrize("left", ["a" * 300, "", "session", '"' + "0" * 32 + '"x'])
async def test_what_no_hub_has_given_as_a_number_of_a_browsers_session_is_none(tmp_path: Path, left: str) -> None:
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")
        page = await alice.get("/hub/logout")
        own = with_cookie(alice, "made up")["Cookie"]
        headers = {"Cookie": f"{own}; jupyterhub-session-id={left}"}  # a database would not keep a long one
        with seconds_later():
            answer = await alice.post("/hub/logout", data={"_xsrf": field_of(page.text)}, headers=headers)

    assert answer.status_code == 200


async def test_the_token_of_a_colleague_is_none_of_the_persons_forms(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as served:
        bob = await served.browser("bob")
        left = str(bob.cookies["_xsrf"])
        alice = await served.browser("alice")
        answer = await alice.post("/hub/logout", data={"_xsrf": left}, headers=with_cookie(alice, left))

    assert answer.status_code == 403


@pytest.mark.parametrize("is_there_first", [True, False])
async def test_a_number_such_as_the_hub_gives_keeps_nobody_from_a_form(tmp_path: Path, is_there_first: bool) -> None:
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")
        page = await alice.get("/hub/logout", headers=with_number(alice, *[made_up()][: int(is_there_first)]))
        with seconds_later():
            data = {"_xsrf": field_of(page.text)}
            answer = await alice.post("/hub/logout", data=data, headers=with_number(alice, made_up(), made_up()))

    assert (answer.status_code, answer.url.path) == (200, "/hub/login")


async def test_a_number_such_as_the_hub_gives_keeps_nobody_from_the_login_and_is_not_that_of_the_login(
    tmp_path: Path,
) -> None:
    async with served_hub(tmp_path) as served:
        alice = await served.browser()
        page = await alice.get("/hub/login", headers=with_number(alice, made_up()))
        fields = {"username": "alice", "password": PASSWORD, "_xsrf": field_of(page.text)}
        left = made_up()
        answer = await alice.post("/hub/login", data=fields, headers=with_number(alice, left))
        own = alice.cookies["jupyterhub-session-id"]

    assert answer.status_code == 200
    assert own != left


async def test_in_a_browser_that_was_opened_anew_a_number_that_a_page_left_first_keeps_nobody_from_a_form(
    tmp_path: Path,
) -> None:
    """It has kept the login, and neither number nor token."""
    async with served_hub(tmp_path) as served:
        before = await served.browser("alice")
        alice = await served.browser()
        (login,) = (one for one in before.cookies.jar if one.name.startswith("jupyterhub-hub-login"))
        alice.cookies.set(login.name, str(login.value), domain=login.domain, path=login.path)
        page = await alice.get("/hub/logout", headers=with_number(alice, made_up()))
        with seconds_later():
            data = {"_xsrf": field_of(page.text)}
            answer = await alice.post("/hub/logout", data=data, headers=with_number(alice, made_up()))

    assert (answer.status_code, answer.url.path) == (200, "/hub/login")


async def test_a_colleagues_number_with_the_colleagues_token_keeps_nobody_from_a_form_and_opens_none(
    tmp_path: Path,
) -> None:
    async with served_hub(tmp_path) as served:
        bob = await served.browser("bob")
        left = str(bob.cookies["_xsrf"])
        alice = await served.browser("alice")

        def sent() -> dict[str, str]:
            numbers = with_number(alice, bob.cookies["jupyterhub-session-id"])["Cookie"]
            return {"Cookie": f"_xsrf={left}; {numbers}"}

        page = await alice.get("/hub/logout", headers=sent())
        forged = await alice.post("/hub/logout", data={"_xsrf": left}, headers=sent())
        with seconds_later():
            answer = await alice.post("/hub/logout", data={"_xsrf": field_of(page.text)}, headers=sent())

    assert forged.status_code == 403
    assert (answer.status_code, answer.url.path) == (200, "/hub/login")


async def test_a_page_outside_of_the_hubs_path_gives_no_other_number(tmp_path: Path) -> None:
    """The token does not come along there, and with HTTPS the login does."""
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")
        own = [f"{one.name}={one.value}" for one in alice.cookies.jar if one.name != "_xsrf"]
        answer = await alice.get("/", headers={"Cookie": "; ".join(own)}, follow_redirects=False)

    assert answer.status_code == 302
    assert "jupyterhub-session-id" not in answer.headers.get("set-cookie", "")


async def test_each_token_of_a_request_is_looked_at_once_however_many_numbers_come_along(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as served:
        bob = await served.browser("bob")
        alice = await served.browser("alice")
        left = "; _xsrf=".join([str(bob.cookies["_xsrf"]), *(f"made{number}" for number in range(MADE_UP))])
        headers = {"Cookie": f"_xsrf={left}; {with_number(alice, *(made_up() for _ in range(50)))['Cookie']}"}
        with mock.patch.object(
            _xsrf_utils, "_get_signed_value_urlsafe", wraps=_xsrf_utils._get_signed_value_urlsafe
        ) as looked:
            answer = await alice.get("/hub/home", headers=headers)

    assert answer.status_code == 200
    assert looked.call_count == MADE_UP + 2


CROSS = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
SAME_SITE = {**CROSS, "Sec-Fetch-Site": "same-site"}


@pytest.mark.parametrize(
    ("place", "headers", "has_cookies"),
    [
        ("/hub", SAME_SITE, True),
        ("/hub", CROSS, False),
        ("/hub/home", SAME_SITE, True),
        ("/hub/home", CROSS, False),
        ("/hub/logout", CROSS, False),
        ("/nowhere", CROSS, False),
    ],
)
async def test_an_answer_to_what_a_page_of_elsewhere_sends_spoils_no_form_and_no_login(
    tmp_path: Path, place: str, headers: dict[str, str], has_cookies: bool
) -> None:
    """Browsers send no cookie along from another site, and keep what the answer sets; from the same site they do."""
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")
        page = await alice.get("/hub/logout")
        sender = alice if has_cookies else await served.browser()
        refused = await sender.post(place, headers=headers, data={"name": "value"})
        with seconds_later():
            answer = await alice.post("/hub/logout", data={"_xsrf": field_of(page.text)})

    assert refused.status_code in (403, 404, 405)
    assert refused.headers.get_list("set-cookie") == []
    assert (answer.status_code, answer.url.path) == (200, "/hub/login")
