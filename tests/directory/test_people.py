"""Who may log in: passwords and groups against real slapd."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from portal.errors import LoginRefused, NotAllowed
from portal.login.directory import REFUSED, Directory
from portal.site import Identity
from tests.directory.slapd import ODD_PEOPLE, PASSWORDS, PEOPLE, WAITING, Slapd
from tests.inside import eventually, sh

Directories = Callable[..., Directory]
Slapds = Callable[[tuple[Path, Path] | None], Slapd]


@pytest.mark.parametrize("scheme", ["url", "tls_url"])
def test_a_right_password_answers_who_it_is(directory: Directories, slapd: Slapd, scheme: str) -> None:
    identity = directory(getattr(slapd, scheme)).verify("alice", PASSWORDS["alice"])

    assert identity == Identity("alice", frozenset({"jupyter"}), admin=False)


def test_a_password_arrives_as_it_was_typed_and_long_lists_of_groups_are_complete(
    directory: Directories, slapd: Slapd
) -> None:
    identity = directory(slapd.url).verify("bob", PASSWORDS["bob"])

    assert identity.admin
    assert identity.groups == {"jupyter", "portal-admins", *(f"many{number:04}" for number in range(1200))}
    for nearly in (PASSWORDS["bob"].strip(), PASSWORDS["bob"].replace("ü", "u\u0308")):
        with pytest.raises(LoginRefused):
            directory(slapd.url).verify("bob", nearly)


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wrong"),
        ("nobody", "wrong"),
        ("alice", "alice-pw "),
        ("nopassword", "wrong"),
        ("locked", PASSWORDS["locked"]),
        ("mallory", "wrong"),
    ],
)
def test_wrong_names_wrong_passwords_and_locked_accounts_look_alike(
    directory: Directories, slapd: Slapd, name: str, password: str
) -> None:
    with pytest.raises(LoginRefused) as caught:
        directory(slapd.url).verify(name, password)

    assert caught.value.message == REFUSED
    assert password not in caught.value.detail


def test_a_wrong_name_costs_the_same_operations_as_a_wrong_password(
    directory: Directories, other_slapd: Slapds, good_certificate: tuple[Path, Path]
) -> None:
    done = []
    for name in ("alice", "nobody"):
        server = other_slapd(good_certificate)
        with pytest.raises(LoginRefused):
            directory(server.url).verify(name, "wrong")
        eventually(partial(is_quiet, server), "the conversation is over")
        done.append(server.operations())

    assert done[0] == done[1]
    assert "BIND" in done[0]
    assert "RESULT tag=97 err=49" in done[0]


def is_quiet(server: Slapd) -> bool:
    return server.is_quiet


def test_a_right_password_of_somebody_who_is_not_allowed_says_so(directory: Directories, slapd: Slapd) -> None:
    with pytest.raises(NotAllowed) as caught:
        directory(slapd.url).verify("mallory", PASSWORDS["mallory"])

    assert "Your password is right" in caught.value.message
    assert "the group jupyter" in caught.value.message


def test_without_allowed_groups_a_right_password_is_enough(directory: Directories, slapd: Slapd) -> None:
    everybody = directory(slapd.url, allowed_groups=())

    assert everybody.verify("mallory", PASSWORDS["mallory"]).groups == {"others"}
    assert directory(slapd.url, allowed_groups=(), group_base="").verify("alice", "alice-pw").groups == frozenset()


def test_a_dn_with_odd_characters_is_escaped_in_the_filter(directory: Directories, slapd: Slapd) -> None:
    odd = directory(slapd.url, user_dn=f"uid={{username}},{ODD_PEOPLE}")

    assert odd.verify("zoe", "zoe-pw").groups == {"jupyter"}


def test_groups_that_cannot_be_searched_are_none_and_told_to_the_log(
    directory: Directories, slapd: Slapd, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(NotAllowed, match="did not show your groups"):
        directory(slapd.url, group_base="ou=missing,dc=cluster,dc=example").verify("alice", "alice-pw")

    assert "ou=missing,dc=cluster,dc=example ended with noSuchObject" in caplog.text


@pytest.mark.parametrize(
    ("name", "password"),
    [("alice", ""), ("alice", " "), ("alice", "\0"), ("alice", "alice-pw\0"), ("alice", "x" * 1025), ("", "alice-pw")]
    + [(name, "alice-pw") for name in ("Alice", " alice", "alice\n", "alice\0", "*", "alice)(uid=*", "alice,ou=x")],
)
def test_what_is_no_name_or_no_password_never_reaches_ldap(
    directory: Directories, slapd: Slapd, name: str, password: str
) -> None:
    before = slapd.count("ACCEPT")

    with pytest.raises(LoginRefused, match="Wrong user name or password"):
        directory(slapd.url).verify(name, password)

    assert slapd.count("ACCEPT") == before


def test_an_empty_password_is_what_this_slapd_would_take(slapd: Slapd) -> None:
    """The refusal above is ours: this server answers an unauthenticated bind with success (RFC 4513 §5.1.2)."""
    anonymous = ["ldapwhoami", "-x", "-H", slapd.url, "-D", f"uid=alice,{PEOPLE}", "-w", ""]

    assert "anonymous" in sh(*anonymous)


@pytest.mark.parametrize("groups", [{}, {"allowed_groups": (), "group_base": ""}], ids=["groups", "no groups"])
@pytest.mark.parametrize(("name", "words"), [("reset", "it must be changed"), ("expired", "it has expired")])
def test_a_right_password_that_must_be_changed_is_said_to_be_so_and_does_not_log_in(
    directory: Directories, slapd: Slapd, name: str, words: str, groups: dict[str, object]
) -> None:
    with pytest.raises(NotAllowed, match=words) as caught:
        directory(slapd.url, **groups).verify(name, WAITING[name])

    assert "group" not in caught.value.message
    with pytest.raises(LoginRefused) as refused:
        directory(slapd.url, **groups).verify(name, "wrong")
    assert refused.value.message == REFUSED
