"""A folder as an archive: what is in it, what is left out, and that nothing of it is kept."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, HTTPError

from portal.downloads import archive
from portal.downloads.archive import LEFT_OUT, PART, FolderArchive
from portal.downloads.pages import ArchiveHandler, Downloads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files."""
    made = tmp_path / "run one"
    (made / "logs/train").mkdir(parents=True)
    (made / "notes.txt").write_text("notes")
    (made / "logs/train/events").write_bytes(os.urandom(3 * PART))
    (made / "start.sh").write_text("#!/bin/sh\n")
    (made / "start.sh").chmod(0o755)
    (made / "empty").mkdir()
    return made


def hand_on(folder: Path, send: Callable[[bytes], None]) -> None:
    """Its archive, in parts."""
    root = os.open(folder, os.O_RDONLY)
    try:
        FolderArchive(root, folder.name).send(send)
    finally:
        os.close(root)


def sent(folder: Path) -> dict[str, tarfile.TarInfo]:
    """The entries of its archive; every file is read."""
    return {info.name: info for info, _ in read(folder)}


def read(folder: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """The entries with what is in them."""
    parts: list[bytes] = []
    hand_on(folder, parts.append)
    with tarfile.open(fileobj=io.BytesIO(b"".join(parts)), mode="r:gz") as found:
        return [(one, file.read() if (file := found.extractfile(one)) else b"") for one in found]


def test_an_archive_holds_the_folder_under_its_name(folder: Path) -> None:
    entries = {info.name: (info, data) for info, data in read(folder)}
    assert set(entries) == {
        "run one/empty", "run one/logs", "run one/logs/train", "run one/logs/train/events", "run one/notes.txt",
        "run one/start.sh",
    }  # fmt: skip
    assert entries["run one/logs/train/events"][1] == (folder / "logs/train/events").read_bytes()
    assert entries["run one/start.sh"][0].mode == 0o755
    assert entries["run one/notes.txt"][0].mtime == int((folder / "notes.txt").stat().st_mtime)


def test_links_pipes_and_what_is_hidden_are_not_in_it_and_what_is_left_out_is_said(folder: Path) -> None:
    secret = folder.parent / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (folder / "to a file").symlink_to(secret / "key")
    (folder / "to a folder").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / ".ssh").mkdir()
    (folder / ".ssh/id").write_text("secret")

    entries = {info.name: data for info, data in read(folder)}

    told = entries.pop(f"run one/{LEFT_OUT}").decode()
    assert b"secret" not in b"".join(entries.values())
    assert not [name for name in entries if "ssh" in name or "pipe" in name or "to a" in name]
    assert "run one/to a file: a link" in told
    assert "run one/to a folder: a link" in told
    assert "run one/pipe: neither a file nor a folder" in told
    assert ".ssh" not in told


@pytest.mark.parametrize("change", ["shorter", "longer"])
def test_a_file_that_changes_while_it_is_read_breaks_nothing(folder: Path, change: str) -> None:
    events = folder / "logs/train/events"
    size = events.stat().st_size
    parts: list[bytes] = []

    def send(data: bytes) -> None:
        if not parts:
            os.truncate(events, 10 if change == "shorter" else size * 2)
        parts.append(data)

    hand_on(folder, send)

    with tarfile.open(fileobj=io.BytesIO(b"".join(parts)), mode="r:gz") as found:
        assert found.getmember("run one/logs/train/events").size == size
        names = found.getnames()
        assert "run one/start.sh" in names, "what comes after it is whole"
        assert (f"run one/{LEFT_OUT}" in names) is (change == "shorter")


def test_who_goes_away_ends_it_and_nothing_is_read_any_more(folder: Path) -> None:
    parts: list[bytes] = []

    def send(data: bytes) -> None:
        parts.append(data)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        hand_on(folder, send)
    assert len(parts) == 1
    assert len(parts[0]) < 2 * PART


def test_names_that_are_no_text_are_kept(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9")).write_text("x")
    assert os.fsdecode(b"run one/caf\xe9") in sent(folder)


def test_it_needs_little_memory_however_many_files_there_are(folder: Path) -> None:
    for number in range(300):
        (folder / f"{number}.txt").write_text("x")
    longest = 0

    def send(data: bytes) -> None:
        nonlocal longest
        longest = max(longest, len(data))

    hand_on(folder, send)
    assert longest < PART + archive.PART


@pytest.fixture
def deep(folder: Path) -> Iterator[Path]:
    """The folder, with folders in one another without an end; they are taken away again, as nobody else can."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1200):  # deeper than a path can be long
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    yield folder
    subprocess.run(["rm", "-r", folder / "d"], check=True)


def test_folders_in_folders_without_an_end_are_left_out_and_the_rest_is_whole(deep: Path) -> None:
    (deep / "zz.txt").write_text("the last one")
    open_files: list[int] = []
    parts: list[bytes] = []

    def send(data: bytes) -> None:
        open_files.append(len(list(Path("/proc/self/fd").iterdir())))
        parts.append(data)

    before = len(list(Path("/proc/self/fd").iterdir()))
    hand_on(deep, send)

    with tarfile.open(fileobj=io.BytesIO(b"".join(parts)), mode="r:gz") as found:
        entries = {one.name: (file.read() if (file := found.extractfile(one)) else b"") for one in found}
    assert max(open_files) - before < archive.DEEPEST + 20
    assert entries["run one/zz.txt"] == b"the last one"
    assert f"deeper than {archive.DEEPEST}" in entries[f"run one/{LEFT_OUT}"].decode()
    assert max(name.count("/d") for name in entries) == archive.DEEPEST + 1


class Sends(ArchiveHandler):
    """The handler without the login, which is looked at elsewhere."""

    current_user = "alice"

    async def prepare(self) -> None:  # type: ignore[override]
        """None."""

    def set_default_headers(self) -> None:
        """None."""


@pytest.mark.parametrize("error", [RecursionError(), MemoryError(), OSError(5, "Input/output error"), ValueError("x")])
async def test_an_archive_that_is_not_whole_ends_with_its_connection_whatever_happened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def breaks(_: FolderArchive, send: Callable[[bytes], None]) -> None:
        send(b"the beginning")
        raise error

    monkeypatch.setattr(FolderArchive, "send", breaks)
    downloads = Downloads(folder.parent)
    server = HTTPServer(Application([("/archive", Sends, {"downloads": downloads})]))
    listener, port = bind_unused_port()
    server.add_socket(listener)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /archive?path=run%20one HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    answer = await asyncio.wait_for(reader.read(), 10)

    writer.close()
    server.stop()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"the beginning" in answer
    assert not answer.endswith(b"0\r\n\r\n"), "a browser takes it for whole"
    assert downloads.going == 0


def test_a_folder_behind_a_link_of_somebody_elses_is_not_sent_and_behind_ones_own_is(tmp_path: Path) -> None:
    home, storage = tmp_path / "home", tmp_path / "storage"
    (home / "own").mkdir(parents=True)
    (storage / "bob").mkdir(parents=True)
    (home / "project").symlink_to(storage)
    theirs = storage / "bob" / "results"
    theirs.symlink_to(home / "own")
    if os.getuid() == 0:
        os.chown(theirs, 12345, 12345, follow_symlinks=False)
    (storage / "bob").chmod(0o777)  # of an ordinary user's own link: others may have put it there
    downloads = Downloads(home, (storage,))

    with pytest.raises(HTTPError) as refused, downloads.opened("project/bob/results"):
        pass
    assert refused.value.status_code == 403
    with downloads.opened("project/bob") as (root, name):
        assert (name, os.fstat(root)) == ("bob", (storage / "bob").stat())
    with downloads.opened("") as (_, name):
        assert name == "home"


def test_folders_of_the_person_and_of_the_storage_are_sent_and_no_others(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    storage = tmp_path / "storage"
    for place in (home / "a", storage / "b", tmp_path / "elsewhere"):
        place.mkdir(parents=True)
    (home / "isilon").symlink_to(storage)
    (home / "out").symlink_to(tmp_path / "elsewhere")
    (home / "file").write_text("x")
    downloads = Downloads(home, (storage,))

    assert downloads.folder("a") == home / "a"
    assert downloads.folder("/isilon/b") == storage / "b"
    for path, status in (("out", 403), ("../elsewhere", 403), ("file", 404), ("none", 404), ("a\0b", 404)):
        with pytest.raises(HTTPError) as refused:
            downloads.folder(path)
        assert refused.value.status_code == status, path
        with pytest.raises(HTTPError), downloads.opened(path):
            pass
