"""The addresses of the form on a whole hub with FakeSlurm: who may ask, what is answered, and links."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import pytest_asyncio
from jinja2 import ChoiceLoader, FileSystemLoader
from jupyterhub.tests.utils import add_user, api_request, async_requests, auth_header, get_page, public_url

TEMPLATES = Path(__file__).parents[2] / "templates" / "hub"
HOSTILE = ["<script>alert(1)</script>", "../../etc/passwd", "a\nb", "x" * 3000, "-1", "2"]


@pytest_asyncio.fixture
async def hub(app: Any) -> AsyncIterator[Any]:
    """The hub with the portal's pages."""
    for person in ("ann", "ben"):
        add_user(app.db, app=app, name=person)
    environments = [app.tornado_settings[name] for name in ("jinja2_env", "jinja2_env_sync")]
    before = [one.loader for one in environments]
    for one in environments:
        one.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), one.loader])
    yield app
    for one, loader in zip(environments, before, strict=True):
        one.loader = loader


async def outlook(hub: Any, of: str, asks: str, query: str = "") -> Any:
    return await api_request(hub, f"dsportal/outlook/{of}{query}", headers=auth_header(hub.db, asks))


async def test_a_person_reads_what_is_free_and_when_each_choice_would_start(hub: Any) -> None:
    answer = await outlook(hub, "ann", "ann", "?partition=sxm2&gpus=2&hours=4")
    told = answer.json()

    assert answer.status_code == 200
    assert told["is_known"]
    assert (told["hours"], told["choice"]["state"]) == (4, "now")
    assert told["partitions"]["sxm2"]["free"] == "4 of 4 GPUs free"
    assert [start["gpus"] for row in told["rows"] for start in row["starts"]] == [[0, 4]]
    assert answer.headers["Cache-Control"] == "no-store"


async def test_nobody_asks_for_somebody_else_and_there_is_nothing_for_nobody(hub: Any) -> None:
    assert (await outlook(hub, "ann", "ben")).status_code == 404
    assert (await outlook(hub, "nobody", "ann")).status_code == 404
    assert (await async_requests.get(f"{public_url(hub)}hub/api/dsportal/outlook/ann")).status_code == 403


@pytest.mark.parametrize("text", HOSTILE)
async def test_whatever_stands_in_the_address_is_a_choice_or_nothing(hub: Any, text: str) -> None:
    answer = await api_request(
        hub,
        "dsportal/outlook/ann",
        params={"gpus": text, "partition": text, "hours": text, "nonsense": text},
        headers=auth_header(hub.db, "ann"),
    )

    assert answer.status_code == 200
    assert "<script" not in answer.text


async def sent(hub: Any, query: str = "", **fields: str) -> Any:
    """The page after *Link to these choices*."""
    cookies = await hub.login_user("ann")
    form = await get_page("spawn", hub, cookies=cookies)
    assert 'data-outlook="/@/space%20word/hub/api/dsportal/outlook/ann"' in form.text
    data = fields | {"_xsrf": cookies["_xsrf"]}
    url = f"{public_url(hub)}hub/dsportal/link/ann{query}"
    return await async_requests.post(url, data=data, cookies=cookies)


def link_in(page: str) -> str:
    found = re.search(r'id="link" value="([^"]*)"', page)
    assert found
    return unescape(found[1])


async def test_choices_become_a_link_that_fills_in_the_form_and_starts_nothing(hub: Any) -> None:
    opens = f"{hub.base_url}user/ann/lab"
    answer = await sent(hub, f"?next={quote(opens)}", partition="sxm2", gpus="3", hours="5")
    link = link_in(answer.text)

    assert answer.status_code == 200
    chosen = {"opt-partition": ["sxm2"], "opt-gpus": ["3"], "opt-hours": ["5"]}
    assert parse_qs(urlsplit(link).query) == chosen | {"next": [opens]}
    form = await async_requests.get(link, cookies=await hub.login_user("ann"))
    assert form.status_code == 200
    assert re.search(r'id="gpus-3"[^>]*checked', form.text, re.DOTALL)
    assert not hub.users["ann"].active


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/" + "x" * 2000])
async def test_a_link_leads_nowhere_else(hub: Any, place: str) -> None:
    answer = await sent(hub, f"?next={place}", partition="sxm2", gpus="1", hours="5")

    assert "next" not in parse_qs(urlsplit(link_in(answer.text)).query)


@pytest.mark.parametrize("text", HOSTILE[:5])
async def test_no_link_is_made_of_what_is_not_offered(hub: Any, text: str) -> None:
    answer = await sent(hub, partition="sxm2", gpus=text, hours="5")

    assert answer.status_code == 400
    assert "No link was made." in answer.text
    assert 'id="link"' not in answer.text
    assert "<script>alert" not in answer.text
