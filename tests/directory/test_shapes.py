"""The recipes of the documents log people in, on a real slapd that has the entries of that directory."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from portal.errors import DirectoryUnavailable, LoginRefused, NotAllowed
from portal.login import trial
from portal.login.accounts import ServiceAccount
from portal.login.directory import REFUSED, Directory
from portal.settings.ldap_table import LdapTable
from portal.site import Identity, Site, Standing, parse
from tests.directory.shapes import CORP, LONG_GROUP, SCHEMA, SERVICE_PASSWORD, recipe, tree
from tests.directory.slapd import Authority, Slapd
from tests.inside import eventually

Table = Callable[..., LdapTable]
AD, FREEIPA, OPENLDAP, DS = "Active Directory", "FreeIPA", "OpenLDAP", "389 Directory Server"
USERS = f"CN=Cluster Users,OU=Groups,{CORP}"
DOMAIN_USERS = f"CN=Domain Users,CN=Users,{CORP}"
DOMAIN_USERS_SHOWN = "cn=Domain Users,cn=Users,dc=corp,dc=example  (primary group)"


@pytest.fixture(scope="module")
def start(
    tmp_path_factory: pytest.TempPathFactory, good_certificate: tuple[Path, Path]
) -> Iterator[Callable[[], Slapd]]:
    """Starts servers with the three trees."""
    made: list[Slapd] = []

    def one() -> Slapd:
        place = tmp_path_factory.mktemp("shapes") / "slapd"
        made.append(Slapd(place, good_certificate, tree=tree(), schema=SCHEMA))
        return made[-1].start()

    yield one
    for server in made:
        server.stop()


@pytest.fixture(scope="module")
def server(start: Callable[[], Slapd]) -> Slapd:
    """One server for all tests that change nothing."""
    return start()


@pytest.fixture
def table(server: Slapd, authority: Authority, tmp_path: Path) -> Table:
    """A recipe of the documents, for the server of the tests."""
    secret = tmp_path / "secret"
    secret.write_text(f"{SERVICE_PASSWORD}\n")
    secret.chmod(0o600)

    def make(heading: str, at: Slapd = server, **values: Any) -> LdapTable:
        here = {"servers": (at.url,), "ca_file": str(authority.file), "receive_timeout_s": 20}
        told = recipe(heading)
        if "bind_password_file" in told:
            here["bind_password_file"] = str(secret)
        made = parse({"ldap": {**told, **here, **values}}).ldap
        assert made is not None
        return made

    return make


@pytest.mark.parametrize(
    ("heading", "typed", "name", "groups"),
    [
        (AD, "asmith", "asmith", {"Team A", "Cluster Users", USERS}),
        (OPENLDAP, "alice", "alice", {"innermost", "inner", "jupyter"}),
        (OPENLDAP, "3dlab", "3dlab", {"innermost", "inner", "jupyter", "lab"}),
        (FREEIPA, "alice", "alice", {"jupyter", "ipausers"}),
        (DS, "alice", "alice", {"gpu-users"}),
    ],
)
def test_the_recipe_logs_a_person_in_with_all_groups_and_sees_who_left(
    table: Table, heading: str, typed: str, name: str, groups: set[str]
) -> None:
    settings = table(heading)

    identity = Directory(settings).verify(typed, "right-pw")

    assert identity == Identity(name, frozenset(groups), admin=False)
    assert Directory(settings).confirm(name, "right-pw") == identity
    if settings.bind_dn:
        account = ServiceAccount(settings)
        account.check(settings.servers[0])
        found = account.look([name, "nobody"])
        assert found[name].left == ""
        assert found[name].groups == identity.groups
        assert found["nobody"] == Standing("not in the directory any more")


def test_a_filter_with_a_matching_rule_finds_groups_and_the_account_that_asks_is_no_blind_one(table: Table) -> None:
    """The form of Active Directory's rule for groups of groups, with the rule that slapd has: 2.5.13.1."""
    rule = "(&(objectClass=group)(member:2.5.13.1:={dn}))"
    settings = table(AD, group_by="search", group_filter=rule, nested_groups=False, allowed_groups=("Team A",))

    assert Directory(settings).verify("asmith", "right-pw").groups == {"Team A"}
    ServiceAccount(settings).check(settings.servers[0])


@pytest.mark.parametrize("bind_dn", ["", "as the recipe says"])
def test_groups_told_by_the_entry_of_a_made_dn_are_read_by_the_person(table: Table, bind_dn: str) -> None:
    where = {"user_base": (), "user_dn": "uid={username},cn=users,cn=accounts,dc=ipa,dc=example"}
    settings = table(FREEIPA, **where, **({} if bind_dn else {"bind_dn": "", "bind_password_file": ""}))

    assert Directory(settings).verify("bob", "right-pw").admin
    if bind_dn:
        assert ServiceAccount(settings).look(["bob"])["bob"].groups == frozenset({"jupyter", "portal-admins"})


@pytest.mark.parametrize(
    "typed", ["ASmith", "CORP\\asmith", "corp\\ASMITH", "asmith@corp.example", "alice.smith@CORP.example"]
)
def test_every_spelling_of_a_person_of_active_directory_is_one_unix_name(table: Table, typed: str) -> None:
    assert Directory(table(AD)).verify(typed, "right-pw").name == "asmith"


@pytest.mark.parametrize("typed", ["OTHER\\asmith", "asmith@other.example", "CORP\\corp\\asmith", "-x", "asmith*", "*"])
def test_another_domain_and_what_is_no_name_never_reach_ldap(server: Slapd, table: Table, typed: str) -> None:
    before = server.count("ACCEPT")

    with pytest.raises(LoginRefused, match="Wrong user name or password"):
        Directory(table(AD)).verify(typed, "right-pw")

    assert server.count("ACCEPT") == before


def test_a_name_keeps_the_spelling_of_its_entry_where_the_site_says_so(table: Table) -> None:
    assert Directory(table(AD, capitals="keep")).verify("aSMITH", "right-pw").name == "ASmith"


@pytest.mark.parametrize("typed", ["twin", "bob@corp.example"])
def test_two_entries_for_one_name_let_nobody_in_and_the_log_names_both(
    table: Table, typed: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The second is somebody who has given herself the UPN of another one's account."""
    with pytest.raises((NotAllowed, LoginRefused)) as caught:
        Directory(table(AD)).verify(typed, "right-pw")

    assert "OU=" not in caught.value.message
    assert "ou=guests" in caplog.text.lower()
    assert "more than one entry for this name" in caplog.text
    with pytest.raises(LoginRefused) as refused:
        Directory(table(AD)).verify(typed, "wrong")
    assert refused.value.message == REFUSED


@pytest.mark.parametrize(
    ("typed", "words"),
    [("odd@corp.example", "'odd name' cannot be the name of an account"), ("two", "several values of sAMAccountName")],
)
def test_an_entry_without_one_unix_name_is_told_after_the_right_password_alone(
    table: Table, typed: str, words: str
) -> None:
    with pytest.raises(NotAllowed, match=words):
        Directory(table(AD)).verify(typed, "right-pw")
    with pytest.raises(LoginRefused) as refused:
        Directory(table(AD)).verify(typed, "wrong")
    assert refused.value.message == REFUSED


def test_two_people_whose_entries_have_the_same_unix_name_are_both_refused(table: Table) -> None:
    """Found by another attribute each is alone; their name is not."""
    by_mail = table(AD, user_filter="(&(objectClass=user)(mail={login}))", login_domains=("corp.example",))

    for login in ("one@corp.example", "other@corp.example"):
        with pytest.raises(NotAllowed, match="another entry with the name twin"):
            Directory(by_mail).verify(login, "right-pw")


def test_two_names_that_differ_by_capitals_alone_are_not_made_one(table: Table) -> None:
    """The directory tells the two apart, and UNIX names in small letters do not: one has the name already."""
    exact = {"user_filter": "(&(objectClass=user)(mail={login}))", "unix_name": "labeledURI"}
    settings = table(AD, login_domains=("corp.example",), **exact)

    with pytest.raises(NotAllowed, match="another entry with the name case"):
        Directory(settings).verify("case1@corp.example", "right-pw")
    assert Directory(settings).verify("case2@corp.example", "right-pw").name == "case"


def test_a_group_that_is_only_called_like_the_one_that_is_allowed_lets_nobody_in(table: Table) -> None:
    with pytest.raises(NotAllowed):
        Directory(table(AD)).verify("mallory", "right-pw")
    with pytest.raises(NotAllowed):
        Directory(table(AD, allowed_groups=("Cluster Users",))).verify("mallory", "right-pw")
    with pytest.raises(NotAllowed):
        Directory(table(FREEIPA)).verify("mallory", "right-pw")


def test_groups_are_compared_as_dns_of_any_length(table: Table) -> None:
    spelled = LONG_GROUP.lower().replace(",", " , ")

    identity = Directory(table(AD, allowed_groups=(spelled,)), mentioned=[USERS.upper()]).verify("bob", "right-pw")

    assert len(LONG_GROUP) > 171
    assert spelled in identity.groups
    assert USERS.upper() in identity.groups
    assert identity.admin


def test_the_primary_group_of_active_directory_is_found_in_the_domain_and_counts_by_its_dn(table: Table) -> None:
    settings = table(AD, allowed_groups=(DOMAIN_USERS,), admin_groups=("Domain Users",))

    identity = Directory(settings).verify("mallory", "right-pw")

    assert DOMAIN_USERS in identity.groups
    assert "Domain Users" not in identity.groups  # outside of group_base anybody may call a group so
    assert not identity.admin
    assert ServiceAccount(settings).look(["mallory"])["mallory"].groups == identity.groups


def test_an_account_that_active_directory_hides_groups_from_sends_nobody_away_and_is_told_so(
    table: Table, server: Slapd
) -> None:
    account = ServiceAccount(table(AD, primary_group=False))

    assert "hidden" not in account.look(["hidden", "bob"])
    assert account.check(server.url) == "userAccountControl and pwdLastSet"


def test_groups_of_groups_end_where_a_circle_closes_and_are_not_asked_for_unasked(table: Table, server: Slapd) -> None:
    direct = table(OPENLDAP, nested_groups=False, primary_group=False, allowed_groups=())

    assert Directory(direct).verify("alice", "right-pw").groups == {"innermost"}
    assert Directory(direct).verify("carol", "right-pw").groups == {"jupyter-posix"}


def test_nobody_and_a_wrong_password_cost_the_server_the_same(start: Callable[[], Slapd], table: Table) -> None:
    done = []
    for name in ("3dlab", "nobody"):
        server = start()
        with pytest.raises(LoginRefused) as refused:
            Directory(table(OPENLDAP, at=server)).verify(name, "wrong")
        assert refused.value.message == REFUSED
        eventually(partial(is_quiet, server), "the conversation is over")
        done.append([one for one in server.operations() if "tag=101" not in one])

    assert done[0] == done[1]
    assert server.logins == 2


def is_quiet(server: Slapd) -> bool:
    return server.is_quiet


def test_a_folder_that_is_not_there_is_a_fault_of_the_settings_and_of_nobody(table: Table) -> None:
    lost = table(AD, user_base=(f"OU=Missing,{CORP}",))

    with pytest.raises(DirectoryUnavailable) as caught:
        Directory(lost).verify("asmith", "right-pw")

    assert f"the search for people below OU=Missing,{CORP} with noSuchObject" in caught.value.detail


def test_a_wrong_password_of_the_searching_account_is_nobodys_wrong_password(table: Table, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("another one\n")
    other.chmod(0o600)

    with pytest.raises(DirectoryUnavailable) as caught:
        Directory(table(AD, bind_password_file=str(other))).verify("asmith", "right-pw")

    assert "does not let ldap.bind_dn in" in caught.value.detail
    assert "another one" not in caught.value.detail


def test_a_right_password_never_becomes_the_one_of_the_searching_account(table: Table) -> None:
    with pytest.raises(LoginRefused):
        Directory(table(AD)).verify("asmith", SERVICE_PASSWORD)


def tried(settings: LdapTable, name: str, monkeypatch: pytest.MonkeyPatch, password: str = "") -> tuple[int, str]:
    """What `portal ldap try` answers and prints."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
    monkeypatch.setattr(trial, "spelling_on_host", lambda name: "" if name == "4711x" else name)
    lines: list[str] = []
    code = trial.main(Site(ldap=settings), name, with_password=bool(password), print_line=lines.append)
    return code, "\n".join(lines)


def test_a_tried_login_shows_each_step_and_how_each_group_was_found(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown = tried(table(AD), "CORP\\ASmith", monkeypatch, "right-pw")

    assert code == 0
    for line in (
        "searched as    CN=Portal,OU=Services,DC=corp,DC=example",
        "UNIX name      asmith (sAMAccountName)",
        "password       right",
        "Team A  (memberOf)",
        DOMAIN_USERS_SHOWN,
        "Cluster Users  (nested, level 1)",
        f"allowed        yes, by {USERS}",
        "administrator  no",
        "account        asmith on this host",
        "asmith would be logged in.",
    ):
        assert line in shown
    assert "right-pw" not in shown
    assert SERVICE_PASSWORD not in shown


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [
        ("asmith", "wrong", f"The page would say:\n  {REFUSED}\nThe hub's log would say:\n  login_refused: ldap://"),
        ("nobody", "wrong", "found          nobody below DC=corp,DC=example"),
        ("twin", "right-pw", "fault          the directory has more than one entry for this name"),
        ("mallory", "right-pw", "that takes the group Cluster Users. Ask your administrator"),
        ("-x", "right-pw", "login_refused: not spelled like a user name"),
        ("4711x", "right-pw", "there is no account 4711x on this cluster"),
    ],
)
def test_a_tried_login_that_is_none_shows_what_the_page_and_the_log_would_say(
    table: Table, monkeypatch: pytest.MonkeyPatch, name: str, password: str, words: str
) -> None:
    code, shown = tried(table(AD), name, monkeypatch, password)

    assert code == 1
    assert words in shown


def test_without_a_password_the_entry_and_its_groups_are_shown(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = tried(table(AD), "asmith", monkeypatch)

    assert code == 0
    assert DOMAIN_USERS_SHOWN in shown
    assert "allowed        yes" in shown
    assert "password " not in shown.partition("\n\n")[0]
    assert tried(table(AD), "nobody", monkeypatch)[0] == 1
