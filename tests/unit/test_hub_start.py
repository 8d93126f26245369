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
from sqlalchemy import event

from portal.hub.app import PortalHub
from portal.hub.restart import plain_rows


class Silent(SimpleLocalProcessSpawner):  # type: ignore[misc]
    """A session whose node says nothing."""

    async def poll(self) -> int | None:
        """For ever."""
        await asyncio.Event().wait()
        return None


class Ours(SimpleLocalProcessSpawner):  # type: ignore[misc]
    """A session of the portal's kind, which runs."""

    looks = 0

    @staticmethod
    def add_handlers() -> None:
        """What the hub knows its own spawners by."""

    async def poll(self) -> int | None:
        """It runs."""
        self.looks += 1
        return None

    async def get_url(self) -> str:
        """Where its row says."""
        return str(self.server.url)


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


def hub_of(db: Any, spawner_class: type) -> PortalHub:
    """A hub that has opened this database, and knows nobody yet."""
    hub = PortalHub()
    hub.db = db
    hub.spawner_class = spawner_class
    hub.tornado_settings = {"spawner_class": spawner_class, "app": hub}
    hub.authenticator = hub.authenticator_class(parent=hub)
    return hub


async def test_the_sessions_of_a_sites_own_spawner_are_known_after_as_many_questions_for_sixty_as_for_six(
    tmp_path: Path,
) -> None:
    counts = []
    for people in (6, 60):
        with closing(database(tmp_path, people)) as db:
            hub = hub_of(db, Silent)
            with asked(db) as statements:
                assert await hub.init_spawners() == people
            pending = [spawner for user in hub.users.values() for spawner in user.spawners.values()]
            assert [spawner.pending for spawner in pending] == ["check"] * people
            counts.append(len(statements))
            assert hub._looked is not None
            hub._looked.cancel()
            await asyncio.wait([hub._looked])

    assert counts[0] == counts[1]


async def test_no_session_is_made_before_the_first_page_and_each_is_looked_at_after_it(tmp_path: Path) -> None:
    counts = []
    for people in (6, 60):
        with closing(database(tmp_path, people)) as db:
            hub = hub_of(db, Ours)
            with asked(db) as statements:
                assert await hub.init_spawners() == people
            assert list(hub.users.values()) == []
            counts.append(len(statements))

            assert await hub._look_at_running() == people
            spawners = [spawner for user in hub.users.values() for spawner in user.spawners.values()]
            assert [(spawner.looks, spawner.pending) for spawner in spawners] == [(1, None)] * people

    assert counts[0] == counts[1]


async def test_who_is_asked_for_before_that_is_there_with_every_session_and_its_look_is_pending(tmp_path: Path) -> None:
    with closing(database(tmp_path, 6)) as db:
        hub = hub_of(db, Ours)
        await hub.init_spawners()

        user = hub.users["known3"]  # as a page or an announcement asks for it
        assert [(name, spawner.pending) for name, spawner in user.spawners.items()] == [("", "check")]

        assert await hub._look_at_running() == 6
        assert (user.spawners[""].looks, user.spawners[""].pending) == (1, None)
        assert not hub.users.unmade


async def test_what_sessions_of_before_have_left_goes_once_all_that_ran_are_known_and_nothing_of_those(
    tmp_path: Path,
) -> None:
    with closing(database(tmp_path, 6)) as db:
        runs = {f"jupyterhub-user-known{number}" for number in range(6)}
        for name in {*runs, "jupyterhub", "jupyterhub-user-gone"}:
            db.add(orm.OAuthClient(identifier=name, secret="", redirect_uri="", description=""))
        db.commit()
        hub = hub_of(db, Ours)
        await hub.init_spawners()

        hub.cleanup_oauth_clients()  # as JupyterHub does before the first page
        assert db.query(orm.OAuthClient).count() == len(runs) + 2
        await hub._look_at_running()

        assert {name for (name,) in db.query(orm.OAuthClient.identifier)} == {*runs, "jupyterhub"}


async def test_a_session_that_waited_is_found_among_people_without_one(tmp_path: Path) -> None:
    with closing(database(tmp_path, 2)) as db:
        for name, state in {"idle": {"last_end": 'a "key" of old'}, "waits": {"key": "abcdef-2", "port": 0}}.items():
            user = orm.User(name=name)
            db.add_all([user, orm.Spawner(name="", user=user, state=state, user_options={"hours": 1})])
        db.commit()
        hub = hub_of(db, Ours)

        assert await hub.init_spawners() == 2
        assert hub._waiting == [("waits", "", {"hours": 1}, "abcdef-2")]


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
