"""The recipes for 389 Directory Server on a real one, with the tree of its own tools."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from portal.directory.verdicts import EXPIRED, MUST_CHANGE
from portal.doctor import site_checks
from portal.errors import DirectoryUnavailable, LoginRefused, NotAllowed
from portal.login.accounts import ServiceAccount
from portal.login.directory import REFUSED, Directory
from portal.login.passwords import PasswordTimes
from portal.settings.ldap_table import LdapTable
from tests.directories.conftest import Table, tried
from tests.directories.ds389 import GROUPS, OTHER_PASSWORD, PASSWORD, PEOPLE, Ds389
from tests.directory.shapes import SERVICE_PASSWORD
from tests.inside import eventually


@pytest.fixture
def settings(table: Table, org: Ds389) -> LdapTable:
    """The recipe with memberOf, as it stands."""
    return table("As dscreate makes it", org.tls_url, ca_file=str(org.ca_file))


def test_the_recipe_logs_people_in_with_the_groups_of_groups(settings: LdapTable, org: Ds389) -> None:
    identity = Directory(settings).verify("alice", PASSWORD)

    assert (identity.groups, identity.admin) == (frozenset({"inner", "jupyter"}), False)
    assert Directory(settings).verify("bob", PASSWORD).admin
    assert ServiceAccount(settings).check(org.tls_url) == ""
    assert ServiceAccount(settings).look(["alice"])["alice"].groups == identity.groups
    with pytest.raises(NotAllowed, match="takes the group jupyter"):
        Directory(settings).verify("mallory", PASSWORD)


@pytest.mark.parametrize("bind_dn", ["the recipe's", ""])
def test_people_and_groups_are_found_by_searches_too(settings: LdapTable, org: Ds389, bind_dn: str) -> None:
    by_search = {
        "group_by": "search",
        "group_filter": "(&(objectClass=groupOfNames)(member={dn}))",
        "nested_groups": True,
        "servers": (org.url,),
    }
    nobody = {} if bind_dn else {"bind_dn": "", "bind_password_file": ""}
    searching = settings.model_copy(update={**by_search, **nobody})

    assert Directory(searching).verify("alice", PASSWORD).groups == {"inner", "jupyter"}


def test_groups_of_unique_names_are_hidden_in_the_sample_tree_and_that_is_no_fault_of_anybody(
    settings: LdapTable, org: Ds389
) -> None:
    unique = {"group_by": "search", "group_filter": "(&(objectClass=groupOfUniqueNames)(uniqueMember={dn}))"}
    hidden = settings.model_copy(update={**unique, "allowed_groups": ("gpu-users",)})

    with pytest.raises(NotAllowed):
        Directory(hidden).verify("alice", PASSWORD)
    with pytest.raises(
        DirectoryUnavailable, match="does not answer"
    ):  # an account that sees no group sends nobody away
        ServiceAccount(hidden).look(["alice"])
    assert site_checks.who_left(hidden).result == "failed"


@pytest.mark.parametrize(
    ("name", "password", "words"), [("expired", PASSWORD, EXPIRED), ("reset", OTHER_PASSWORD, MUST_CHANGE)]
)
def test_what_is_the_matter_with_a_password_is_told_after_the_right_one_alone(
    settings: LdapTable, name: str, password: str, words: str
) -> None:
    with pytest.raises(NotAllowed) as told:
        Directory(settings).verify(name, password)
    assert words in told.value.message

    with pytest.raises(LoginRefused) as refused:
        Directory(settings).verify(name, "wrong")
    assert refused.value.message == REFUSED


def test_a_locked_account_is_told_before_the_password_so_the_page_says_nothing_and_who_left_is_seen(
    settings: LdapTable,
) -> None:
    for password in (PASSWORD, "wrong"):
        with pytest.raises(LoginRefused) as refused:
            Directory(settings).verify("locked", password)
        assert refused.value.message == REFUSED
        assert "Account inactivated" in refused.value.detail
    assert ServiceAccount(settings).look(["locked"])["locked"].left == "locked (nsAccountLock)"


def test_too_many_wrong_passwords_lock_and_end_no_session(settings: LdapTable) -> None:
    for word in ("wrong-1", "wrong-2", "wrong-3", "wrong-4", PASSWORD):
        with pytest.raises(LoginRefused) as refused:
            Directory(settings).verify("guess", word)

    assert "Exceed password retry limit" in refused.value.detail
    assert ServiceAccount(settings).look(["guess"])["guess"].left == ""


def test_a_new_password_ends_the_logins_of_before(settings: LdapTable, org: Ds389, tmp_path: Path) -> None:
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    account, times = ServiceAccount(settings), PasswordTimes(tmp_path, lambda: hour_ago)
    assert times.new(account.look(["bob"])) == set()

    org.set_password("bob", OTHER_PASSWORD, own=PASSWORD)

    assert times.new(account.look(["bob"])) == {"bob"}
    assert Directory(settings).verify("bob", OTHER_PASSWORD).name == "bob"
    eventually(lambda: set_anew(org, account, times), "what the administrator sets is noticed too")


def set_anew(org: Ds389, account: ServiceAccount, times: PasswordTimes) -> set[str]:
    """Who has a new password after the administrator has set one; the directory counts in seconds."""
    org.set_password("bob", PASSWORD)
    return times.new(account.look(["bob"]))


def test_an_account_of_the_portal_that_must_change_its_password_is_said_to_be_that(
    settings: LdapTable, org: Ds389, tmp_path: Path
) -> None:
    secret = tmp_path / "other"
    secret.write_text(f"{OTHER_PASSWORD}\n")
    secret.chmod(0o600)
    update = {"bind_dn": f"uid=reset,{PEOPLE}", "bind_password_file": str(secret)}

    with pytest.raises(DirectoryUnavailable) as caught:
        Directory(settings.model_copy(update=update)).verify("alice", PASSWORD)

    assert "it does not let ldap.bind_dn in" in caught.value.detail
    assert "it must be changed" in caught.value.detail
    assert OTHER_PASSWORD not in caught.value.detail


def test_a_tried_login_shows_the_groups_that_the_plugin_has_found(
    settings: LdapTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown = tried(settings, "alice", PASSWORD, monkeypatch)

    assert code == 0
    assert f"found          uid=alice,{PEOPLE}" in shown
    assert "jupyter  (memberOf)" in shown
    assert GROUPS not in shown
    assert SERVICE_PASSWORD not in shown


def test_the_certificate_that_dscreate_makes_is_taken_and_its_form_is_told(settings: LdapTable, org: Ds389) -> None:
    check = site_checks.ldap_server(Directory(settings), settings, org.tls_url)

    assert check.result == "warning"
    assert "not in form" in check.found
