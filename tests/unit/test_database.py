"""The hub's database before the hub opens it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import alembic.command
import pytest
from alembic.config import Config
from jupyterhub import dbutil, orm

from portal import cli
from portal.databases import schema
from portal.hub import database
from portal.hub.database import DatabaseFault, SchemaFault, check


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database that JupyterHub made itself, with some people in it."""
    made = tmp_path / database.FILE
    session = orm.new_session_factory(f"sqlite:///{made}")()
    session.add_all(orm.User(name=f"person{number}") for number in range(300))
    session.commit()
    session.close()
    session.get_bind().dispose()
    return made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a lock."""
    monkeypatch.setattr(database, "LOCK_TIMEOUT_S", 0.1)


@pytest.fixture
def holder(file: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection."""
    other = sqlite3.connect(file, isolation_level=None)
    yield other
    other.close()


def refused(file: Path) -> str:
    """The words of the refusal; the file is as it was."""
    before = file.read_bytes()
    with pytest.raises(DatabaseFault) as caught:
        check(file)
    assert file.read_bytes() == before
    assert caught.value.message.startswith(f"{file} ")
    assert "The portal does not start, and nothing was changed." in caught.value.message
    return caught.value.message


def test_a_database_in_order_is_taken_and_left_as_it_is(file: Path) -> None:
    before = file.read_bytes()

    check(file)

    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_portal_that_starts_for_the_first_time_has_none_and_gets_none_here(tmp_path: Path) -> None:
    check(tmp_path / database.FILE)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [1, 100, 4096, 20000])
def test_a_truncated_database_is_refused(file: Path, kept: int) -> None:
    os.truncate(file, kept)

    assert "Restore it from a backup (docs/howto/backup.md)" in refused(file)


def test_an_empty_database_is_refused_too(file: Path) -> None:
    os.truncate(file, 0)

    assert "is empty" in refused(file)


def test_a_garbled_database_is_refused(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xa5" * 8192)

    assert "is damaged" in refused(file)


def test_what_is_no_database_is_refused(file: Path) -> None:
    file.write_text("a note of somebody\n" * 100)

    assert "is damaged: file is not a database" in refused(file)


def test_another_programs_database_is_refused(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as theirs:
        theirs.execute("CREATE TABLE users (id INTEGER)")
    theirs.close()

    assert "is not a database of JupyterHub: the table alembic_version is missing" in refused(file)


@pytest.mark.parametrize("kind", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_database_that_another_process_holds_is_refused(
    file: Path, holder: sqlite3.Connection, impatient: None, kind: str
) -> None:
    holder.execute(f"BEGIN {kind}")

    words = refused(file)

    assert "is locked by another process" in words
    assert f"fuser -v {file}" in words


def test_a_reader_is_no_obstacle(file: Path, holder: sqlite3.Connection, impatient: None) -> None:
    holder.execute("BEGIN")
    holder.execute("SELECT * FROM users").fetchone()

    check(file)


def test_what_a_killed_hub_left_half_written_is_rolled_back_by_sqlite_itself(file: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN")
    writer.execute("UPDATE users SET name = name || 'x'")
    for part in tmp_path.glob(f"{database.FILE}*"):
        (crashed / part.name).write_bytes(part.read_bytes())
    writer.close()
    assert (crashed / f"{database.FILE}-journal").exists()

    check(crashed / database.FILE)

    with sqlite3.connect(crashed / database.FILE) as after:
        assert after.execute("SELECT count(*) FROM users WHERE name LIKE '%x'").fetchone() == (0,)
    after.close()


HEAD, BEFORE, TWO_BEFORE = schema.revisions()[:3]


@pytest.fixture
def old(file: Path, tmp_path: Path) -> Path:
    """The database of an earlier JupyterHub, as its own steps backwards make it; with a log beside it."""
    settings = tmp_path / "alembic.ini"
    dbutil.write_alembic_ini(str(settings), f"sqlite:///{file}")
    alembic.command.downgrade(Config(str(settings)), TWO_BEFORE)
    settings.unlink()
    database.prepare(file)
    return file


def schema_of(file: Path) -> str:
    """Its schema's number."""
    with closing(sqlite3.connect(file)) as db:
        return str(db.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def test_a_database_of_an_earlier_version_is_refused_with_the_command_that_upgrades_this_file(old: Path) -> None:
    with pytest.raises(SchemaFault, match=f"has the schema {TWO_BEFORE} of another version") as fault:
        check(old)

    assert "`portal database upgrade --site FILE` makes a copy beside it" in fault.value.message
    assert "jupyterhub upgrade-db" not in fault.value.message
    assert schema_of(old) == TWO_BEFORE


def test_an_upgrade_keeps_everything_and_the_copy_of_before_with_what_was_still_in_the_log(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = sqlite3.connect(old, isolation_level=None)
    writer.execute("UPDATE users SET name = 'last' WHERE name = 'person299'")  # lies in the log beside
    killed = tmp_path / "killed"  # as a hub that was killed left it
    killed.mkdir()
    for part in (old, old.with_name(f"{old.name}-wal")):
        (killed / part.name).write_bytes(part.read_bytes())
    writer.close()
    old = killed / old.name
    site = old.with_name("site.toml")
    site.write_text(f'[portal]\nstate_folder = "{old.parent}"\n')

    assert cli.main(["database", "upgrade", "--site", str(site)]) == 0

    (backup,) = old.parent.glob(f"{old.name}.{TWO_BEFORE}.*")
    assert str(backup) in capsys.readouterr().out
    assert backup.stat().st_mode & 0o777 == 0o600
    assert (schema_of(old), schema_of(backup)) == (HEAD, TWO_BEFORE)
    for one in (old, backup):
        with closing(sqlite3.connect(one)) as db:
            assert db.execute("SELECT count(*), max(name = 'last') FROM users").fetchone() == (300, 1)
    check(old)
    assert {path.name for path in old.parent.iterdir()} == {old.name, backup.name, site.name}


def test_a_database_that_somebody_has_open_is_not_replaced(old: Path, holder: sqlite3.Connection) -> None:
    holder.execute("UPDATE users SET name = 'last' WHERE name = 'person299'")

    with pytest.raises(DatabaseFault, match="another process has it open"):
        database.upgrade(old)
    assert schema_of(old) == TWO_BEFORE


def test_a_database_with_the_right_schema_is_left_alone(file: Path) -> None:
    before = file.read_bytes()

    assert database.upgrade(file) is None

    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_database_of_a_newer_version_is_refused_and_not_touched(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE alembic_version SET version_num = 'fedcba987654'")

    for act in (check, database.upgrade):
        with pytest.raises(SchemaFault, match="It is newer than this portal"):
            act(file)
    assert list(file.parent.iterdir()) == [file]


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(file: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(database, "_to_head", broken)
    with pytest.raises(DatabaseFault, match=r"could not be upgraded: .*No space left"):
        database.upgrade(old)

    assert schema_of(old) == TWO_BEFORE
    assert not old.with_name(f"{old.name}.upgraded").exists()


def test_no_database_is_upgraded_while_its_portal_runs(
    old: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("portal.hub.state_place.runs", lambda folder: folder == old.parent)

    assert cli.main(["database", "upgrade", "--state", str(old.parent)]) == 1

    assert "A portal runs on" in capsys.readouterr().err
    assert schema_of(old) == TWO_BEFORE


def test_a_file_that_may_not_be_opened_is_told_as_such(file: Path) -> None:
    file.unlink()
    file.mkdir()

    with pytest.raises(DatabaseFault, match="cannot be written"):
        check(file)
