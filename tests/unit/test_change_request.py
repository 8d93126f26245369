"""A request that waits is changed: what is kept, what is taken back and when, on a served hub."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from tornado import web

from portal.errors import PortalError
from portal.forecasts import turns
from portal.forecasts.shared_look import STILL_SHOWN_S
from portal.request import SessionRequest
from portal.session_state import SessionState
from portal.testing.behaviours import PendingForever, Runs
from portal.testing.outages import SbatchRefuses, SlurmSilent
from spawners.choosing import change
from spawners.choosing.offer import Offer
from spawners.errors import StartRefused
from tests.unit.served_hub import ServedHub, served_hub
from tests.unit.test_several_sessions import main_of, start, user_of

CHANGE = "/hub/dsportal/change/alice"
OUTLOOK = "/hub/api/dsportal/outlook/alice"
OF_PAGE = {"Sec-Fetch-Site": "same-origin"}  # a script of the hub's own page asks
PATIENCE_S = 10  # for a picture, also on a machine with much other work


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path) as hub:
        hub.hub.proxy.delete_user = AsyncMock()  # there is none
        hub.hub.context.look._within_s = PATIENCE_S
        hub.hub.context.look.form_within_s = PATIENCE_S
        yield hub


@pytest.fixture(autouse=True)
def slow(served: ServedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes slowly: a job that begins to run does not run out of it before the test has looked."""

    async def pause(_seconds: float) -> None:
        served.slurm.advance(0.1)
        await asyncio.sleep(0.01)

    monkeypatch.setattr(served.cluster, "pause", pause)


@pytest.fixture
async def alice(served: ServedHub) -> httpx.AsyncClient:
    """Alice's browser; her session waits for one GPU and two hours."""
    browser = await served.browser("alice")
    await start(served, browser)
    return browser


async def send(hub: ServedHub, browser: httpx.AsyncClient, **fields: str) -> httpx.Response:
    hub.slurm.next_job(PendingForever())
    data = {"partition": "sxm2", "gpus": "1", "hours": "2", "_xsrf": browser.cookies["_xsrf"], **fields}
    return await browser.post(CHANGE, data=data)


def states(hub: ServedHub) -> dict[str, str]:
    """The state of each job, by its number."""
    return {job.id: status.state for job, status in hub.slurm.known()}


async def test_the_form_has_what_waits_and_says_first_that_the_place_is_lost(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    waiting = await alice.get("/hub/spawn-pending/alice")
    page = await alice.get(CHANGE)

    assert f'href="{CHANGE}"' in waiting.text
    assert "its place in line is lost" in main_of(page)
    assert 'name="hours" value="2"' in page.text
    assert f'action="{CHANGE}"' in page.text
    assert states(served) == {"1": "PENDING"}, "to look changes nothing"


async def test_a_smaller_choice_that_would_start_sooner_is_filled_in(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    page = await alice.get(CHANGE, params={"opt-gpus": "0"})

    zero = page.text.partition('id="gpus-0"')[2].partition(">")[0]
    assert zero.split()[-1] == "checked"
    assert 'name="hours" value="2"' in page.text, "the others stay as they were"


async def test_the_job_that_goes_is_not_ahead_of_what_takes_its_place(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    served.slurm.next_job(PendingForever())
    served.slurm.take("bob", {"partition": "sxm2", "time": "60"})
    served.slurm.advance(STILL_SHOWN_S + 1)  # a picture of before is not shown any more
    told = await alice.get(OUTLOOK, headers=OF_PAGE)
    page = await alice.get(CHANGE)

    rows = [row for row in told.json()["rows"] if row["partition"] == "sxm2"]
    assert {start["ahead"] for row in rows for start in row["starts"]} == {1}, "bob's alone"
    assert "1 job ahead" in main_of(page)
    assert "2 jobs ahead" not in main_of(page)


async def test_what_a_sites_hook_refuses_at_a_start_it_refuses_of_a_change(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    spawner = user_of(served).spawner
    asked: list[object] = []

    def one_gpu(hooked: Any) -> None:
        asked.append(hooked.user_options["gpus"])
        if hooked.user_options["gpus"] > 1:
            raise web.HTTPError(403, "this site's own rule")

    spawner.pre_spawn_hook = one_gpu
    before = dict(spawner.user_options)

    answer = await send(served, alice, gpus="2")

    assert (answer.status_code, asked) == (403, [2])
    assert "own rule" in answer.text
    assert states(served) == {"1": "PENDING"}
    assert spawner.user_options == spawner.orm_spawner.user_options == before
    served.slurm.advance(turns.AGAIN_AFTER_S + 0.1)  # a second of floats may be a little less
    await send(served, alice, gpus="1", hours="5")
    assert asked == [2, 1]
    assert states(served) == {"1": "CANCELLED", "2": "PENDING"}


@pytest.mark.parametrize("hook", ["options_from_form", "group_overrides", "apply_user_options", "auth_state_hook"])
async def test_what_another_hook_of_a_site_refuses_at_a_start_it_refuses_of_a_change(
    served: ServedHub, alice: httpx.AsyncClient, hook: str
) -> None:
    spawner = user_of(served).spawner
    before = dict(spawner.user_options)
    asked: list[object] = []

    def refuses(*given: Any) -> Any:
        asked.append(given)
        raise web.HTTPError(403, "this site's own rule")

    setattr(spawner, hook, refuses)

    answer = await send(served, alice, gpus="2")

    assert (answer.status_code, len(asked)) == (403, 1)
    assert "own rule" in answer.text
    assert states(served) == {"1": "PENDING"}
    assert spawner.user_options == spawner.orm_spawner.user_options == before


async def test_whoever_may_not_go_on_changes_no_request(
    served: ServedHub, alice: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(*_given: Any) -> bool:
        return False

    monkeypatch.setattr(served.hub.authenticator, "refresh_user", nobody)
    monkeypatch.setattr(served.hub.authenticator, "refresh_pre_spawn", True)

    answer = await send(served, alice, gpus="2")

    assert answer.status_code == 403
    assert "log in again" in answer.text
    assert states(served) == {"1": "PENDING"}


@pytest.mark.parametrize("how", ["in place", "anew"])
async def test_what_a_sites_hook_makes_of_the_choices_is_what_is_submitted(
    served: ServedHub, alice: httpx.AsyncClient, how: str
) -> None:
    spawner = user_of(served).spawner

    def one_gpu(hooked: Any) -> None:
        if how == "in place":
            hooked.user_options["gpus"] = 1
        else:
            hooked.user_options = {**hooked.user_options, "gpus": 1}

    spawner.pre_spawn_hook = one_gpu

    await send(served, alice, gpus="4", hours="3")

    assert served.slurm.jobs["2"].options["gres"].endswith(":1")
    assert spawner.user_options["gpus"] == spawner.orm_spawner.user_options["gpus"] == 1


async def test_of_two_changes_at_once_each_is_asked_of_a_hook_with_its_own_choices(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    spawner = user_of(served).spawner
    asked: list[object] = []

    async def slowly(hooked: Any) -> None:
        asked.append(hooked.user_options["gpus"])
        await asyncio.sleep(0.2)
        if hooked.user_options["gpus"] > 1:
            raise web.HTTPError(403, "this site's own rule")

    spawner.pre_spawn_hook = slowly

    first, second = await asyncio.gather(send(served, alice, gpus="4"), send(served, alice, gpus="1"))

    assert len(asked) == 1, "one after the other: the second finds a change that goes on"
    assert (first.status_code == 403) is (asked == [4])
    assert {str(status.state) for job, status in served.slurm.known() if job.options["gres"].endswith(":4")} == set()
    assert second.status_code in (200, 409)


async def test_no_hook_is_asked_where_nothing_waits(served: ServedHub, alice: httpx.AsyncClient) -> None:
    spawner = user_of(served).spawner
    asked: list[object] = []
    spawner.pre_spawn_hook = asked.append
    spawner.session.keep(job_id="")

    answer = await send(served, alice, gpus="2")

    assert (answer.status_code, asked) == (409, [])


async def test_another_job_takes_the_place_and_the_start_goes_on(served: ServedHub, alice: httpx.AsyncClient) -> None:
    spawner = user_of(served).spawner
    before = spawner.session.state
    started = spawner._spawn_future

    answer = await send(served, alice, gpus="2", hours="5")

    assert answer.url.path == "/hub/spawn-pending/alice"
    assert states(served) == {"1": "CANCELLED", "2": "PENDING"}
    assert served.slurm.jobs["2"].options["time"] == "300"
    state = spawner.session.state
    assert (state.job_id, state.token, state.next_key) == ("2", before.token, "")
    assert state.key != before.key
    assert served.hub._held_keys() == {state.key}
    assert spawner.orm_spawner.user_options == {"partition": "sxm2", "gpus": 2, "hours": 5}
    for _ in range(20):
        await asyncio.sleep(0.02)  # the start looks at its job meanwhile
    assert spawner.pending == "spawn"
    assert spawner._spawn_future is started
    assert spawner.ended_records() == [], "no session has ended"
    assert "5 h" in main_of(await alice.get("/hub/spawn-pending/alice"))


@pytest.mark.parametrize("address", ["alice@cluster.example", ""])
async def test_the_address_of_the_directory_goes_with_each_job_where_slurm_writes(
    served: ServedHub, alice: httpx.AsyncClient, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawner = user_of(served).spawner
    access = SimpleNamespace(mail_of=AsyncMock(return_value=address))
    monkeypatch.setattr(spawner.authenticator, "access", access, raising=False)
    request = SessionRequest("sxm2", 0, 1)
    partition = spawner.site.partition("sxm2").model_copy(update={"mail_type": "END"})
    writing = spawner.site.model_copy(update={"partitions": (partition,)})

    made = await spawner.prepared(request, writing)

    mail = [option for option in made.options if "mail" in option]
    assert mail == [*([f"--mail-user={address}"] if address else []), "--mail-type=END"]
    await spawner.prepared(request, spawner.site)
    access.mail_of.assert_awaited_once_with("alice")  # and not where Slurm writes to nobody


async def test_a_request_that_the_site_refuses_leaves_what_waits(served: ServedHub, alice: httpx.AsyncClient) -> None:
    answer = await send(served, alice, hours="999")

    assert answer.status_code == 400
    assert "what waits goes on waiting" in main_of(answer)
    assert "999 is not possible here" in answer.text
    assert states(served) == {"1": "PENDING"}
    assert user_of(served).spawner.orm_spawner.user_options["hours"] == 2


async def test_a_request_that_slurm_refuses_leaves_what_waits(served: ServedHub, alice: httpx.AsyncClient) -> None:
    served.slurm.outage = SbatchRefuses()

    answer = await send(served, alice, gpus="2")

    assert answer.status_code == 400
    assert "Invalid account or account/partition combination" in answer.text
    assert states(served) == {"1": "PENDING"}
    spawner = user_of(served).spawner
    assert (spawner.session.state.job_id, spawner.session.state.next_key) == ("1", "")
    assert spawner.pending == "spawn"


@pytest.mark.parametrize(
    "limit",
    ["AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpSubmitJobsLimit", "QOSGrpSubmitJobsLimit"],
)
async def test_where_slurm_takes_no_second_job_the_page_says_so_and_what_to_do(
    served: ServedHub, alice: httpx.AsyncClient, limit: str
) -> None:
    policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    served.slurm.outage = SbatchRefuses(f"{policy}\nsbatch: error: {limit}")

    answer = await send(served, alice, gpus="2")

    assert answer.status_code == 400
    assert "a change needs a second one for a moment" in main_of(answer)
    assert "stop what waits, and start it anew" in main_of(answer)
    assert limit in main_of(answer), "Slurm's own words are below"
    assert states(served) == {"1": "PENDING"}


async def test_what_the_form_said_of_the_changed_request_is_compared_with_its_start(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    spawner = user_of(served).spawner
    asked = {"partition": "sxm2", "gpus": "2", "hours": "5"}
    for _ in range(200):
        told = await alice.get(OUTLOOK, params=asked, headers=OF_PAGE)
        if told.status_code != 429:  # the look of the form that asked for this session is still under way
            break
        await asyncio.sleep(0.05)
    assert told.json()["choice"]["state"] != "unknown"

    await send(served, alice, gpus="2", hours="5")

    said = spawner.session.state.foretold
    assert said
    assert (said.state, said.submitted_at > 0) == (told.json()["choice"]["state"], True)
    served.slurm.advance(1)
    await send(served, alice, gpus="1", hours="7")
    assert spawner.session.state.foretold is None, "nothing was said of this one"


async def test_a_slurm_that_is_silent_leaves_what_waits(served: ServedHub, alice: httpx.AsyncClient) -> None:
    served.slurm.outage = SlurmSilent()

    answer = await send(served, alice, gpus="2")

    assert answer.status_code == 503
    assert (await alice.get(CHANGE)).status_code == 503
    assert user_of(served).spawner.session.state.job_id == "1"


async def test_of_a_double_click_one_job_is_left_which_is_the_sessions(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    answers = await asyncio.gather(*(send(served, alice, gpus="2") for _ in range(2)))

    assert "/hub/spawn-pending/alice" in {answer.url.path for answer in answers}
    alive = [number for number, state in states(served).items() if state != "CANCELLED"]
    assert alive == [user_of(served).spawner.session.state.job_id]


@pytest.mark.parametrize("moment", ["before it is sent", "while the new one is submitted"])
async def test_a_job_that_starts_meanwhile_goes_on_and_the_page_says_so(
    served: ServedHub, alice: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def begins() -> None:
        served.slurm.advance(1)  # no picture of before shows it
        served.slurm.jobs["1"].behaviour = Runs()

    if moment == "before it is sent":
        begins()
    else:
        submit = served.cluster.submit_or_find

        async def submitting(*given: Any) -> str:
            begins()
            return await submit(*given)

        monkeypatch.setattr(served.cluster, "submit_or_find", submitting)

    answer = await send(served, alice, gpus="2")

    assert answer.status_code == 409
    assert "nothing was changed" in main_of(answer)
    assert states(served)["1"] == "RUNNING"
    assert [state for number, state in states(served).items() if number != "1"] in ([], ["CANCELLED"])
    assert user_of(served).spawner.session.state.job_id == "1"
    assert user_of(served).spawner.pending == "spawn"


async def test_a_session_that_is_stopped_meanwhile_stays_stopped(
    served: ServedHub, alice: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = served.cluster.submit_or_find

    async def submitting(*given: Any) -> str:
        headers = {"Authorization": f"token {served.token('alice')}"}
        await alice.delete("/hub/api/users/alice/server", headers=headers)
        return await submit(*given)

    monkeypatch.setattr(served.cluster, "submit_or_find", submitting)

    answer = await send(served, alice, gpus="2")

    assert answer.status_code == 409
    assert set(states(served).values()) == {"CANCELLED"}


async def test_no_server_is_believed_while_it_is_not_known_which_job_is_the_sessions(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    spawner = user_of(served).spawner
    spawner.change.is_going = True
    headers = {"Authorization": f"token {spawner.api_token}"}

    answer = await alice.post("/hub/api/dsportal/ready", headers=headers, json={"port": 40000, "restarts": 0})

    assert answer.status_code == 409
    assert spawner.session.state.announcement is None


def done_as_a_person(hub: ServedHub) -> int:
    """How often the launcher was called."""
    return sum(command[0] == "sudo" for command in hub.slurm.asked)


async def test_the_form_has_slurm_asked_once_in_a_second_however_often_somebody_loads_it(
    served: ServedHub, alice: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "AGAIN_AFTER_S", 10_000)  # time passes fast while a session waits
    monkeypatch.setattr(change, "AGAIN_AFTER_S", 1.25)  # the look for the waiting session itself asks for 1
    queue = served.cluster.queue
    ages: list[float] = []

    async def asks(max_age_s: float = 5.0) -> Any:
        ages.append(max_age_s)
        return await queue(max_age_s)

    monkeypatch.setattr(served.cluster, "queue", asks)
    pages = [await alice.get(CHANGE) for _ in range(10)]

    assert {(page.status_code, "its place in line is lost" in page.text) for page in pages} == {(200, True)}
    assert (ages.count(0), ages.count(1.25)) == (1, 9), "the picture of the last second answers the others"


async def test_a_person_changes_requests_once_in_a_second_and_what_comes_before_says_so(
    served: ServedHub, alice: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "AGAIN_AFTER_S", 1000)
    await send(served, alice, gpus="2")
    before = done_as_a_person(served)

    answers = [await send(served, alice, gpus=str(gpus)) for gpus in (1, 2, 1)]

    assert {(answer.status_code, "Retry-After" in answer.headers) for answer in answers} == {(429, True)}
    assert "Nothing was changed now" in main_of(answers[0])
    assert done_as_a_person(served) == before
    assert "3" not in states(served)
    served.slurm.advance(1000)
    assert (await send(served, alice, gpus="1")).status_code == 200
    assert states(served)["3"] == "PENDING"


async def test_nobody_changes_another_persons_request_and_where_nothing_waits_there_is_no_form(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    bob = await served.browser("bob")
    data = {"partition": "sxm2", "_xsrf": bob.cookies["_xsrf"]}

    assert (await bob.post(CHANGE, data=data)).status_code in (403, 404)
    assert (await bob.get("/hub/dsportal/change/bob")).url.path == "/hub/home"
    assert (await bob.get("/hub/dsportal/change/bob/other")).status_code == 404
    assert states(served) == {"1": "PENDING"}


async def test_a_link_that_shows_no_form_fills_in_none_that_is_shown_later(served: ServedHub) -> None:
    """A page of somebody else's may open it, unseen."""
    bob = await served.browser("bob")
    before = await bob.get("/hub/spawn")

    await bob.get("/hub/dsportal/change/bob", params={"opt-gpus": "4", "opt-hours": "24"})

    assert chosen(await bob.get("/hub/spawn")) == chosen(before) == ("1", "8")


@pytest.mark.parametrize("link", ["opt-gpus=4&opt-hours=24", "choice=long"])
async def test_a_link_fills_in_its_own_form_while_another_one_is_made(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    bob = await served.browser("bob")
    before = chosen(await bob.get("/hub/spawn"))
    kept = {"opt-gpus": "4", "opt-hours": "24", "opt-partition": "sxm2"}
    data = {"name": "long", **kept, "_xsrf": bob.cookies["_xsrf"]}
    assert (await bob.post("/hub/dsportal/choices/bob/keep", data=data)).status_code == 200
    site = Offer._site
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(offer: Offer) -> Any:
        if not asked.is_set():
            asked.set()
            await answered.wait()
        return await site(offer)

    monkeypatch.setattr(Offer, "_site", slow)
    followed = asyncio.create_task(bob.get(f"/hub/spawn?{link}"))
    await asyncio.wait_for(asked.wait(), PATIENCE_S)
    other = await bob.get("/hub/spawn")
    answered.set()

    assert chosen(other) == before
    assert chosen(await followed) == ("4", "24")


async def test_what_a_form_was_refused_that_nobody_saw_does_not_stand_in_a_later_one(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = await served.browser("bob")
    await bob.get("/hub/spawn")
    offer = user_of(served, "bob").spawners[""].offer
    with pytest.raises(StartRefused):
        await offer.of_form({"gpus": ["99"], "hours": ["3"], "partition": ["sxm2"]})
    site, calls = Offer._site, []

    async def silent_once(offer: Offer) -> Any:
        calls.append(offer)
        if len(calls) == 1:
            raise StartRefused(PortalError("Slurm is silent"), status_code=503)
        return await site(offer)

    monkeypatch.setattr(Offer, "_site", silent_once)
    data = {"gpus": "4", "hours": "2", "partition": "sxm2", "_xsrf": bob.cookies["_xsrf"]}
    page = await bob.post("/hub/spawn", data=data)

    assert "Slurm is silent" in main_of(page)
    assert not re.search(r"\b99\b", main_of(page))
    assert chosen(page) == ("4", "2")


def chosen(page: httpx.Response) -> tuple[str, str]:
    """The GPUs and hours of a form."""
    gpus = next(part for part in page.text.split('id="gpus-')[1:] if "checked" in part.partition(">")[0])
    return gpus.partition('"')[0], page.text.partition('name="hours" value="')[2].partition('"')[0]


def test_a_hub_that_is_killed_meanwhile_comes_back_with_the_job_that_waited() -> None:
    state = SessionState("a" * 16, "1", next_key="b" * 16)

    again = SessionState.from_json(state.to_json())

    assert again.keys == {"a" * 16, "b" * 16}, "neither job is taken for nobody's while this hub lives"
    assert "next_key" not in SessionState("a" * 16, "1").to_json()
