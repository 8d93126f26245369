"""The hub's session with a database server: nothing stays open that need not, and nothing that is changed is ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyterhub import orm
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from portal.databases import connections

WITHIN_S = 5.0
HALF = "\ud800"  # of a character: no UTF-8 holds it


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """As the hub has it, on a file."""
    opened: Session = orm.new_session_factory(f"sqlite:///{tmp_path}/database")()
    yield opened
    opened.close()
    opened.get_bind().dispose()  # type: ignore[union-attr]


@pytest.fixture
def hubs(session: Session, tmp_path: Path) -> Iterator[Session]:
    """The hub's own, on the same file."""
    opened = connections.opened(orm.new_session_factory(f"sqlite:///{tmp_path}/database"))
    opened.add(orm.User(name="alice"))
    opened.commit()
    yield opened
    opened.close()
    opened.get_bind().dispose()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "fails", [lambda one: one.flush(), lambda one: one.commit(), lambda one: one.query(orm.User).all()]
)
@pytest.mark.parametrize("name", [HALF, 10**30, ["a"]])
def test_a_change_that_fails_is_given_up_and_whoever_asks_next_is_answered(
    hubs: Session, fails: Callable[[Session], Any], name: Any
) -> None:
    (alice,) = hubs.query(orm.User)
    alice.name = name

    with pytest.raises((SQLAlchemyError, UnicodeEncodeError, OverflowError)):
        fails(hubs)

    assert [user.name for user in hubs.query(orm.User)] == ["alice"]
    hubs.add(orm.User(name="bob"))
    hubs.commit()
    assert sorted(user.name for user in hubs.query(orm.User)) == ["alice", "bob"]


def test_a_change_that_the_database_refuses_when_it_is_kept_is_given_up(hubs: Session) -> None:
    hubs.execute(text("PRAGMA defer_foreign_keys = ON"))
    hubs.execute(text("INSERT INTO spawners (user_id, name) VALUES (999, '')"))

    with pytest.raises(IntegrityError):
        hubs.commit()

    assert [user.name for user in hubs.query(orm.User)] == ["alice"]


def test_a_file_is_not_asked_whether_it_is_still_there_before_each_question(hubs: Session) -> None:
    """A login alone has four transactions."""
    asked: list[str] = []
    event.listen(hubs.get_bind(), "before_cursor_execute", lambda *told: asked.append(told[2]))

    hubs.query(orm.User).all()
    hubs.commit()
    hubs.query(orm.Group).all()

    assert asked
    assert "SELECT 1" not in asked


def test_what_a_site_listens_for_stays(tmp_path: Path) -> None:
    made = orm.new_session_factory(f"sqlite:///{tmp_path}/database")
    heard: list[str] = []

    def of_engine(_: Any) -> None:
        heard.append("this engine")

    def of_class(_: Any) -> None:
        heard.append("all engines")

    event.listen(made.kw["bind"], "engine_connect", of_engine)
    event.listen(Engine, "engine_connect", of_class)
    try:
        with connections.opened(made) as session:
            heard.clear()
            session.execute(text("SELECT 2"))
    finally:
        event.remove(Engine, "engine_connect", of_class)
        made.kw["bind"].dispose()

    assert sorted(heard) == ["all engines", "this engine"]


async def becomes(found: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + WITHIN_S
    while not found():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_transaction_that_only_read_is_ended_soon(session: Session) -> None:
    connections.look_after(session)
    session.add(orm.User(name="alice"))
    session.commit()

    (alice,) = session.query(orm.User)

    assert session.in_transaction()
    await becomes(lambda: not session.in_transaction())
    assert alice.__dict__["name"] == "alice", "what was read needs no second question"


@pytest.mark.parametrize("is_sent", [False, True], ids=["in memory", "sent to the server"])
async def test_a_change_is_not_written_before_whoever_makes_it_says_so(session: Session, is_sent: bool) -> None:
    connections.look_after(session)
    session.add(orm.User(name="alice"))
    session.commit()
    (alice,) = session.query(orm.User)
    alice.name = "half a change"
    if is_sent:
        session.flush()  # as the next question does

    await asyncio.sleep(3 * connections.OPEN_FOR_S)

    assert session.in_transaction()
    session.rollback()
    assert [user.name for user in session.query(orm.User)] == ["alice"]
    await becomes(lambda: not session.in_transaction())


async def test_a_connection_that_broke_is_given_up_so_that_the_next_question_is_answered(session: Session) -> None:
    connections.look_after(session)
    engine = session.get_bind()

    @event.listens_for(engine, "handle_error")
    def as_if_gone(context: object) -> None:
        context.is_disconnect = True  # type: ignore[attr-defined]

    with pytest.raises(OperationalError):
        session.connection().exec_driver_sql("SELECT * FROM of_a_server_that_went_away")

    await becomes(lambda: not session.in_transaction())
    assert session.query(orm.User).count() == 0
