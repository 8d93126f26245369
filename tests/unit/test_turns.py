"""Many looks at what is free now: one at a time for each person, so that nobody keeps the others' form waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.forecasts import picture as pictures
from portal.forecasts import turns
from portal.forecasts.form_outlook import form_outlook
from portal.forecasts.picture import Picture
from portal.forecasts.places import Ask
from portal.forecasts.shared_look import SharedLook
from portal.forecasts.turns import LookBusyError, LookTurns
from portal.hub.app import PortalHub
from portal.hub.context import HubContext
from portal.slurm.cluster import Cluster
from spawners.choosing import offer
from tests.bench.form_cost import GeneratedSlurm
from tests.unit.served_hub import HUB_ID, ServedHub, served_hub

SITE = """
[session]
gpus_max = 8
[[gpu]]
name = "a100"
title = "NVIDIA A100"
gres = "gpu:a100"
""" + "".join(f'[[partition]]\nname = "p{number}"\ngpu = "a100"\ncores_max = 64\n' for number in range(1, 6))
FLOOD = 500
PATIENCE_S = 120.0  # of the test itself, on a machine that is busy otherwise


# -- the turns alone --------------------------------------------------------------------------------------


def test_a_person_has_one_look_of_a_kind_at_a_time_and_the_next_when_it_is_over() -> None:
    known = LookTurns()
    with known.taken("outlook", "alice"):
        with pytest.raises(LookBusyError), known.taken("outlook", "alice"):
            pass
        with known.taken("outlook", "bob"), known.taken("form", "alice"):
            pass
    with known.taken("outlook", "alice"):
        pass


def test_a_look_that_fails_gives_its_turn_back() -> None:
    known = LookTurns()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), known.taken("outlook", "alice"):
            raise ZeroDivisionError


def test_there_are_so_many_looks_in_all() -> None:
    known = LookTurns(in_all=1)
    with known.taken("outlook", "alice"), pytest.raises(LookBusyError), known.taken("outlook", "bob"):
        pass


# -- what is counted of a picture -------------------------------------------------------------------------


@pytest.fixture
async def made() -> Picture:
    """10,000 jobs and 1,000 nodes."""
    cluster = Cluster("/bin/false", run=GeneratedSlurm())
    snapshots = (await cluster.queue(0), await cluster.nodes(0), await cluster.partitions())
    return pictures.picture(*snapshots, datetime.now(UTC))


async def test_the_next_picture_counts_what_most_looks_asked_for_and_no_more(made: Picture) -> None:
    usual = [Ask(gpus, 8 * gpus, 1024, "gpu:a100") for gpus in range(1, 9)]
    for cores in range(1, 200):  # one person who asks for everything once
        made.start("p1", Ask(0, cores, 1024), 8, made.made_at)
    for _ in range(2):  # and two who look at the form
        for ask in usual:
            made.start("p1", ask, 8, made.made_at)
    following = replace(made, _openings={}, _asked=type(made._asked)())

    following.count_as(made)

    assert len(following._openings) == pictures.COUNTED_AT_MOST == 50
    assert {("p1", ask) for ask in usual} <= set(following._openings)


async def test_a_picture_keeps_so_much_and_answers_more(made: Picture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "KEPT_AT_MOST", 3)
    told = [made.start("p1", Ask(0, cores, 1024), 8, made.made_at) for cores in (1, 2, 3, 4, 4)]

    assert len(made._openings) == len(made._asked) == 3
    assert told[3] == told[4]


# -- a flood ----------------------------------------------------------------------------------------------


class Gate:
    """What stands before each outlook that is worked out: who asks, and who may go on."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.begun: list[str] = []
        self.is_shut = False  # logins lead to the form, too
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()
        self._work = work

    def __call__(self, site: Any, settings: Any, offered: Any, request: Any, *given: Any) -> Any:
        """Wait, then work it out; a form that comes too late is not waited for."""
        if given[0].places and self.is_shut:
            self.begun.append(f"{request.partition} {request.cores}")
            self.has_begun.set()
            assert self.may_go_on.wait(PATIENCE_S)
        return self._work(site, settings, offered, request, *given)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Outlooks wait for it."""
    made = Gate(form_outlook)
    monkeypatch.setattr(offer, "form_outlook", made)
    return made


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    """A hub on a large cluster, whose picture is there already."""
    (tmp_path / "site.toml").write_text(SITE)

    def prepare(hub: PortalHub) -> None:
        hub.config.SlurmSessionSpawner.site_file = str(tmp_path / "site.toml")
        hub.context = HubContext(HUB_ID, Cluster("/bin/false", run=GeneratedSlurm()))

    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(served_hub(tmp_path, prepare))
        look: SharedLook = hub.hub.context.look
        look._within_s = PATIENCE_S
        await look.picture()
        yield hub


async def outlook(browser: httpx.AsyncClient, name: str, cores: int) -> httpx.Response:
    given: dict[str, str | int] = {"partition": "p1", "gpus": 0, "cores": cores, "hours": 4}
    return await browser.get(f"/hub/api/dsportal/outlook/{name}", params=given, headers=token(browser, name))


def token(browser: httpx.AsyncClient, name: str) -> dict[str, str]:
    return {"X-XSRFToken": browser.cookies["_xsrf"], "Accept": "application/json"}


async def first_look(gate: Gate, browser: httpx.AsyncClient) -> asyncio.Task[httpx.Response]:
    """Alice's first look, which has begun and is not over."""
    browser.timeout = PATIENCE_S
    gate.is_shut = True
    first = asyncio.create_task(outlook(browser, "alice", 1))
    assert await asyncio.to_thread(gate.has_begun.wait, PATIENCE_S)
    return first


async def test_the_flood_of_one_person_is_one_look_and_the_others_get_theirs(
    served: ServedHub, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    served.hub.context.look.form_within_s = PATIENCE_S
    alice = await served.browser("alice")
    bob = await served.browser("bob")
    bob.timeout = PATIENCE_S
    first = await first_look(gate, alice)

    flood = [await outlook(alice, "alice", 2 + number % 60) for number in range(FLOOD)]  # answered at once
    form = asyncio.create_task(bob.get("/hub/spawn"))
    theirs = asyncio.create_task(outlook(bob, "bob", 7))
    assert gate.begun == ["p1 1"]
    gate.may_go_on.set()

    assert {answer.status_code for answer in flood} == {429}
    assert {answer.headers["Retry-After"] for answer in flood} == {"1"}
    assert flood[0].json() == {"status": 429, "message": turns.WORDS}
    assert not [one for one in caplog.records if one.getMessage().startswith("429 ")]  # or the log would be full
    assert [(await one).status_code for one in (first, form, theirs)] == [200, 200, 200]
    assert sorted(gate.begun) == ["p1 0", "p1 1", "p1 7"]  # of 500 looks nothing else was worked out
    assert "Not counted in time" not in (await form).text
    assert (await outlook(alice, "alice", 3)).status_code == 200


async def test_a_form_that_nothing_is_counted_for_in_time_comes_without_and_looks_again(
    served: ServedHub, gate: Gate
) -> None:
    served.hub.context.look.form_within_s = 0.05
    alice = await served.browser("alice")
    bob = await served.browser("bob")
    first = await first_look(gate, alice)

    form = (await bob.get("/hub/spawn")).text
    gate.may_go_on.set()
    await first
    await outlook(bob, "bob", 9)

    assert "Not counted in time: it comes in a moment, or when the page is loaded again." in form
    assert 'data-known="false"' in form
    assert 'name="partition"' in form
    assert gate.begun == ["p1 1", "p1 9"]  # what nobody waits for any more is not begun
