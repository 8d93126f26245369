"""The hub's look for people who left, and what ends then, on JupyterHub's own database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from jupyterhub import orm, roles
from jupyterhub.utils import utcnow
from sqlalchemy import event, insert
from sqlalchemy.exc import OperationalError

from portal.databases import old_logins, token_notes
from portal.hub.logins import LOGINS_AT_ONCE, MANY, Leavers, end_logins, leavers_of, limit_tokens, with_something
from portal.login.kept import Kept
from portal.login.passwords import PasswordTimes
from portal.site import Standing

HUB = "abc123"


@pytest.fixture
def db() -> Any:
    made = orm.new_session_factory("sqlite:///:memory:")()
    for role in roles.get_default_roles():
        roles.create_role(made, role)
    made.add(orm.OAuthClient(identifier="jupyterhub", secret=""))
    made.add(orm.OAuthClient(identifier="jupyterhub-user-alice", secret=""))
    made.commit()
    return made


def person(db: Any, name: str) -> Any:
    """Somebody with a session that runs, a login in it, and a token."""
    made = orm.User(name=name)
    db.add(made)
    db.commit()
    roles.assign_default_roles(db, made)
    server = orm.APIToken.new(user=made, note=f"Server at /user/{name}/")
    made._orm_spawners.append(orm.Spawner(name="", state={"key": f"{HUB}1", "token": server}))
    orm.APIToken.new(user=made, note="Server at home, says its owner")
    orm.APIToken.new(user=made, client_id="jupyterhub-user-alice", session_id="of a browser")
    made.oauth_codes.append(orm.OAuthCode(client_id="jupyterhub-user-alice", code="c"))
    db.commit()
    return made


def notes(made: Any) -> list[str]:
    """What tokens somebody has."""
    return [token.note or "login" for token in made.api_tokens]


def test_a_logout_ends_all_logins_and_keeps_the_session_and_what_the_person_made(db: Any) -> None:
    alice = person(db, "alice")
    before = alice.cookie_id

    end_logins(db, alice, own_tokens=False)

    assert alice.cookie_id != before
    assert notes(alice) == ["Server at /user/alice/", "Server at home, says its owner"]
    assert alice.oauth_codes == []


@pytest.mark.parametrize("ends", [True, False], ids=["logout", "look"])
async def test_codes_of_logins_that_were_never_finished_go_in_one_step_however_many(db: Any, ends: bool) -> None:
    person(db, "bob")
    alice = person(db, "alice")
    rows = [{"client_id": "jupyterhub-user-alice", "user_id": alice.id, "expires_at": 1} for _ in range(1000)]
    db.execute(insert(orm.OAuthCode), rows)
    db.commit()
    db.expunge_all()
    alice = orm.User.find(db, "alice")
    bob = orm.User.find(db, "bob")
    read: list[object] = []

    with listening(orm.OAuthCode, "load", lambda code, _: read.append(code)):
        if ends:
            end_logins(db, alice, own_tokens=False)
        else:
            await old_logins.look(db)

    assert not read, "each that is read takes the hub a moment of everybody's"
    assert [len(one.oauth_codes) for one in (alice, bob)] == [0 if ends else 1, 1]


@contextmanager
def listening(kind: object, what: str, hear: Callable[..., None]) -> Iterator[None]:
    """Hear of something of SQLAlchemy's meanwhile."""
    event.listen(kind, what, hear)
    yield
    event.remove(kind, what, hear)


def test_who_leaves_keeps_the_token_of_the_session_alone_until_it_ends(db: Any) -> None:
    alice = person(db, "alice")

    end_logins(db, alice, own_tokens=True)

    assert notes(alice) == ["Server at /user/alice/"]


def test_tokens_of_before_the_limit_get_an_end_but_not_that_of_a_session(db: Any) -> None:
    alice = person(db, "alice")

    limit_tokens(db, 86400, {alice._orm_spawners[0].state["token"]})

    db.expire_all()
    ends = {token.note: token.expires_at for token in alice.api_tokens}
    assert ends["Server at home, says its owner"] is not None
    assert ends["Server at /user/alice/"] is None


def test_notes_of_before_the_limit_are_cut_and_the_others_stay(db: Any) -> None:
    alice = person(db, "alice")
    before = notes(alice)
    for note, ends in (("ä" * 2_000_000, None), ("x" * 1024, orm.utcnow()), ("y" * 1023, None)):
        orm.APIToken.new(user=alice, note=note)
        alice.api_tokens[-1].expires_at = ends
    db.commit()

    log = Mock(spec=logging.Logger)
    for _ in range(2):
        token_notes.cut(db, log)

    db.expire_all()
    assert notes(alice) == [*before, "ä" * 1023, "x" * 1023, "y" * 1023]
    log.warning.assert_called_once()
    assert 2 in log.warning.call_args.args


async def test_of_the_logins_of_one_person_into_a_session_the_newest_are_kept_and_all_else_stays(
    db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = person(db, "alice"), person(db, "bob")
    monkeypatch.setattr(old_logins, "KEPT", 3)
    for _ in range(7):
        orm.APIToken.new(user=alice, client_id="jupyterhub-user-alice")
        orm.APIToken.new(user=alice, note="made by hand")
    logins = [token.id for token in alice.api_tokens if token.client_id != "jupyterhub"]
    others = [token.id for token in alice.api_tokens if token.client_id == "jupyterhub"]
    before = notes(bob)

    for _ in range(2):
        await old_logins.look(db)

    db.expire_all()
    assert sorted(token.id for token in alice.api_tokens) == sorted([*others, *logins[-3:]])
    assert notes(bob) == before


class World:
    """What a look sees and does."""

    def __init__(self, db: Any, *names: str) -> None:
        self.db = db
        self.rows = {name: person(db, name) for name in names}
        self.standing: dict[str, Standing] = dict.fromkeys(names, Standing())
        self.new_passwords: set[str] = set()
        self.stopped: list[str] = []
        self.routes = 0
        self.kept: dict[str, str] = {}
        self.proxy_is_away = False
        self.waits_for: asyncio.Event | None = None

    async def standings(self, names: Collection[str]) -> Mapping[str, Standing]:
        return {name: self.standing[name] for name in names if name in self.standing}

    async def stop(self, row: Any) -> None:
        if self.waits_for:
            await self.waits_for.wait()
        self.stopped.append(row.name)

    async def check_routes(self) -> None:
        if self.proxy_is_away:
            raise ConnectionError("no proxy")
        self.routes += 1

    def tell_of_new_passwords(self, standings: Mapping[str, Standing], end: Callable[[str], None]) -> None:
        for name in self.new_passwords & standings.keys():
            end(name)

    def leavers(self, policy: str = "stop") -> Leavers:
        return Leavers(
            names=lambda: with_something(self.db, HUB, 1),
            person=lambda name: orm.User.find(self.db, name),
            standings=self.standings,
            new_passwords=self.tell_of_new_passwords,
            end_logins=partial(end_logins, self.db),
            end_sessions=self.stop if policy == "stop" else None,
            check_routes=self.check_routes,
            keep=self.kept.update,
            log=logging.getLogger("test.leavers"),
        )

    async def look(self, ours: Leavers) -> None:
        await ours.look()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_only_who_left_for_certain_loses_logins_tokens_and_session(db: Any) -> None:
    world = World(db, "alice", "bob", "carol", "dave")
    world.standing |= {"alice": Standing("gone"), "bob": Standing("gone?", is_sure=False)}
    del world.standing["carol"]  # nothing is known of her

    await world.look(world.leavers())

    assert notes(world.rows["alice"]) == ["Server at /user/alice/"]
    assert world.stopped == ["alice"]
    assert all(len(notes(world.rows[name])) == 3 for name in ("bob", "carol", "dave"))


@pytest.mark.parametrize(("hours", "ends"), [(23, True), (25, False)])
async def test_who_has_nothing_but_a_login_that_may_last_still_loses_it_too(db: Any, hours: int, ends: bool) -> None:
    alice = orm.User(name="alice", last_activity=utcnow(with_tz=False) - timedelta(hours=hours))
    db.add(alice)
    db.commit()
    before = alice.cookie_id
    world = World(db, "bob")
    world.standing["alice"] = Standing("locked")

    await world.look(world.leavers())

    assert (alice.cookie_id != before) is ends
    assert len(notes(world.rows["bob"])) == 3


def with_a_login_alone(db: Any, count: int) -> list[str]:
    """The names of people who were here a moment ago, and have neither a session nor a token."""
    names = [f"guest{number}" for number in range(count)]
    db.add_all(orm.User(name=name, last_activity=utcnow(with_tz=False)) for name in names)
    db.commit()
    return names


async def test_people_with_a_login_alone_who_left_keep_nobody_elses_session(db: Any) -> None:
    world = World(db, "alice", "bob")
    world.standing |= dict.fromkeys(["alice", *with_a_login_alone(db, 8)], Standing("locked"))

    await world.look(world.leavers())

    assert world.stopped.count("alice") == 1
    assert "bob" not in world.stopped


async def test_of_people_with_a_login_alone_a_part_is_asked_about_in_each_look_and_everybody_in_turn(db: Any) -> None:
    world = World(db, "alice")
    guests = with_a_login_alone(db, 2 * LOGINS_AT_ONCE + 50)
    world.standing |= dict.fromkeys(guests, Standing())
    asked = Mock(side_effect=world.standings)
    ours = replace(world.leavers(), standings=asked)

    for _ in range(4):
        await world.look(ours)

    looks = [set(call.args[0]) for call in asked.call_args_list]
    assert all("alice" in look and len(look) == LOGINS_AT_ONCE + 1 for look in looks)
    assert set().union(*looks[:3]) == {"alice", *guests}
    assert looks[3] != looks[2]


async def test_few_people_with_a_login_alone_are_all_asked_about_in_each_look(db: Any) -> None:
    world = World(db, "alice")
    guests = with_a_login_alone(db, 3)
    asked = Mock(side_effect=world.standings)
    ours = replace(world.leavers(), standings=asked)

    for _ in range(2):
        await world.look(ours)

    assert [sorted(call.args[0]) for call in asked.call_args_list] == [sorted(["alice", *guests])] * 2


async def test_people_with_a_login_alone_who_stayed_make_a_mistake_of_the_directory_no_smaller(db: Any) -> None:
    names = [f"user{number}" for number in range(6)]
    world = World(db, *names)
    world.standing |= dict.fromkeys(names, Standing("not allowed")) | dict.fromkeys(
        with_a_login_alone(db, 20), Standing()
    )

    await world.look(world.leavers())

    assert world.stopped == []


async def test_a_site_may_let_the_session_go_on(db: Any) -> None:
    world = World(db, "alice", "bob", "carol")
    world.standing["alice"] = Standing("gone")

    await world.look(world.leavers("keep"))

    assert world.stopped == []
    assert notes(world.rows["alice"]) == ["Server at /user/alice/"]


async def test_the_routes_of_a_session_that_goes_on_end_and_are_there_again_with_its_person(db: Any) -> None:
    world = World(db, "alice", "bob", "carol")
    ours = world.leavers("keep")
    await world.look(ours)
    assert world.routes == 0

    world.standing["alice"] = Standing("gone")
    world.proxy_is_away = True
    with pytest.raises(ConnectionError):
        await world.look(ours)
    world.proxy_is_away = False
    for _ in range(2):
        await world.look(ours)
        assert (world.routes, ours.ended) == (1, {"alice"})

    world.standing["alice"] = Standing("gone?", is_sure=False)
    await world.look(ours)
    del world.standing["alice"]  # the directory is silent: nothing shows that she is back
    await world.look(ours)
    assert (world.routes, ours.ended, world.kept) == (1, {"alice"}, {"alice": "left"})

    world.standing["alice"] = Standing()
    await world.look(ours)
    assert (world.routes, ours.ended, world.kept) == (2, set(), {"alice": ""})


@pytest.mark.parametrize("ends", [False, True])
async def test_the_proxy_of_a_hub_leaves_out_who_is_out_also_after_a_restart(
    db: Any, tmp_path: Path, ends: bool
) -> None:
    world = World(db, "alice", "bob", "carol")
    hub = SimpleNamespace(
        db=db,
        hub_id=HUB,
        cookie_max_age_days=1,
        authenticator=SimpleNamespace(
            standings=world.standings,
            new_passwords=lambda _standings, _end: (),
            left=Kept(tmp_path / "left.jsonl"),
        ),
        end_sessions_of_leavers=ends,
        check_routes=world.check_routes,
        proxy=SimpleNamespace(without_route=()),
        log=logging.getLogger("test.leavers"),
    )
    ours = leavers_of(hub, world.stop)
    world.standing["alice"] = Standing("gone")

    await world.look(ours)

    assert set(hub.proxy.without_route) == (set() if ends else {"alice"})
    assert (world.stopped, world.routes) == ((["alice"], 0) if ends else ([], 1))

    del world.standing["alice"]  # the directory is silent while the hub comes back
    hub.authenticator.left = Kept(tmp_path / "left.jsonl")
    again = leavers_of(hub, world.stop)
    await world.look(again)
    assert set(hub.proxy.without_route) == (set() if ends else {"alice"})
    assert world.routes == (0 if ends else 1), "the first look at all routes left her out already"


async def test_a_session_whose_end_takes_long_keeps_no_other_look_waiting(db: Any) -> None:
    world = World(db, "alice", "bob", "carol")
    world.waits_for = asyncio.Event()
    world.standing["alice"] = Standing("gone")
    ours = world.leavers()
    await world.look(ours)
    world.standing["bob"] = Standing("gone")
    await world.look(ours)
    assert len(ours.ending) == 2

    world.waits_for.set()
    await asyncio.gather(*ours.ending.values())
    assert sorted(world.stopped) == ["alice", "bob"]


async def test_a_directory_that_loses_most_people_at_once_ends_nothing(
    db: Any, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"p{number}" for number in range(2 * MANY)]
    world = World(db, *names)
    ours = world.leavers()
    world.standing |= dict.fromkeys(names[: MANY + 1], Standing("gone"))

    await world.look(ours)
    await world.look(ours)

    assert world.stopped == []
    assert all(len(notes(row)) == 3 for row in world.rows.values())
    assert caplog.text.count("nothing of theirs is ended") == 1

    world.new_passwords = set(names[MANY:])  # one of whom is said to have left
    await world.look(ours)

    ended = {name for name, row in world.rows.items() if notes(row) == [f"Server at /user/{name}/"]}
    assert ended == set(names[MANY + 1 :])


async def test_a_new_password_ends_logins_and_tokens_and_no_session(db: Any) -> None:
    world = World(db, "alice", "bob")
    world.new_passwords = {"alice"}

    await world.look(world.leavers())

    assert notes(world.rows["alice"]) == ["Server at /user/alice/"]
    assert world.stopped == []
    assert len(notes(world.rows["bob"])) == 3


async def test_a_new_password_that_comes_while_the_database_is_away_ends_logins_when_it_is_back(
    db: Any, tmp_path: Path
) -> None:
    world = World(db, "alice", "bob")
    times = PasswordTimes(tmp_path)
    away = Mock(side_effect=OperationalError("", {}, Exception("locked")))
    ours = replace(world.leavers(), new_passwords=times.new, end_logins=away)
    for set_at in (1, 2):
        world.standing = dict.fromkeys(world.rows, Standing(password_set=f"pwdChangedTime {set_at}"))
        with suppress(OperationalError):
            await world.look(ours)
    assert away.called

    back = replace(ours, new_passwords=PasswordTimes(tmp_path).new, end_logins=partial(end_logins, db))
    await world.look(back)

    assert [notes(row) for row in world.rows.values()] == [["Server at /user/alice/"], ["Server at /user/bob/"]]


async def test_who_came_back_and_leaves_again_is_out_again(db: Any) -> None:
    world = World(db, "alice", "bob", "carol")
    ours = world.leavers()
    for _ in range(2):
        world.standing["alice"] = Standing("gone")
        await world.look(ours)
        before = world.rows["alice"].cookie_id
        await world.look(ours)
        assert world.rows["alice"].cookie_id == before  # once is enough
        world.standing["alice"] = Standing()
        await world.look(ours)
        orm.APIToken.new(user=world.rows["alice"], note="new")
    world.standing["alice"] = Standing("gone")
    await world.look(ours)

    assert notes(world.rows["alice"]) == ["Server at /user/alice/"]
