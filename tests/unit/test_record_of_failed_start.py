"""From the page of a start that came to nothing to what is known of that session."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import AsyncMock

import httpx
import pytest

from portal.testing.behaviours import FailsWith
from portal.testing.outages import SbatchRefuses
from tests.unit.served_hub import ServedHub, served_hub
from tests.unit.test_several_sessions import FIELDS, user_of


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path) as hub:
        hub.hub.proxy.delete_user = AsyncMock()  # there is none
        yield hub


async def fails(hub: ServedHub, browser: httpx.AsyncClient) -> None:
    """A start whose job ends before its server has answered."""
    hub.slurm.next_job(FailsWith(3, after_s=30))
    await browser.post("/hub/spawn", data={**FIELDS, "_xsrf": browser.cookies["_xsrf"]})
    spawner = user_of(hub).spawner
    async with asyncio.timeout(20):
        while spawner.pending:  # noqa: ASYNC110  JupyterHub's flag
            await asyncio.sleep(0.02)


async def test_the_page_of_a_failed_start_leads_to_the_record_of_that_session(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await fails(served, browser)

    page = await browser.get("/hub/spawn-pending/alice")
    home = await browser.get("/hub/home")

    (key,) = re.findall(r'href="/hub/home#ended-([0-9a-f]{16})"', page.text)
    assert f'id="ended-{key}"' in home.text
    (record,) = user_of(served).spawner.ended_records()
    assert record.key == key


async def test_the_events_of_a_failed_start_name_its_record(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await fails(served, browser)
    headers = {"Authorization": f"token {served.token('alice')}"}

    answer = await browser.get("/hub/api/users/alice/server/progress", headers=headers)

    events = [json.loads(line[len("data:") :]) for line in answer.text.splitlines() if line.startswith("data:")]
    assert events[-1]["failed"]
    assert events[-1]["record"] == user_of(served).spawner.ended_key != ""


async def test_a_start_of_which_nothing_is_kept_leads_to_no_record_of_another_one(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await fails(served, browser)
    spawner = user_of(served).spawner

    await spawner._check_options(spawner, {})

    assert spawner.ended_key == ""


async def test_a_start_that_slurm_refuses_has_its_own_record(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await fails(served, browser)
    before = user_of(served).spawner.ended_key
    served.slurm.outage = SbatchRefuses()
    served.hub.tornado_application.settings["slow_spawn_timeout"] = 10  # the answer comes after the refusal

    await browser.post("/hub/spawn", data={**FIELDS, "_xsrf": browser.cookies["_xsrf"]})

    assert user_of(served).spawner.ended_key not in ("", before)
