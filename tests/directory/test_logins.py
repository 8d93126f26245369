"""The cluster's own people, spellings of their names, and a hub that goes on whatever the servers do."""

from __future__ import annotations

import asyncio
import logging
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal.errors import DirectoryUnavailable, LoginRefused, NotAllowed
from portal.login.access import Access
from portal.login.attempts import Refusal
from portal.login.auth import LDAPAuthenticator
from portal.login.directory import REFUSED, Directory
from portal.settings.ldap_table import LdapTable
from portal.site import load
from tests.directory.conftest import IMPATIENT
from tests.directory.listeners import listener, says_nothing
from tests.directory.slapd import PASSWORDS, PEOPLE, Authority, Slapd
from tests.inside import SITE_FILE, eventually
from tests.unit.test_auth import handler

Authenticators = Callable[..., LDAPAuthenticator]
DEMO_PEOPLE = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "peggy"]
ALICE = {"username": "alice", "password": PASSWORDS["alice"]}
# What LDAP (RFC 4518: case, blanks, soft hyphens, full width), Unicode, a DN, a filter or a shell would take for
# alice, or for something else than a name.
SPELLINGS = [
    *("Alice", "ALICE", "alicE", " alice", "alice ", "alice\n", "\talice", "alice\r", "alice\x0b", "alice\u00a0"),
    *("alice\0", "alice\0bob", "\0alice", "al\u00adice", "alice\u200b", "\ufeffalice", "\u202ealice", "ａｌｉｃｅ"),
    *("alıce", "álice", "a\u0301lice", "аlice", "alice\udcff", "", " ", ".", "*", "a*", "alice*", "(uid=alice)"),
    *("alice)(uid=*", "alice,ou=people", "uid=alice", f"uid=alice,{PEOPLE}", "alice+sn=Test", "alice\\20", "alice\\,"),
    *("#616c696365", '"alice"', "alice;", "alice/", "../alice", "alice@cluster.example", "CLUSTER\\alice", "-alice"),
    *("20001", "a" * 33, "alice " * 1000),
]


@pytest.fixture(scope="module")
def ldap() -> LdapTable:
    """The cluster's own LDAP servers, by the settings that the portal runs with."""
    settings = load(str(SITE_FILE)).ldap
    assert settings is not None
    return settings


@pytest.fixture
def authenticator(
    directory: Callable[..., Directory], settings: Callable[..., LdapTable], tmp_path: Path
) -> Authenticators:
    """The authenticator on some servers, at a site without an account for its directory."""

    def make(*servers: str, **values: Any) -> LDAPAuthenticator:
        made = LDAPAuthenticator(log=logging.getLogger("test.logins"))
        made.__dict__["directory"] = directory(*servers, **values)
        made.__dict__["access"] = Access(settings(*servers, **values), tmp_path, made.log)
        return made

    return make


@pytest.mark.parametrize("name", DEMO_PEOPLE)
def test_a_person_of_the_cluster_is_the_unix_account_of_the_same_name(ldap: LdapTable, name: str) -> None:
    identity = Directory(ldap).verify(name, f"{name}-demo")

    assert identity.name == pwd.getpwnam(name).pw_name == name
    assert "jupyter" in identity.groups
    assert identity.admin == (name == "carol")


def test_the_clusters_groups_come_with_the_login(ldap: LdapTable) -> None:
    assert Directory(ldap).verify("carol", "carol-demo").groups == {"jupyter", "portal-admins", "hipri", "iq"}
    assert Directory(ldap).verify("bob", "bob-demo").groups == {"jupyter", "hipri"}


@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("nobody", "wrong"), ("root", "root")])
def test_local_accounts_and_wrong_passwords_are_refused_alike(ldap: LdapTable, name: str, password: str) -> None:
    with pytest.raises(LoginRefused) as refused:
        Directory(ldap).verify(name, password)

    assert refused.value.message == REFUSED


def test_mallory_is_told_that_the_password_is_right_only_when_it_is(ldap: LdapTable) -> None:
    with pytest.raises(LoginRefused):
        Directory(ldap).verify("mallory", "wrong")
    with pytest.raises(NotAllowed, match="Your password is right"):
        Directory(ldap).verify("mallory", "mallory-demo")


def test_each_of_the_clusters_servers_answers_alone(ldap: LdapTable) -> None:
    for server in ldap.servers:
        alone = Directory(ldap.model_copy(update={"servers": (server,)}))
        assert alone.verify("alice", "alice-demo").name == "alice"


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_spelling_that_is_no_unix_name_is_refused_before_ldap(
    authenticator: Authenticators, slapd: Slapd, spelling: str
) -> None:
    before = slapd.count("ACCEPT")

    with pytest.raises(Refusal) as refused:
        await authenticator(slapd.url).get_authenticated_user(handler(), {**ALICE, "username": spelling})

    assert (refused.value.status_code, refused.value.jupyterhub_message) == (403, REFUSED)
    assert slapd.count("ACCEPT") == before


async def test_the_hub_goes_on_while_a_silent_server_is_asked(authenticator: Authenticators, slapd: Slapd) -> None:
    with listener(says_nothing) as silent:
        login = asyncio.create_task(authenticator(silent.url, slapd.url, **IMPATIENT).authenticate(handler(), ALICE))
        await asyncio.to_thread(eventually, lambda: silent.received, "the silent server is asked")
        ticks = 0
        while not login.done():
            await asyncio.sleep(0)
            ticks += 1

    assert (await login)["name"] == "alice"
    assert ticks > 100


async def test_logins_that_nobody_waits_for_leave_nothing_open(authenticator: Authenticators, slapd: Slapd) -> None:
    ours = authenticator(slapd.url)
    before = slapd.count("ACCEPT")
    logins = [asyncio.create_task(ours.authenticate(handler(), ALICE)) for _ in range(9)]
    await asyncio.to_thread(eventually, lambda: slapd.count("ACCEPT") > before, "slapd is asked")
    for login in logins:
        login.cancel()
    await asyncio.gather(*logins, return_exceptions=True)

    asked = before + len(logins)
    eventually(lambda: slapd.count("ACCEPT") == asked and not slapd.open_connections, "slapd has no open connection")
    assert (await ours.authenticate(handler(), ALICE))["name"] == "alice"


@pytest.mark.parametrize("names", ["DNS:localhost", "IP:127.0.0.1"])
def test_a_certificate_is_good_for_the_name_in_the_settings_and_for_no_other(
    directory: Callable[..., Directory], other_slapd: Any, authority: Authority, names: str, tmp_path: Path
) -> None:
    server = other_slapd(authority.certificate(tmp_path.name, names))
    by_name, by_address = f"ldap://localhost:{server.port}", server.url
    right, wrong = (by_name, by_address) if names.startswith("DNS") else (by_address, by_name)

    assert directory(right).verify("alice", PASSWORDS["alice"]).name == "alice"
    with pytest.raises(DirectoryUnavailable) as caught:
        directory(wrong).verify("alice", PASSWORDS["alice"])

    assert "CERTIFICATE_VERIFY_FAILED" in caught.value.detail
    assert server.logins == 1
