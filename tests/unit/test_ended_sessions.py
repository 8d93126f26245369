"""The records of ended sessions in the hub's database: one of each, bounded, the person's own, and never in the way."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from jupyterhub import orm
from jupyterhub.objects import Hub
from jupyterhub.user import User
from sqlalchemy import func, select, text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable
from traitlets.config import Config

from portal.databases import connections, copies, schema
from portal.databases import ended_sessions as store
from portal.history.record import EndedSession
from portal.hub import database
from portal.hub.context import SETTING, HubContext
from portal.session_state import Place, SessionState
from portal.slurm.cluster import Cluster
from portal.testing.fake_slurm import FakeSlurm
from spawners.ends import recorded
from spawners.slurm import SlurmSessionSpawner
from tests.unit.conftest import EXAMPLE, delete_person

NOW = int(time.time())
KEY = "abc1230123456789"


@pytest.fixture
def db() -> Iterator[Any]:
    """A hub's database with three people, as the hub has opened it."""
    session = orm.new_session_factory("sqlite:///:memory:")()
    session.add_all([orm.User(name=name) for name in ("alice", "bob", "carol")])
    session.commit()
    connections.prepare(session)
    yield session
    session.close()


@pytest.fixture
def alice(db: Any) -> Any:
    """Alice's spawner, as JupyterHub makes it."""
    return spawner_of(db, "alice")


def spawner_of(db: Any, name: str) -> Any:
    """Somebody's spawner, with a session that runs."""
    c = Config()
    c.SlurmSessionSpawner.site_file = str(EXAMPLE)
    slurm = FakeSlurm()
    settings = {
        "config": c,
        "spawner_class": SlurmSessionSpawner,
        "hub": Hub(),
        SETTING: HubContext("abc123", Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)),
    }
    spawner: Any = User(db.query(orm.User).filter_by(name=name).one(), settings, db).spawner
    spawner.user_options = {"partition": "sxm2", "gpus": 2, "hours": 4}
    spawner.session.load(SessionState(KEY, "17", "its-own-0123456789", 40123, place=Place("gpu01", NOW - 60)))
    return spawner


def keys(db: Any, person: int = 1) -> list[str]:
    """The keys of the records of one person, as a page asks for them."""
    return [EndedSession.from_text(record).key for record in store.of_person(db, person, 30)]


def keep(db: Any, key: str, person: int = 1, ended_at: int = NOW, log: str = "", days: int = 30) -> None:
    record = EndedSession(key, ended_at, log=log)
    store.keep(db, person, key, ended_at, record.to_text(), days)


# -- the table ------------------------------------------------------------------------------------------


def test_a_session_is_kept_once_and_only_its_log_is_completed(db: Any) -> None:
    keep(db, "a")
    keep(db, "a", ended_at=NOW + 5, log="its last lines")
    keep(db, "a", ended_at=NOW + 6, log="others")

    (record,) = store.of_person(db, 1, 30)
    assert EndedSession.from_text(record) == EndedSession("a", NOW, log="its last lines")


def test_a_person_has_her_own_alone_the_newest_first(db: Any) -> None:
    for number, (key, person) in enumerate([("a", 1), ("b", 2), ("c", 1)]):
        keep(db, key, person, NOW - 10 + number)

    assert keys(db, 1) == ["c", "a"]
    assert keys(db, 2) == ["b"]
    assert keys(db, 3) == []


def test_what_is_older_than_the_site_says_is_not_shown_and_goes_with_the_next_end_of_anybody(db: Any) -> None:
    keep(db, "old", 2, NOW - 31 * store.DAY_S + 60, days=60)
    assert keys(db, 2) == []
    keep(db, "new", 1)

    assert [key for (key,) in db.execute(select(store.TABLE.c.session_key))] == ["new"]


def test_who_only_looks_has_old_records_removed_too(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(db, "old", 2, NOW - 40 * store.DAY_S, days=60)
    monkeypatch.setattr(store, "REMOVED_EVERY_S", -1.0)

    assert keys(db, 1) == []
    assert db.execute(select(func.count()).select_from(store.TABLE)).scalar() == 0


def test_a_site_that_keeps_none_keeps_none_and_removes_those_of_before(db: Any) -> None:
    keep(db, "before")
    keep(db, "after", days=0)

    assert db.execute(select(func.count()).select_from(store.TABLE)).scalar() == 0
    assert store.of_person(db, 1, 0) == []


def test_of_one_person_the_newest_are_kept_and_nobody_elses_go_for_them(db: Any) -> None:
    keep(db, "of-bob", 2, NOW - 1000)
    for number in range(store.KEPT_PER_PERSON + 5):
        keep(db, f"{number:03}", ended_at=NOW - 500 + number)

    assert len(keys(db)) == store.KEPT_PER_PERSON
    assert keys(db)[-1] == "005"
    assert keys(db, 2) == ["of-bob"]


def test_who_is_deleted_takes_the_records_along_and_who_gets_the_number_sees_none(db: Any) -> None:
    carol = db.query(orm.User).filter_by(name="carol").one()
    number = carol.id
    keep(db, "of-carol", number)
    keep(db, "of-alice", 1)

    delete_person(db, "carol")
    dave = orm.User(name="dave", id=number)
    db.add(dave)
    db.commit()

    assert keys(db, number) == []
    assert keys(db, 1) == ["of-alice"]


def test_a_start_takes_away_what_nobody_has_any_more(db: Any) -> None:
    keep(db, "of-alice", 1)
    row = {"session_key": "of-nobody", "user_id": 99, "ended_at": NOW, "record": "{}"}
    db.execute(store.TABLE.insert().values(**row))
    db.commit()

    connections.prepare(db)

    assert keys(db, 99) == []
    assert keys(db, 1) == ["of-alice"]


def test_a_start_goes_on_where_the_database_takes_nothing_away(db: Any, caplog: pytest.LogCaptureFixture) -> None:
    trigger = "CREATE TRIGGER kept BEFORE DELETE ON dsportal_ended_sessions BEGIN SELECT RAISE(ABORT, 'kept'); END"
    row = {"session_key": "of-nobody", "user_id": 99, "ended_at": NOW, "record": "{}"}
    db.execute(store.TABLE.insert().values(**row))
    db.execute(text(trigger))
    db.commit()

    connections.prepare(db)

    assert "stay in dsportal_ended_sessions" in caplog.text
    assert db.execute(select(store.TABLE.c.session_key)).scalars().all() == ["of-nobody"]


def test_the_table_is_made_once_and_neither_a_start_nor_an_upgrade_minds_it(tmp_path: Path) -> None:
    file = tmp_path / database.FILE
    for key in ("a", "b"):
        db = orm.new_session_factory(f"sqlite:///{file}")()
        connections.prepare(db)
        db.merge(orm.User(id=1, name="alice"))
        keep(db, key)
        db.close()
        db.get_bind().dispose()
        database.check(file)  # the portal's own look before a start
    orm.check_db_revision(db.get_bind())  # and JupyterHub's
    schema.to_head(f"sqlite:///{file}")

    assert set(keys(db)) == {"a", "b"}
    db.close()


def test_a_record_of_another_version_is_read_with_what_is_known_of_it(db: Any) -> None:
    newer = json.dumps({"key": "a", "ended_at": NOW, "reason": "It ended.", "energy": 5})
    store.keep(db, 1, "a", NOW, newer, 30)

    (record,) = store.of_person(db, 1, 30)
    assert EndedSession.from_text(record) == EndedSession("a", NOW, reason="It ended.")


def test_a_copy_of_the_database_has_the_records_and_brings_them_back(db: Any) -> None:
    keep(db, "a")
    connection = db.connection()
    copy = copies.make(connection, "4621fec11365")
    connection.execute(store.TABLE.delete())
    for table in reversed(orm.Base.metadata.sorted_tables):
        connection.execute(table.delete())

    copies._fill(connection, copy)
    db.commit()

    assert keys(db) == ["a"]
    assert db.query(orm.User).count() == 3


# -- the spawner ----------------------------------------------------------------------------------------


async def test_a_session_that_is_stopped_is_kept_with_what_was_asked_for(db: Any, alice: Any) -> None:
    alice.note_stop("alice")
    await alice.stop(now=True)

    (record,) = alice.ended_records()
    assert record.options == {"partition": "sxm2", "gpus": 2, "hours": 4}
    assert (record.cores, record.memory_mib) == (16, 96 * 1024)
    assert (record.reason, record.node, record.job_id) == ("You stopped the session.", "gpu01", "17")
    assert spawner_of(db, "bob").ended_records() == []


async def test_a_hub_that_was_killed_right_after_an_end_keeps_no_second_record(db: Any, alice: Any) -> None:
    alice.session.note_end("The session used up its hours.")
    again = spawner_of(db, "alice")
    again.session.note_end("The session was cancelled.")

    (record,) = again.ended_records()
    assert record.reason == "The session used up its hours."


async def test_a_log_that_comes_after_its_person_was_deleted_is_nobodys(db: Any) -> None:
    carols = spawner_of(db, "carol")
    number = carols.user.id
    carols.session.note_end("It ended.")
    delete_person(db, "carol")
    db.add(orm.User(name="dave", id=number))
    db.commit()

    await carols.session.ending.wrote(asyncio.sleep(0, "what she did"))
    carols.record_end(EndedSession("another", NOW))

    assert db.execute(select(func.count()).select_from(store.TABLE)).scalar() == 0


async def test_nothing_secret_is_in_a_record(db: Any, alice: Any) -> None:
    log = "GET /x?y=its-own-0123456789\ntoken=s3cret&x\n'Authorization': 'Bearer s3cret'"
    log += "\nJUPYTERHUB_API_TOKEN=s3cret\nMY_PASSWORD: s3cret"
    alice.session.note_end("It ended.")
    await alice.session.ending.wrote(asyncio.sleep(0, log))

    kept = db.execute(select(store.TABLE.c.record)).scalar()
    assert "s3cret" not in kept
    assert "its-own" not in kept
    assert "sealed" not in kept
    assert "[removed]" in kept


@pytest.mark.parametrize("fault", ["no table", "cannot be written", "locked"])
async def test_a_database_that_fails_does_not_hold_up_the_end_and_is_in_the_log(
    db: Any, alice: Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    if fault == "no table":
        store.TABLE.drop(db.connection())
        db.commit()
    if fault == "cannot be written":
        db.connection().exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON dsportal_ended_sessions BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
        )
        db.commit()
    if fault == "locked":
        monkeypatch.setattr(db, "commit", lambda: (_ for _ in ()).throw(SQLAlchemyError("database is locked")))
    alice.log = Mock(spec=logging.Logger)

    alice.session.note_end("The session used up its hours.")
    monkeypatch.undo()

    assert alice.session.state.last_end == "The session used up its hours."
    alice.log.exception.assert_called_once_with("The end of the session %s is not kept: job %s", KEY, "17")
    assert db.query(orm.User).count() == 3, "the hub's own questions go on"


def test_a_database_in_which_no_table_can_be_made_does_not_keep_the_hub_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Mock()

    def refuse(*_: object, **__: object) -> None:
        raise SQLAlchemyError("permission denied for schema public")

    session = orm.new_session_factory("sqlite:///:memory:")()
    session.add(orm.User(name="alice"))
    session.commit()
    monkeypatch.setattr(store.TABLE, "create", refuse)
    monkeypatch.setattr(store, "LOG", log)

    connections.prepare(session)

    assert log.error.call_args.args[1] == "Sessions that end are not kept"
    keep(session, "a")
    assert store.of_person(session, 1, 30) == []
    session.delete(session.query(orm.User).one())
    session.commit()
    session.close()


async def test_a_slurm_that_is_silent_does_not_hold_up_the_list(
    db: Any, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.session.note_end("It ended.")
    monkeypatch.setattr(recorded, "WAITS_S", 0.01)
    monkeypatch.setattr(alice.context.limits, "site_of", lambda *_: asyncio.Event().wait())

    async with asyncio.timeout(5):
        (row,) = await alice.ended_rows()

    assert row.again == "opt-partition=sxm2&opt-gpus=2&opt-hours=4", (
        "what the site's settings offer; the form checks it"
    )


def test_texts_are_bounded_and_fit_for_every_database(db: Any, alice: Any) -> None:
    hostile = EndedSession(
        KEY, NOW, node="n" * 9999, reason="r" * 99_999, log="\0\ud800\x1b[31mred\x1b[0m\n" * 9999, state="\u202e"
    )

    alice.record_end(hostile)

    kept = db.execute(select(store.TABLE.c.record)).scalar()
    assert kept.isascii()
    assert len(kept) < 10_000
    (record,) = alice.ended_records()
    assert record.log.splitlines()[-1] == "?red"
    record.log.encode()


async def test_however_much_is_said_of_an_end_little_is_kept_of_it(db: Any, alice: Any) -> None:
    """A person's own launcher says it; a database may keep 64 KiB of a session, and no more."""
    alice.session.note_end("It was refused: \x1b[31m" + 200_000 * "x")

    assert alice.session.state.last_end.startswith("It was refused: xxx")
    assert len(json.dumps(alice.session.state.to_json())) < 10_000


async def test_a_restart_knows_what_was_asked_for_by_the_defaults_of_the_site(db: Any, alice: Any) -> None:
    alice.user_options = {"gpus": 1}  # of a script, by REST

    alice.session.note_end("It ended.")

    (record,) = alice.ended_records()
    assert record.options == {"partition": "sxm2", "gpus": 1, "hours": 8}


def test_postgresql_and_mariadb_are_asked_for_a_table_that_they_can_make() -> None:
    dialects: list[Any] = [mysql.dialect, postgresql.dialect]
    parts: list[Any] = [CreateTable(store.TABLE), *map(CreateIndex, store.TABLE.indexes)]

    for dialect in dialects:
        assert all(str(part.compile(dialect=dialect())) for part in parts)
    assert max(len(index.name or "") for index in store.TABLE.indexes) < 60
    assert len(f"before_4621fec11365_261123193500_{store.TABLE.name}") <= 63, (
        "a copy's name, which PostgreSQL would cut"
    )
