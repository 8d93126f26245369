"""The portal's own tables on a real server: made by the version that brings them, upgraded, copied and brought back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jupyterhub import orm
from sqlalchemy import MetaData, create_engine, inspect, text
from sqlalchemy.orm import Session

from portal.databases import connections, copies, ended_sessions, forecasts_told, named_choices, server, usage_by_month
from portal.site import Site
from tests.databases.test_servers import HEAD, make_old, names, options, site, url_of

__all__ = ["names", "site"]
NOW = int(time.time())
LATER = (forecasts_told, usage_by_month, named_choices)  # the tables that the version before did not have
WORDS = "Größe 🚀 \\ ' \" %s :name\n"  # what a text of JSON may hold
LONGEST = json.dumps({"log": WORDS * 400, "receipt": None}, ensure_ascii=False)
RECEIPT = {"seconds": 3600, "gpus": 2, "cores": 8}


@contextmanager
def opened(ours: Site) -> Iterator[Session]:
    """The database as a hub has opened it at its start."""
    session = orm.new_session_factory(url_of(ours), **options(ours))()
    for one in connections.OWN:
        one.prepare(session)
    yield session
    session.close()
    session.get_bind().dispose()


def number_of(db: Session, name: str) -> int:
    return int(orm.User.find(db, name).id)


def fill(db: Session) -> None:
    """Something of person7's in each of the tables, and of person8's."""
    for name in ("person7", "person8"):
        who = number_of(db, name)
        ended_sessions.keep(db, who, f"key of {name}", NOW, LONGEST, days=30)
        named_choices.keep(db, who, WORDS)
        named_choices.keep(db, who, f"{WORDS}{name}")
        forecasts_told.keep(db, NOW, f"{WORDS}{name}")
    ended_sessions.add_receipts(db, {"key of person7": RECEIPT})


def kept(db: Session) -> dict[str, object]:
    """All of it."""
    people = {name: number_of(db, name) for name in ("person7", "person8")}
    return {
        "ended": {name: ended_sessions.of_person(db, who, 30) for name, who in people.items()},
        "without receipt": ended_sessions.without_receipt(db, NOW - 60, 10),
        "usage": {name: usage_by_month.of_person(db, who) for name, who in people.items()},
        "choices": {name: named_choices.of_person(db, who) for name, who in people.items()},
        "forecasts": forecasts_told.newest(db),
    }


def tables_of(ours: Site) -> set[str]:
    engine = create_engine(url_of(ours))
    found = set(inspect(engine).get_table_names())
    engine.dispose()
    return found


def as_version_before(ours: Site, folder: Path) -> None:
    """A database as a portal left it that had the first of the tables alone, on an earlier JupyterHub."""
    with opened(ours) as db:
        ended_sessions.keep(db, number_of(db, "person7"), "of before", NOW, LONGEST, days=30)
        for one in LATER:
            one.TABLE.drop(db.get_bind())
    make_old(ours, folder)


def test_each_table_holds_what_is_kept_in_it_and_answers_it_as_it_was(site: Site) -> None:
    with opened(site) as db:
        fill(db)
        found = kept(db)

    month = usage_by_month.month_of(NOW)
    usage = {"sessions": 1, "gpu_s": 7200, "core_s": 28800}
    assert json.loads(found["ended"]["person7"][0]) == json.loads(LONGEST) | {"receipt": RECEIPT}  # type: ignore[index]
    assert found["without receipt"] == found["ended"]["person8"] == [LONGEST]  # type: ignore[index]
    assert {name: {one: json.loads(said) for one, said in of.items()} for name, of in found["usage"].items()} == {  # type: ignore[attr-defined]
        "person7": {month: usage},
        "person8": {},
    }
    assert found["choices"] == {"person7": f"{WORDS}person7", "person8": f"{WORDS}person8"}
    assert found["forecasts"] == [f"{WORDS}person8", f"{WORDS}person7"]


def test_who_is_deleted_leaves_nothing_of_theirs(site: Site) -> None:
    with opened(site) as db:
        fill(db)
        gone = number_of(db, "person7")
        db.delete(orm.User.find(db, "person7"))
        db.commit()

        assert ended_sessions.of_person(db, gone, 30) == []
        assert usage_by_month.of_person(db, gone) == {}
        assert named_choices.of_person(db, gone) == ""
        assert ended_sessions.of_person(db, number_of(db, "person8"), 30) == [LONGEST]


def test_an_upgrade_from_before_the_tables_makes_them_and_keeps_what_was_there(site: Site, tmp_path: Path) -> None:
    as_version_before(site, tmp_path)
    assert tables_of(site).isdisjoint(one.TABLE.name for one in LATER)

    copy = copies.upgrade(site)

    server.check(site)
    with opened(site) as db:
        assert ended_sessions.of_person(db, number_of(db, "person7"), 30) == [LONGEST]
        fill(db)
        assert len(kept(db)["forecasts"]) == 2  # type: ignore[arg-type]
    assert {one.TABLE.name for one in connections.OWN} <= tables_of(site)
    assert f"{copy}_{ended_sessions.TABLE.name}" in tables_of(site)


def test_an_upgrade_with_the_tables_keeps_their_rows_and_indexes(site: Site, tmp_path: Path) -> None:
    with opened(site) as db:
        fill(db)
        before = kept(db)
    make_old(site, tmp_path)

    copy = copies.upgrade(site)

    with opened(site) as db:
        assert kept(db) == before
        assert db.execute(text(f"SELECT count(*) FROM {copy}_{forecasts_told.TABLE.name}")).scalar() == 2  # noqa: S608  ours
        there = {one["name"] for one in inspect(db.get_bind()).get_indexes(ended_sessions.TABLE.name)}
    assert {one.name for one in ended_sessions.TABLE.indexes} <= there


@pytest.mark.parametrize("is_of_before", [False, True], ids=["with all tables", "from before the tables"])
def test_a_copy_brings_the_tables_back_and_the_portal_goes_on_from_it(site: Site, is_of_before: bool) -> None:
    with opened(site) as db:
        fill(db)
        before = kept(db)
        db.commit()  # or else the tables are in use
        if is_of_before:
            for one in LATER:
                one.TABLE.drop(db.get_bind())
    engine = create_engine(url_of(site))
    with engine.begin() as connection:
        copy = copies.make(connection, HEAD)
        known = MetaData()
        known.reflect(connection, only=[name for name in tables_of(site) if name.startswith("dsportal_")])
        known.drop_all(connection)
    engine.dispose()

    copies.restore(site, copy)

    empty = {"usage": {"person7": {}, "person8": {}}, "choices": {"person7": "", "person8": ""}, "forecasts": []}
    with opened(site) as db:
        assert kept(db) == before | (empty if is_of_before else {})
        forecasts_told.keep(db, NOW, "the next one")  # with a number that none has
        assert forecasts_told.newest(db)[0] == "the next one"
        fill_again = kept(db)["ended"]
    assert fill_again == before["ended"]
