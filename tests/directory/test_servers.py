"""Several servers: which one is asked, and what a bad one costs."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from portal.directory.conversation import BAD_FOR_S
from portal.errors import DirectoryUnavailable, LoginRefused
from portal.login.directory import Directory
from portal.settings.ldap_table import LdapTable
from tests.directory.conftest import IMPATIENT
from tests.directory.listeners import LISTENERS, answers_logins, listener
from tests.directory.slapd import PASSWORDS, Slapd
from tests.inside import eventually
from tests.ports import held_port

Directories = Callable[..., Directory]
Slapds = Callable[[tuple[Path, Path] | None], Slapd]


@pytest.mark.parametrize(
    ("code", "error"),
    [(code, LoginRefused) for code in (19, 32, 48, 49, 50, 53)]
    + [(code, DirectoryUnavailable) for code in (1, 2, 3, 8, 11, 13, 34, 51, 52, 54, 80)],
)
def test_only_codes_about_the_person_refuse_a_login(
    directory: Directories, context: ssl.SSLContext, code: int, error: type[Exception]
) -> None:
    with listener(answers_logins(context, code), reads_first=False) as server, pytest.raises(error):
        directory(server.url.replace("ldap:", "ldaps:")).verify("alice", PASSWORDS["alice"])


@pytest.mark.parametrize("answer", LISTENERS)
def test_a_bad_first_server_leads_to_the_second_and_never_sees_a_password(
    directory: Directories, slapd: Slapd, answer: Any
) -> None:
    with listener(answer) as bad:
        ours = directory(bad.url, slapd.url, **IMPATIENT)

        assert ours.verify("alice", PASSWORDS["alice"]).name == "alice"

        assert bad.connections == 1
        assert PASSWORDS["alice"].encode() not in bad.received


def test_a_bad_server_is_left_alone_for_a_while_and_then_tried_again(
    settings: Callable[..., LdapTable], slapd: Slapd
) -> None:
    now = [0.0]
    with listener(LISTENERS[0]) as silent:
        ours = Directory(settings(silent.url, slapd.url, **IMPATIENT), clock=lambda: now[0])
        for _ in range(3):
            ours.verify("alice", PASSWORDS["alice"])
        assert silent.connections == 1

        now[0] += BAD_FOR_S + 1
        ours.verify("alice", PASSWORDS["alice"])

        assert silent.connections == 2


def test_a_server_that_is_gone_after_the_bind_leads_to_the_second(
    directory: Directories, slapd: Slapd, context: ssl.SSLContext
) -> None:
    with listener(answers_logins(context, 0), reads_first=False) as half:
        ours = directory(half.url.replace("ldap:", "ldaps:"), slapd.url)

        assert ours.verify("alice", PASSWORDS["alice"]).groups == {"jupyter"}


def test_a_server_that_refuses_connections_leads_to_the_second(directory: Directories, slapd: Slapd) -> None:
    ours = directory(f"ldap://127.0.0.1:{held_port()}", slapd.url)

    assert ours.verify("alice", PASSWORDS["alice"]).name == "alice"


def test_a_wrong_password_is_not_asked_at_the_second_server(
    directory: Directories, slapd: Slapd, other_slapd: Slapds, good_certificate: tuple[Path, Path]
) -> None:
    second = other_slapd(good_certificate)

    with pytest.raises(LoginRefused):
        directory(slapd.url, second.url).verify("alice", "wrong")

    assert second.count("ACCEPT") == 0


def test_a_server_that_stops_is_noticed_and_comes_back(
    directory: Directories, other_slapd: Slapds, good_certificate: tuple[Path, Path]
) -> None:
    server = other_slapd(good_certificate)
    ours = directory(server.url)
    assert ours.verify("alice", PASSWORDS["alice"])

    server.stop()
    with pytest.raises(DirectoryUnavailable):
        ours.verify("alice", PASSWORDS["alice"])
    assert ours.is_silent

    server.start()
    assert ours.verify("alice", PASSWORDS["alice"])
    assert not ours.is_silent


def test_many_logins_leave_no_connection_open(directory: Directories, slapd: Slapd) -> None:
    ours = directory(slapd.url)

    def login(number: int) -> bool:
        try:
            return bool(ours.verify("alice", PASSWORDS["alice"] if number % 2 else "wrong"))
        except LoginRefused:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(login, range(60))) == 30
    eventually(lambda: slapd.open_connections == 0, "slapd has no open connection")
    eventually(lambda: not timers(), "no thread is left that waits to end a conversation")


def timers() -> list[threading.Thread]:
    """The threads that end a conversation which lasts too long; a cancelled one takes a moment to go."""
    return [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
