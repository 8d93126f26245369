"""The hub's database before the hub opens it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyterhub import orm

from portal.hub import database
from portal.hub.database import DatabaseFault, check


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


def test_a_file_that_may_not_be_opened_is_told_as_such(file: Path) -> None:
    file.unlink()
    file.mkdir()

    with pytest.raises(DatabaseFault, match="cannot be written"):
        check(file)
