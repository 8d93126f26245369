"""What pages say while Slurm or the directory does not answer: since when, what still works, and nothing afterwards."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from portal.errors import DirectoryUnavailable, SlurmUnavailable
from portal.guard import silences
from portal.login.people import People
from portal.slurm.snapshot import Silence
from portal.testing.behaviours import PendingForever
from portal.testing.outages import NoOutage, SlurmSilent
from tests.unit.served_hub import ServedHub, served_hub
from tests.unit.test_failures import started
from tests.unit.test_people import Clock, Source

SLURM_LINE = "Slurm has not answered since"
PAGES = ("/hub/home", "/hub/spawn", "/hub/templates", "/hub/token", "/hub/nowhere")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path) as hub:
        yield hub


async def fall_silent(served: ServedHub, for_s: float = 60) -> None:
    """Slurm hangs, the hub asks what it asks anyway, and time goes on."""
    served.slurm.outage = SlurmSilent()
    while served.cluster.silence.since is None:  # a question that was under way is answered still
        served.slurm.advance(1)
        await served.cluster.queue(0)
    served.slurm.advance(for_s)


def told(page: str) -> str:
    """What a page says of it."""
    found = re.search(r'<div id="dsp-silences".*?<script', page, re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", found[0]).split()) if found else ""


@pytest.mark.parametrize("address", PAGES)
async def test_a_page_says_since_when_slurm_is_silent_and_what_still_works(served: ServedHub, address: str) -> None:
    browser = await served.browser("alice")
    assert not told((await browser.get(address)).text)

    await fall_silent(served)
    page = (await browser.get(address)).text

    assert SLURM_LINE in told(page)
    assert "Running sessions go on" in told(page)
    assert "New ones cannot start until it answers." in told(page)
    (moment,) = re.findall(r'<time datetime="([^"]*)"', page.partition("dsp-silences")[2].partition("<script")[0])
    assert datetime.fromisoformat(moment) == pytest.approx(
        datetime.now(UTC) - timedelta(seconds=60), abs=timedelta(seconds=20)
    )


async def test_the_waiting_page_says_so_too(served: ServedHub) -> None:
    browser = await served.browser("alice")
    served.slurm.next_job(PendingForever())
    waiting = await started(browser)
    assert "Your session is starting" in waiting.text
    assert not told(waiting.text)

    await fall_silent(served)

    assert "those that wait keep their place" in told((await browser.get("/hub/spawn-pending/alice")).text)


async def test_it_goes_when_slurm_answers_again_whoever_asked(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await fall_silent(served)
    assert told((await browser.get("/hub/home")).text)

    served.slurm.outage = NoOutage()
    await served.cluster.sessions("abcdef")  # the hub's own look at jobs without a session

    assert not told((await browser.get("/hub/home")).text)


async def test_a_page_asks_slurm_nothing_for_it(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await fall_silent(served)
    asked = len(served.slurm.asked)

    await browser.get("/hub/home")
    await browser.get("/hub/api/dsportal/silences", headers={"Authorization": f"token {served.token('alice')}"})

    assert len(served.slurm.asked) == asked


async def test_who_has_not_logged_in_is_told_nothing(served: ServedHub) -> None:
    await fall_silent(served)
    stranger = await served.browser()

    assert not told((await stranger.get("/hub/login")).text)
    assert (await stranger.get("/hub/api/dsportal/silences")).status_code == 403


async def test_a_page_that_shows_one_learns_that_it_is_over(served: ServedHub) -> None:
    browser = await served.browser("alice")
    headers = {"Authorization": f"token {served.token('alice')}"}
    await fall_silent(served)

    (one,) = (await browser.get("/hub/api/dsportal/silences", headers=headers)).json()["silences"]
    served.slurm.outage = NoOutage()
    await served.cluster.queue(0)
    over = (await browser.get("/hub/api/dsportal/silences", headers=headers)).json()

    assert (one["what"], one["words"]) == ("slurm", silences.SLURM)
    assert over == {"silences": []}


async def test_a_restart_of_a_second_frightens_nobody(served: ServedHub) -> None:
    await fall_silent(served, for_s=0)
    assert silences.silences(served.hub) == []


async def test_an_old_question_that_fails_after_a_newer_one_was_answered_says_nothing() -> None:
    clock = Clock()
    silence = Silence(clock)
    waits: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answered() -> str:
        return "squeue"

    old = asyncio.ensure_future(silence.noted(waits))
    await asyncio.sleep(0)
    clock.now += 5
    assert await silence.noted(answered()) == "squeue"
    waits.set_exception(SlurmUnavailable("Slurm does not answer."))
    with pytest.raises(SlurmUnavailable):
        await old

    assert (silence.since, silence.for_s) == (None, 0)


async def test_the_directory_is_told_by_the_look_at_who_may_use_the_portal(tmp_path: Path) -> None:
    source = Source()
    clock = Clock()
    known = People(source.look, clock=clock)
    hub = SimpleNamespace(
        context=SimpleNamespace(cluster=None),  # the local mode
        authenticator=SimpleNamespace(access=SimpleNamespace(people=known)),
    )
    source.error = DirectoryUnavailable("silent")
    await known.standings(["alice"])
    clock.now += 45
    await known.standings(["alice"])

    (one,) = silences.silences(hub)
    assert one.what == "directory"
    assert one.words == silences.DIRECTORY
    assert datetime.fromisoformat(one.since) < datetime.now(UTC) - timedelta(seconds=40)

    source.error = None
    clock.now += 45
    await known.standings(["alice"])
    assert silences.silences(hub) == []


def test_a_login_that_a_site_has_set_itself_is_not_asked() -> None:
    hub = SimpleNamespace(context=SimpleNamespace(cluster=None), authenticator=SimpleNamespace())
    assert silences.silences(hub) == []
