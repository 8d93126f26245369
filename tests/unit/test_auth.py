"""Logins as JupyterHub sees them: messages, throttling, threads. The directory is a double; real slapd has a ring."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.addresses import address_of
from portal.directory.conversation import UNAVAILABLE
from portal.directory.names import LoginName, NameRule, login_name
from portal.errors import DirectoryUnavailable, LoginRefused, NotAllowed, PortalError, SiteError
from portal.login import attempts as attempts_module
from portal.login import auth
from portal.login.access import Access
from portal.login.attempts import (
    BUSY,
    FAILURES,
    FAILURES_OF_ADDRESS,
    FAILURES_OF_ALL,
    FAILURES_OF_NAME,
    KNOWN,
    KNOWN_DAYS,
    KNOWN_EACH,
    WITHIN_S,
    Attempts,
    KnownAddresses,
    Refusal,
    TooManyAttempts,
    Tried,
    Window,
)
from portal.login.auth import (
    STRANGERS_AT_ONCE,
    THREADS,
    LDAPAuthenticator,
)
from portal.login.directory import REFUSED, as_sent
from portal.login.kept import Kept
from portal.settings.ldap_table import LdapTable
from portal.site import Identity, Standing, load
from spawners.options import identity_of
from tests.unit.conftest import EXAMPLE

LDAP = LdapTable(servers=("ldap://one.example",), ca_file="/missing", user_dn="uid={username},dc=example")


class FakeDirectory:
    """Answers as it is told to; counts who asked."""

    limit_s = 5.0
    is_silent = False

    def __init__(self) -> None:
        self.asked = 0
        self.asked_for_groups = 0
        self.at_once = 0
        self.most_at_once = 0
        self.error: PortalError | None = None
        self.waits_for: threading.Event | None = None
        self.full = threading.Event()
        self._lock = threading.Lock()

    def login_name(self, typed: object) -> LoginName | None:
        return login_name(NameRule(), typed)

    def confirm(self, name: str, password: str) -> Identity:
        return self.verify(name, password)

    def verify(self, name: str, password: str, *, groups: bool = True) -> Identity:
        with self._lock:
            self.asked += 1
            self.asked_for_groups += groups
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            if self.at_once == THREADS:
                self.full.set()
        try:
            if self.waits_for:
                self.waits_for.wait()
            if self.error:
                raise self.error
            if password != "right":
                raise LoginRefused(REFUSED)
            return Identity(name, frozenset({"jupyter", "iq"} if groups else ()), admin=groups and name == "carol")
        finally:
            with self._lock:
                self.at_once -= 1


def handler(peer: str = "10.0.0.1", here: str = "10.0.0.1", **headers: str) -> Any:
    """As much of a request as an authenticator looks at."""
    sock = SimpleNamespace(getpeername=lambda: (peer, 1), getsockname=lambda: (here, 2))
    context = SimpleNamespace(trusted_downstream=["192.0.2.99"])
    connection = SimpleNamespace(stream=SimpleNamespace(socket=sock), context=context)
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    request = SimpleNamespace(connection=connection, headers=named)
    return SimpleNamespace(request=request, find_user=lambda name: None)


def login(name: str = "alice", word: str = "right") -> dict[str, str]:
    """What the form sends."""
    return {"username": name, "password": word}


async def has_account(name: str) -> str:
    """This host has an account of every name."""
    return name


@pytest.fixture
def directory() -> Iterator[FakeDirectory]:
    made = FakeDirectory()
    yield made
    if made.waits_for:
        made.waits_for.set()


@pytest.fixture
def authenticator(directory: FakeDirectory, tmp_path: Path) -> LDAPAuthenticator:
    made = LDAPAuthenticator()
    made.log = logging.getLogger("test.auth")
    made.__dict__["directory"] = directory
    made.__dict__["access"] = Access(LDAP, tmp_path, made.log, look=lambda names: {})
    made.__dict__["attempts"] = Attempts(lambda: 1000.0)  # stands still: a slow machine changes no wait
    made.account_of = has_account
    made.pause = lambda delay: asyncio.sleep(0)  # refusals are answered late, see below; no test waits for that
    return made


async def refusal(authenticator: LDAPAuthenticator, data: Any, request: Any = None) -> Refusal:
    """How a login is refused."""
    with pytest.raises(Refusal) as caught:
        await authenticator.authenticate(request or handler(), data)
    return caught.value


async def test_a_right_password_gives_name_and_groups_and_no_flag_of_an_administrator(
    authenticator: LDAPAuthenticator,
) -> None:
    assert await authenticator.get_authenticated_user(handler(), login("carol")) == {
        "name": "carol",
        "admin": None,  # that is a role's, by the groups
        "groups": ["iq", "jupyter"],
        "auth_state": None,
        "user_info": None,
    }


SERVICE = {
    "bind_dn": "cn=portal,dc=example",
    "bind_password_file": "/missing",
    "group_base": "dc=example",
    "allowed_groups": ("staff",),
}


def with_service_account(authenticator: LDAPAuthenticator, folder: Path, standing: Standing | None) -> None:
    """The site's account for the directory, which says this of everybody; ``None``: nothing, in time."""
    told = {} if standing is None else {"alice": standing}
    settings = LDAP.model_copy(update=SERVICE)
    authenticator.__dict__["access"] = Access(settings, folder, authenticator.log, look=lambda names: told)


async def test_groups_are_asked_once_where_the_sites_account_tells_them(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, tmp_path: Path
) -> None:
    with_service_account(authenticator, tmp_path, Standing(groups=frozenset({"staff"})))

    told = await authenticator.authenticate(handler(), login())

    assert told["groups"] == ["staff"]
    assert (directory.asked, directory.asked_for_groups) == (1, 0)


async def test_what_the_person_sees_counts_while_the_sites_account_says_nothing(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, tmp_path: Path
) -> None:
    with_service_account(authenticator, tmp_path, None)

    told = await authenticator.authenticate(handler(), login())
    directory.error = NotAllowed("not you")
    refused = await refusal(authenticator, login())

    assert told["groups"] == ["iq", "jupyter"]
    assert directory.asked_for_groups == 1, "the second one had no groups to ask for"
    assert refused.jupyterhub_message == "not you"


@pytest.mark.parametrize("was_here", [True, False], ids=["was here before", "is new"])
async def test_the_password_of_before_logs_nobody_in_that_was_tried_just_before_a_new_one_was_set(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, tmp_path: Path, was_here: bool
) -> None:
    ended: list[str] = []
    time = "2"

    def look(_names: object) -> dict[str, Standing]:
        if time == "3":
            directory.error = LoginRefused(REFUSED)  # to the password of before
        return {"alice": Standing(groups=frozenset({"staff"}), password_set=f"pwdChangedTime {time}")}

    settings = LDAP.model_copy(update=SERVICE)
    authenticator.__dict__["access"] = Access(settings, tmp_path, authenticator.log, look=look)
    if was_here:
        await authenticator.authenticate(handler(), login())
    time = "3"
    request = handler()
    request.find_user = ended.append
    authenticator.__dict__["_is_known"] = lambda *_: True  # for the log, which asks the hub in the same way

    assert (await refusal(authenticator, login(), request)).status_code == 403
    assert ended == ["alice"] * was_here


async def test_the_password_of_before_logs_nobody_in_while_the_number_of_the_account_is_asked(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, tmp_path: Path
) -> None:
    seen = {"alice": Standing(groups=frozenset({"staff"}), password_set="pwdChangedTime 1")}
    settings = LDAP.model_copy(update=SERVICE)
    access = Access(settings, tmp_path, authenticator.log, look=lambda names: dict(seen))
    is_changed = False

    async def number_of(name: str) -> str | None:
        if is_changed:
            seen["alice"] = Standing(groups=frozenset({"staff"}), password_set="pwdChangedTime 2")
            access.passwords.new(seen)  # the hub's look at everybody
            directory.error = LoginRefused(REFUSED)
        return "5001"

    authenticator.__dict__["access"] = access
    authenticator.state_folder = str(tmp_path)
    authenticator.number_of = number_of
    assert await authenticator.get_authenticated_user(handler(), login())
    is_changed = True

    with pytest.raises(Refusal):
        await authenticator.get_authenticated_user(handler(), login())


async def test_servers_of_a_directory_that_tell_of_different_attributes_let_in_after_one_more_try(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, tmp_path: Path
) -> None:
    told = cycle([f"pwdChangedTime {datetime.now(UTC):%Y%m%d%H%M%S}", "shadowLastChange 20000"])

    def look(_names: object) -> dict[str, Standing]:
        return {"alice": Standing(groups=frozenset({"staff"}), password_set=next(told))}

    settings = LDAP.model_copy(update=SERVICE)
    authenticator.__dict__["access"] = Access(settings, tmp_path, authenticator.log, look=look)

    for _ in range(2):
        await authenticator.authenticate(handler(), login())
    assert directory.asked <= 4


@pytest.mark.parametrize(("age", "asked"), [(timedelta(hours=1), 3), (timedelta(days=2), 2)])
async def test_a_password_that_nobody_has_seen_before_is_tried_once_more_where_it_may_have_been_set_meanwhile(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, tmp_path: Path, age: timedelta, asked: int
) -> None:
    set_at = f"pwdChangedTime {datetime.now(UTC) - age:%Y%m%d%H%M%S}"
    with_service_account(authenticator, tmp_path, Standing(groups=frozenset({"staff"}), password_set=set_at))

    assert [(await authenticator.authenticate(handler(), login()))["name"] for _ in range(2)] == ["alice"] * 2
    assert directory.asked == asked


async def test_who_is_in_none_of_the_groups_is_told_which_it_takes(
    authenticator: LDAPAuthenticator, tmp_path: Path
) -> None:
    with_service_account(authenticator, tmp_path, Standing("in none of staff", groups=frozenset({"guests"})))

    refused = await refusal(authenticator, login())

    assert refused.status_code == 403
    assert "that takes the group staff. Ask your administrator to add you" in refused.jupyterhub_message


@pytest.mark.parametrize(
    ("error", "status"),
    [(LoginRefused(REFUSED), 403), (NotAllowed("not you"), 403), (DirectoryUnavailable(UNAVAILABLE), 503)],
)
async def test_each_refusal_has_its_own_words_and_status(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, error: PortalError, status: int
) -> None:
    directory.error = error

    refused = await refusal(authenticator, login())

    assert (refused.status_code, refused.jupyterhub_message) == (status, error.message)


async def test_the_log_names_reason_and_address_but_no_password_and_no_name_that_is_none(
    authenticator: LDAPAuthenticator, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "Tr0ub4dor&3"
    with caplog.at_level(logging.DEBUG):
        for name in ("alice", secret, "x" * 10_000_000):
            await refusal(authenticator, login(name, secret))

    assert "characters) from 10.0.0.1: login_refused" in caplog.text
    assert secret not in caplog.text
    assert len(caplog.text) < 1000


@pytest.mark.parametrize(
    "data",
    [
        *(None, [], "alice", 7, {}, {"username": "alice"}, {"password": "right"}),
        {"username": ["alice"], "password": "right"},
        {"username": "alice", "password": {"a": 1}},
        {"username": None, "password": None},
    ],
)
async def test_data_of_any_shape_is_refused_and_never_reaches_ldap(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, data: Any
) -> None:
    assert (await refusal(authenticator, data)).status_code == 403
    assert directory.asked == 0


@pytest.mark.parametrize("name", ["Alice", " alice", "alice\n", "alice "])
async def test_no_other_spelling_becomes_a_session_of_alice(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, name: str
) -> None:
    with pytest.raises(Refusal):
        await authenticator.get_authenticated_user(handler(), login(name))

    assert directory.asked == 0
    assert authenticator.normalize_username("Alice") == "Alice"


async def test_after_ten_wrong_passwords_ldap_is_not_asked_for_five_minutes(
    authenticator: LDAPAuthenticator, directory: FakeDirectory
) -> None:
    now = [1000.0]
    authenticator.__dict__["attempts"] = Attempts(lambda: now[0])
    for _ in range(FAILURES):
        assert (await refusal(authenticator, login("alice", "wrong"))).status_code == 403

    refused = await refusal(authenticator, login())

    assert refused.status_code == 429
    assert "Try again in 5 minutes" in refused.jupyterhub_message
    assert directory.asked == FAILURES
    elsewhere = handler(X_Forwarded_For="198.51.100.7")
    assert await authenticator.authenticate(elsewhere, login())  # the same person from another address
    now[0] += WITHIN_S
    assert await authenticator.authenticate(handler(), login())


@pytest.mark.parametrize("answer_s", [0.0, 0.02, 0.3])
async def test_a_refusal_comes_at_the_same_time_however_long_the_server_thought_about_it(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, monkeypatch: pytest.MonkeyPatch, answer_s: float
) -> None:
    now = [1000.0]

    def refuse(name: str, password: str, **_asked: bool) -> Identity:
        now[0] += answer_s  # a server hashes the password only where the name exists
        raise LoginRefused(REFUSED)

    async def pause(delay: float) -> None:
        now[0] += delay

    monkeypatch.setattr(directory, "verify", refuse)
    authenticator.clock, authenticator.pause = lambda: now[0], pause

    await refusal(authenticator, login("alice", "wrong"))

    assert now == [pytest.approx(1000.0 + auth.REFUSED_AFTER_S)]


async def test_guesses_at_the_same_time_count_like_guesses_one_after_the_other(
    authenticator: LDAPAuthenticator, directory: FakeDirectory
) -> None:
    guesses = [refusal(authenticator, login("alice", f"guess {number}")) for number in range(50)]

    statuses = [refused.status_code for refused in await asyncio.gather(*guesses)]

    assert statuses.count(429) == 50 - FAILURES
    assert directory.asked == FAILURES


async def test_only_wrong_passwords_count(authenticator: LDAPAuthenticator, directory: FakeDirectory) -> None:
    for error in (NotAllowed("not you"), DirectoryUnavailable(UNAVAILABLE)):
        directory.error = error
        for _ in range(2 * FAILURES):
            assert (await refusal(authenticator, login())).status_code != 429


ALICE = Tried("alice", "alice")


def test_a_right_password_forgives_what_was_before() -> None:
    attempts = Attempts(lambda: 0.0)
    for _ in range(3):
        for _ in range(FAILURES):
            attempts.begin(ALICE, "here")
        attempts.forget(ALICE, "here", "alice")


def locked_out(attempts: Attempts, name: Tried = ALICE) -> bool:
    """Whether somebody cannot log in from her own address, once others have tried her name from elsewhere."""
    for number in range(FAILURES_OF_NAME):
        attempts.failed(name, f"198.51.100.{number}")
    try:
        attempts.check(name, "here")
    except TooManyAttempts:
        return True
    return False


def test_a_restart_of_the_hub_forgets_nobodys_address(tmp_path: Path) -> None:
    def started(day: int) -> Attempts:
        return Attempts(lambda: 0.0, KnownAddresses(Kept(tmp_path / "known.json"), lambda: day))

    assert locked_out(started(1000)), "who has never logged in"
    started(1000).forget(Tried("alice", "Alice@physics"), "here", "alice")

    for day, is_over in ((1000 + KNOWN_DAYS - 1, False), (1000 + KNOWN_DAYS, True)):
        for spelled in (ALICE, Tried("alice", "Alice@physics")):
            assert locked_out(started(day), spelled) is is_over
    assert not Kept(tmp_path / "known.json").words()["alice"], "what is too old is kept no longer"
    (tmp_path / "known.json").write_text('{"alice": "no list"}\n{"bob": "[[1]]"}\n')
    assert locked_out(started(1000))


def test_ones_own_logins_alone_push_out_what_is_known_of_one(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    attempts = Attempts(lambda: 0.0, KnownAddresses(Kept(file), lambda: 1000))
    attempts.forget(ALICE, "here", "alice")
    for number in range(KNOWN):
        attempts.forget(Tried("bob", f"b{number:015b}@physics"), "there", "bob")

    assert not locked_out(attempts)
    assert not locked_out(Attempts(lambda: 0.0, KnownAddresses(Kept(file), lambda: 1000)))
    assert not attempts.knows(Tried("bob", f"b{0:015b}@physics"), "there")
    assert attempts.knows(Tried("bob", "bob"), "there")
    assert len(Kept(file).words()["bob"]) < 80 * KNOWN_EACH


def test_of_very_many_people_those_are_known_who_came_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_module, "KNOWN", 2)
    known = KnownAddresses(Kept(tmp_path / "known.json"))
    for person in ("alice", "bob", "alice", "carol"):
        known.note(person, person, "here")

    for at in (known, KnownAddresses(Kept(tmp_path / "known.json"))):
        assert [at.has(person, "here") for person in ("alice", "bob", "carol")] == [True, False, True]

    later = int(time.time() // 86_400) + 1
    KnownAddresses(Kept(tmp_path / "known.json"), lambda: later).note("alice", "alice", "here")
    after_a_restart = KnownAddresses(Kept(tmp_path / "known.json"), lambda: later)
    after_a_restart.note("bob", "bob", "here")
    assert [after_a_restart.has(person, "here") for person in ("alice", "bob", "carol")] == [True, True, False]


def test_one_attempt_is_free_again_for_each_that_grows_old() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for second in range(FAILURES):
        now[0] = float(second)
        attempts.begin(ALICE, "here")
    now[0] = WITHIN_S - 0.5
    with pytest.raises(TooManyAttempts, match="Try again in 1 minute\\."):
        attempts.begin(ALICE, "here")
    now[0] = WITHIN_S
    attempts.begin(ALICE, "here")
    with pytest.raises(TooManyAttempts):
        attempts.begin(ALICE, "here")


def test_invented_names_fill_no_memory_and_push_out_nothing_that_was_tried_often() -> None:
    window = Window(lambda: 0.0, remembered=100)
    for _ in range(FAILURES):
        window.add("alice")
    for number in range(1000):
        window.add(f"name{number}")
        assert len(window.happened) <= 100

    assert len(window.of("alice")) == FAILURES
    assert len(window.of("name999")) == 1, "nor the newest"


async def test_invented_names_from_one_address_reach_ldap_some_hundred_times_and_then_no_more(
    authenticator: LDAPAuthenticator, directory: FakeDirectory
) -> None:
    guesses = [refusal(authenticator, login(f"name{number}", "wrong")) for number in range(3000)]

    refused = await asyncio.gather(*guesses)

    assert directory.asked <= FAILURES_OF_ADDRESS + THREADS  # those that were on their way
    assert [error.headers for error in refused if error.status_code == 429][-1] == {"Retry-After": "300"}
    elsewhere = handler(X_Forwarded_For="198.51.100.7")
    assert await authenticator.authenticate(elsewhere, login()), "nobody elsewhere is concerned"


@pytest.mark.parametrize(
    ("rule", "theirs", "own"),
    [
        (NameRule(("a.example", "b.example"), "lower"), "smith@a.example", "smith@b.example"),
        (NameRule((), "keep"), "alice", "Alice"),
    ],
    ids=["domains", "capitals"],
)
async def test_ones_own_right_password_forgives_no_guesses_at_who_has_nearly_the_same_name(
    authenticator: LDAPAuthenticator,
    directory: FakeDirectory,
    monkeypatch: pytest.MonkeyPatch,
    rule: NameRule,
    theirs: str,
    own: str,
) -> None:
    def verify(name: str, password: str, *, groups: bool = True) -> Identity:
        guesses.append(name)
        if name == own:
            return Identity("own", frozenset({"jupyter"}))
        raise LoginRefused(REFUSED)

    guesses: list[str] = []
    monkeypatch.setattr(directory, "login_name", lambda typed: login_name(rule, typed))
    monkeypatch.setattr(directory, "verify", verify)
    for number in range(3 * FAILURES):
        name = own if number % FAILURES == FAILURES - 1 else theirs
        with contextlib.suppress(Refusal):
            await authenticator.authenticate(handler(), login(name))

    assert guesses.count(theirs) == FAILURES


async def test_who_has_logged_in_from_an_address_is_not_locked_out_by_others_there(
    authenticator: LDAPAuthenticator,
) -> None:
    await authenticator.authenticate(handler(), login())
    for number in range(FAILURES_OF_ADDRESS):
        authenticator.attempts.failed(Tried(f"name{number}", ""), "10.0.0.1")

    assert await authenticator.authenticate(handler(), login())
    assert (await refusal(authenticator, login("bob"))).status_code == 429


async def test_many_addresses_cannot_guess_one_password_and_its_owner_still_logs_in_from_where_she_did(
    authenticator: LDAPAuthenticator, directory: FakeDirectory
) -> None:
    await authenticator.authenticate(handler(), login())
    for number in range(FAILURES_OF_NAME + 20):
        await refusal(authenticator, login("alice", "guess"), handler(X_Forwarded_For=f"198.51.100.{number}"))

    assert directory.asked == 1 + FAILURES_OF_NAME
    assert await authenticator.authenticate(handler(), login())


async def test_the_addresses_of_one_ipv6_network_count_as_one(authenticator: LDAPAuthenticator) -> None:
    for number in range(FAILURES):
        await refusal(authenticator, login("alice", "guess"), handler(X_Forwarded_For=f"2001:db8::{number:x}"))

    refused = await refusal(authenticator, login("alice", "guess"), handler(X_Forwarded_For="2001:db8::ffff"))

    assert refused.status_code == 429


async def test_two_hundred_people_log_in_from_one_address_although_some_of_them_mistype(
    authenticator: LDAPAuthenticator, directory: FakeDirectory
) -> None:
    typos = [refusal(authenticator, login(f"u{number}", "rihgt")) for number in range(100)]
    assert {error.status_code for error in await asyncio.gather(*typos)} == {403}

    people = await asyncio.gather(*(authenticator.authenticate(handler(), login(f"u{n}")) for n in range(200)))

    assert len(people) == 200


async def test_while_very_many_logins_fail_strangers_are_few_at_a_time_and_people_who_are_known_do_not_wait(
    authenticator: LDAPAuthenticator, directory: FakeDirectory
) -> None:
    await authenticator.authenticate(handler(), login())
    for number in range(FAILURES_OF_ALL):
        authenticator.attempts.failed(Tried(f"name{number}", ""), f"address{number}")
    directory.waits_for = threading.Event()
    strangers = [asyncio.create_task(authenticator.authenticate(handler(), login(f"u{n}"))) for n in range(20)]
    known = asyncio.create_task(authenticator.authenticate(handler(), login()))
    await asyncio.wait(strangers, timeout=0.2)

    assert directory.at_once == STRANGERS_AT_ONCE + 1
    directory.waits_for.set()
    assert (await known)["name"] == "alice"
    assert len(await asyncio.gather(*strangers)) == 20


async def test_a_silent_directory_stops_neither_the_loop_nor_other_threads(
    authenticator: LDAPAuthenticator, directory: FakeDirectory
) -> None:
    directory.waits_for = threading.Event()
    directory.error = DirectoryUnavailable(UNAVAILABLE)
    waiting = [asyncio.create_task(refusal(authenticator, login(f"user{number}"))) for number in range(1000)]

    assert await asyncio.to_thread(directory.full.wait, 10)  # in one of the hub's other threads: they are free
    assert not any(task.done() for task in waiting)

    directory.is_silent = True  # as Directory tells after the first time-outs
    assert (await refusal(authenticator, login("late"))).status_code == 503  # at once, without a thread
    directory.waits_for.set()
    assert {refused.status_code for refused in await asyncio.gather(*waiting)} == {503}
    assert directory.most_at_once == THREADS
    assert directory.asked < 2 * THREADS  # nobody waits for servers that were silent a moment ago


async def test_a_storm_of_right_passwords_is_served(authenticator: LDAPAuthenticator, directory: FakeDirectory) -> None:
    people = await asyncio.gather(*(authenticator.authenticate(handler(), login(f"u{n}")) for n in range(500)))

    assert {person["name"] for person in people} == {f"u{number}" for number in range(500)}
    assert directory.most_at_once <= THREADS


async def test_a_verdict_that_does_not_come_is_no_verdict(
    authenticator: LDAPAuthenticator, directory: FakeDirectory
) -> None:
    directory.waits_for = threading.Event()
    directory.limit_s = -0.9

    refused = await refusal(authenticator, login())

    assert (refused.status_code, refused.jupyterhub_message) == (503, UNAVAILABLE)


async def test_a_full_queue_is_told_and_ends(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "QUEUE_LIMIT_S", 0.05)
    directory.waits_for = threading.Event()
    busy = [asyncio.create_task(authenticator.authenticate(handler(), login(f"u{n}"))) for n in range(THREADS)]
    assert await asyncio.to_thread(directory.full.wait, 10)

    refused = await refusal(authenticator, login("late"))
    directory.waits_for.set()

    assert (refused.status_code, refused.jupyterhub_message) == (503, BUSY)
    assert len(await asyncio.gather(*busy)) == THREADS


@pytest.mark.parametrize(
    ("request_", "address"),
    [
        (handler(), "10.0.0.1"),
        (handler(X_Forwarded_For="203.0.113.5"), "203.0.113.5"),
        (handler(X_Forwarded_For="127.0.0.1, 203.0.113.5"), "203.0.113.5"),
        (handler(X_Forwarded_For="203.0.113.5, 192.0.2.99"), "203.0.113.5"),
        (handler(X_Forwarded_For="203.0.113.5", X_Real_Ip="198.51.100.1"), "203.0.113.5"),
        (handler(peer="10.0.0.77", X_Forwarded_For="203.0.113.5"), "10.0.0.77"),
        (handler(X_Forwarded_For=""), "10.0.0.1"),
    ],
)
def test_an_address_is_what_our_own_proxy_says_and_nobody_else(request_: Any, address: str) -> None:
    assert address_of(request_.request) == address


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([b" alice\n"], " alice\n"),
        ([b"a", b"b"], ""),
        ([], ""),
        ([b"\xff"], ""),
        (["ü".encode()], "ü"),
        ([b"a\0"], "a\0"),
    ],
)
def test_fields_are_taken_as_they_were_sent(values: list[bytes], text: str) -> None:
    assert as_sent(values) == text


@pytest.mark.parametrize(
    ("group", "has_flag", "is_admin"), [("iq", False, False), ("portal-admins", False, True), ("iq", True, True)]
)
def test_a_hubs_user_is_an_identity_and_an_administrator_by_group_or_by_jupyterhubs_flag(
    group: str, has_flag: bool, is_admin: bool
) -> None:
    groups = [SimpleNamespace(name=group), SimpleNamespace(name="jupyter")]
    user = SimpleNamespace(name="alice", groups=groups, admin=has_flag)

    assert identity_of(user, load(str(EXAMPLE))) == Identity("alice", frozenset({group, "jupyter"}), is_admin)


async def test_settings_without_ldap_are_a_fault_of_the_settings(tmp_path: Any) -> None:
    file = tmp_path / "site.toml"
    file.write_text("[cluster]\nname = 'x'\n")
    authenticator = LDAPAuthenticator(site_file=str(file))

    with pytest.raises(SiteError, match="ldap: missing"):
        await authenticator.authenticate(handler(), login())


def test_jupyterhub_lets_everybody_in_whom_the_directory_lets_in() -> None:
    made = LDAPAuthenticator()

    assert made.allow_all
    assert made.manage_groups
    assert made.any_allow_config
