"""Which server may see a password: certificates, plain text, referrals."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.directory.conversation import ServerFault
from portal.errors import DirectoryUnavailable, LoginRefused
from portal.login.directory import Directory
from tests.directory.conftest import GOOD_NAMES
from tests.directory.listeners import Listener, answers_logins, listener, refers_starttls
from tests.directory.slapd import GROUPS, PASSWORDS, Authority, Slapd
from tests.inside import eventually
from tests.ports import held_port

Directories = Callable[..., Directory]
Slapds = Callable[[tuple[Path, Path] | None], Slapd]


@pytest.fixture(params=["other authority", "wrong host name", "expired", "self-signed name only"])
def untrusted(request: pytest.FixtureRequest, authority: Authority, tmp_path: Path) -> tuple[Path, Path]:
    """A certificate that must not be trusted."""
    kind = request.param
    if kind == "other authority":
        return Authority(tmp_path / "rogue", "Test CA").certificate("good", GOOD_NAMES)
    if kind == "self-signed name only":
        alone = Authority(tmp_path / "alone", "127.0.0.1")
        return alone.file, alone.folder / "ca.key"
    names, days = ("DNS:other.example,IP:127.0.0.9", 2) if kind == "wrong host name" else (GOOD_NAMES, 0)
    return authority.certificate(kind.replace(" ", "-"), names, days)


@pytest.mark.parametrize("scheme", ["url", "tls_url"])
def test_a_server_that_cannot_be_trusted_gets_no_byte_of_a_login(
    directory: Directories, other_slapd: Slapds, untrusted: tuple[Path, Path], scheme: str
) -> None:
    server = other_slapd(untrusted)

    with pytest.raises(DirectoryUnavailable, match="Nothing is wrong with your password") as caught:
        directory(getattr(server, scheme)).verify("alice", PASSWORDS["alice"])

    assert "CERTIFICATE_VERIFY_FAILED" in caught.value.detail
    eventually(lambda: server.count(" closed"), "the connection is over")
    assert server.logins == 0


def test_a_server_without_tls_gets_no_byte_of_a_login(directory: Directories, other_slapd: Slapds) -> None:
    server = other_slapd(None)

    with pytest.raises(DirectoryUnavailable) as caught:
        directory(server.url).verify("alice", PASSWORDS["alice"])

    assert "startTLS failed" in caught.value.detail
    assert server.logins == 0


def test_a_missing_authority_file_is_told_and_nothing_is_sent(directory: Directories, slapd: Slapd) -> None:
    before = slapd.logins

    with pytest.raises(DirectoryUnavailable) as caught:
        directory(slapd.url, ca_file="/missing/ca.crt").verify("alice", PASSWORDS["alice"])

    assert "/missing/ca.crt" in caught.value.detail
    assert slapd.logins == before


def test_a_new_authority_file_is_believed_without_a_restart(
    directory: Directories, slapd: Slapd, authority: Authority, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(Authority(tmp_path / "first", "First CA").file.read_bytes())
    ours = directory(slapd.url, ca_file=str(file))
    with pytest.raises(DirectoryUnavailable):
        ours.verify("alice", PASSWORDS["alice"])

    file.write_bytes(authority.file.read_bytes())

    assert ours.verify("alice", PASSWORDS["alice"]).name == "alice"


def test_references_to_other_servers_are_no_groups_and_not_followed(
    directory: Directories, slapd: Slapd, rogue: Listener
) -> None:
    assert directory(slapd.url).verify("alice", PASSWORDS["alice"]).groups == {"jupyter"}
    with pytest.raises(LoginRefused):
        directory(slapd.url).verify("elsewhere", "alice-pw")

    assert rogue.connections == 0


def test_a_search_that_slapd_answers_with_a_referral_is_not_followed(
    directory: Directories, slapd: Slapd, rogue: Listener
) -> None:
    """ldap3 by itself would log in at the other server, with the password."""
    with pytest.raises(DirectoryUnavailable) as caught:
        directory(slapd.url, group_base=f"cn=moved,{GROUPS}").verify("alice", PASSWORDS["alice"])

    assert "a search below cn=moved,ou=groups,dc=cluster,dc=example with referral" in caught.value.detail
    assert rogue.connections == 0


def test_a_login_that_is_answered_with_a_referral_is_not_followed(
    directory: Directories, rogue: Listener, context: ssl.SSLContext
) -> None:
    refers = listener(answers_logins(context, 10, rogue.url), reads_first=False)
    with refers as server, pytest.raises(DirectoryUnavailable):
        directory(server.url.replace("ldap:", "ldaps:")).verify("alice", PASSWORDS["alice"])

    assert rogue.connections == 0


def test_a_referral_in_plain_text_instead_of_tls_is_not_followed(directory: Directories, rogue: Listener) -> None:
    with listener(refers_starttls(rogue.url)) as refers, pytest.raises(DirectoryUnavailable):
        directory(refers.url).verify("alice", PASSWORDS["alice"])

    assert PASSWORDS["alice"].encode() not in refers.received
    assert rogue.connections == 0


def test_the_end_of_a_certificate_is_told_without_a_login(directory: Directories, slapd: Slapd) -> None:
    before = slapd.logins
    for url in (slapd.url, slapd.tls_url):
        assert directory(url).certificate_end(url).year >= 2024
    assert slapd.logins == before

    gone = f"ldap://127.0.0.1:{held_port()}"
    with pytest.raises(ServerFault, match="refused"):
        directory(gone).certificate_end(gone)
