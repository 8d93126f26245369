"""One rule from what somebody types to one UNIX name, and DNs and groups that are compared as what they are."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from portal.directory.conversation import ServerFault
from portal.directory.dns import canonical, first_values, is_below
from portal.directory.groups import Groups, Membership, group_sid
from portal.directory.names import NameRule, is_unix_name, login_name, unix_name
from portal.directory.searches import Entry, Found, bind_as, filled
from portal.errors import SiteError
from portal.login.accounts import ServiceAccount
from portal.settings.groups import LONGEST, is_dn, label
from portal.settings.ldap_table import LdapTable
from portal.site import Identity, Site, parse

CORP = ("corp.example", "CORP")
LDAP = {"servers": ["ldap://one.example"], "ca_file": "/ca"}
GROUP = "CN=Cluster Users,OU=Groups,DC=corp,DC=example"


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("alice", "alice"),
        ("ALICE", "alice"),
        ("alice@corp.example", "alice"),
        ("Alice@CORP.Example", "alice"),
        ("corp\\alice", "alice"),
        ("4711x", "4711x"),
        *((wrong, None) for wrong in ("alice@other", "other\\alice", "corp\\alice@corp.example", "@corp.example")),
        *((wrong, None) for wrong in ("CORP\\", "a@b@corp.example", "corp\\corp\\alice", "corp\\-alice", "-alice")),
        *((wrong, None) for wrong in ("4711", "4711@corp.example", "..", "a/b", "alice\n", "alice\n@corp.example")),
        *((wrong, None) for wrong in ("corp\\alice\0", "a" * 33, "a" * 301, "alice@corp.example ", "", None, 7)),
    ],
)
def test_what_is_typed_becomes_one_name_or_none(typed: object, name: str | None) -> None:
    found = login_name(NameRule(CORP, "lower"), typed)

    assert (found.name if found else None) == name


def test_capitals_are_refused_made_small_or_kept() -> None:
    spelled = [login_name(NameRule(capitals=rule), "Alice") for rule in ("refuse", "lower", "keep")]

    assert [found.name if found else None for found in spelled] == [None, "alice", "Alice"]
    assert [unix_name(NameRule(capitals=rule), "Alice") for rule in ("refuse", "lower", "keep")] == [
        *("alice", "alice", "Alice")
    ]


@pytest.mark.parametrize("capitals", ["refuse", "lower", "keep"])
def test_a_letter_that_becomes_a_plain_one_when_it_is_made_small_makes_nobody_elses_name(capitals: str) -> None:
    kelvin = "\N{KELVIN SIGN}ate"
    assert kelvin.lower() == "kate"

    assert unix_name(NameRule(capitals=capitals), kelvin) == ""
    assert login_name(NameRule(capitals=capitals), kelvin) is None


def test_an_entry_whose_dn_is_merely_like_anothers_in_small_letters_is_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, other = (Entry(f"uid={name},dc=example", {"uid": [b"kate"]}) for name in ("Kate", "\N{KELVIN SIGN}ate"))
    monkeypatch.setattr("portal.login.accounts.search", lambda *_arguments, **_more: Found([own, other]))

    settings = LdapTable(servers=("ldap://one.example",), ca_file="/ca", user_dn="uid={username},dc=example")
    people = ServiceAccount(settings)._people(None, ["kate"])

    assert people["kate"].dn == own.dn


def test_every_spelling_of_one_name_counts_as_the_same_in_guessing() -> None:
    rule = NameRule(CORP, "keep")
    keys = {
        found.key
        for typed in ("Alice", "aLICE", "CORP\\alice", "alice@corp.example")
        if (found := login_name(rule, typed))
    }

    assert keys == {"alice"}


@pytest.mark.parametrize("name", ["0", "007", "1.5", "-", "_-"])
def test_a_name_has_a_letter_or_an_underscore_and_no_dash_in_front(name: str) -> None:
    assert is_unix_name(name) == (name == "_-")


def test_a_filter_is_filled_in_once_and_escaped() -> None:
    assert filled("(|(uid={username})(m={login})(d={dn}))", "{dn}", "cn=a*,dc=x", "{username}(") == (
        r"(|(uid={dn})(m={username}\28)(d=cn=a\2a,dc=x))"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CN=Jupyter  Users, OU=Groups,DC=x", "cn=jupyter users,ou=groups,dc=X"),
        (r"cn=a\, b,dc=x", r"cn=a\2c b,dc=x"),
        ("cn=a+uid=b,dc=x", "UID=B+CN=A,dc=x"),
        (r"cn=\C3\BC,dc=x", "cn=ü,dc=x"),
    ],
)
def test_two_spellings_of_one_dn_are_the_same(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cn=a,dc=x", "cn=a,dc=y"),
        (r"cn=a\,dc=x", "cn=a,dc=x"),
        ("cn=a+uid=b,dc=x", "cn=a,uid=b,dc=x"),
        ("", "cn=a"),
        ("x", "y"),
    ],
)
def test_two_dns_are_not_the_same(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(("dn", "password"), [("", "right-pw"), ("cn=a,dc=x", "")])
def test_an_entry_without_a_dn_is_never_logged_in_as_whoever_asked(dn: str, password: str) -> None:
    """An empty name would be nobody's login, which succeeds, or that of the account which searched."""
    asked: Any = SimpleNamespace(user="cn=portal,dc=x", password=b"service-pw")

    with pytest.raises(ServerFault):
        bind_as(asked, dn, password)

    assert not hasattr(asked, "authentication")


def test_an_entry_is_in_a_folder_and_no_folder_is_in_itself() -> None:
    assert is_below(GROUP, "ou=groups, dc=corp,dc=example")
    assert not is_below(GROUP, GROUP)
    assert not is_below("CN=a,OU=Other Groups,DC=corp,DC=example", "OU=Groups,DC=corp,DC=example")
    assert not is_below(r"CN=a\,OU=Groups\,DC=corp,DC=example", "OU=Groups,DC=corp,DC=example")
    assert first_values(r"CN=Smith\, Alice+uid=a,DC=x") == {"cn": "Smith, Alice", "uid": "a"}


def test_a_group_with_the_name_of_an_allowed_dn_is_not_that_group() -> None:
    """Who may make groups could call one by the whole DN, or by the text that stands for a long one."""
    long = f"CN={'x' * 400},OU=Groups,DC=corp,DC=example"
    forged = Groups(
        tuple(Membership(name, "CN=Mine,DC=corp,DC=example", "search") for name in (GROUP, long, label(long)))
    )
    real = Groups((Membership("", long.lower(), "memberOf"),))

    assert forged.names([GROUP, long]) == frozenset()
    assert real.names([GROUP, long]) == {label(long)}
    assert len(label(long)) <= 255


@pytest.mark.parametrize(
    ("text", "is_one"), [(GROUP, True), ("cn=a, dc=x", True), ("jupyter", False), ("a=b", False), ("a,b", False)]
)
def test_a_group_is_given_by_its_dn_or_by_its_name(text: str, is_one: bool) -> None:
    assert is_dn(text) == is_one


def test_a_partition_is_kept_for_a_group_that_is_given_by_its_dn() -> None:
    site = parse({"partition": [{"name": "big", "groups": [GROUP]}]})

    assert site.groups_mentioned == (GROUP,)
    assert [one.name for one in site.offered_to(Identity("alice", frozenset({GROUP})))] == ["big"]
    assert site.offered_to(Identity("alice", frozenset({"Cluster Users"}))) == ()


def test_the_sid_of_a_primary_group_is_in_the_domain_of_the_person() -> None:
    def sid(last: int) -> bytes:
        return struct.pack("<BB6s5I", 1, 5, b"\0\0\0\0\0\5", 21, 1, 2, 3, last)

    assert group_sid(sid(1105), "513") == sid(513)
    for wrong in (b"", b"short", sid(1105)[:-1]):
        assert group_sid(wrong, "513") == b""
    assert group_sid(sid(1105), "4294967296") == b""
    assert group_sid(sid(1105), "x") == b""


def faults(**values: Any) -> str:
    """The faults of a table ``[ldap]``."""
    with pytest.raises(SiteError) as raised:
        parse({"ldap": {**LDAP, **values}})
    return "\n".join(raised.value.faults)


BASE = {"user_base": ["ou=people,dc=x"]}
UPN = {"user_dn": "{username}@corp.example"}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "ldap.user_dn, ldap.user_base: where are the people? allowed: one of the two"),
        ({"user_dn": "uid={username},dc=x", **BASE}, "ldap.user_dn, ldap.user_base: where are the people?"),
        ({"user_base": ["people"]}, "ldap.user_base[1]: 'people' is not possible; allowed: the DN of a folder"),
        ({**BASE, "user_filter": "(uid=alice)"}, "allowed: an LDAP filter with {username} in it, or {login}"),
        ({**BASE, "user_filter": "uid={username}"}, "allowed: an LDAP filter in ( )"),
        (
            {**BASE, "user_filter": "(mail={login})"},
            "ldap.unix_name: '(mail={login})' does not say what the UNIX name is",
        ),
        ({**BASE, "user_filter": "(|(uid={username})(cn={username}))"}, "does not say what the UNIX name is"),
        ({**BASE, "login_domains": ["a@b"]}, "ldap.login_domains[1]: 'a@b' is not possible; allowed: a domain such as"),
        ({**BASE, "capitals": "yes"}, "allowed: 'refuse', 'lower' or 'keep'"),
        ({**UPN, "capitals": "keep"}, "ldap.capitals: 'keep' takes the spelling of the entry"),
        ({**UPN, "unix_name": "uid"}, "ldap.unix_name: with user_dn the UNIX name is what is typed"),
        ({**UPN, "group_by": "memberOf"}, "is not possible with group_by"),
        ({**BASE, "nested_groups": True}, "ldap.group_base: missing; nested_groups and primary_group are looked up"),
        (
            {**BASE, "nested_groups": True, "group_base": "dc=x", "group_filter": "(memberUid={username})"},
            "finds no groups of groups; allowed: one with {dn} in it",
        ),
        ({**BASE, "allowed_groups": ["x" * (LONGEST + 1)]}, "a group's name or its DN, of up to 1024 characters"),
        ({**BASE, "allowed_groups": ["jupyter"]}, "ldap.group_base: missing"),
    ],
)
def test_settings_that_do_not_fit_together_say_what_does(values: dict[str, Any], sentence: str) -> None:
    assert sentence in faults(**values)


def test_capitals_are_not_kept_where_each_person_has_a_host_name() -> None:
    with pytest.raises(SiteError, match="host names have no capitals"):
        parse({"portal": {"domain": "p.example"}, "ldap": {**LDAP, **BASE, "capitals": "keep"}})


def test_groups_told_by_the_entry_need_no_folder() -> None:
    made: Site = parse({"ldap": {**LDAP, **BASE, "group_by": "memberOf", "allowed_groups": [GROUP]}})

    assert made.ldap is not None
    assert made.ldap.allows(frozenset({GROUP}))
    assert not made.ldap.allows(frozenset({"Cluster Users"}))
