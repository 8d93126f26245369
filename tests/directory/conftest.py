"""The test directory, and the certificates of good and bad servers."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.login.directory import Directory
from portal.settings.ldap_table import LdapTable
from tests.directory.listeners import Listener, says_nothing
from tests.directory.slapd import GROUPS, PEOPLE, Authority, Slapd

GOOD_NAMES = "IP:127.0.0.1,DNS:localhost"
IMPATIENT = {"connect_timeout_s": 1, "receive_timeout_s": 2}  # for servers that never answer


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that the site trusts."""
    return Authority(tmp_path_factory.mktemp("tls") / "trusted", "Test CA")


@pytest.fixture(scope="session")
def good_certificate(authority: Authority) -> tuple[Path, Path]:
    """What an honest server shows."""
    return authority.certificate("good", GOOD_NAMES)


@pytest.fixture
def context(good_certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """The TLS of an honest server."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*good_certificate)
    return made


@pytest.fixture(scope="session")
def rogue() -> Iterator[Listener]:
    """Where referrals lead; nobody should ever come."""
    made = Listener(says_nothing)
    yield made
    made.close()


@pytest.fixture(scope="session")
def slapd(
    tmp_path_factory: pytest.TempPathFactory, good_certificate: tuple[Path, Path], rogue: Listener
) -> Iterator[Slapd]:
    """An honest server that lives through all tests."""
    made = Slapd(tmp_path_factory.mktemp("slapd") / "honest", good_certificate, rogue.url).start()
    yield made
    made.stop()


@pytest.fixture
def other_slapd(tmp_path: Path) -> Iterator[Callable[[tuple[Path, Path] | None], Slapd]]:
    """Starts further servers with certificates of the test's choice."""
    made: list[Slapd] = []

    def start(certificate: tuple[Path, Path] | None) -> Slapd:
        made.append(Slapd(tmp_path / f"slapd{len(made)}", certificate))
        return made[-1].start()

    yield start
    for server in made:
        server.stop()


@pytest.fixture
def settings(authority: Authority) -> Callable[..., LdapTable]:
    """The table ``[ldap]`` for some servers."""

    def make(*servers: str, **values: Any) -> LdapTable:
        usual = {
            "ca_file": str(authority.file),
            "user_dn": f"uid={{username}},{PEOPLE}",
            "group_base": GROUPS,
            "allowed_groups": ("jupyter",),
            "admin_groups": ("portal-admins",),
            # Long, so that an honest server on a busy machine is never given up.
            "connect_timeout_s": 20,
            "receive_timeout_s": 20,
        }
        return LdapTable.model_validate({**usual, "servers": servers, **values})

    return make


@pytest.fixture
def directory(settings: Callable[..., LdapTable]) -> Callable[..., Directory]:
    """A directory of some servers."""
    return lambda *servers, **values: Directory(settings(*servers, **values))
