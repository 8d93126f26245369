"""Values that the unit tests share, and the two parts in which `make test` runs them at the same time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from jupyterhub.user import UserDict
from sqlalchemy import event
from sqlalchemy.engine import Engine

from portal.catalogue import rights
from portal.site import Identity, Site, parse

PART = pytest.StashKey[str]()
HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "deploy" / "site" / "site.toml.example"
DEEPEST = 200  # folders in one another; shutil.rmtree (Python 3.11) calls itself for each, a thousand times at most


def pytest_configure(config: pytest.Config) -> None:
    """The part is this run's: some tests are about the parts of another ring."""
    config.stash[PART] = os.environ.pop("DSPORTAL_PART", "")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what is of the other part, before it is imported; None where others may decide."""
    is_test = collection_path.parent == HERE and collection_path.match("test_*.py")
    return True if is_test and config.stash[PART] not in ("", part_of(collection_path)) else None


def part_of(file: Path) -> str:
    """Every other file is in the second part: each takes about half of the time."""
    return "12"[sorted(file.parent.glob("test_*.py")).index(file) % 2]


@pytest.fixture(autouse=True)
def _the_environment_stays() -> Iterator[None]:
    """A command of ours that a test runs here may set variables, with which later tests would start programs.

    And the umask, by which they would make files.
    """
    before = os.umask(0o022)
    os.umask(before)
    with mock.patch.dict(os.environ):
        yield
    os.umask(before)


@pytest.fixture(scope="session", autouse=True)
def _nothing_deep_stays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Any later run of pytest takes the folders of this one away as it ends, and breaks off where it cannot."""
    yield
    assert with_deep_folders(tmp_path_factory.getbasetemp()) == set(), "a test takes them away itself"


def with_deep_folders(place: Path) -> set[str]:
    """The names in a place below which folders lie deeper in one another than what can be removed."""
    found = set()
    waiting = [(place, 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > DEEPEST:
            found.add(folder.relative_to(place).parts[0])
            continue
        with contextlib.suppress(PermissionError, FileNotFoundError), os.scandir(folder) as entries:
            waiting += [(Path(entry), depth + 1) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return found


@event.listens_for(Engine, "connect")
def _wait_for_no_disk(connection: object, _record: object) -> None:
    """A database of a test need not outlive a power failure: SQLite does not wait for the disk at each change."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture
def tables() -> dict[str, Any]:
    """The tables of the example settings, free to be spoiled."""
    return tomllib.loads(EXAMPLE.read_text())


@pytest.fixture
def site(tables: dict[str, Any]) -> Site:
    """The example site."""
    return parse(tables)


@pytest.fixture
def alice() -> Identity:
    """Somebody without special groups."""
    return Identity("alice", frozenset({"jupyter"}))


def delete_person(db: Any, name: str) -> None:
    """Delete somebody as the hub's admin page does."""
    UserDict(db_factory=lambda: db, settings={}).delete(name)


@pytest.fixture(autouse=True)
def _tried_as_oneself(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are tried with root's own rights: this checkout, and tests' folders, may be closed to all others.

    ``test_catalogue`` looks at that in folders that everybody reaches.
    """
    if "reached" not in request.fixturenames:
        monkeypatch.setattr(rights, "of_trial", lambda *_paths: {})
