"""Real servers of other makers: an Active Directory, a 389 Directory Server; their certificates."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.login import trial
from portal.settings.ldap_table import LdapTable
from portal.site import Site, parse
from tests.directories import samba
from tests.directories.ds389 import Ds389
from tests.directory.shapes import SERVICE_PASSWORD, recipe
from tests.directory.slapd import Authority

Table = Callable[..., LdapTable]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that the site trusts."""
    return Authority(tmp_path_factory.mktemp("tls") / "trusted", "Test CA")


@pytest.fixture(scope="session")
def corp(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[samba.DomainController]:
    """The domain controller."""
    folder = tmp_path_factory.mktemp("samba") / "dc"
    certificate = authority.certificate("dc", f"IP:{samba.ADDRESS}")
    made = samba.DomainController(folder, certificate, authority.file).start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def org(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ds389]:
    """The 389 Directory Server."""
    made = Ds389(tmp_path_factory.mktemp("ds389") / "here").start()
    yield made
    made.stop()


@pytest.fixture
def table(authority: Authority, tmp_path: Path) -> Table:
    """A recipe of the documents, for a server of the tests."""
    secret = tmp_path / "secret"
    secret.write_text(f"{SERVICE_PASSWORD}\n")
    secret.chmod(0o600)

    def make(heading: str, server: str, **values: Any) -> LdapTable:
        here = {"servers": (server,), "ca_file": str(authority.file), "connect_timeout_s": 20, "receive_timeout_s": 20}
        told = recipe(heading)
        if "bind_password_file" in told:
            here["bind_password_file"] = str(secret)
        made = parse({"ldap": {**told, **here, **values}}).ldap
        assert made is not None
        return made

    return make


def tried(settings: LdapTable, name: str, password: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """What `portal ldap try` answers and prints on a host that has an account for everybody."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
    monkeypatch.setattr(trial, "spelling_on_host", lambda name: name)
    lines: list[str] = []
    code = trial.main(Site(ldap=settings), name, with_password=True, print_line=lines.append)
    return code, "\n".join(lines)
