"""What a form said of a start beside what happened: kept with the session, compared once, shown to administrators."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jupyterhub import orm, roles
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from traitlets.config import Config

from portal.administration import again, figures
from portal.databases import connections
from portal.databases import forecasts_told as store
from portal.forecasts.compared import ComparedStart, compared, duration
from portal.forecasts.starts import Start, StartState
from portal.hub.app import PortalHub
from portal.request import SessionRequest
from portal.session_state import Foretold, Place, SessionState
from portal.slurm.jobs import Job
from spawners.choosing import foretold as module
from spawners.slurm import SlurmSessionSpawner
from tests.unit.served_hub import served_hub
from tests.unit.test_form_outlook import fill, slurm_of
from tests.unit.test_session_environment import spawner_with

NOW = int(time.time())
KEY = "abc1230123456789"


# -- figures ----------------------------------------------------------------------------------------------


def started(state: str, wait_s: int, at_s: int = 0, slurm_s: int = 0) -> ComparedStart:
    """A start that was asked for at NOW; the others are seconds after that."""
    return ComparedStart(state, NOW + at_s, NOW, NOW + slurm_s if slurm_s else 0, NOW + wait_s)


def test_an_error_is_how_far_the_start_was_from_the_moment_that_was_told() -> None:
    found = compared(
        [
            started("now", 3),
            started("now", 600),
            started("at", 1000, at_s=4000, slurm_s=1600),
            started("after", 4600, at_s=4000),
            started("at", 50, at_s=-900),  # a moment that is past is now
            started("room", 20),
            started("waits", 20, slurm_s=100),
        ]
    )

    assert (found.ours.starts, found.ours.median_s, found.ours.within_s) == (5, 600, 3000)
    assert (found.ours_beside.starts, found.ours_beside.median_s) == (1, 3000)
    assert (found.slurms.starts, found.slurms.median_s) == (1, 600)
    assert (found.now, found.held, found.held_words) == (2, 1, "50 %")
    assert found.without_moment == 2


def test_who_gave_up_is_counted_and_who_did_so_after_the_moment_that_was_told() -> None:
    early = ComparedStart("at", NOW + 100, NOW, ended_at=NOW + 50)
    late = replace(early, ended_at=NOW + 5000)

    found = compared([early, late, replace(late, state="waits")])

    assert (found.given_up, found.given_up_late, found.ours.starts, found.is_empty) == (3, 1, 0, False)
    assert compared([]).is_empty


def test_ninety_of_a_hundred_are_within_the_second_figure() -> None:
    assert compared([started("now", wait_s) for wait_s in range(1, 101)]).ours.within_s == 90
    assert [duration(seconds) for seconds in (0, 59, 60, 3599, 3660)] == ["0 s", "59 s", "1 min", "1 h", "1 h 1 min"]


# -- the table --------------------------------------------------------------------------------------------


@pytest.fixture
def db() -> Iterator[Any]:
    """A hub's database, as the hub has opened it."""
    session = orm.new_session_factory("sqlite:///:memory:")()
    connections.prepare(session)
    yield session
    session.close()


def test_the_table_is_bounded_in_number_and_age(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEPT", 3)
    store.keep(db, NOW - (store.DAYS + 1) * store.DAY_S, "too old")
    assert store.newest(db) == []
    for number in range(5):
        store.keep(db, NOW, str(number))

    assert store.newest(db) == ["4", "3", "2"]
    assert db.execute(select(func.count()).select_from(store.TABLE)).scalar() == 3


def test_figures_that_cannot_be_read_are_none(db: Any, caplog: pytest.LogCaptureFixture) -> None:
    store.keep(db, NOW, "no JSON")
    assert figures.forecast_figures(db) is None
    store.TABLE.drop(db.connection())
    assert figures.forecast_figures(db) is None
    assert "cannot be read" in caplog.text


# -- from the form to the start ---------------------------------------------------------------------------


@pytest.fixture
def spawner() -> Iterator[SlurmSessionSpawner]:
    """Alice's spawner, whose database has the table."""
    for one in spawner_with(Config()):
        one.user.settings["dsportal"].look._within_s = 5
        one.user.settings["dsportal"].look.form_within_s = 5
        connections.prepare(one.user.db)
        yield one


def kept(spawner: SlurmSessionSpawner) -> list[ComparedStart]:
    return [ComparedStart.from_text(text) for text in store.newest(spawner.user.db)]


def begin(spawner: SlurmSessionSpawner, said: Foretold | None) -> None:
    spawner.session.load(SessionState(KEY, "17", "token", foretold=said))


async def test_what_the_form_said_of_exactly_this_session_counts(spawner: SlurmSessionSpawner) -> None:
    fill(slurm_of(spawner), nodes=3)
    site = spawner.site
    asked = SessionRequest("sxm2", 2, 4)
    told = spawner.offer.told
    assert told.of(asked, site) is None
    spawner.orm_spawner.user_options = asked.as_options()
    await spawner.get_options_form()

    said = told.of(replace(asked, gpu="v100"), site)  # its usual kind, by name

    assert said
    assert (said.state, said.told_at >= NOW, said.submitted_at >= NOW) == ("at", True, True)
    assert said.at > 0
    assert told.of(replace(asked, hours=5), site) is None
    await spawner.offer.outlook({"partition": "sxm2", "gpus": "2", "hours": "5"}, "user alice")
    assert told.of(replace(asked, hours=5), site)
    await spawner.offer.outlook({"partition": "sxm2", "gpus": "2", "hours": "6"}, "service of-somebody")
    assert told.of(replace(asked, hours=6), site) is None, "she has not seen it"


async def test_what_was_said_long_ago_or_is_not_known_does_not_count(
    spawner: SlurmSessionSpawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm_of(spawner)
    request = SessionRequest("sxm2", 1, 4)
    outlook = await spawner.offer.outlook({"partition": "sxm2", "gpus": "1", "hours": "4"}, "user alice")
    told = spawner.offer.told
    assert told.of(request, spawner.site)
    monkeypatch.setattr(module, "COUNTS_FOR_S", -1)
    assert told.of(request, spawner.site) is None
    monkeypatch.undo()
    told.note(replace(outlook, chosen=Start(StartState.UNKNOWN)), spawner.site)
    assert told.of(request, spawner.site) is None


async def test_a_start_is_compared_once_also_over_a_restart_of_the_hub(
    spawner: SlurmSessionSpawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(spawner, Foretold("at", NOW + 600, NOW - 5, NOW))
    planned = datetime.fromtimestamp(NOW + 300, UTC)
    waits = Job("17", "PENDING", "sxm2", "alice", starts_at=planned)

    async def query(*_: object) -> Job:
        return waits

    monkeypatch.setattr(spawner.session.watched, "query", query)
    await spawner.session.query(1)
    waits = replace(waits, starts_at=datetime.fromtimestamp(NOW + 900, UTC))
    await spawner.session.query(1)  # its first plan counts
    spawner.load_state(dict(spawner.orm_spawner.state))  # a hub that comes back
    spawner.session.keep(place=Place("gpu01", NOW + 400))
    spawner.compare_start()
    spawner.compare_start()
    spawner.session.note_end("It is over.")

    assert kept(spawner) == [ComparedStart("at", NOW + 600, NOW, NOW + 300, NOW + 400, 0)]
    assert spawner.session.state.foretold is None


async def test_a_session_that_is_given_up_is_compared_too_and_nothing_is_anybodys(spawner: SlurmSessionSpawner) -> None:
    begin(spawner, Foretold("now", NOW, NOW, NOW))
    spawner.session.note_end("You stopped it.")

    (one,) = kept(spawner)
    assert (one.started_at, one.ended_at >= NOW) == (0, True)
    (text,) = store.newest(spawner.user.db)
    assert "alice" not in text
    assert KEY not in text
    assert set(store.TABLE.columns.keys()) == {"id", "at", "record"}


def test_a_session_that_nothing_was_foretold_of_is_not_compared(spawner: SlurmSessionSpawner) -> None:
    begin(spawner, None)
    spawner.session.note_end("You stopped it.")
    assert kept(spawner) == []


def test_a_table_that_fails_does_not_hold_up_the_session(
    spawner: SlurmSessionSpawner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin(spawner, Foretold("now", NOW, NOW, NOW))

    def refuse(*_: object) -> None:
        raise SQLAlchemyError("disk is full")

    monkeypatch.setattr(store, "keep", refuse)
    spawner.session.keep(place=Place("gpu01", NOW))
    spawner.compare_start()
    assert spawner.session.state.key == KEY


# -- the page ---------------------------------------------------------------------------------------------


async def test_the_administrators_page_says_how_good_forecasts_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "is_fresh", lambda *_: True)

    def prepare(hub: PortalHub) -> None:
        hub.extra_handlers = [("/figures", again.FreshAdminPage)]

    async with served_hub(tmp_path, prepare) as served:
        carol = await served.browser("carol")
        roles.grant_role(served.hub.db, orm.User.find(served.hub.db, "carol"), "admin")
        before = (await carol.get("/hub/figures")).text
        for one in (started("now", 3), started("at", 1000, at_s=4000, slurm_s=1600)):
            store.keep(served.hub.db, NOW, one.to_text())
        page = (await carol.get("/hub/figures")).text
        stock = await carol.get("/hub/admin")  # of a site with a login of its own
        refused = await (await served.browser("alice")).get("/hub/figures")

    assert "No session has been started yet that the form had a forecast for." in before
    rows = [" ".join(part.partition("</tr>")[0].replace("<", " <").split()) for part in page.split("<tr>")[2:]]
    assert [" ".join(row.split()) for row in map(words_of, rows)] == [
        "The form’s, before the start 2 25 min 50 min",
        "The form’s, where Slurm had one, too 1 50 min 50 min",
        "Slurm’s first, of the same starts 1 10 min 10 min",
    ]
    assert "Told “starts now”: 1; started within a minute: 1 (100 %)." in page
    assert stock.status_code == 200
    assert refused.status_code == 403


def words_of(row: str) -> str:
    """A row of the table without its tags."""
    return " ".join(part.partition(">")[2] for part in row.split("<"))
