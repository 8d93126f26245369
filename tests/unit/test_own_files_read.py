"""What JupyterLab opens in a folder that others can change: nobody waits for what they do with a file meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tornado.web import HTTPError

from portal.downloads import read_files
from portal.downloads.files import FileHandler
from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.singleuser.own_files import OwnFiles

NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
AT_ONCE_S = 5.0  # far less than the kernel waits for who holds a lease (proc(5), lease-break-time)
HOLD = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, lambda *_: sys.argv[2] == "short" and fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK))
held = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
while True:
    time.sleep(1)
"""


class Shared:
    """A home with a folder that others can change."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "shared"
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.private = home / "private"
        self.private.mkdir(mode=0o700)
        self.files: Any = OwnFiles(root_dir=str(home), checkpoints_class=OwnCheckpoints, delete_to_trash=False)

    async def refused(self, path: str) -> HTTPError:
        """Why a file is not opened."""
        with pytest.raises(HTTPError) as refused:
            await self.files.get(path)
        return refused.value


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shared:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(read_files, "TRIED_AFTER_S", (0.0, 0.5))
    return Shared(tmp_path)


@contextmanager
def lease(file: Path, how: str) -> Iterator[None]:
    """Another process has a lease on a file, and gives it back when somebody asks only where it is ``short``."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file), how], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == b"held\n", "a local file system has leases: set TMPDIR to one"
            yield
        finally:
            holder.send_signal(signal.SIGKILL)


async def test_a_file_that_becomes_a_pipe_while_it_is_opened_keeps_nobody(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = shared.folder / "lesson.txt"
    os.mkfifo(pipe)
    is_file = os.path.isfile
    monkeypatch.setattr("os.path.isfile", lambda path: is_file(path) or str(path) == str(pipe))  # a moment ago
    writer = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # or the test itself would wait for ever
    try:
        assert "no regular file" in str(await asyncio.wait_for(shared.refused("shared/lesson.txt"), AT_ONCE_S))
    finally:
        os.close(writer)


async def test_a_file_that_somebody_keeps_from_being_opened_is_refused_in_words(shared: Shared) -> None:
    file = shared.folder / "lesson.ipynb"
    file.write_text(NOTEBOOK)
    with lease(file, "long"):
        began = time.monotonic()
        error = await shared.refused("shared/lesson.ipynb")
        assert time.monotonic() - began < AT_ONCE_S
    assert error.status_code == 423
    assert "lesson.ipynb" in str(error)


async def test_who_gives_a_file_back_at_once_is_waited_for(shared: Shared) -> None:
    file = shared.folder / "lesson.ipynb"
    file.write_text(NOTEBOOK)
    with lease(file, "short"):
        assert (await shared.files.get("shared/lesson.ipynb"))["content"]["nbformat"] == 4


def test_a_download_waits_for_neither(shared: Shared) -> None:
    file = shared.folder / "lesson.ipynb"
    file.write_text(NOTEBOOK)
    with lease(file, "long"):
        began = time.monotonic()
        with pytest.raises(HTTPError) as refused:
            list(FileHandler.get_content(str(file)))
        assert (refused.value.status_code, time.monotonic() - began < AT_ONCE_S) == (423, True)


def test_a_download_is_read_in_parts(shared: Shared) -> None:
    file = shared.folder / "numbers.bin"
    file.write_bytes(bytes(range(256)) * 1000)
    assert b"".join(FileHandler.get_content(str(file))) == file.read_bytes()
    assert b"".join(FileHandler.get_content(str(file), 10, 200_000)) == file.read_bytes()[10:200_000]
    assert b"".join(FileHandler.get_content(str(file), 255_990)) == file.read_bytes()[255_990:]


async def test_what_jupyter_puts_in_the_place_of_a_notebook_is_put_there_in_ones_own_folder_alone(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (shared.folder, shared.private):
        (folder / "lesson.ipynb").write_text("{")
        (folder / ".~lesson.ipynb").write_text(NOTEBOOK)

    assert (await shared.files.get("private/lesson.ipynb"))["content"]["nbformat"] == 4
    assert (shared.private / "lesson.ipynb.invalid").exists()

    error = await shared.refused("shared/lesson.ipynb")
    assert (error.status_code, "Unreadable Notebook" in str(error)) == (400, True)
    assert sorted(path.name for path in shared.folder.iterdir()) == [".~lesson.ipynb", "lesson.ipynb"]


async def test_a_notebook_of_a_shared_folder_is_read_with_its_hash(shared: Shared) -> None:
    (shared.folder / "lesson.ipynb").write_text(NOTEBOOK)
    found = await shared.files.get("shared/lesson.ipynb", require_hash=True)
    assert (found["content"]["nbformat"], len(found["hash"])) == (4, 64)
