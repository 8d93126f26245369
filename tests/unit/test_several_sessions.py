"""Several sessions of one person on a served hub: names, the number of them, and what pages and calls make of both."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import httpx
import pytest
from jupyterhub import orm
from tornado.httpclient import AsyncHTTPClient, HTTPClientError
from tornado.web import HTTPError

from portal.errors import SiteError
from portal.homes import session_logs
from portal.hub.context import state_of
from portal.session_state import SessionState, Visit
from portal.sessions import names, requests
from portal.sessions.requests import is_held
from portal.site import Identity, parse
from portal.testing.behaviours import PendingForever
from portal.webtools import routes
from spawners import slurm as spawner_module
from spawners.choosing import several as several_module
from tests.unit.conftest import EXAMPLE
from tests.unit.served_hub import ServedHub, eventually, served_hub

FIELDS = {"partition": "sxm2", "gpus": "1", "hours": "2"}


def with_sessions(folder: Path, text: str, more: str = "") -> str:
    """A settings file whose [session] has this, too."""
    file = folder / "site.toml"
    example = EXAMPLE.read_text().replace("sessions_max = 1 ", f"{text or 'sessions_max = 1'} ", 1)
    file.write_text(f"{example}{more}")
    return str(file)


@asynccontextmanager
async def hub_of_two(folder: Path, **settings: Any) -> AsyncIterator[ServedHub]:
    """A hub whose people may have two sessions; ``settings`` are more of JupyterHub's."""
    spawner_module.site_of.cache_clear()
    site = with_sessions(folder, "sessions_max = 2")

    def prepare(hub: Any) -> None:
        hub.config.SlurmSessionSpawner.site_file = site

    async with served_hub(folder, prepare, allow_named_servers=True, **settings) as hub:
        hub.hub.proxy.delete_user = AsyncMock()  # there is none
        yield hub


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    """The same, as it is."""
    async with hub_of_two(tmp_path) as hub:
        yield hub


async def start(hub: ServedHub, browser: httpx.AsyncClient, name: str = "") -> httpx.Response:
    """Send the form of a session whose job waits for ever."""
    hub.slurm.next_job(PendingForever())
    place = f"/hub/spawn/alice/{name}" if name else "/hub/spawn"
    data = {**FIELDS, "_xsrf": browser.cookies["_xsrf"]}
    return await browser.post(place, data=data)


def user_of(hub: ServedHub, name: str = "alice") -> Any:
    return hub.hub.users[orm.User.find(hub.hub.db, name)]


def row_of(hub: ServedHub) -> orm.Spawner:
    return orm.User.find(hub.hub.db, "alice").orm_spawners[""]


async def until_over(hub: ServedHub, *sessions: str) -> None:
    """Wait until these sessions of Alice are over."""
    spawners = user_of(hub).spawners
    async with asyncio.timeout(20):
        while any(spawners[name].active for name in sessions if name in spawners):  # noqa: ASYNC110  JupyterHub's flags
            await asyncio.sleep(0.05)


def main_of(answer: httpx.Response) -> str:
    """The words of a page's main part."""
    main = answer.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(re.sub("<[^>]*>", " ", main).split())


# -- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "training", "run-2", "x" * 30])
def test_a_name_that_is_safe_everywhere_is_taken(name: str) -> None:
    assert names.fault(name) == ""


def test_no_session_takes_the_place_of_pages_that_the_one_without_a_name_serves() -> None:
    served = {place.partition("/")[0] for place in (*routes.PAGES, *routes.OF_TOOLS, *routes.OWN_SOCKETS)}

    assert served == {"dsportal", "tools", "sockets"}
    assert [name for name in served if not names.fault(name)] == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "1st",
        "a_b",
        "a.b",
        "a--b",
        "-a",
        "a-",
        "x" * 31,
        "ä",
        "a b",
        "a/b",
        "a\n",
        "../x",
        "a%2f",
        "lab",
        "api",
    ],
)
def test_another_name_is_refused_with_what_is_allowed(name: str) -> None:
    assert names.fault(name).endswith((".", "name."))


def test_the_name_that_is_suggested_is_not_in_use() -> None:
    assert names.unused(["", "session-2", "training"]) == "session-3"


def test_what_is_left_is_said_in_hours_and_minutes() -> None:
    now = datetime(2026, 11, 23, 20, 0, tzinfo=UTC)

    assert names.left("2026-11-23T23:20:30+00:00", now) == "3 h 20 min"
    assert names.left("2026-11-23T21:10:00+01:00", now) == "10 min"
    assert names.left("", now) == ""


# -- the settings ---------------------------------------------------------------------------------------


def test_one_session_is_the_default_and_the_first_rule_that_fits_counts() -> None:
    assert parse({}).sessions_max(Identity("alice")) == 1
    assert not parse({}).has_several_sessions
    rules = [{"groups": ["staff"], "sessions_max": 5}, {"people": ["alice"], "sessions_max": 3}]
    site = parse({"session": {"sessions_max": 2, "rule": rules}})

    assert site.sessions_max(Identity("bob")) == 2
    assert site.sessions_max(Identity("alice")) == 3
    assert site.sessions_max(Identity("alice", frozenset({"staff"}))) == 5
    assert "staff" in site.groups_mentioned, "so that the directory is asked for it"


@pytest.mark.parametrize(
    "session",
    [{"sessions_max": 0}, {"sessions_max": 21}, {"rule": [{"sessions_max": 2}]}, {"rule": [{"people": ["a"]}]}],
)
def test_a_number_that_is_none_and_a_rule_for_nobody_are_faults(session: dict[str, Any]) -> None:
    with pytest.raises(SiteError, match="session"):
        parse({"session": session})


# -- the doors ------------------------------------------------------------------------------------------


async def test_two_sessions_wait_side_by_side_and_a_third_is_refused_by_form_and_rest(served: ServedHub) -> None:
    browser = await served.browser("alice")
    assert "/hub/spawn-pending/alice" in str((await start(served, browser)).url)
    assert "/hub/spawn-pending/alice/training" in str((await start(served, browser, "training")).url)

    keys = {one.session.state.key for one in user_of(served).spawners.values()}
    assert len(keys) == 2
    assert "" not in keys
    refused = await start(served, browser, "third")
    assert refused.status_code == 409
    assert "You have 2 sessions already" in refused.text
    headers = {"Authorization": f"token {served.token('alice')}"}
    by_rest = await browser.post("/hub/api/users/alice/servers/third", headers=headers, json={})
    assert by_rest.status_code == 409
    assert "may have 2 at a time" in by_rest.json()["message"]
    assert len(served.slurm.known()) == 2


async def test_the_session_without_a_name_counts_like_the_others(served: ServedHub) -> None:
    browser = await served.browser("alice")
    for name in ("one", "two"):
        await start(served, browser, name)

    refused = await start(served, browser)

    assert refused.status_code == 409
    assert "“one”, “two”" in refused.text
    assert 'name="gpus"' in refused.text, "the form is still there"
    assert len(served.slurm.known()) == 2


@pytest.mark.parametrize("name", ["lab", "A", "a_b", "x" * 31, "a--b"])
async def test_a_name_that_is_not_safe_is_refused_at_every_door(served: ServedHub, name: str) -> None:
    browser = await served.browser("alice")
    headers = {"Authorization": f"token {served.token('alice')}"}

    assert (await browser.get(f"/hub/spawn/alice/{name}")).status_code == 400
    assert (await start(served, browser, name)).status_code == 400
    assert (await browser.get("/hub/home", params={"name": name})).status_code == 400
    for method in ("POST", "PUT"):
        answer = await browser.request(method, f"/hub/api/users/alice/servers/{name}", headers=headers, json={})
        assert answer.status_code == 400
    assert list(user_of(served).orm_spawners) == [""]


async def test_a_refused_form_of_a_named_session_comes_back_with_what_was_typed(served: ServedHub) -> None:
    browser = await served.browser("alice")
    data = {**FIELDS, "hours": "999", "_xsrf": browser.cookies["_xsrf"]}

    answer = await browser.post("/hub/spawn/alice/training", data=data)

    assert answer.status_code == 400
    assert "999 is not possible here" in answer.text
    assert 'action="/hub/spawn/alice/training"' in answer.text


async def test_a_place_in_a_named_session_leads_to_the_form_of_that_session(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await browser.get("/hub/spawn/alice/training")

    answer = await browser.get("/hub/spawn/alice", params={"next": "/user/alice/training/lab/tree/a.ipynb"})

    assert answer.url.path == "/hub/spawn/alice/training"
    assert answer.url.params["next"] == "/user/alice/training/lab/tree/a.ipynb"
    assert (await browser.get("/hub/spawn/alice", params={"next": "/user/alice/lab"})).url.path == "/hub/spawn/alice"


async def test_nobody_hears_which_names_another_persons_sessions_have(served: ServedHub) -> None:
    await (await served.browser("alice")).get("/hub/spawn/alice/training")
    bob = await served.browser("bob")
    bob.follow_redirects = False

    answers = [
        await bob.get("/hub/spawn/alice", params={"next": f"/user/alice/{name}/lab"}) for name in ("training", "none")
    ]

    assert "training" in user_of(served).orm_spawners
    assert [answer.status_code for answer in answers] == [404, 404]


async def test_who_starts_again_before_the_hub_has_seen_the_end_gets_the_form(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await served.browser("alice")
    await browser.get("/hub/spawn")
    spawner = user_of(served).spawner
    waits = asyncio.Event()

    class End(asyncio.Future[None]):
        """Tells that somebody waits for it."""

        def add_done_callback(self, *given: Any, **more: Any) -> None:
            waits.set()
            super().add_done_callback(*given, **more)

    spawner.end_seen = End()
    monkeypatch.setattr(type(spawner), "ready", property(lambda this: not this.end_seen.done()))

    asked = asyncio.ensure_future(browser.get("/hub/spawn/alice", params={"next": "/user/alice/lab"}))
    async with asyncio.timeout(20):
        await waits.wait()
    spawner.end_seen.set_result(None)
    answer = await asked

    assert answer.url.path == "/hub/spawn/alice", "not back to a session that is over"
    assert 'name="gpus"' in answer.text


async def test_forms_that_were_only_looked_at_leave_few_names(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several_module, "NAMES_KEPT", 3)
    browser = await served.browser("alice")
    await start(served, browser, "waits")
    entered = SessionState(entries=(Visit("root", int(datetime.now(UTC).timestamp()), "why"),)).to_json()
    await browser.get("/hub/spawn/alice/entered")
    user_of(served).orm_spawners["entered"].state = entered
    served.hub.db.commit()

    for number in range(5):
        assert (await browser.get(f"/hub/spawn/alice/looked-{number}")).status_code == 200

    assert {"waits", "entered", "looked-4"} <= set(user_of(served).orm_spawners)
    assert len([name for name in user_of(served).orm_spawners if name]) == 3


async def test_links_to_forms_take_no_session_that_ran(served: ServedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_module, "NAMES_KEPT", 2)
    browser = await served.browser("alice")
    for name in ("first", "second"):
        await browser.get(f"/hub/spawn/alice/{name}")
        user_of(served).orm_spawners[name].last_activity = datetime.now(UTC).replace(tzinfo=None)
    served.hub.db.commit()

    for number in range(3):
        assert (await browser.get(f"/hub/spawn/alice/looked-{number}")).status_code == 200

    assert {name for name in user_of(served).orm_spawners if name} == {"first", "second", "looked-2"}


async def test_no_two_sessions_of_anybody_have_one_client_id(served: ServedHub) -> None:
    for name in ("alice", "alice-b"):
        await served.browser(name)
    of_alice = user_of(served).get_or_create_spawner("b", "b")

    assert of_alice.oauth_client_id != user_of(served, "alice-b").spawner.oauth_client_id
    assert user_of(served).spawner.oauth_client_id == "jupyterhub-user-alice"


# -- the pages ------------------------------------------------------------------------------------------


async def test_the_home_page_lists_them_and_stops_one_without_scripts(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await start(served, browser)
    await start(served, browser, "training")

    home = await browser.get("/hub/home")

    assert "Session without a name" in main_of(home)
    assert "Session “training”" in main_of(home)
    assert 'href="/hub/spawn-pending/alice/training"' in home.text
    assert "You have 2 of 2 sessions. Stop one to start another." in main_of(home)
    ids = re.findall(r'\sid="([^"]+)"', home.text)
    assert len(ids) == len(set(ids))
    await browser.post("/hub/dsportal/stop/alice/training", data={"_xsrf": browser.cookies["_xsrf"]})
    await until_over(served, "training")
    after = main_of(await browser.get("/hub/home"))
    assert "Session “training”" not in after.partition("Ended sessions")[0]
    assert "You stopped the session." in after
    assert user_of(served).spawner.active, "the other one goes on"


async def test_who_entered_a_session_that_has_ended_is_told_still(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await browser.get("/hub/spawn/alice/training")
    user_of(served).spawners["training"].note_entry("root", "a stuck kernel")

    home = main_of(await browser.get("/hub/home"))

    assert "Session “training”: " in home
    assert "a stuck kernel" in home


async def test_nobody_stops_another_persons_session_and_no_link_stops_any(served: ServedHub) -> None:
    alice = await served.browser("alice")
    await start(served, alice, "training")
    bob = await served.browser("bob")

    answer = await bob.post("/hub/dsportal/stop/alice/training", data={"_xsrf": bob.cookies["_xsrf"]})
    await alice.get("/hub/dsportal/stop/alice/training")

    assert answer.status_code in (403, 404)
    assert user_of(served).spawners["training"].active


async def test_a_new_one_by_name_leads_to_its_form(served: ServedHub) -> None:
    browser = await served.browser("alice")

    home = await browser.get("/hub/home")
    answer = await browser.get("/hub/home", params={"name": "training"})

    assert 'value="session-2"' in home.text
    assert answer.url.path == "/hub/spawn/alice/training"
    refused = await browser.get("/hub/home", params={"name": "<b>lab"})
    assert refused.status_code == 400
    assert "<b>lab" not in refused.text


async def test_all_sessions_of_somebody_who_left_are_stopped(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await start(served, browser)
    await start(served, browser, "training")

    await served.hub._end_sessions(orm.User.find(served.hub.db, "alice"))

    await until_over(served, "", "training")
    assert all(status.state == "CANCELLED" for _, status in served.slurm.known())


async def test_a_session_of_before_can_be_stopped_when_names_are_not_offered_any_more(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await served.browser("alice")
    await start(served, browser, "training")
    monkeypatch.setitem(served.hub.tornado_settings, "allow_named_servers", False)
    served.hub.tornado_application.settings["allow_named_servers"] = False
    user_of(served).allow_named_servers = False
    user_of(served).settings["allow_named_servers"] = False
    headers = {"Authorization": f"token {served.token('alice')}"}

    assert (await browser.post("/hub/api/users/alice/servers/other", headers=headers, json={})).status_code == 400
    answer = await browser.delete("/hub/api/users/alice/servers/training", headers=headers)

    assert answer.status_code in (202, 204)


async def test_one_that_takes_its_time_to_end_keeps_no_other_one_running(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await start(served, browser)
    await start(served, browser, "training")
    slow = user_of(served).spawners[""]
    ends = asyncio.Event()
    stop = slow.stop

    async def stop_slowly(now: bool = False) -> None:
        await ends.wait()
        await stop(now=now)

    slow.stop = stop_slowly
    ending = asyncio.ensure_future(served.hub._end_sessions(orm.User.find(served.hub.db, "alice")))
    await until_over(served, "training")
    assert slow.active

    ends.set()
    await ending
    await until_over(served, "")


async def test_a_start_of_before_a_restart_is_asked_for_no_more_when_its_person_left(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would begin anew when that one is back, without a login."""
    await start(served, await served.browser("alice"))
    await eventually(lambda: bool(state_of(row_of(served)).key))
    hub, key = served.hub, state_of(row_of(served)).key
    asked = AsyncMock(side_effect=HTTPClientError(403))
    monkeypatch.setattr(AsyncHTTPClient, "fetch", asked)
    monkeypatch.setattr(hub, "services_api_token", lambda _: "of the portal's own service")
    monkeypatch.setattr(hub, "_few_at_once", asyncio.Semaphore(), raising=False)
    await hub._resume("alice", "", {}, "of another job")
    assert not asked.called

    resumed = asyncio.ensure_future(hub._resume("alice", "", {}, key))
    await eventually(lambda: asked.called)
    await hub._end_sessions(orm.User.find(hub.db, "alice"))
    await until_over(served, "")
    await resumed

    assert asked.call_count == 1


async def test_one_that_cannot_be_ended_is_told_when_the_others_are(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await start(served, browser)
    await start(served, browser, "training")
    user_of(served).spawners[""].stop = AsyncMock(side_effect=OSError("no answer"))

    with pytest.raises(ExceptionGroup, match="not ended"):
        await served.hub._end_sessions(orm.User.find(served.hub.db, "alice"))

    await until_over(served, "training")


@pytest.mark.parametrize("is_offered", [True, False])
async def test_a_session_that_waits_keeps_its_name_and_none_has_a_name_that_is_not_safe(
    tmp_path: Path, is_offered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served_hub(tmp_path, allow_named_servers=is_offered) as hub:
        await hub.browser("alice")
        alice = orm.User.find(hub.hub.db, "alice")
        rows = [
            orm.Spawner(name=name, user=alice, state=state) for name, state in (("a", {"key": "a" * 16}), ("b", {}))
        ]
        hub.hub.db.add_all(rows)
        hub.hub.db.commit()
        program = await hub.browser()
        program.headers["Authorization"] = f"token {hub.token('alice')}"

        answers = [
            await program.patch(f"/hub/api/users/alice/servers/{name}", json={"name": new})
            for name, new in (("a", "training"), ("a", "lab"), ("b", "lab"))
        ]
        titled = await program.patch("/hub/api/users/alice/servers/a", json={"display_name": "Training"})
        monkeypatch.setattr(requests, "normalise_unicode", Mock(side_effect=AssertionError("it takes long")))
        very_long = await program.patch("/hub/api/users/alice/servers/a", json={"display_name": "a" + 1_100 * "\u0301"})

        assert (very_long.status_code, very_long.json()["message"]) == (400, requests.NOT_A_TITLE)
        assert [answer.status_code for answer in answers] == [409, 409, 400]
        assert "keeps its name" in answers[0].json()["message"]
        assert titled.status_code == 200
        assert sorted(row.name for row in alice._orm_spawners if row.name) == ["a", "b"]


@pytest.mark.parametrize("pending", ["spawn", "stop", None])
async def test_a_start_while_another_request_starts_or_stops_the_session_is_told_so(pending: str | None) -> None:
    """JupyterHub has looked at it before; it may wait in between."""
    starts = AsyncMock()

    class Hubs:
        async def spawn_single_user(self, *told: Any, **more: Any) -> None:
            await starts(*told, **more)

    class Handler(requests.NamedRequests, Hubs):
        pass

    user = SimpleNamespace(spawners={"": SimpleNamespace(pending=pending), "other": SimpleNamespace(pending="spawn")})
    with pytest.raises(HTTPError, match=r"409.*Another page") if pending else nullcontext():
        await Handler().spawn_single_user(user, "", "title", options={})
    assert starts.await_count == (0 if pending else 1)


async def test_where_one_is_allowed_the_page_is_as_before(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as hub:
        browser = await hub.browser("alice")

        home = await browser.get("/hub/home")

        assert "session-name" not in home.text
        assert 'id="server-state"' in home.text
        assert (await browser.get("/hub/spawn/alice/training")).status_code == 400
        assert (await browser.get("/hub/home", params={"name": "training"})).url.path == "/hub/home"


async def test_who_may_have_one_where_others_may_have_several_sees_the_page_as_before(tmp_path: Path) -> None:
    spawner_module.site_of.cache_clear()
    site = with_sessions(tmp_path, "", "\n[[session.rule]]\npeople = ['alice']\nsessions_max = 2\n")

    def prepare(hub: Any) -> None:
        hub.config.SlurmSessionSpawner.site_file = site

    async with served_hub(tmp_path, prepare, allow_named_servers=True) as hub:
        bob = await (await hub.browser("bob")).get("/hub/home")
        alice = await (await hub.browser("alice")).get("/hub/home")

        assert "<h1>My Server</h1>" in bob.text
        assert "session-name" not in bob.text
        assert 'id="session-name"' in alice.text


def test_the_launcher_keeps_what_has_not_ended(tmp_path: Path) -> None:
    for number in range(session_logs.KEPT_LOGS + 5):
        folder = tmp_path / f"{number:016x}"
        folder.mkdir()
        if number == 0:
            (folder / session_logs.ENVIRONMENT_FILE).write_text(json.dumps({}))
        os.utime(folder, (number, number))

    session_logs.remove_old(tmp_path)

    assert (tmp_path / f"{0:016x}").exists(), "it waits still"
    assert not (tmp_path / f"{1:016x}").exists()


def test_a_row_is_held_by_its_server_or_its_key() -> None:
    assert not is_held(None)
    assert not is_held(SimpleNamespace(server=None, state=None))
    assert is_held(SimpleNamespace(server=None, state={"key": "abc"}))


async def test_what_the_form_of_a_named_session_says_is_compared_with_that_sessions_start(served: ServedHub) -> None:
    browser = await served.browser("alice")
    form = await browser.get("/hub/spawn/alice/training")
    assert 'data-outlook="/hub/api/dsportal/outlook/alice/training"' in form.text
    headers = {"Referer": str(form.url), "Sec-Fetch-Site": "same-origin"}

    told = await browser.get("/hub/api/dsportal/outlook/alice/training", params=FIELDS, headers=headers)
    unknown = await browser.get("/hub/api/dsportal/outlook/alice/nothing", params=FIELDS, headers=headers)
    await start(served, browser)
    await start(served, browser, "training")

    assert told.json()["choice"]["state"] == "now"
    assert unknown.status_code == 404
    spawners = user_of(served).spawners
    said = spawners["training"].session.state.foretold
    assert said
    assert said.state == "now"
    assert spawners[""].session.state.foretold is None, "its own form has said nothing of this"
