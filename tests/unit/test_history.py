"""What a person reads of sessions that have ended: the cure, the list on the home page, and the answer of REST."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock
from urllib.parse import parse_qs, urlsplit

import pytest
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH
from jupyterhub.apihandlers.users import UserServerAPIHandler
from jupyterhub.handlers import default_handlers
from jupyterhub.handlers.pages import HomeHandler
from sqlalchemy.exc import OperationalError
from tornado import web
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from traitlets.config import Config

from portal.history import pages
from portal.history.cure import Cure, Offered, again, cure_of
from portal.history.record import EndedSession
from portal.history.rows import link, rows
from portal.hub import config
from portal.language.templates import Translated
from portal.request import SessionRequest, checked
from portal.site import Identity, Site, parse
from spawners import options

NOW = 1_795_195_200
MANY = Identity("alice", frozenset({"students"}))
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{7777*7777}}'


def site_with(**partition: Any) -> Site:
    """A site with one partition of 4 GPUs, 48 GB with each."""
    return parse({"partition": [{"name": "sxm2", **partition}]})


def ended(state: str, site: Site, **asked: Any) -> EndedSession:
    """A session that ended in this state."""
    request = checked({"partition": "sxm2", **asked}, site, MANY)
    cores, memory_mib = request.share(site)
    return EndedSession("abc", NOW, options=request.as_options(), cores=cores, memory_mib=memory_mib, state=state)


# -- the cure -------------------------------------------------------------------------------------------

CHOOSES = {"cores_max": 16, "memory_gb_max": 64}
CURES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any] | None, str]] = [
    ("OUT_OF_MEMORY", {}, {"gpus": 1}, {"gpus": 2}, "2 GPUs and 96 GB"),
    ("OUT_OF_MEMORY", {}, {"gpus": 2}, {"gpus": 4}, "4 GPUs and 192 GB"),
    ("OUT_OF_MEMORY", {}, {"gpus": 3}, {"gpus": 4}, "4 GPUs and 192 GB"),
    ("OUT_OF_MEMORY", {}, {"gpus": 4}, None, ""),
    ("OUT_OF_MEMORY", {"gpus_max": 1}, {"gpus": 1}, None, ""),
    ("OUT_OF_MEMORY", {}, {"gpus": 0}, {"gpus": 1}, "1 GPU and 48 GB"),
    ("OUT_OF_MEMORY", {"gpus_max": 0}, {"gpus": 0}, None, ""),
    ("OUT_OF_MEMORY", CHOOSES, {"gpus": 0}, {"gpus": 0, "memory_gb": 16}, "16 GB"),
    (
        "OUT_OF_MEMORY",
        CHOOSES,
        {"gpus": 0, "memory_gb": 24, "cores": 4},
        {"gpus": 0, "memory_gb": 48, "cores": 4},
        "48 GB",
    ),
    ("OUT_OF_MEMORY", CHOOSES, {"gpus": 0, "memory_gb": 40}, {"gpus": 0, "memory_gb": 64}, "64 GB"),
    (
        "OUT_OF_MEMORY",
        {**CHOOSES, "gpus_max": 0},
        {"gpus": 0, "memory_gb": 64},
        None,
        "",
    ),
    ("TIMEOUT", {}, {"gpus": 1, "hours": 8}, {"gpus": 1, "hours": 16}, "16 h"),
    ("TIMEOUT", {}, {"gpus": 1, "hours": 20}, {"gpus": 1, "hours": 24}, "24 h"),
    ("TIMEOUT", {}, {"gpus": 1, "hours": 24}, None, ""),
    ("TIMEOUT", {"hours_max": 8}, {"gpus": 0, "hours": 8}, None, ""),
    ("NODE_FAIL", {}, {"gpus": 1}, None, ""),
    ("PREEMPTED", {}, {"gpus": 1}, None, ""),
    ("FAILED", {}, {"gpus": 1}, None, ""),
    ("CANCELLED", {}, {"gpus": 1}, None, ""),
    ("COMPLETED", {}, {"gpus": 1}, None, ""),
    ("", {}, {"gpus": 1}, None, ""),
]


@pytest.mark.parametrize(("state", "partition", "asked", "helps", "words"), CURES)
def test_the_cure_follows_from_what_was_asked_and_how_it_ended(
    state: str, partition: Mapping[str, Any], asked: Mapping[str, Any], helps: Mapping[str, Any] | None, words: str
) -> None:
    site = site_with(**partition)

    found = cure_of(ended(state, site, **asked), Offered.of(site, MANY))

    if helps is None:
        assert found is None
        return
    assert found is not None
    assert found.more == words
    assert {key: found.options[key] for key in helps} == helps
    assert checked(found.options, site, MANY).as_options() == found.options, "the form takes it"


def test_the_cure_says_what_happened_and_nothing_else() -> None:
    site = site_with()
    facts = [
        cure_of(ended(state, site, gpus=1, hours=8), Offered.of(site, MANY)) for state in ("OUT_OF_MEMORY", "TIMEOUT")
    ]

    assert [found and found.fact for found in facts] == [
        "It had asked for 48 GB of memory, and was killed when that was full",
        "It had asked for 8 h, and they were over",
    ]


@pytest.mark.parametrize(("ran_s", "helps"), [(8 * 3600 + 30, True), (8 * 3600 - 60, True), (60, False)])
def test_hours_that_an_administrator_cut_short_are_not_said_to_have_been_too_few(ran_s: int, helps: bool) -> None:
    site = site_with()
    one = replace(ended("TIMEOUT", site, gpus=1, hours=8), started_at=NOW - ran_s)

    assert bool(cure_of(one, Offered.of(site, MANY))) is helps


def test_a_cure_is_bounded_by_what_the_site_offers_this_person_now() -> None:
    before = site_with()
    timed_out = ended("TIMEOUT", before, gpus=1, hours=8)
    smaller = site_with(hours_max=4)
    ruled = site_with(rule=[{"people": ["alice"], "hours_max": 10}])
    closed = site_with(groups=["physics"])

    assert cure_of(timed_out, Offered.of(smaller, MANY)) is None, "what was asked for then is too much now"
    assert cure_of(timed_out, Offered.of(closed, MANY)) is None
    assert again(timed_out, Offered.of(ruled, MANY))["hours"] == 8
    found = cure_of(timed_out, Offered.of(ruled.with_partitions(ruled.offered_to(MANY)), MANY))
    assert isinstance(found, Cure)
    assert found.options["hours"] == 10


def test_of_the_options_of_before_those_are_asked_again_that_there_are_now() -> None:
    site = site_with(**CHOOSES, account=["physics", "biology"])
    one = ended("COMPLETED", site, gpus=0, memory_gb=16, account="biology")

    assert again(one, Offered.of(site, MANY)) == one.options
    assert set(again(one, Offered.of(site_with(), MANY))) == {"partition", "gpus", "hours"}


@pytest.mark.parametrize(
    "asked", [{}, {"gpus": "x"}, {"hours": None}, {"partition": HOSTILE, "gpus": 10**9}, {"other": 1}]
)
def test_a_record_that_makes_no_sense_any_more_is_shown_without_a_cure(asked: dict[str, object], site: Site) -> None:
    one = EndedSession("abc", 10**18, options=asked, state="TIMEOUT", started_at=-5, memory_mib=-1)

    (row,) = rows([one], site, MANY)

    assert row.more == ""
    assert row.ended_at == ""


# -- the page -------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The tags of a page with their attributes, and its words."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    @property
    def starts(self) -> list[str]:
        """Where the links lead that start again."""
        return [str(a["href"]) for tag, a in self.tags if tag == "a" and "/spawn" in str(a.get("href"))]


def environment() -> Environment:
    """As JupyterHub makes it: ours, then its own, which ours extend as templates/…"""
    ours, theirs = Path(__file__).parents[2] / "templates/hub", Path(DATA_FILES_PATH) / "templates"
    loader = ChoiceLoader([PrefixLoader({"templates": FileSystemLoader(theirs)}), FileSystemLoader([ours, theirs])])
    return Environment(loader=loader, autoescape=True, extensions=[Translated])


def home(ended_sessions: Any, *, active: bool = False, **given: Any) -> Page:
    """The home page with these rows."""
    return Page(home_html(ended_sessions, active=active, **given))


def home_html(ended_sessions: Any, *, active: bool = False, **given: Any) -> str:
    """The same as text."""
    server = Mock(active=active, ready=active, pending=None, user_options={}, session_facts={}, last_end="")
    user = Mock(escaped_name="alice", admin=False, server=None)
    user.name = "alice"
    known = {
        "base_url": "/hub/",
        "user": user,
        "default_server": server,
        "ended_sessions": ended_sessions,
        "url": "/hub/spawn/alice",
        "static_url": lambda path, **_: f"/static/{path}",
        "no_spawner_check": True,
        "parsed_scopes": [],
        "prefix": "/",
        "xsrf": "x",
        "xsrf_token": "x",
        "version_hash": "1",
        "site_title": "",
        "cluster_name": "hpc",
        "announcement": "",
        "services": [],
        "allow_named_servers": False,
    }
    return environment().get_template("home.html").render(**{**known, **given})


def test_each_ended_session_has_its_reason_its_times_and_a_link_to_the_filled_form(site: Site) -> None:
    timed_out = EndedSession(
        "a", NOW, options={"partition": "sxm2", "gpus": 2, "hours": 8}, cores=16, memory_mib=96 * 1024, job_id="17",
        node="gpu01", submitted_at=NOW - 28_900, started_at=NOW - 28_800, state="TIMEOUT",
        reason="The session used up its hours.", log="bye",
    )  # fmt: skip

    page = home(rows([timed_out], site, MANY))

    assert "2 GPUs, 16 cores, 96 GB, 8 h in sxm2" in page.words
    assert "after 8 h" in page.words
    for words in ("The session used up its hours.", "It had asked for 8 h, and they were over.", "gpu01", "17", "bye"):
        assert words in page.words
    more, same = [start for start in page.starts if "opt-" in start]
    assert parse_qs(urlsplit(more).query) == {"opt-partition": ["sxm2"], "opt-gpus": ["2"], "opt-hours": ["16"]}
    assert parse_qs(urlsplit(same).query) == {"opt-partition": ["sxm2"], "opt-gpus": ["2"], "opt-hours": ["8"]}
    assert urlsplit(same).path == "/hub/spawn"
    moments = [attrs["datetime"] for tag, attrs in page.tags if tag == "time"]
    assert len(moments) == 4
    assert all(str(moment).endswith("+00:00") for moment in moments)


def test_the_link_passes_the_check_behind_the_form(site: Site) -> None:
    given = {"partition": "sxm2", "gpus": 2, "hours": 8}
    query = parse_qs(link(given), keep_blank_values=True)

    asked = options.from_form({key.removeprefix("opt-"): values for key, values in query.items()})

    assert checked(asked, site, MANY) == SessionRequest("sxm2", 2, 8)


def test_while_a_session_runs_no_other_is_started_and_the_page_says_so(site: Site) -> None:
    row = rows([EndedSession("a", NOW, options={"partition": "sxm2", "gpus": 1, "hours": 8})], site, MANY)

    page = home(row, active=True)

    assert not [start for start in page.starts if "opt-" in start]
    assert "when the session above has ended" in page.words


def test_a_named_server_is_started_again_under_its_name(site: Site) -> None:
    one = EndedSession("a", NOW, name="exp/1", options={"partition": "sxm2", "gpus": 1, "hours": 8})

    (start,) = [start for start in home(rows([one], site, MANY)).starts if "opt-" in start]

    assert urlsplit(start).path == "/hub/spawn/alice/exp%2F1"


def test_many_are_listed_five_at_once_and_none_is_no_section(site: Site) -> None:
    many = rows([EndedSession(str(n), NOW, reason=f"Reason {n}.") for n in range(50)], site, MANY)

    assert "45 more" in home(many).words
    assert "Reason 49." in home(many).words
    assert "Ended sessions" not in home([]).words
    assert "cannot be read now" in home(None).words


def test_hostile_values_stand_on_the_page_as_text_and_in_no_link(site: Site) -> None:
    one = EndedSession(
        "a", NOW, name=HOSTILE, options={"partition": HOSTILE, "gpus": 1, "hours": 1, "account": HOSTILE},
        job_id=HOSTILE, node=HOSTILE, state=HOSTILE, reason=f"{HOSTILE}\n{HOSTILE}", log=f"{HOSTILE}\n</pre>{HOSTILE}",
    )  # fmt: skip

    html = home_html(rows([one.bounded()], site, MANY))
    page = Page(html)
    plain = Page(home_html(rows([EndedSession("a", NOW, reason="x\ny", log="x")], site, MANY)))

    assert "<script>alert" not in html
    assert "onerror=alert(1)>" not in html.replace("onerror=alert(1)&gt;", "")
    assert "60481729" not in html
    assert page.words.count(HOSTILE) >= 8
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in plain.tags}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on") or name == "style"]
    assert all(start.startswith("/hub/spawn") for start in page.starts)


def test_the_list_needs_no_script(site: Site) -> None:
    row = rows([EndedSession("a", NOW, reason="x", log="y")], site, MANY)

    scripts = [len([tag for tag, _ in home(shown).tags if tag == "script"]) for shown in (row, [])]

    assert scripts[0] == scripts[1]


# -- the handlers ---------------------------------------------------------------------------------------


def asked_by(person: Any, scopes: set[str], handler_class: type = pages.EndedSessionsHandler) -> Any:
    """A handler to which this person has come with these scopes."""
    start = RequestStartLine("GET", "/hub/api/dsportal/sessions", "HTTP/1.1")
    asked = HTTPServerRequest(start_line=start, headers=HTTPHeaders({"Host": "hub"}))
    asked.connection = Mock()
    hub = SimpleNamespace(base_url="/hub/")
    handler = handler_class(web.Application(base_url="/", hub=hub, db=Mock(), log=logging.getLogger("hub")), asked)
    handler._jupyterhub_user = person
    handler.parsed_scopes = {scope: {"user": [person.name]} for scope in scopes}
    return handler


def person_with(records: Any) -> Any:
    spawner = SimpleNamespace(ended_records=Mock(side_effect=records if isinstance(records, Exception) else [records]))
    person = Mock(kind="user", spawner=spawner)
    person.name = "alice"
    return person


async def test_rest_tells_a_person_her_own_sessions(site: Site) -> None:
    one = EndedSession("abc123", NOW, options={"gpus": 1}, job_id="17", reason="It ended.", submitted_at=NOW - 60)
    handler = asked_by(person_with([one]), {"read:servers"})
    written: list[Any] = []
    handler.write = written.append

    await handler.get()

    (told,) = written[0]["sessions"]
    assert (told["job_id"], told["reason"], told["options"]) == (17, "It ended.", {"gpus": 1})
    assert (told["ended_at"], told["started_at"]) == ("2026-11-20T17:20:00+00:00", None)
    assert "abc123" not in json.dumps(told), "the key of a session is of no use to anybody"


@pytest.mark.parametrize(
    ("kind", "scopes"), [("user", {"users:activity"}), ("user", set()), ("service", {"read:servers"})]
)
async def test_rest_tells_nothing_to_a_token_that_may_not_read_it(kind: str, scopes: set[str]) -> None:
    person = person_with([])
    person.kind = kind

    with pytest.raises(web.HTTPError) as refused:
        await asked_by(person, scopes).get()

    assert refused.value.status_code == 403
    person.spawner.ended_records.assert_not_called()


async def test_rest_says_that_the_database_does_not_answer() -> None:
    gone = OperationalError("SELECT 1", {}, OSError("gone"))

    with pytest.raises(web.HTTPError) as refused:
        await asked_by(person_with(gone), {"read:servers"}).get()

    assert refused.value.status_code == 503


@pytest.mark.parametrize("fails", [False, True])
async def test_the_home_page_is_there_also_when_the_list_cannot_be_read(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: dict[str, Any] = {}

    async def render(_self: Any, name: str, sync: bool = False, **given: Any) -> str:
        rendered.update(given, name=name)
        return "page"

    monkeypatch.setattr(HomeHandler, "render_template", render)
    gone = OperationalError("SELECT 1", {}, OSError("gone"))
    rows_ = AsyncMock(side_effect=gone if fails else None, return_value=["row"])
    others = {"usage": Mock(return_value=["month"]), "quotas": AsyncMock(return_value=["home"])}
    spawner = SimpleNamespace(ended_rows=rows_, **others)
    person = SimpleNamespace(name="alice", spawner=spawner)
    handler = asked_by(person, set(), pages.HomePage)

    assert await handler.render_template("home.html", url="x") == "page"

    assert rendered["ended_sessions"] == (None if fails else ["row"])
    assert rendered["usage"] == ([] if fails else ["month"])
    assert rendered["quotas"] == ["home"]
    assert rendered["url"] == "x"


async def test_who_stops_a_session_by_rest_is_noted_when_jupyterhub_has_found_it_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(UserServerAPIHandler, "stop_single_user", AsyncMock())
    spawner = Mock(pending=None)
    admin = SimpleNamespace(name="root")
    handler = asked_by(admin, set(), pages.StoppedByHandler)
    monkeypatch.setattr(handler, "get_json_body", lambda: None)

    await handler.stop_single_user(SimpleNamespace(spawners={"": spawner}), "")

    spawner.note_stop.assert_called_once_with("root")


@pytest.mark.parametrize(
    ("pending", "body", "expected"),
    [
        ("stop", None, "its end"),  # it ends as this one wants it, too
        ("stop", {"remove": True}, 409),  # removed twice its row would be missed
        ("spawn", None, 409),  # it was started again
        ("a cancelled spawn", None, None),  # by this request, a second ago
        ("check", None, 409),
        ("gone", None, None),
        ("gone", {"remove": True}, 409),
    ],
)
async def test_a_stop_that_came_second_is_told_how_it_is(
    monkeypatch: pytest.MonkeyPatch, pending: str, body: dict[str, bool] | None, expected: object
) -> None:
    start = asyncio.ensure_future(_ends_late())
    await asyncio.sleep(0)
    if pending == "a cancelled spawn":
        start.cancel()
    spawner = Mock(pending=pending.split()[-1], _stop_future="its end", _spawn_future=start)
    handler = asked_by(SimpleNamespace(name="alice"), set(), pages.StoppedByHandler)
    monkeypatch.setattr(handler, "get_json_body", lambda: body)
    user = SimpleNamespace(spawners={} if pending == "gone" else {"": spawner})

    try:
        told: object = await handler.stop_single_user(user, "")
    except web.HTTPError as refused:
        told = refused.status_code

    assert told == expected
    assert spawner.note_stop.called == (pending == "a cancelled spawn")
    start.cancel()
    await asyncio.sleep(0)
    start.cancel()
    with suppress(asyncio.CancelledError):
        await start


async def _ends_late() -> None:
    """A start that tidies up after it was cancelled."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(60)


def test_the_pages_stand_in_the_places_of_jupyterhubs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(default_handlers)
    try:
        config._pages(Config(), Site(), local=False)
        homes = [route[1] for route in default_handlers if route[0] == "/home"]
        assert homes == [pages.HomePage]
    finally:
        default_handlers[:] = before
