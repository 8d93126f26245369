"""What a hub asks its database when it starts: as often for many people and sessions as for few."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.spawner import SimpleLocalProcessSpawner
from jupyterhub.user import UserDict
from sqlalchemy import event

from portal.hub.app import PortalHub, plain_rows


class Silent(SimpleLocalProcessSpawner):  # type: ignore[misc]
    """A session whose node says nothing."""

    async def poll(self) -> int | None:
        """For ever."""
        await asyncio.Event().wait()
        return None


def database(folder: Path, people: int) -> Any:
    """JupyterHub's own tables, with people who all have a session that ran."""
    db = orm.new_session_factory(f"sqlite:///{folder}/{people}.sqlite")()
    role = orm.Role(name="user", scopes=["self"])
    for number in range(people):
        user = orm.User(name=f"known{number}")
        user.roles.append(role)
        db.add(user)
        session = orm.Spawner(name="", user=user, state={"key": "abcdef-1", "job_id": "1", "port": 7000})
        session.server = orm.Server(proto="http", ip="127.0.0.1", port=7000, base_url=f"/user/{user.name}/")
        db.add(session)
    db.commit()
    db.expunge_all()  # a hub that starts has nothing in its memory
    return db


@contextmanager
def asked(db: Any) -> Iterator[list[str]]:
    """What the database was asked meanwhile."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        if "FROM" in statement:  # the others ask whether the database is there
            statements.append(statement)

    event.listen(db.get_bind(), "before_cursor_execute", note)
    yield statements
    event.remove(db.get_bind(), "before_cursor_execute", note)


async def test_the_sessions_that_ran_are_known_after_as_many_questions_for_sixty_as_for_six(tmp_path: Path) -> None:
    counts = []
    for people in (6, 60):
        with closing(database(tmp_path, people)) as db:
            hub = PortalHub()
            hub.db = db
            hub.users = UserDict(lambda db=db: db, {"spawner_class": Silent, "app": hub})
            hub.authenticator = hub.authenticator_class(parent=hub)
            with asked(db) as statements:
                assert await hub.init_spawners() == people
            pending = [spawner for user in hub.users.values() for spawner in user.spawners.values()]
            assert [spawner.pending for spawner in pending] == ["check"] * people
            counts.append(len(statements))
            hub._looked.cancel()
            await asyncio.wait([hub._looked])

    assert counts[0] == counts[1]


@pytest.mark.parametrize("people", [6, 60])
def test_rows_bring_their_relations_when_they_are_asked_for_and_not_before(tmp_path: Path, people: int) -> None:
    with closing(database(tmp_path, people)) as db:
        with asked(db) as few, plain_rows(db):
            everybody = db.query(orm.User).all()
        with asked(db) as later:
            roles = [role.name for role in everybody[0].roles]
        db.expunge_all()
        with asked(db) as all_at_once:
            db.query(orm.User).all()

    assert (len(everybody), len(few), roles) == (people, 1, ["user"])
    assert later
    assert len(all_at_once) > 1, "the rule has ended with its block"
