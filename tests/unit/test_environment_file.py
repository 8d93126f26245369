"""The file with a session's environment is read as what it is: something that lies in a home."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.launcher import ENVIRONMENT_FILE
from portal.singleuser import environment_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """As the launcher leaves it."""
    made = tmp_path / ENVIRONMENT_FILE
    made.touch(mode=0o600)
    made.write_text(json.dumps({"JUPYTERHUB_API_TOKEN": "s3"}))
    return made


def test_a_session_reads_what_the_launcher_left_for_it(file: Path) -> None:
    assert environment_file.read(file.parent) == {"JUPYTERHUB_API_TOKEN": "s3"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_file_that_others_may_read_or_write_is_refused_with_what_is_allowed(file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(SystemExit, match="allowed: yours alone"):
        environment_file.read(file.parent)


def test_a_file_of_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    somebody = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: somebody)

    with pytest.raises(SystemExit, match=f"owner {somebody - 1}"):
        environment_file.read(file.parent)


def test_a_file_without_end_is_refused(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(environment_file.SIZE_MAX + 1)

    with pytest.raises(SystemExit, match=f"up to {environment_file.SIZE_MAX} bytes"):
        environment_file.read(file.parent)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "nothing"])
def test_nothing_but_a_regular_file_is_read_and_nobody_waits_for_it(file: Path, kind: str) -> None:
    elsewhere = file.rename(file.with_name("elsewhere"))
    put: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(file, 0o600),
        "link": lambda: file.symlink_to(elsewhere),
        "folder": file.mkdir,
        "nothing": lambda: None,
    }
    put[kind]()

    with pytest.raises(SystemExit, match="Start the session anew"):
        environment_file.read(file.parent)
