"""What is known of people: asked for together, at most twice a minute, and no page waits for it."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from traitlets.config import Config

from portal.directory.entries import locked, password_set
from portal.directory.persons import Person
from portal.errors import DirectoryUnavailable, NotAllowed, SiteError
from portal.hub.app import PortalHub
from portal.login import people
from portal.login.access import Access
from portal.login.accounts import AT_ONCE, HALVES_WITHIN_S, ServiceAccount
from portal.login.auth import REFRESH_AGE_S, LDAPAuthenticator
from portal.login.kept import ADDED_MAX, LINES_MAX, Kept
from portal.login.passwords import FILE, PasswordTimes
from portal.login.people import FRESH_S, People
from portal.login.system_accounts import GONE, SystemAccounts
from portal.settings.ldap_table import LdapTable
from portal.settings.secret import read_secret
from portal.singleuser.hub_token import HUB_ANSWER_S
from portal.site import Identity, Standing

LDAP = LdapTable(servers=("ldap://one.example",), ca_file="/missing", user_dn="uid={username},dc=example")


class Source:
    """A directory that says what it is told to, and counts who asked."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []
        self.left: dict[str, str] = {}
        self.error: Exception | None = None
        self.waits_for: threading.Event | None = None
        self.begun = threading.Event()

    def look(self, names: Collection[str]) -> dict[str, Standing]:
        self.asked.append(set(names))
        self.begun.set()
        if self.waits_for:
            self.waits_for.wait(20)
        if self.error:
            raise self.error
        return {name: Standing(self.left.get(name, "")) for name in names}


class Clock:
    """Seconds that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def known(source: Source, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> People:
    monkeypatch.setattr(people, "ANSWER_WITHIN_S", 60)  # a busy machine may take two seconds for a thousand
    return People(source.look, logging.getLogger("test.people"), clock)


def test_who_leaves_is_out_within_a_minute() -> None:
    look_every_s = PortalHub.people_every_s.default_value
    directory_s = LDAP.connect_timeout_s

    assert FRESH_S + directory_s + look_every_s < 60  # logins and tokens are ended, the session is stopped
    assert FRESH_S + directory_s + REFRESH_AGE_S + HUB_ANSWER_S < 60  # and nobody reaches one that is kept


async def test_a_thousand_people_at_once_are_one_question(known: People, source: Source) -> None:
    names = [f"p{number}" for number in range(1000)]

    found = await asyncio.gather(*map(known.standing, names))

    assert found == [Standing()] * 1000
    assert source.asked == [set(names)]


async def test_nobody_is_asked_about_twice_in_half_a_minute(known: People, source: Source, clock: Clock) -> None:
    await known.standing("alice")
    clock.now += FRESH_S - 1
    await known.standing("alice")
    assert len(source.asked) == 1

    clock.now += 1
    source.left["alice"] = "gone"
    assert await known.standing("alice") == Standing("gone")


async def test_a_silent_source_changes_nothing_and_is_told_once(
    known: People, source: Source, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    source.left["bob"] = "gone"
    await known.standings(["alice", "bob"])
    source.error = DirectoryUnavailable("", detail="every server is silent")
    for number in range(3):
        source.error.detail = f"every server is silent, {number}"
        clock.now += FRESH_S
        found = await known.standings(["alice", "bob", "carol"])
        assert found == {"alice": Standing(), "bob": Standing("gone")}

    assert caplog.text.count("Nobody says who may use the portal") == 1
    assert known.silent == "every server is silent, 2"
    source.error = None
    clock.now += FRESH_S
    await known.standings(["alice"])
    assert "It is known again" in caplog.text


async def test_a_fault_in_a_question_is_no_word_about_anybody(known: People, source: Source) -> None:
    source.error = RuntimeError("of any kind")

    assert await known.standing("alice") is None


async def test_a_page_does_not_wait_for_a_slow_source(
    known: People, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "ANSWER_WITHIN_S", 0.1)
    source.waits_for = threading.Event()

    assert await known.standing("alice") is None
    assert await known.standing("alice") is None
    source.waits_for.set()
    assert await known.standings(["alice"]) == {"alice": Standing()}
    assert len(source.asked) == 1


async def test_who_comes_while_a_question_is_on_its_way_waits_for_its_answer(known: People, source: Source) -> None:
    source.left["alice"] = "gone"
    source.waits_for = threading.Event()
    first = asyncio.ensure_future(known.standing("alice"))
    await asyncio.to_thread(source.begun.wait, 20)
    second = asyncio.ensure_future(known.standing("alice"))
    await asyncio.sleep(0)
    source.waits_for.set()

    assert await first == await second == Standing("gone")


async def test_a_login_does_not_wait_for_the_question_about_all_others_and_its_answer_is_the_newer_one(
    clock: Clock,
) -> None:
    slow = threading.Event()
    begun = threading.Event()

    def look(names: Collection[str]) -> dict[str, Standing]:
        if len(names) > 1:
            begun.set()
            slow.wait(20)
            return dict.fromkeys(names, Standing("gone"))
        return dict.fromkeys(names, Standing())

    known = People(look, logging.getLogger("test.people"), clock)
    everybody = asyncio.ensure_future(known.standings(["alice", "bob"]))
    await asyncio.to_thread(begun.wait, 20)
    clock.now += 1

    assert await known.standing_now("alice") == Standing()
    slow.set()
    assert await everybody == {"alice": Standing(), "bob": Standing("gone")}


async def test_many_who_log_in_at_the_same_time_are_asked_about_together(source: Source, clock: Clock) -> None:
    known = People(source.look, logging.getLogger("test.people"), clock)
    source.left["p7"] = "locked"
    source.waits_for = threading.Event()
    first = [asyncio.ensure_future(known.standing_now(name)) for name in ("alice", "bob")]
    await asyncio.to_thread(source.begun.wait, 20)
    many = [asyncio.ensure_future(known.standing_now(f"p{number}")) for number in range(50)]
    await asyncio.sleep(0)
    source.waits_for.set()

    assert await asyncio.gather(*first) == [Standing(), Standing()]
    assert await asyncio.gather(*many) == [Standing("locked" if number == 7 else "") for number in range(50)]
    assert len(source.asked) <= 3
    assert await known.standing_now("p7") == Standing("locked")
    assert source.asked[-1] == {"p7"}, "nothing of before counts"


async def test_who_logs_in_right_after_others_is_asked_about_with_the_next(source: Source) -> None:
    known = People(source.look)
    assert await known.standing_now("first") == Standing()
    logins = []
    for number in range(10):
        logins.append(asyncio.ensure_future(known.standing_now(f"p{number}")))
        await asyncio.sleep(0.001)

    assert await asyncio.gather(*logins) == [Standing()] * 10
    assert len(source.asked) <= 5, "each question is a connection of its own"


async def test_who_left_and_logs_in_again_is_known_to_have_left_all_the_while(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access(LDAP, tmp_path, logging.getLogger("test.access"), source.look)
    source.left["alice"] = "in none of the groups"
    assert await access.refresh(user("alice")) is False
    monkeypatch.setattr(people, "ANSWER_WITHIN_S", 0.05)
    source.waits_for = threading.Event()
    login = asyncio.ensure_future(access.people.standing_now("alice"))
    await asyncio.sleep(0)

    assert await access.refresh(user("alice")) is False
    assert await access.people.standings(["alice"]) == {"alice": Standing("in none of the groups")}

    assert await login is None, "nothing of before counts"
    source.waits_for.set()


# -- logins -------------------------------------------------------------------------------------------------


async def test_a_right_password_of_a_locked_account_is_not_enough(source: Source, tmp_path: Path) -> None:
    access = Access(LDAP, tmp_path, logging.getLogger("test.access"), source.look)
    source.left["alice"] = "locked (nsAccountLock)"

    with pytest.raises(NotAllowed, match="Your password is right, but you may not use this portal: locked"):
        await access.check_login(tried(Identity("alice")), nobody)


async def test_a_source_that_is_silent_keeps_nobody_from_logging_in(source: Source, tmp_path: Path) -> None:
    access = Access(LDAP, tmp_path, logging.getLogger("test.access"), source.look)
    source.left["alice"] = "gone"
    await access.people.standing("alice")
    source.error = DirectoryUnavailable("", detail="silent")
    identity = Identity("alice", frozenset({"jupyter"}))

    assert await access.check_login(tried(identity), nobody) == identity
    assert await access.refresh(user("alice")) is True


def tried(identity: Identity) -> Callable[[], Awaitable[Identity]]:
    """A right password of somebody."""

    async def ask() -> Identity:
        return identity

    return ask


def nobody(_name: str) -> None:
    """Somebody who was never here."""


def user(name: str, *groups: str) -> Any:
    """As much of JupyterHub's user as is needed."""
    named = [SimpleNamespace(name=group) for group in groups]
    return SimpleNamespace(name=name, groups=named, orm_user=None)


async def test_groups_and_with_them_administration_follow_the_directory(tmp_path: Path) -> None:
    now = Standing(groups=frozenset({"jupyter", "iq"}))
    access = Access(LDAP, tmp_path, logging.getLogger("test.access"), lambda names: dict.fromkeys(names, now))

    assert await access.refresh(user("alice", "iq", "jupyter")) is True
    changed = {"name": "alice", "groups": ["iq", "jupyter"]}
    assert await access.refresh(user("alice", "iq", "jupyter", "portal-admins")) == changed
    assert await access.refresh(user("alice", "jupyter")) == changed


# -- passwords ----------------------------------------------------------------------------------------------


def is_new(times: PasswordTimes, seen: str) -> bool:
    """Whether a look at Alice tells of a new password."""
    return times.new({"alice": Standing(password_set=seen)}) == {"alice"}


def test_only_a_later_password_is_a_new_one_and_it_is_remembered(tmp_path: Path) -> None:
    times = PasswordTimes(tmp_path)

    assert not is_new(times, "pwdChangedTime 2")  # the first look
    assert not is_new(times, "")
    assert not is_new(times, "pwdChangedTime 1")  # a server that is late
    assert not is_new(times, "pwdChangedTime 2")
    assert is_new(PasswordTimes(tmp_path), "pwdChangedTime 3")
    assert json.loads((tmp_path / FILE).read_text())["alice"].startswith("pwdChangedTime 3 ")
    assert not is_new(PasswordTimes(tmp_path), "pwdLastSet 1")  # another directory: a new beginning


@pytest.mark.parametrize("attribute", ["pwdLastSet", "shadowLastChange"])
def test_a_password_that_an_administrator_has_reset_is_a_new_one_though_its_time_is_none(
    tmp_path: Path, attribute: str
) -> None:
    """Zero is "must be changed at the next login", as Active Directory's own dialogue and shadow(5) write it."""
    times = PasswordTimes(tmp_path)
    reset = password_set({attribute.lower(): [b"0"]})
    assert not is_new(times, password_set({attribute.lower(): [b"20000"]}))

    assert is_new(times, reset)
    assert not is_new(times, reset)
    assert is_new(times, password_set({attribute.lower(): [b"20001"]}))


def test_the_first_change_is_seen_where_a_directory_shows_none_before(tmp_path: Path) -> None:
    times = PasswordTimes(tmp_path, lambda: datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
    assert not is_new(times, "")

    assert is_new(PasswordTimes(tmp_path), "pwdChangedTime 00000020260301120001")


def test_an_older_time_that_is_shown_from_now_on_is_no_change(tmp_path: Path) -> None:
    times = PasswordTimes(tmp_path, lambda: datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
    assert not is_new(times, "")

    assert not is_new(times, "pwdChangedTime 00000020260228120001")
    assert is_new(times, "pwdChangedTime 00000020260302120001")


@pytest.mark.parametrize(("changed_at", "is_one"), [("20260301115959", False), ("20260301120001", True)])
def test_the_first_change_is_seen_where_another_attribute_tells_of_it(
    tmp_path: Path, changed_at: str, is_one: bool
) -> None:
    """An entry that was brought along has ``shadowLastChange``, which a change by LDAP leaves as it is."""
    times = PasswordTimes(tmp_path, lambda: datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
    assert not is_new(times, "shadowLastChange 00000000000000019000")
    assert not is_new(times, "shadowLastChange 00000000000000019000")

    assert is_new(PasswordTimes(tmp_path), f"pwdChangedTime 000000{changed_at}") is is_one
    later = PasswordTimes(tmp_path, lambda: datetime(2026, 3, 1, 13, 0, tzinfo=UTC))
    assert not is_new(later, "shadowLastChange 00000000000000019000")  # a server that does not show it
    assert not is_new(later, f"pwdChangedTime 000000{changed_at}")


def test_times_that_an_earlier_version_kept_end_no_login(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"alice": "shadowLastChange 00000000000000019000"}\n')
    assert not is_new(PasswordTimes(tmp_path), "pwdChangedTime 00000020260301120001")
    assert is_new(PasswordTimes(tmp_path), "pwdChangedTime 00000020260301120002")


def test_what_is_seen_of_one_person_is_added_and_the_file_stays_short(tmp_path: Path) -> None:
    file = tmp_path / FILE
    times = PasswordTimes(tmp_path)
    for number in range(2 * LINES_MAX + 10):
        times.new({f"p{number % 7}": Standing(password_set=f"pwdChangedTime {number:06}")})

        assert len(file.read_text().splitlines()) <= LINES_MAX

    file.write_text(file.read_text()[:-5])  # killed while it wrote of p0
    before = {"p1": Standing(password_set=f"pwdChangedTime {number - 6:06}")}
    changed = {"p1": Standing(password_set=f"pwdChangedTime {number + 1:06}")}
    assert PasswordTimes(tmp_path).new(before) == set()
    assert PasswordTimes(tmp_path).new(changed) == {"p1"}
    assert PasswordTimes(tmp_path).new(changed) == set()


def test_long_words_make_the_file_begin_anew_before_its_lines_are_many(tmp_path: Path) -> None:
    file = tmp_path / FILE
    kept = Kept(file)
    for number in range(20):
        kept.keep({"p1": f"{number:0300000}"})

        assert file.stat().st_size < ADDED_MAX + 400_000
    assert Kept(file).words() == {"p1": f"{number:0300000}"}


@pytest.mark.parametrize("digits", [21, 4_000_000])
def test_more_digits_than_a_time_has_are_no_time_of_a_password(digits: int) -> None:
    assert password_set({"shadowlastchange": [b"9" * digits]}) == ""
    assert password_set({"shadowlastchange": [b"19000"]}) == f"shadowLastChange {19000:020}"


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"alice": "pwdChanged', "\xff"])
def test_a_file_of_password_times_that_is_damaged_ends_no_login(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)

    assert not is_new(PasswordTimes(tmp_path), "pwdChangedTime 2")


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"shadowexpire": [b""]},
        {"shadowexpire": [b"soon"]},
        {"useraccountcontrol": [b"\xff"]},
        {"accountexpires": [b"-1"]},
        {"pwdendtime": [b"20260101"]},
        {"krbprincipalexpiration": [b"19700101000000Z"]},  # "never", as kadmin writes it
    ],
)
def test_an_entry_that_cannot_be_read_locks_nobody(entry: dict[str, list[bytes]]) -> None:
    assert locked(entry, datetime.now(UTC)) == ""


@pytest.mark.parametrize(
    "time", ["202501011200Z", "20250101120000+0000", "20250101143000.5+0230", "20250101115900-0001", "202501011300+01"]
)
@pytest.mark.parametrize(("now", "is_over"), [("11:59", False), ("12:01", True)])
def test_an_end_is_read_however_it_is_spelled(time: str, now: str, is_over: bool) -> None:
    moment = datetime.fromisoformat(f"2025-01-01T{now}:00+00:00")
    assert bool(locked({"pwdendtime": [time.encode()]}, moment)) is is_over


# -- the account's own password -----------------------------------------------------------------------------


def test_a_secret_is_one_line_of_a_file_of_this_account_alone(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" words with blanks \n")
    file.chmod(0o600)

    assert read_secret(str(file), "ldap.bind_password_file") == " words with blanks "


@pytest.mark.parametrize(
    ("content", "mode", "fault"),
    [
        ("s3cret\n", 0o644, "has mode 0644; allowed: 0600"),
        ("s3cret\nmore\n", 0o600, "is not one line"),
        ("", 0o600, "is not one line"),
        ("\n", 0o600, "is not one line"),
        ("s3cret" * 1000, 0o600, "is not one line"),
    ],
)
def test_any_other_secret_is_refused_and_not_told(tmp_path: Path, content: str, mode: int, fault: str) -> None:
    file = tmp_path / "secret"
    file.write_text(content)
    file.chmod(mode)

    with pytest.raises(SiteError, match=fault) as caught:
        read_secret(str(file), "ldap.bind_password_file")

    assert "s3cret" not in caught.value.message


def test_a_hub_whose_account_has_a_password_that_others_may_read_does_not_start(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o640)
    site_file = tmp_path / "site.toml"
    keys = {"ca_file": "/ca", "user_dn": "uid={username},dc=x", "bind_dn": "cn=x", "bind_password_file": str(secret)}
    lines = [f'{key} = "{value}"' for key, value in keys.items()]
    site_file.write_text("\n".join(["[ldap]", 'servers = ["ldap://one.example"]', *lines]))
    config = Config()
    config.LDAPAuthenticator.site_file = str(site_file)

    with pytest.raises(SiteError, match="has mode 0640; allowed: 0600"):
        LDAPAuthenticator.check_settings(config)
    secret.chmod(0o600)
    LDAPAuthenticator.check_settings(config)


def test_a_secret_that_is_no_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, fault in (("pipe", "is not a file"), ("missing", "cannot be read")):
        with pytest.raises(SiteError, match=fault):
            read_secret(str(tmp_path / name), "ldap.bind_password_file")


# -- the name service of the host ---------------------------------------------------------------------------


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Accounts of this host with their groups."""
    accounts: dict[str, set[str]] = {"alice": {"jupyter"}, "bob": {"jupyter"}, "carol": set()}
    numbers = {"jupyter": 7}

    def getpwnam(name: str) -> SimpleNamespace:
        accounts[name]
        return SimpleNamespace(pw_gid=1)

    listed = lambda name, primary: [primary, *(numbers[group] for group in accounts[name])]  # noqa: E731
    monkeypatch.setattr("pwd.getpwnam", getpwnam)
    monkeypatch.setattr("os.getgrouplist", listed)
    monkeypatch.setattr("grp.getgrnam", lambda group: SimpleNamespace(gr_gid=numbers[group]))
    return accounts


def test_on_the_host_alone_somebody_who_was_there_before_is_refused_and_loses_nothing(
    host: dict[str, set[str]], tmp_path: Path
) -> None:
    ours = SystemAccounts(["jupyter", "not-of-this-host"], tmp_path)
    assert set(ours.look(["alice", "bob", "carol"]).values()) == {Standing()}

    del host["alice"]
    host["bob"].clear()
    found = ours.look(["alice", "bob", "carol", "dave"])

    assert found["alice"] == Standing(GONE, is_sure=False)
    assert "in none of the groups jupyter" in found["bob"].left
    assert not found["bob"].is_sure
    assert not found["carol"].left  # she never was in that group: it may be another one of the same name
    assert "dave" not in found


def test_on_the_host_alone_who_left_while_the_hub_was_away_is_refused_too(
    host: dict[str, set[str]], tmp_path: Path
) -> None:
    SystemAccounts(["jupyter"], tmp_path).look(["alice", "bob", "carol"])
    del host["alice"]
    host["bob"].clear()

    of_now = SystemAccounts(["jupyter"], tmp_path)
    for _ in range(2):
        found = of_now.look(["alice", "bob", "carol"])
        assert found["alice"].left == GONE
        assert "in none of the groups jupyter" in found["bob"].left
        assert not found["carol"].left
    of_now.forget("bob")

    assert not SystemAccounts(["jupyter"], tmp_path).look(["alice", "bob", "carol"])["bob"].left, "LDAP has let him in"


def test_a_host_that_knows_nobody_proves_nothing(host: dict[str, set[str]], tmp_path: Path) -> None:
    ours = SystemAccounts(["jupyter"], tmp_path)
    ours.look(["alice", "bob"])
    host.clear()

    with pytest.raises(DirectoryUnavailable):
        ours.look(["alice", "bob"])


def test_a_login_counts_more_than_what_the_host_knew_before(host: dict[str, set[str]], tmp_path: Path) -> None:
    ours = SystemAccounts(["jupyter"], tmp_path)
    ours.look(["alice", "bob"])
    host["alice"].clear()
    assert ours.look(["alice"])["alice"].left
    ours.forget("alice")

    assert not ours.look(["alice"])["alice"].left


def service_account(folder: Path, **values: object) -> ServiceAccount:
    """The account with a password of its own, of servers that are not there."""
    secret = folder / "bind_password"
    secret.touch(mode=0o600)
    secret.write_text("x\n")
    of_site = {"bind_dn": "cn=portal,dc=example", "bind_password_file": str(secret)}
    return ServiceAccount(LDAP.model_copy(update=of_site | values))


def test_the_address_that_people_write_is_asked_for_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = service_account(tmp_path, mail_attribute="mail")
    asked: list[tuple[list[str], list[str]]] = []

    def entries(_connection: object, names: list[str], attributes: list[str]) -> dict[str, Person]:
        asked.append((names, attributes))
        return {name: Person("", name, {"mail": [b"alice@cluster.example"]}) for name in names}

    monkeypatch.setattr(account, "_entries", entries)
    for servers in (account._servers, account._servers_of_mail):
        monkeypatch.setattr(servers, "conversation", lambda *_login: nullcontext())
    monkeypatch.setattr("portal.login.accounts.bind", lambda _connection: SimpleNamespace(is_right=True))
    account.look(["alice", "bob"])

    assert "mail" not in asked.pop()[1]
    assert account.mail("alice") == "alice@cluster.example"
    assert asked == [(["alice"], ["mail"])]
    assert account._servers_of_mail.server_limit_s == 2


async def test_a_start_waits_two_seconds_for_an_address_and_the_question_who_left_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source()
    settings = LDAP.model_copy(update={"mail_attribute": "mail", "bind_dn": "cn=portal,dc=example"})
    access = Access(settings, tmp_path, logging.getLogger(), look=source.look)
    monkeypatch.setattr("portal.login.system_accounts.WITHIN_S", 0.05)
    is_over = threading.Event()
    monkeypatch.setattr(access, "_mail", lambda _name: str(is_over.wait(20)))
    assert await access.mail_of("alice") == ""
    is_over.set()

    def fails(_name: str) -> str:
        raise DirectoryUnavailable("", detail="no server")

    monkeypatch.setattr(access, "_mail", fails)
    assert await access.mail_of("alice") == ""
    monkeypatch.setattr(access, "_mail", lambda name: f"{name}@cluster.example")
    assert await access.mail_of("alice") == "alice@cluster.example"
    assert source.asked == []


class SpoiltServers:
    """Servers that fail when they are asked about one of these people, or always; each failure takes some seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, account: ServiceAccount, spoilt: set[str]) -> None:
        self.spoilt, self.is_silent = spoilt, False
        self.asked: list[list[str]] = []
        self.now, self.failure_s = 0.0, 0.0
        monkeypatch.setattr(account._servers, "ask", self.ask)
        monkeypatch.setattr(account, "_clock", lambda: self.now)

    def ask(self, look: Any) -> dict[str, Standing]:
        few = list(look.args[0]) if isinstance(look, functools.partial) else []  # else: whether it answers at all
        self.asked += [few] if few else []
        if self.is_silent or self.spoilt.intersection(few):
            self.now += self.failure_s
            raise DirectoryUnavailable("", detail="an answer without an end")
        return dict.fromkeys(few, Standing())


NAMES = [f"p{number:03}" for number in range(3 * AT_ONCE)]


def test_an_entry_that_no_server_shows_to_the_end_costs_nobody_else_an_answer_and_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    account = service_account(tmp_path)
    bad = NAMES[AT_ONCE]
    servers = SpoiltServers(monkeypatch, account, {bad})

    known = [account.look(NAMES).keys() for _ in range(3)]

    assert known == [{*NAMES} - {bad}] * 3
    assert servers.asked[-1] == [bad], "last, and alone"
    said = f"LDAP: who left: nobody says whether {bad} did, others are answered for: an answer without an end"
    assert [record.message for record in caplog.records] == [said]
    servers.spoilt = set()
    assert account.look(NAMES).keys() == {*NAMES}
    assert account._named == set()


def test_a_look_at_portions_that_fail_ends_in_time_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = service_account(tmp_path)
    servers = SpoiltServers(monkeypatch, account, {NAMES[3]})
    servers.failure_s = HALVES_WITHIN_S * 1.2

    first = account.look(NAMES).keys()
    assert servers.now <= 2 * HALVES_WITHIN_S
    assert {*NAMES[AT_ONCE:]} <= first
    for _ in range(6):
        servers.now = 0.0
        last = account.look(NAMES).keys()
        assert servers.now <= 2 * HALVES_WITHIN_S

    assert last == {*NAMES} - {NAMES[3]}


def test_of_servers_that_are_silent_nothing_is_asked_in_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = service_account(tmp_path)
    servers = SpoiltServers(monkeypatch, account, set())
    servers.is_silent = True

    with pytest.raises(DirectoryUnavailable):
        account.look(NAMES)

    assert len(servers.asked) == 1
    servers.is_silent = False
    assert account.look(NAMES).keys() == {*NAMES}
    assert len(servers.asked) == 4, "in whole portions"
