"""A database on a server of the site: what is said before anything is connected, or when that fails."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from sqlalchemy import make_url

from portal import cli
from portal.databases.server import DatabaseServerFault
from portal.errors import SiteError
from portal.hub import database
from portal.site import Site, parse

SERVER = "postgresql://portal@127.0.0.1:1/portal"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file with a password that an address cannot hold as it is."""
    file = tmp_path / "password"
    file.touch(mode=0o600)
    file.write_text("p@ss/w:rd\n")
    return file


def site(tmp_path: Path, **portal: str) -> Site:
    """A site with these lines in [portal]."""
    return parse({"portal": {"state_folder": str(tmp_path), **portal}})


@pytest.mark.parametrize(
    "url", ["postgresql://portal:secret@db/portal", "mysql://portal@db/portal", "postgresql://db/portal", "sqlite:///x"]
)
def test_what_is_no_address_or_holds_a_password_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SiteError, match=r"allowed: postgresql://.*/NAME or mariadb://.*/NAME, without a password"):
        site(tmp_path, database_url=url)


def test_a_password_without_a_server_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="there is no server to log in to"):
        site(tmp_path, database_password_file="/etc/password")


def test_the_password_is_taken_as_it_is_out_of_a_file_that_nobody_else_reads(tmp_path: Path, secret: Path) -> None:
    ours = site(tmp_path, database_url=SERVER, database_password_file=str(secret))

    assert make_url(database.url_of(ours)).password == "p@ss/w:rd"

    secret.chmod(0o644)
    with pytest.raises(SiteError, match=r"portal\.database_password_file: has mode 0644; allowed: 0600") as fault:
        database.url_of(ours)
    assert "p@ss" not in fault.value.message


def test_a_server_that_cannot_be_used_is_said_without_its_password(tmp_path: Path, secret: Path) -> None:
    """Without the driver its name is said, with it that nobody answers; both where both can be tried."""
    ours = site(tmp_path, database_url=SERVER, database_password_file=str(secret))

    with pytest.raises(DatabaseServerFault) as fault:
        database.check_of(ours)

    has_driver = importlib.util.find_spec("psycopg") is not None
    words = "does not answer as it should" if has_driver else "needs the Python package psycopg, which is missing"
    assert fault.value.message.startswith(f"{SERVER} {words}")
    assert "p@ss" not in fault.value.message


@pytest.mark.parametrize("command", [("state", "separate"), ("database", "upgrade")])
def test_a_server_is_not_touched_by_the_commands_for_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, str]
) -> None:
    file = tmp_path / "site.toml"
    file.write_text(f'[portal]\nstate_folder = "{tmp_path}"\ndatabase_url = "{SERVER}"\n')

    assert cli.main([*command, "--site", str(file)]) == 1
    assert capsys.readouterr().err.startswith(SERVER)
