"""Who may use the portal still, as a read-only account of real slapd sees it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from portal.directory.entries import is_later
from portal.errors import DirectoryUnavailable, LoginRefused, SiteError
from portal.login.accounts import AT_ONCE, ServiceAccount
from portal.login.directory import Directory
from portal.settings.ldap_table import LdapTable
from portal.site import Standing
from tests.directory.slapd import GROUPS, PASSWORDS, PEOPLE, SERVICES, Slapd, service

ALICE = f"uid=alice,{PEOPLE}"
TODAY = (datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
FOREIGN = ("add: objectClass", "objectClass: foreignPerson")
SHADOW = ("add: objectClass", "objectClass: shadowAccount")


def at(moment: datetime) -> int:
    """A time as Active Directory counts it."""
    return (moment - datetime(1601, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 10


LEFT = {
    "locked (pwdAccountLockedTime)": ("add: pwdAccountLockedTime", "pwdAccountLockedTime: 000001010000Z"),
    "locked (nsAccountLock)": (*FOREIGN, "-", "add: nsAccountLock", "nsAccountLock: TRUE"),
    "disabled (userAccountControl)": (*FOREIGN, "-", "add: userAccountControl", "userAccountControl: 514"),
    "expired (accountExpires)": (
        *(*FOREIGN, "-", "add: accountExpires"),
        f"accountExpires: {at(datetime.now(UTC) - timedelta(hours=1))}",
    ),
    "expired (shadowExpire)": (*SHADOW, "-", "add: shadowExpire", f"shadowExpire: {TODAY}"),
    "expired (pwdEndTime)": ("add: pwdEndTime", f"pwdEndTime: {datetime.now(UTC) - timedelta(hours=1):%Y%m%d%H%M%SZ}"),
    "not open yet (pwdStartTime)": (
        "add: pwdStartTime",
        f"pwdStartTime: {datetime.now(UTC) + timedelta(hours=1):%Y%m%d%H%M%SZ}",
    ),
    "expired (krbPrincipalExpiration)": (
        *(*FOREIGN, "-", "add: krbPrincipalExpiration"),
        f"krbPrincipalExpiration: {datetime.now(UTC) - timedelta(hours=1):%Y%m%d%H%M%SZ}",
    ),
}
STAYED = [
    ("add: pwdAccountLockedTime", f"pwdAccountLockedTime: {datetime.now(UTC):%Y%m%d%H%M%SZ}"),  # wrong passwords
    (*FOREIGN, "-", "add: nsAccountLock", "nsAccountLock: false"),
    (*FOREIGN, "-", "add: userAccountControl", "userAccountControl: 512"),
    (*FOREIGN, "-", "add: accountExpires", "accountExpires: 0"),
    (*FOREIGN, "-", "add: accountExpires", "accountExpires: 9223372036854775807"),
    (*SHADOW, "-", "add: shadowExpire", "shadowExpire: -1"),
    ("add: pwdEndTime", f"pwdEndTime: {datetime.now(UTC) + timedelta(hours=1):%Y%m%d%H%M%SZ}"),
    (*FOREIGN, "-", "add: krbPrincipalExpiration", "krbPrincipalExpiration: 19700101000000Z"),
    (*SHADOW, "-", "add: shadowExpire", f"shadowExpire: {TODAY + 1}"),
]


@pytest.fixture
def server(other_slapd: Callable[[tuple[Path, Path] | None], Slapd], good_certificate: tuple[Path, Path]) -> Slapd:
    """A directory that a test may change."""
    return other_slapd(good_certificate)


@pytest.fixture
def settings_of(settings: Callable[..., LdapTable], tmp_path: Path) -> Callable[..., LdapTable]:
    """The table ``[ldap]`` with one of the accounts that may read."""

    def make(server: Slapd, name: str = "portal", password: str = "", **values: object) -> LdapTable:
        file = tmp_path / name
        file.write_text(f"{password or SERVICES[name]}\n")
        file.chmod(0o600)
        return settings(server.url, bind_dn=service(name), bind_password_file=str(file), **values)

    return make


@pytest.fixture
def account(server: Slapd, settings_of: Callable[..., LdapTable]) -> ServiceAccount:
    """The account that sees everything."""
    return ServiceAccount(settings_of(server))


def test_everybody_who_may_use_the_portal_is_seen_with_groups_and_administration(account: ServiceAccount) -> None:
    found = account.look(["alice", "bob"])

    assert found["alice"].groups == frozenset({"jupyter"})
    assert (found["alice"].left, found["alice"].admin) == ("", False)
    assert found["bob"].admin
    assert found["bob"].groups is not None
    assert len(found["bob"].groups) == 1202


def test_the_address_is_read_where_the_site_names_its_attribute(
    server: Slapd, settings_of: Callable[..., LdapTable]
) -> None:
    def told(**values: object) -> list[str]:
        account = ServiceAccount(settings_of(server, mail_attribute="mail", **values))
        return [account.mail(name) for name in ("alice", "bob")]

    server.change(ALICE, "changetype: modify", "add: mail", "mail: alice@cluster.example")
    assert told() == ["alice@cluster.example", ""]
    assert told(user_dn="", user_base=(PEOPLE,)) == ["alice@cluster.example", ""]
    server.change(ALICE, "changetype: modify", "add: mail", "mail: other@cluster.example")
    assert told() == ["", ""], "of two nobody knows which"


def test_who_writes_a_long_address_keeps_nobody_from_being_noticed_to_leave(
    server: Slapd, settings_of: Callable[..., LdapTable]
) -> None:
    account = ServiceAccount(settings_of(server, mail_attribute="mail", receive_timeout_s=1, connect_timeout_s=1))
    for number in range(16):
        server.change(ALICE, "changetype: modify", "add: mail", f"mail: {number:02}{'x' * 2**20}@cluster.example")
    server.change(f"cn=jupyter,{GROUPS}", "changetype: modify", "delete: member", f"member: {ALICE}")

    found = account.look(["alice", "bob"])

    assert found["alice"].left == "in none of jupyter"
    assert not found["bob"].left
    with suppress(DirectoryUnavailable):
        assert account.mail("alice") == ""


@pytest.mark.parametrize("moment", ["00000101000000Z", "000001010000+0000"])
def test_a_lock_of_the_year_0_is_an_administrators_however_it_is_spelled(
    server: Slapd, account: ServiceAccount, settings: Callable[..., LdapTable], moment: str
) -> None:
    server.change(ALICE, "changetype: modify", "add: pwdAccountLockedTime", f"pwdAccountLockedTime: {moment}")

    with pytest.raises(LoginRefused):
        Directory(settings(server.url)).verify("alice", PASSWORDS["alice"])
    assert account.look(["alice"])["alice"].left == "locked (pwdAccountLockedTime)"


@pytest.mark.parametrize("why", LEFT)
def test_an_account_that_an_administrator_has_locked_may_not_go_on(
    server: Slapd, account: ServiceAccount, why: str
) -> None:
    server.change(ALICE, "changetype: modify", *LEFT[why])

    found = account.look(["alice", "bob"])

    assert found["alice"].left == why
    assert not found["bob"].left


@pytest.mark.parametrize("lines", STAYED, ids=lambda lines: lines[-1])
def test_a_lock_after_wrong_passwords_and_an_account_in_order_change_nothing(
    server: Slapd, account: ServiceAccount, lines: tuple[str, ...]
) -> None:
    server.change(ALICE, "changetype: modify", *lines)

    assert account.look(["alice"])["alice"].left == ""


def test_who_leaves_the_group_or_the_directory_may_not_go_on_and_who_is_back_may(
    server: Slapd, account: ServiceAccount
) -> None:
    group = f"cn=jupyter,{GROUPS}"
    server.change(group, "changetype: modify", "delete: member", f"member: {ALICE}")
    assert account.look(["alice"])["alice"].left == "in none of jupyter"
    server.change(group, "changetype: modify", "add: member", f"member: {ALICE}")
    assert account.look(["alice"])["alice"].left == ""
    server.change(ALICE, "changetype: delete")
    assert account.look(["alice"])["alice"].left == "not in the directory any more"


def test_a_new_password_is_seen_and_the_same_one_is_not(server: Slapd, account: ServiceAccount) -> None:
    new = ("changetype: modify", "replace: userPassword", "userPassword: another-pw")
    server.change(ALICE, *FOREIGN_LINES, "pwdLastSet: 133000000000000000")
    before = account.look(["alice"])["alice"].password_set
    assert not is_later(account.look(["alice"])["alice"].password_set, before)

    server.change(ALICE, "changetype: modify", "replace: pwdLastSet", "pwdLastSet: 134000000000000000")
    later = account.look(["alice"])["alice"].password_set
    server.change(ALICE, *new)

    assert is_later(later, before)
    assert account.look(["alice"])["alice"].password_set.startswith("pwdChangedTime ")


FOREIGN_LINES = ("changetype: modify", *FOREIGN, "-", "add: pwdLastSet")


@pytest.mark.parametrize(
    ("name", "seen"), [("sees-nobody", "sees nobody below"), ("sees-no-member", "sees no group with members")]
)
def test_an_account_that_may_not_read_sends_nobody_away(
    server: Slapd, settings_of: Callable[..., LdapTable], name: str, seen: str
) -> None:
    blind = ServiceAccount(settings_of(server, name))

    with pytest.raises(DirectoryUnavailable) as caught:
        blind.look(["alice", "bob"])

    assert seen in caught.value.detail


def test_a_wrong_password_of_the_account_harms_no_login(server: Slapd, settings_of: Callable[..., LdapTable]) -> None:
    settings = settings_of(server, password="another one")
    logins = Directory(settings)

    with pytest.raises(DirectoryUnavailable) as caught:
        ServiceAccount(settings).look(["alice"])

    assert "does not let ldap.bind_dn in" in caught.value.detail
    assert "another one" not in caught.value.detail
    assert logins.verify("alice", PASSWORDS["alice"]).name == "alice"
    assert not logins.is_silent


def test_a_password_that_others_may_read_is_not_used(server: Slapd, settings_of: Callable[..., LdapTable]) -> None:
    settings = settings_of(server)
    Path(settings.bind_password_file).chmod(0o640)

    with pytest.raises(SiteError, match="0640; allowed: 0600"):
        ServiceAccount(settings).look(["alice"])

    assert server.logins == 0


def test_a_server_that_does_not_answer_sends_nobody_away(server: Slapd, account: ServiceAccount) -> None:
    assert account.look(["alice"])["alice"].left == ""
    server.stop()

    with pytest.raises(DirectoryUnavailable):
        account.look(["alice"])


def test_groups_below_a_folder_that_is_not_there_prove_nothing(
    server: Slapd, settings_of: Callable[..., LdapTable]
) -> None:
    lost = ServiceAccount(settings_of(server, group_base="ou=missing,dc=cluster,dc=example"))

    assert lost.look(["alice"]) == {}


def test_many_people_are_looked_up_together(server: Slapd, account: ServiceAccount) -> None:
    names = [f"nobody{number}" for number in range(2 * AT_ONCE - 1)]

    found = account.look(["alice", *names])

    assert found.keys() == {"alice", *names}
    assert all(found[name] == Standing("not in the directory any more") for name in names)
    assert server.logins == 2
    assert server.count(rf'SRCH base="{PEOPLE}" scope=1') == 2
