"""The recipe for Active Directory on a real domain controller (Samba): names, groups, and accounts in trouble."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.directory.conversation import Servers
from portal.directory.searches import bind, search
from portal.directory.verdicts import ACCOUNT_EXPIRED, DISABLED, MUST_CHANGE, NOT_FROM_HERE, NOT_NOW
from portal.doctor import site_checks
from portal.errors import LoginRefused, NotAllowed
from portal.login.accounts import ServiceAccount
from portal.login.directory import REFUSED, Directory
from portal.login.passwords import PasswordTimes
from portal.settings.ldap_table import LdapTable
from tests.directories.conftest import Table, tried
from tests.directories.samba import GROUPS, MANY, OTHER_PASSWORD, PASSWORD, STAFF, DomainController
from tests.directory.shapes import CORP, SERVICE_PASSWORD
from tests.directory.slapd import Authority

AD = "Active Directory"
USERS, ADMINS = f"CN=Cluster Users,{GROUPS}", f"CN=Cluster Admins,{GROUPS}"
DOMAIN_USERS = f"CN=Domain Users,CN=Users,{CORP}"
ALICE = f"CN=Alice Smith,OU=Berlin,{STAFF}"
IN_CHAIN = {
    "group_by": "search",
    "nested_groups": False,
    "group_base": CORP,
    "group_filter": "(&(objectClass=group)(member:1.2.840.113556.1.4.1941:={dn}))",
}
TOLD = {
    "disabled": DISABLED,
    "expired": ACCOUNT_EXPIRED,
    "mustchange": MUST_CHANGE,
    "atnight": NOT_NOW,
    "atdesk": NOT_FROM_HERE,
}


@pytest.fixture
def settings(table: Table, corp: DomainController) -> LdapTable:
    """The recipe as it stands."""
    return table(AD, corp.tls_url)


@pytest.mark.parametrize(
    "typed", ["asmith", "ASmith", "CORP\\ASMITH", "asmith@corp.example", "alice.smith@CORP.example"]
)
def test_every_spelling_is_one_person_with_the_groups_of_groups(settings: LdapTable, typed: str) -> None:
    identity = Directory(settings).verify(typed, PASSWORD)

    assert identity.name == "asmith"
    assert identity.groups == {"Team A", "Cluster Users", "Everybody", USERS}
    assert not identity.admin


def test_starttls_on_the_usual_port_does_as_well(table: Table, corp: DomainController) -> None:
    assert Directory(table(AD, corp.url)).verify("bob", PASSWORD).admin


def test_the_rule_for_groups_of_groups_asks_once_and_finds_the_primary_group_too(
    table: Table, corp: DomainController
) -> None:
    chain = table(AD, corp.tls_url, **IN_CHAIN)
    account = ServiceAccount(chain)

    identity = Directory(chain).verify("asmith", PASSWORD)

    assert identity.groups == {"Team A", "Cluster Users", "Everybody", "Domain Users", USERS}
    assert account.check(corp.tls_url) == ""
    assert account.look(["asmith"])["asmith"].groups == identity.groups


def test_the_primary_group_counts_by_its_dn_where_the_domain_has_it(table: Table, corp: DomainController) -> None:
    everybody = table(AD, corp.tls_url, allowed_groups=(DOMAIN_USERS,))

    assert DOMAIN_USERS in Directory(everybody).verify("mallory", PASSWORD).groups


def test_a_group_that_is_only_called_alike_lets_nobody_in(settings: LdapTable) -> None:
    with pytest.raises(NotAllowed, match="takes the group Cluster Users"):
        Directory(settings).verify("mallory", PASSWORD)


@pytest.mark.parametrize("name", TOLD)
def test_what_is_the_matter_with_an_account_is_told_after_the_right_password_alone(
    settings: LdapTable, name: str
) -> None:
    with pytest.raises(NotAllowed) as told:
        Directory(settings).verify(name, PASSWORD)
    assert TOLD[name] in told.value.message

    with pytest.raises(LoginRefused) as refused:
        Directory(settings).verify(name, "wrong-pw")
    assert refused.value.message == REFUSED


def test_a_lockout_looks_like_a_wrong_password_and_ends_no_session(settings: LdapTable) -> None:
    for word in ("wrong-1", "wrong-2", "wrong-3", PASSWORD):
        with pytest.raises(LoginRefused) as refused:
            Directory(settings).verify("lockedout", word)

    assert refused.value.message == REFUSED
    assert "data 775" in refused.value.detail
    assert ServiceAccount(settings).look(["lockedout"])["lockedout"].left == ""


def test_who_left_is_seen_and_who_is_locked_out_or_must_change_did_not(settings: LdapTable) -> None:
    found = ServiceAccount(settings).look(["asmith", "mallory", "disabled", "expired", "mustchange", "nobody"])

    assert {name: standing.left for name, standing in found.items()} == {
        "asmith": "",
        "mallory": f"in none of {USERS}",
        "disabled": "disabled (userAccountControl)",
        "expired": "expired (accountExpires)",
        "mustchange": "",
        "nobody": "not in the directory any more",
    }


@pytest.mark.parametrize("must_change", [False, True])
def test_a_password_that_was_set_anew_ends_the_logins_of_before(
    settings: LdapTable, corp: DomainController, tmp_path: Path, must_change: bool
) -> None:
    account, times = ServiceAccount(settings), PasswordTimes(tmp_path)
    assert times.new(account.look(["asmith"])) == set()

    corp.set_password(ALICE, OTHER_PASSWORD)
    if must_change:
        corp.change(ALICE, "replace: pwdLastSet", "pwdLastSet: 0", "-")
    assert times.new(account.look(["asmith"])) == {"asmith"}

    corp.set_password(ALICE, PASSWORD)


def test_a_group_of_more_than_1500_and_a_person_in_more_than_1500_groups(table: Table, corp: DomainController) -> None:
    crowd = table(AD, corp.tls_url, allowed_groups=("Everybody",), nested_groups=False, primary_group=False)
    last = f"crowd{MANY - 1}"

    assert Directory(crowd).verify(last, PASSWORD).groups == {"Everybody"}
    people = [f"crowd{number}" for number in range(0, MANY, 10)]
    assert all(standing.left == "" for standing in ServiceAccount(crowd).look(people).values())
    many = table(AD, corp.tls_url, nested_groups=False, group_base=CORP)
    assert len(Directory(many).verify("many", PASSWORD).groups) == MANY + 3


def test_values_in_ranges_and_more_entries_than_a_page_are_read_to_the_end(
    settings: LdapTable, corp: DomainController
) -> None:
    with Servers(settings).conversation(corp.tls_url, settings.bind_dn, SERVICE_PASSWORD) as connection:
        assert bind(connection).is_right
        in_ranges = search(connection, CORP, "(sAMAccountName=many)", ["memberOf;range=0-999"])
        people = search(connection, CORP, "(sAMAccountName=crowd*)", ["cn"])

    assert len(set(in_ranges.entries[0].attributes["memberof"])) == MANY + 1
    assert len(people.entries) == MANY


def test_a_tried_login_shows_the_steps_and_says_what_is_missing(
    settings: LdapTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown = tried(settings, "CORP\\ASmith", PASSWORD, monkeypatch)
    assert code == 0
    for line in (
        f"found          {ALICE}",
        "UNIX name      asmith (sAMAccountName)",
        "Cluster Users  (nested, level 1)",
        f"{DOMAIN_USERS}  (primary group)",
        f"allowed        yes, by {USERS}",
        "who left       bind_dn sees the person; nothing is amiss",
    ):
        assert line in shown

    code, shown = tried(settings, "mustchange", PASSWORD, monkeypatch)
    assert code == 1
    assert "password       right, but it must be changed before you can log in" in shown
    assert "data 773" in shown


@pytest.fixture
def hardened(corp: DomainController) -> Iterator[None]:
    """The domain as Microsoft advises: who has logged in may not read what only old programs need."""
    old = f"CN=Pre-Windows 2000 Compatible Access,CN=Builtin,{CORP}"
    strangers = f"member: CN=S-1-5-11,CN=ForeignSecurityPrincipals,{CORP}"
    corp.change(old, "delete: member", strangers, "-")
    yield
    corp.change(old, "add: member", strangers, "-")


@pytest.mark.usefixtures("hardened")
def test_a_domain_that_hides_locks_from_the_account_makes_the_doctor_warn(table: Table, corp: DomainController) -> None:
    check = site_checks.who_left(table(AD, corp.tls_url, **IN_CHAIN))
    assert check.result == "warning"
    assert "does not see userAccountControl and pwdLastSet" in check.found
    assert "Pre-Windows 2000" in check.repair

    by_entry = table(AD, corp.tls_url, primary_group=False)
    assert site_checks.who_left(by_entry).result != "ok"
    assert "asmith" not in ServiceAccount(by_entry).look(["asmith", "bob"])  # nobody is sent away for want of memberOf


def test_the_doctor_is_content_with_the_recipe(settings: LdapTable) -> None:
    assert site_checks.who_left(settings).result == "ok"


def test_the_certificate_of_the_domain_controller_is_checked(
    table: Table, corp: DomainController, authority: Authority
) -> None:
    context = ssl.create_default_context(cafile=str(authority.file))
    assert context.verify_mode == ssl.CERT_REQUIRED
    other = Authority(corp.folder / "other-authority", "Another CA")

    with pytest.raises(Exception, match="does not answer"):
        Directory(table(AD, corp.tls_url, ca_file=str(other.file))).verify("asmith", PASSWORD)
