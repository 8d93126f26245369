"""My usage: what a person's sessions used by month, added up from their receipts, once each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from jupyterhub import orm
from sqlalchemy import func, select
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateTable
from tornado import web

from portal.databases import connections, copies, usage_by_month
from portal.databases import ended_sessions as store
from portal.history import pages
from portal.history.receipt import Receipt
from portal.history.record import EndedSession
from portal.history.usage import MonthUsage
from tests.unit.conftest import delete_person
from tests.unit.served_hub import served_hub
from tests.unit.test_ended_sessions import spawner_of
from tests.unit.test_history import asked_by, home

NOW = int(time.time())
THIS = usage_by_month.month_of(NOW)
TWO_HOURS = Receipt(7200, 16, 2, 96 * 1024)


@pytest.fixture
def db() -> Iterator[Any]:
    """A hub's database with three people, as the hub has opened it."""
    session = orm.new_session_factory("sqlite:///:memory:")()
    session.add_all([orm.User(name=name) for name in ("alice", "bob", "carol")])
    session.commit()
    connections.prepare(session)
    yield session
    session.close()


def keep(db: Any, key: str, person: int = 1, ended_at: int = NOW, receipt: Receipt | None = TWO_HOURS) -> None:
    """A session that has ended and, a moment later, has its receipt."""
    store.keep(db, person, key, ended_at, EndedSession(key, ended_at).to_text(), 365)
    if receipt:
        store.add_receipts(db, {key: asdict(receipt)})


def months(db: Any, person: int = 1) -> list[MonthUsage]:
    return [MonthUsage.from_text(*one) for one in usage_by_month.of_person(db, person).items()]


def test_receipts_are_added_up_for_each_person_and_month(db: Any) -> None:
    before = NOW - (time.localtime(NOW).tm_mday + 1) * 86_400
    for number, (person, ended_at) in enumerate([(1, NOW), (1, NOW), (1, before), (2, NOW)]):
        keep(db, f"{number}", person, ended_at)
    keep(db, "without", receipt=None)
    keep(db, "that never ran", receipt=Receipt(0))

    assert months(db) == [
        MonthUsage(THIS, 2, 2 * 14_400, 2 * 115_200),
        MonthUsage(usage_by_month.month_of(before), 1, 14_400, 115_200),
    ]
    assert months(db, 2) == [MonthUsage(THIS, 1, 14_400, 115_200)]
    assert months(db, 3) == []


def test_a_receipt_counts_once_however_often_it_comes(db: Any) -> None:
    for _ in range(3):
        keep(db, "a")
    store.add_receipts(db, {"a": asdict(Receipt(9)), "gone": asdict(Receipt(9))})

    assert months(db) == [MonthUsage(THIS, 1, 14_400, 115_200)]


def test_the_sum_is_whole_when_the_records_of_the_sessions_are_not_kept_any_more(db: Any) -> None:
    for number in range(store.KEPT_PER_PERSON + 10):
        keep(db, f"{number:03}", ended_at=NOW - 100 + number)

    (found,) = months(db)
    assert found.sessions == store.KEPT_PER_PERSON + 10
    assert len(store.of_person(db, 1, 365)) == store.KEPT_PER_PERSON


def test_receipt_and_sum_are_kept_together_or_not_at_all(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(db, "a", receipt=None)
    monkeypatch.setattr(usage_by_month, "add", Mock(side_effect=SQLAlchemyError("disk is full")))

    with pytest.raises(SQLAlchemyError):
        store.add_receipts(db, {"a": asdict(TWO_HOURS)})

    (text,) = store.of_person(db, 1, 30)
    assert EndedSession.from_text(text).receipt is None


@pytest.mark.parametrize(
    ("now", "oldest"), [("2026-11-24", "2026-10"), ("2026-01-31", "2025-12"), ("2025-12-01", "2025-11")]
)
def test_this_month_and_the_last_one_are_kept(now: str, oldest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = time.strptime(now, "%Y-%m-%d")
    monkeypatch.setattr(usage_by_month, "time", SimpleNamespace(localtime=lambda *_: at, strftime=time.strftime))

    assert usage_by_month.oldest_month() == oldest


def test_older_ones_go_with_the_next_end_and_a_site_that_keeps_no_sessions_keeps_none(db: Any) -> None:
    db.execute(usage_by_month.TABLE.insert().values(user_id=2, month="2020-01", record="{}"))
    keep(db, "old", 1, NOW - 100 * 86_400)
    keep(db, "new", 1)

    assert months(db, 2) == []
    assert db.execute(select(func.count()).select_from(usage_by_month.TABLE)).scalar() == 1
    store.keep(db, 1, "none", NOW, EndedSession("none", NOW).to_text(), 0)
    assert months(db) == []


def test_who_is_deleted_takes_it_along(db: Any) -> None:
    keep(db, "a", 3)
    delete_person(db, "carol")

    assert months(db, 3) == []


def test_a_copy_of_the_database_has_it_and_brings_it_back(db: Any) -> None:
    keep(db, "a")
    connection = db.connection()
    copy = copies.make(connection, "4621fec11365")
    for table in (usage_by_month.TABLE, store.TABLE, *reversed(orm.Base.metadata.sorted_tables)):
        connection.execute(table.delete())

    copies._fill(connection, copy)
    db.commit()

    assert months(db) == [MonthUsage(THIS, 1, 14_400, 115_200)]


def test_postgresql_and_mariadb_are_asked_for_a_table_that_they_can_make() -> None:
    dialects: list[Any] = [mysql.dialect, postgresql.dialect]
    for dialect in dialects:
        assert "PRIMARY KEY (user_id, month)" in str(CreateTable(usage_by_month.TABLE).compile(dialect=dialect()))


def test_a_database_in_which_no_table_can_be_made_keeps_receipts_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Mock()
    session: Any = orm.new_session_factory("sqlite:///:memory:")()
    monkeypatch.setattr(usage_by_month.TABLE, "create", Mock(side_effect=SQLAlchemyError("permission denied")))
    monkeypatch.setattr(usage_by_month, "LOG", log)
    connections.prepare(session)

    keep(session, "a")

    assert log.error.call_args.args[1] == "Nobody's usage is kept"
    assert months(session) == []
    assert "receipt" in store.of_person(session, 1, 30)[0]
    session.close()


# -- what a person reads --------------------------------------------------------------------------------


def test_my_server_has_a_table_of_the_months_and_none_where_nothing_is_known() -> None:
    found = [MonthUsage("2026-11", 12, 3600 * 1240, 3600 * 9920), MonthUsage("2026-10", 1, 0, 900)]

    page = home([], usage=found)

    words = " ".join(page.words.split())
    assert "November 2026 1,240 9,920 12" in words
    assert "October 2026 0.00 0.25 1" in words
    assert "My usage" not in home([], usage=[]).words


async def test_rest_tells_a_person_her_own_months_and_nobody_elses(db: Any) -> None:
    keep(db, "a")
    keep(db, "b", 2)
    person = Mock(kind="user", spawner=spawner_of(db, "alice"))
    person.name = "alice"
    written: list[Any] = []
    handler = asked_by(person, {"read:servers"}, pages.UsageHandler)
    handler.write = written.append

    await handler.get()

    assert written == [{"months": [{"month": THIS, "sessions": 1, "gpu_hours": 4, "core_hours": 32}]}]
    with pytest.raises(web.HTTPError) as refused:
        await asked_by(person, {"users:activity"}, pages.UsageHandler).get()
    assert refused.value.status_code == 403


async def test_rest_says_that_the_database_does_not_answer() -> None:
    gone = Mock(side_effect=OperationalError("SELECT 1", {}, OSError("gone")))
    person = Mock(kind="user", spawner=SimpleNamespace(usage=gone))
    person.name = "alice"

    with pytest.raises(web.HTTPError) as refused:
        await asked_by(person, {"read:servers"}, pages.UsageHandler).get()

    assert refused.value.status_code == 503


async def test_a_hub_serves_the_usage_on_its_home_page_and_by_rest(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as served:
        browser = await served.browser("alice")
        before = (await browser.get("/hub/home")).text
        keep(served.hub.db, "a" * 16)
        page = (await browser.get("/hub/home")).text
        headers = {"Referer": f"{browser.base_url}/hub/home"}
        told = (await browser.get("/hub/api/dsportal/usage", headers=headers)).json()

    assert "My usage" not in before
    assert "My usage" in page
    assert "GPU-hours" in page
    assert told == {"months": [{"month": THIS, "sessions": 1, "gpu_hours": 4.0, "core_hours": 32.0}]}
