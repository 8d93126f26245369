"""Names and passwords that may reach LDAP, and the order of the servers."""

from __future__ import annotations

import pytest

from portal.directory.groups import Groups, Membership
from portal.directory.persons import Person
from portal.errors import LoginRefused, NotAllowed
from portal.login.directory import PASSWORD_MAX, REFUSED, Directory, check_spelling
from portal.settings.ldap_table import LdapTable
from portal.site import Identity

SETTINGS = LdapTable(
    servers=("ldap://one.example", "ldap://two.example"),
    ca_file="/missing",
    user_dn="uid={username},dc=example",
    allowed_groups=("jupyter", "guests"),
    admin_groups=("admins",),
)

ALICE = Person("uid=alice,dc=example", "alice")


def groups(*names: str) -> Groups:
    """Groups of these names."""
    return Groups(tuple(Membership(name, f"cn={name},dc=example", "search") for name in names))


@pytest.mark.parametrize("name", ["alice", "a", "_svc", "alice.smith", "a-b_c.d", "x1", "a" * 32, "1alice", "3d_lab"])
def test_unix_names_are_names(name: str) -> None:
    check_spelling(SETTINGS, name, "secret")


@pytest.mark.parametrize(
    "name",
    [
        *("Alice", "ALICE", "aliCe", "álice", "аlice", "alıce", "ａlice", "alice\u200b", "\ufeffalice"),
        *(" alice", "alice ", "\talice", "al ice", "alice\n", "\nalice", "alice\r\n", "alice\u2028", "alice\x00"),
        *("alice\x0b", "alice\x85", "ali\x00ce", "", " ", ".", "..", ".alice", "-alice", "20001", "alice$"),
        *("alice@example.org", "EXAMPLE\\alice", "alice/..", "../alice", "uid=alice", "alice,ou=admins", "alice+cn=x"),
        *("*", "alice*", "alice)(uid=*", "alice\\2a", "alice#", 'alice"', "alice'", "alice;id", "$(id)", "`id`"),
        *("alice%00", "%61lice", "alice\ud800", "a" * 33, "a" * 100_000),
    ],
)
def test_any_other_spelling_is_refused_in_the_words_of_a_wrong_password(name: str) -> None:
    with pytest.raises(LoginRefused) as caught:
        check_spelling(SETTINGS, name, "secret")

    assert caught.value.message == REFUSED
    assert len(caught.value.detail) < 100


@pytest.mark.parametrize(
    "password", ["", " ", "\t\n", "\u3000", "\0", "secret\0", "x" * (PASSWORD_MAX + 1), "secret\ud800", None, 7, ["x"]]
)
def test_passwords_that_are_none_are_refused_and_not_told(password: object) -> None:
    with pytest.raises(LoginRefused) as caught:
        check_spelling(SETTINGS, "alice", password)

    assert caught.value.message == REFUSED
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize("name", [None, 7, ["alice"], {"name": "alice"}, b"alice"])
def test_what_is_no_text_is_no_name(name: object) -> None:
    with pytest.raises(LoginRefused):
        check_spelling(SETTINGS, name, "secret")


@pytest.mark.parametrize("password", [" with blanks ", "ünïcödé", "日本語", "a\tb", "x" * PASSWORD_MAX, "\\2a*)(", "x"])
def test_odd_passwords_are_passwords(password: str) -> None:
    check_spelling(SETTINGS, "alice", password)


def test_one_of_the_allowed_groups_is_enough_and_an_admin_group_makes_an_administrator() -> None:
    directory = Directory(SETTINGS)

    assert directory._identity(ALICE, groups("guests")) == Identity("alice", frozenset({"guests"}))
    assert directory._identity(ALICE, groups("guests", "admins")).admin


@pytest.mark.parametrize("names", [set(), {"Jupyter"}, {"jupyter "}, {"admins"}])
def test_groups_are_compared_letter_by_letter_and_administrators_need_one_too(names: set[str]) -> None:
    with pytest.raises(NotAllowed, match="one of the groups jupyter, guests"):
        Directory(SETTINGS)._identity(ALICE, groups(*names))


def test_the_time_limit_covers_every_server() -> None:
    assert Directory(SETTINGS).limit_s == 2 * (SETTINGS.connect_timeout_s + SETTINGS.receive_timeout_s)
