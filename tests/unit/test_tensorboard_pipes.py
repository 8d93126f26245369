"""A board whose folder holds a pipe that is called like a file of events: it shows what else is there."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub import errors
from tensorboard.compat.tensorflow_stub.io import gfile
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import portal
from portal.tensorboard import boards, regular_files

DEADLINE_S = 20
START = "import sys; from portal.tensorboard.server import main; main(*sys.argv[1:])"
PIPE = "events.out.tfevents.0.theirs"  # before all others


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two runs, one of them with a pipe, a socket and a device that are called like files of events."""
    folder = tmp_path / "logs"
    for run in ("a", "b"):
        writer = EventFileWriter(str(folder / run))
        writer.add_event(Event(step=1, summary=Summary(value=[Summary.Value(tag="loss", simple_value=0.5)])))
        writer.close()
    os.mkfifo(folder / "a" / PIPE)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "a/events.out.tfevents.00.sock"))
    (folder / "a/events.out.tfevents.000.zero").symlink_to("/dev/zero")
    return folder


class BoardConnection(http.client.HTTPConnection):
    """To a board's socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE_S)
        self.sock.connect(self.host)


def _runs(place: Path) -> list[str]:
    """The runs whose scalars a board shows."""
    connection = BoardConnection(str(place))
    try:
        connection.request("GET", "/data/plugin/scalars/tags")
        return sorted(run for run, tags in json.loads(connection.getresponse().read()).items() if "loss" in tags)
    except OSError:  # it does not listen yet
        return []
    finally:
        connection.close()


def test_a_pipe_keeps_no_run_from_being_shown(logs: Path, tmp_path: Path) -> None:
    place = tmp_path / "board.sock"
    board = subprocess.Popen(
        [sys.executable, "-c", START, str(place), str(logs), "Logs"],
        cwd=Path(portal.__file__).parents[1],  # this checkout, whichever one is installed
        env=boards.environment(os.environ, tmp_path),
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with board:
        try:
            deadline = time.monotonic() + DEADLINE_S
            while (found := _runs(place)) != ["a", "b"] and time.monotonic() < deadline:
                time.sleep(0.1)
            assert found == ["a", "b"]
        finally:
            board.kill()


def test_what_becomes_a_pipe_in_the_last_moment_is_not_waited_for(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = regular_files.RegularFiles()
    monkeypatch.setattr(files, "exists", lambda _: True)
    with pytest.raises(errors.NotFoundError):
        files.read(str(logs / "a" / PIPE), binary_mode=True)


def test_files_are_read_as_tensorboard_does(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes("äb\nc".encode())
    ours = regular_files.RegularFiles()
    theirs = gfile.LocalFileSystem()
    path = str(tmp_path / "notes.txt")
    for binary in (True, False):
        first = ours.read(path, binary, 2)
        assert first == theirs.read(path, binary, 2)
        assert ours.read(path.encode(), binary, None, first[1]) == theirs.read(path.encode(), binary, None, first[1])
    for there in (tmp_path, tmp_path / "none", tmp_path / "notes.txt"):
        assert ours.exists(str(there)) is theirs.exists(str(there))
    with pytest.raises(errors.NotFoundError):
        ours.read(str(tmp_path / "none"))
