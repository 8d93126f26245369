"""A board whose folder holds a pipe, or a length without content, that is called like a file of events.

It shows what else is there, and others' files take no memory of the person's kernels.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import time
import tracemalloc
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub import errors
from tensorboard.compat.tensorflow_stub.io import gfile
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import portal
from portal.tensorboard import boards, regular_files, steady_reading

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
    as_long_as_it_says(folder / "b" / PIPE, 2**30)
    for place in (folder / "a0", os.fsdecode(os.fsencode(folder) + b"/\xff")):
        Path(place).mkdir()
        (Path(place) / PIPE).write_bytes(record(b"\xff\xff\xff\xff"))  # no event
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
            assert Path(f"/proc/{board.pid}/oom_score_adj").read_text().strip() == "1000"
            assert memory_mb(board.pid) < 700
        finally:
            board.kill()


def memory_mb(pid: int) -> int:
    """The most that a process has had (proc(5): VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def record(data: bytes) -> bytes:
    """Bytes as a file of events has them."""
    length = struct.pack("<Q", len(data))
    return b"".join(whole for part in (length, data) for whole in (part, struct.pack("<I", masked_crc32c(part))))


def as_long_as_it_says(file: Path, size: int) -> Path:
    """A file of events that says that its first event has so many bytes, and holds nothing but that."""
    header = struct.pack("<Q", size)
    file.write_bytes(header + struct.pack("<I", masked_crc32c(header)))
    os.truncate(file, min(size, 2**30) + 12)
    return file


@pytest.mark.parametrize("size", [2**30, 2**63])
def test_what_an_event_says_of_its_length_takes_no_memory(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gfile._REGISTERED_FILESYSTEMS, "", regular_files.RegularFiles())
    file = as_long_as_it_says(tmp_path / PIPE, size)
    assert file.stat().st_blocks < 100
    loader = EventFileLoader(str(file))
    tracemalloc.start()

    events = [*loader.Load(), *loader.Load()]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert events == []
    assert most < 2**26
    assert len(caplog.messages) == 1
    assert f"{PIPE} is read no further: no more than 64 MB of it are read in one piece" in caplog.messages[0]


def test_a_whole_file_is_read_up_to_so_many_bytes_and_each_part_of_a_longer_one(tmp_path: Path) -> None:
    file = tmp_path / "tensors.bytes"
    file.write_bytes(b"1234")
    os.truncate(file, regular_files.LONGEST_WHOLE + 1)
    ours = regular_files.RegularFiles()

    with pytest.raises(errors.DataLossError):
        ours.read(str(file), binary_mode=True)

    first, after = ours.read(str(file), True, 4)
    assert first == b"1234"
    assert ours.read(str(file), True, regular_files.LONGEST_PART, after)[0] == bytes(regular_files.LONGEST_PART)
    os.truncate(file, regular_files.LONGEST_WHOLE // 8)
    assert len(ours.read(str(file), binary_mode=True)[0]) == regular_files.LONGEST_WHOLE // 8


def test_what_is_no_event_keeps_no_run_from_being_read_whenever_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for kind, name in ((EventAccumulator, "Reload"), (EventMultiplexer, "AddRunsFromDirectory")):
        monkeypatch.setattr(kind, name, getattr(kind, name))  # as it was, afterwards
    steady_reading.read_on()
    runs = EventMultiplexer()

    def run(name: str, *records: bytes) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / PIPE).write_bytes(b"".join(map(record, records)))

    event = Event(step=1, summary=Summary(value=[Summary.Value(tag="loss", simple_value=0.5)])).SerializeToString()
    for names in (("a-odd", "b"), ("c-odd", "d")):  # the second ones are read as they are found
        run(names[0], b"\xff\xff\xff\xff", event)
        run(names[1], event)
        for _ in range(2):
            runs.AddRunsFromDirectory(str(tmp_path))
            runs.Reload()

    found = runs.PluginRunToTagToContent("scalars")
    assert set(found) == {"a-odd", "b", "c-odd", "d"}, "an odd event is passed by as well"
    told = [message.split("/")[-1].partition(":")[0] for message in caplog.messages]
    assert told == ["a-odd cannot be read further now", "c-odd cannot be read further now"]


def test_runs_are_found_past_folders_that_may_not_be_read_and_links_that_go_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("a/closed", "a/deep/er", "b", "other"):
        (tmp_path / "logs" / place).mkdir(parents=True)
    (tmp_path / "logs/a" / os.fsdecode(b"\xff")).mkdir()
    for name in ("x", "y"):
        (tmp_path / "logs/a" / name).symlink_to(tmp_path / "logs")
    (tmp_path / "logs/alias").symlink_to("b")
    (tmp_path / "logs/a-loop").symlink_to("a-loop")
    (tmp_path / "logs/a-long").symlink_to("/" + 300 * "a")
    (tmp_path / "logs/b/events").touch()
    scan = os.scandir

    def scandir(folder: str) -> Any:
        if str(folder).endswith("closed"):
            raise PermissionError(13, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scandir)

    found = dict(steady_reading.folders(str(tmp_path / "logs")))

    shown = {os.path.relpath(folder, tmp_path / "logs"): len(files) for folder, files in found.items()}
    assert shown.keys() == {".", "a", "other", "a/closed", "a/deep", "a/deep/er", "b", "alias"}
    assert {folder for folder, files in shown.items() if files} == {".", "b", "alias"}


def test_so_many_folders_are_looked_through_and_those_near_the_top_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Links that fan out, and meet again, make as many paths as there are numbers."""
    monkeypatch.setattr(steady_reading, "FOLDERS_MOST", 100)
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        for name in "xy":
            (tmp_path / str(number) / name).symlink_to(tmp_path / str(number + 1))

    found = list(steady_reading.folders(str(tmp_path)))

    assert len(found) == 100
    assert {Path(folder) for folder, _ in found} >= {tmp_path / str(number) for number in range(20)}
    assert "more than 100 folders" in caplog.text


def test_no_more_folders_wait_than_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(steady_reading, "FOLDERS_MOST", 100)
    (tmp_path / "links").mkdir()
    for number in range(150):
        (tmp_path / f"links/{number}").symlink_to(tmp_path / "links", target_is_directory=True)
        (tmp_path / f"run-{number}").symlink_to(tmp_path / "links")
    waiting: list[int] = []

    class Counted(deque[Any]):
        def popleft(self) -> Any:
            waiting.append(len(self))
            return super().popleft()

    monkeypatch.setattr(steady_reading, "deque", Counted)

    assert len(list(steady_reading.folders(str(tmp_path)))) <= 100
    assert max(waiting) <= 100
    assert "more than 100 folders" in caplog.text


def test_a_folder_that_may_not_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / os.fsdecode(b"\xff")).touch()
    files = regular_files.RegularFiles()
    assert files.listdir(str(tmp_path)) == ["file"]

    def refuses(_folder: str) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuses)
    with pytest.raises(errors.NotFoundError):
        files.listdir(str(tmp_path))


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
