"""The hub's session with a database server: nothing stays open that need not, and nothing that is changed is ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyterhub import orm
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from portal.databases import connections

WITHIN_S = 5.0


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """As the hub has it, on a file."""
    opened: Session = orm.new_session_factory(f"sqlite:///{tmp_path}/database")()
    yield opened
    opened.close()
    opened.get_bind().dispose()  # type: ignore[union-attr]


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
