"""The page of tokens: the portal's face, JupyterHub's blocks, and what people wrote shows as text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from jupyterhub import orm
from jupyterhub.utils import utcnow

from portal.administration import again
from tests.unit.served_hub import CHECKOUT, ServedHub, served_hub

STOCK = re.compile(r"{% block (token_row|client_row|expiration_options)( scoped)? %}")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path) as hub:
        yield hub


def make_tokens(served: ServedHub, notes: list[str]) -> None:
    """Tokens of alice, the last one used last."""
    alice = orm.User.find(served.hub.db, "alice")
    for number, note in enumerate(notes):
        token = alice.new_api_token(note=note, expires_in=86400)
        orm.APIToken.find(served.hub.db, token).last_activity = utcnow(with_tz=False) + timedelta(seconds=number)
    served.hub.db.commit()


async def test_a_persons_tokens_are_listed_with_times_and_permissions_and_can_be_told_apart(served: ServedHub) -> None:
    browser = await served.browser("alice")
    make_tokens(served, ["backup", "<b>bold</b>"])

    page = (await browser.get("/hub/token")).text

    assert '<main class="container dsp-narrow" id="tokens" data-url="/hub/api/users/alice/tokens">' in page
    assert page.count('class="token-row"') == 2
    assert 'Revoke<span class="visually-hidden"> backup</span>' in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>bold" not in page
    assert page.count('<time datetime="') == 6, "used, made and ending, in the reader's zone"
    assert 'require(["token"])' not in page


async def test_what_a_token_makes_ends_with_it(served: ServedHub) -> None:
    await served.browser("alice")
    token = orm.User.find(served.hub.db, "alice").new_api_token(expires_in=3600)
    program = await served.browser()
    program.headers["Authorization"] = f"token {token}"

    async def made(**wanted: int) -> tuple[int, float]:
        answer = await program.post("/hub/api/users/alice/tokens", json=wanted)
        found = orm.APIToken.find(served.hub.db, answer.json().get("token", ""))
        return answer.status_code, found.expires_in if found else 0

    for wanted in ({}, {"expires_in": 3590}):
        status, seconds = await made(**wanted)
        assert (status, 3500 < seconds <= 3600) == (201, True)
    assert (await made(expires_in=60))[1] <= 60
    assert await made(expires_in=86400) == (400, 0)


async def test_only_who_may_make_one_hears_that_there_are_enough(served: ServedHub) -> None:
    browser = await served.browser("alice")
    make_tokens(served, ["one of many"] * again.TOKENS_MAX)
    bob = await served.browser("bob")
    stranger = await served.browser()
    await stranger.get("/hub/login")
    headers = {"X-XSRFToken": browser.cookies["_xsrf"]}
    assert (await browser.post("/hub/api/users/alice/tokens", json={}, headers=headers)).status_code == 409

    for other in (bob, stranger):
        headers = {"X-XSRFToken": other.cookies["_xsrf"]}
        for name in ("alice", "nobody"):
            answer = await other.post(f"/hub/api/users/{name}/tokens", json={}, headers=headers)
            assert (answer.status_code, "100" in answer.text) == (403, False)


async def test_very_many_tokens_are_a_list_with_an_end(served: ServedHub) -> None:
    browser = await served.browser("alice")
    make_tokens(served, [f"number {number}" for number in range(203)])

    page = (await browser.get("/hub/token")).text

    assert page.count('class="token-row"') == 200
    assert "And 3 more" in page
    assert "number 202" in page
    assert "number 2<" not in page


def test_jupyterhubs_blocks_are_still_there_for_a_site_to_extend() -> None:
    ours = (CHECKOUT / "templates/hub/token.html").read_text()

    assert '{% extends "templates/token.html" %}' in ours
    assert {name for name, _ in STOCK.findall(ours)} == {"token_row", "client_row", "expiration_options"}
