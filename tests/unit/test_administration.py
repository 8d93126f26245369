"""The administrators' role, the password that is asked for again, and who enters a session: on a database in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from jupyterhub import orm, roles
from jupyterhub.apihandlers import default_handlers
from jupyterhub.scopes import expand_scopes, get_scopes_for, scope_definitions
from jupyterhub.user import UserDict
from jupyterhub.utils import utcnow
from sqlalchemy.orm import Session
from traitlets.config import Config

from portal.administration import again, enter, others, role
from portal.hub.app import PortalHub
from portal.login.auth import LDAPAuthenticator
from portal.session_state import SessionState, Visit
from portal.site import Standing
from spawners import messages
from tests.unit.test_session_environment import spawner_with

LOG = logging.getLogger("test.administration")
# What an administrator of the portal may do; a new scope of JupyterHub's is refused until somebody has thought of it.
ALLOWED = {
    *("admin-ui", "delete:servers", "delete:users", "list:groups", "list:services", "list:users"),
    *("read:groups", "read:groups:name", "read:hub", "read:metrics", "read:servers", "read:services"),
    *("read:services:name", "read:users", "read:users:activity", "read:users:groups", "read:users:name"),
}


@pytest.fixture
def db() -> Iterator[Session]:
    """JupyterHub's database with alice's session, and carol in the group of the administrators."""
    made = orm.new_session_factory("sqlite:///:memory:")()
    for default in roles.get_default_roles():
        roles.create_role(made, default)
    roles.create_role(made, {key: value for key, value in role.role(()).items() if key != "groups"})
    admins = orm.Group(name="portal-admins", roles=[orm.Role.find(made, role.NAME)])
    alice = orm.User(name="alice")
    carol = orm.User(name="carol", groups=[admins])
    made.add_all([alice, carol, orm.Spawner(name="", user=alice, started=utcnow(with_tz=False) - timedelta(hours=2))])
    made.commit()
    for person in (alice, carol):
        roles.assign_default_roles(made, person)
    yield made
    made.close()


def person(db: Session, name: str) -> Any:
    """The row of a person."""
    return orm.User.find(db, name)


def session(db: Session) -> Any:
    """The row of alice's session."""
    return db.query(orm.Spawner).one()


def may_enter(db: Session, name: str) -> bool:
    """Whether somebody may use alice's session, as JupyterHub says it now."""
    return "access:servers!server=alice/" in get_scopes_for(person(db, name))


def test_an_administrator_may_see_and_end_and_nothing_else() -> None:
    assert expand_scopes(role.SCOPES) == ALLOWED
    assert scope_definitions.keys() > ALLOWED


def test_the_role_comes_with_the_group(db: Session) -> None:
    assert role.has_role(person(db, "carol"))
    assert not role.has_role(person(db, "alice"))


def test_the_flag_of_before_is_taken_back_but_from_those_whom_the_settings_name(db: Session) -> None:
    for name in ("alice", "carol"):
        person(db, name).admin = True
        roles.assign_default_roles(db, person(db, name))
    kept = role.named_admins({"alice"}, [{"name": "other", "users": ["carol"]}])

    role.take_back_flags(db, kept, LOG)

    assert (person(db, "alice").admin, person(db, "carol").admin) == (True, False)
    assert "tokens" not in get_scopes_for(person(db, "carol"))  # only "tokens!user=carol"
    assert "tokens" in get_scopes_for(person(db, "alice"))


def test_a_site_names_administrators_of_jupyterhub_in_two_ways() -> None:
    assert role.named_admins({"one"}, [{"name": "admin", "users": ["two"]}, {"name": "admin", "groups": ["g"]}]) == {
        "one",
        "two",
    }


async def test_a_hub_that_starts_gives_the_roles_of_its_settings_and_takes_the_flags_of_before(db: Session) -> None:
    """A group that has no member yet is made; JupyterHub's own role by a group is a site's choice."""
    person(db, "alice").admin = True
    person(db, "alice").groups = [orm.Group(name="owners")]
    hub = PortalHub(authenticator_class=LDAPAuthenticator, load_roles=[role.role(["portal-admins", "nobody yet"])])
    hub.load_roles.append({"name": "admin", "groups": ["owners"]})
    hub.db = db
    hub.authenticator = LDAPAuthenticator()

    await hub.init_role_creation()
    await hub.init_role_assignment()

    assert person(db, "alice").admin is False
    assert "tokens" in get_scopes_for(person(db, "alice"))
    assert role.has_role(person(db, "carol"))
    assert orm.Group.find(db, "nobody yet").roles[0].name == role.NAME


# -- the password once more ------------------------------------------------------------------------------------


def test_every_handler_of_the_rest_api_stands_behind_the_question_and_stays_what_it_is() -> None:
    routes = [(path, handler) for path, handler, *_ in default_handlers]

    asking = others.asking(routes)

    asked = {path for path, handler in asking if issubclass(handler, others.Asking)}
    assert {r"/api/users/([^/]+)", r"/api/users/([^/]+)/server", r"/api/users/([^/]+)/tokens", "/api/shutdown"} <= asked
    assert all(issubclass(new, old) for (_, new), (_, old) in zip(asking, routes, strict=True))
    assert others.asking(asking) == asking


# -- entering --------------------------------------------------------------------------------------------------


def test_who_enters_may_use_the_session_for_an_hour(db: Session) -> None:
    enter.grant(db, session(db), person(db, "carol"))
    (share,) = db.query(orm.Share)

    assert may_enter(db, "carol")
    assert enter.take_back_over(db) == []
    assert timedelta(minutes=59) < share.expires_at - utcnow(with_tz=False) <= enter.LASTS

    share.expires_at = utcnow(with_tz=False) - timedelta(seconds=1)
    db.commit()
    assert enter.take_back_over(db) == ["carol, session of alice"]
    assert not may_enter(db, "carol")


@pytest.mark.parametrize("started", [None, timedelta(seconds=1)])
def test_access_ends_with_the_session_and_not_with_the_next_one(db: Session, started: timedelta | None) -> None:
    enter.grant(db, session(db), person(db, "carol"))

    session(db).started = started and utcnow(with_tz=False) + started
    db.commit()

    assert enter.take_back_over(db) == ["carol, session of alice"]
    assert not may_enter(db, "carol")


def test_access_ends_with_the_role_and_nobody_elses_with_it(db: Session) -> None:
    admins = orm.Group.find(db, "portal-admins")
    db.add(orm.User(name="dave", groups=[admins]))
    db.commit()
    for name in ("carol", "dave"):
        enter.grant(db, session(db), person(db, name))

    person(db, "carol").groups.remove(admins)
    db.commit()

    assert enter.take_back_over(db) == ["carol, session of alice"]
    assert not may_enter(db, "carol")
    assert may_enter(db, "dave")


async def test_who_has_entered_has_the_groups_that_the_directory_says_whether_they_ask_the_hub_or_not(
    db: Session,
) -> None:
    users = UserDict(db_factory=lambda: db, settings={})
    asked: list[list[str]] = []
    said = {"carol": Standing(groups=frozenset({"portal-admins"}))}

    async def standings(names: Collection[str]) -> Mapping[str, Standing]:
        asked.append(sorted(names))
        return said

    await enter.follow_groups(db, users, standings)
    assert asked == [], "nobody is inside"
    enter.grant(db, session(db), person(db, "carol"))
    await enter.follow_groups(db, users, standings)
    assert (asked, enter.take_back_over(db)) == ([["carol"]], [])

    for standing in (Standing(), Standing(left="locked", groups=frozenset())):  # nothing is known; others end the login
        said["carol"] = standing
        await enter.follow_groups(db, users, standings)
        assert enter.take_back_over(db) == []
    said["carol"] = Standing(groups=frozenset({"jupyter"}))
    await enter.follow_groups(db, users, standings)

    assert enter.take_back_over(db) == ["carol, session of alice"]


async def test_a_directory_that_is_silent_keeps_no_access_from_its_end(
    db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enter, "GROUPS_WITHIN_S", 0.01)
    enter.grant(db, session(db), person(db, "carol"))

    async with asyncio.timeout(5):
        await enter.follow_groups(db, {}, lambda names: asyncio.Event().wait())

    assert may_enter(db, "carol")


def test_access_ends_where_the_site_allows_no_entering_any_more(db: Session) -> None:
    enter.grant(db, session(db), person(db, "carol"))

    assert enter.take_back_over(db, is_on=False) == ["carol, session of alice"]
    assert not may_enter(db, "carol")


def test_what_the_owner_shares_is_not_ours_to_take_back_from_who_has_no_role(db: Session) -> None:
    db.add(orm.User(name="bob"))
    db.commit()
    orm.Share.grant(db, session(db), person(db, "bob"))

    assert enter.take_back_over(db, is_on=False) == []
    assert may_enter(db, "bob")


def test_who_enters_again_has_another_hour(db: Session) -> None:
    enter.grant(db, session(db), person(db, "carol"))
    (share,) = db.query(orm.Share)
    share.expires_at = utcnow(with_tz=False) + timedelta(seconds=5)
    db.commit()

    enter.grant(db, session(db), person(db, "carol"))

    (share,) = db.query(orm.Share)
    assert share.expires_at - utcnow(with_tz=False) > timedelta(minutes=59)
    assert may_enter(db, "carol")


def test_what_is_shared_without_an_end_is_not_ours_to_take_back(db: Session) -> None:
    orm.Share.grant(db, session(db), person(db, "carol"))

    enter.grant(db, session(db), person(db, "carol"))
    session(db).started = None
    db.commit()

    assert enter.take_back_over(db) == []
    assert db.query(orm.Share).one().expires_at is None


def test_what_is_shared_and_gives_no_access_keeps_nobody_out(db: Session) -> None:
    orm.Share.grant(db, session(db), person(db, "carol"), ["read:servers!server=alice/"])
    assert not may_enter(db, "carol")

    enter.grant(db, session(db), person(db, "carol"))

    assert may_enter(db, "carol")
    share = db.query(orm.Share).one()
    assert share.expires_at is not None
    assert set(share.scopes) == {"access:servers!server=alice/", "read:servers!server=alice/"}


@pytest.mark.parametrize("text", ["A full disk.", " blanks around ", "x" * 500, "Grüße, 東京 ✓"])
def test_a_reason_is_one_line_of_text(text: str) -> None:
    assert enter.read_reason(text) == text.strip()


@pytest.mark.parametrize(
    "text", ["", " \n", "...", "x" * 501, "a\nb", "a\x1bb", "a\u202eb", "a\u2028b", "a\0b", "\u3164"]
)
def test_what_is_no_line_of_text_is_no_reason(text: str) -> None:
    with pytest.raises(ValueError, match="The reason"):
        enter.read_reason(text)


def test_a_session_is_entered_so_often_that_its_person_can_read_it(db: Session) -> None:
    visits = (Visit("carol", 1, "A full disk."),) * enter.ENTRIES_MOST
    session(db).state = SessionState("abc1230123456789", "17", "token", entries=visits[1:]).to_json()
    enter.check_room(session(db))

    long = (Visit("carol", 1, enter.LONGEST_REASON * "ü"),) * 20
    for many in (visits, long):
        session(db).state = SessionState("abc1230123456789", "17", "token", entries=many).to_json()
        with pytest.raises(again.Refused, match="409"):
            enter.check_room(session(db))


def test_who_entered_is_remembered_when_the_session_ends_whoever_stops_it() -> None:
    (spawner,) = spawner_with(Config())
    spawner.session.load(SessionState("abc1230123456789", "17", "token", 40123))

    spawner.note_entry("carol", "A full disk.")
    spawner.note_entry("dave", "The same.")

    spawner.load_state(dict(spawner.orm_spawner.state))
    told = messages.entries(spawner.session.state.entries)
    assert spawner.session_facts["entries"] == told
    assert [line.partition(" entered ")[0] for line in told] == ["dave, an administrator,", "carol, an administrator,"]
    spawner.clear_state()
    assert spawner.session_facts["entries"] == told
    spawner.load_state(spawner.get_state())
    assert spawner.session_facts["entries"] == told, "after a restart of the hub"


def test_an_entry_of_another_day_says_its_day() -> None:
    now = datetime.now(UTC).astimezone()
    long_ago = datetime(2026, 1, 5, 9, 4, tzinfo=UTC).astimezone()

    today, before = messages.entries(
        [Visit("carol", int(long_ago.timestamp()), "Why."), Visit("dave", int(now.timestamp()), "So.")]
    )

    assert today == f"dave, an administrator, entered your session at {now:%H:%M %Z}: So."
    assert before == f"carol, an administrator, entered your session on 2026-01-05 at {long_ago:%H:%M %Z}: Why."
