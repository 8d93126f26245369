"""A large file that comes in parts: where it goes on, what stands in its way, and that nothing of it is lost."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from jupyter_server.base.handlers import AuthenticatedFileHandler
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders
from tornado.testing import bind_unused_port
from tornado.web import Application, HTTPError

from portal.downloads.files import FileHandler
from portal.downloads.pages import Downloads
from portal.homes import own_folder
from portal.homes.readers import EVERYBODY, KnownFile
from portal.singleuser.own_files import OwnFiles
from portal.uploads import pages, partial
from portal.uploads.abandoned import KEPT_S
from portal.uploads.pages import BUFFER, UploadHandler, Uploads
from portal.uploads.partial import Upload
from portal.uploads.refused import UploadRefused
from tests.unit.access_lists import DEFAULT, GROUP_OBJ, MASK, NOBODYS, OTHER, USER, USER_OBJ, give

DATA = os.urandom(100_000)
SOMEBODY_ELSE = 4_000_000  # no account of this machine


@pytest.fixture
def upload(tmp_path: Path) -> Upload:
    """A file on its way into a folder."""
    return Upload(tmp_path, "big.bin", len(DATA), "1")


def write(upload: Upload, offset: int, data: bytes) -> None:
    """One part."""
    there = upload.opened(offset)
    try:
        there.write(data)
    finally:
        there.close()


def refusal(act: Callable[[], object]) -> UploadRefused:
    """How something is refused."""
    with pytest.raises(UploadRefused) as refused:
        act()
    return refused.value


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_has_its_name_when_all_of_it_is_there(upload: Upload) -> None:
    assert upload.state() == {"offset": 0, "exists": False}
    write(upload, 0, DATA[:70_000])
    assert Upload(upload.folder, "big.bin", len(DATA), "1").state() == {"offset": 70_000, "exists": False}
    refused = refusal(lambda: upload.finish(replace=False))
    assert (refused.status, refused.offset) == (409, 70_000)
    write(upload, 70_000, DATA[70_000:])
    assert names(upload.folder) == [upload.partial]

    upload.finish(replace=False)

    assert names(upload.folder) == ["big.bin"]
    assert (upload.folder / "big.bin").read_bytes() == DATA


def test_an_empty_file_is_uploaded_too(tmp_path: Path) -> None:
    Upload(tmp_path, "none", 0, "").finish(replace=False)
    assert (names(tmp_path), (tmp_path / "none").read_bytes()) == (["none"], b"")


@pytest.mark.parametrize("offset", [0, 69_999, 70_001])
def test_a_part_from_elsewhere_is_refused_and_told_where_to_go_on(upload: Upload, offset: int) -> None:
    write(upload, 0, DATA[:70_000])
    refused = refusal(lambda: upload.opened(offset))
    assert (refused.status, refused.offset) == (409, 70_000)
    assert upload.state()["offset"] == 70_000


def test_an_upload_that_is_not_there_begins_at_its_beginning(upload: Upload) -> None:
    assert refusal(lambda: upload.opened(5)).offset == 0
    assert names(upload.folder) == []


def test_a_file_that_changed_on_the_persons_disk_is_another_upload(upload: Upload) -> None:
    write(upload, 0, DATA[:10])
    assert Upload(upload.folder, "big.bin", len(DATA), "2").state()["offset"] == 0


def test_what_is_longer_than_the_file_is_not_gone_on_with(upload: Upload) -> None:
    (upload.folder / upload.partial).write_bytes(DATA + b"1")
    refused = refusal(upload.state)
    assert (refused.status, refused.offset, "Cancel" in refused.message) == (409, None, True)


def test_two_do_not_write_one_file(upload: Upload) -> None:
    first = upload.opened(0)
    assert refusal(lambda: upload.opened(0)).status == HTTPStatus.LOCKED
    assert refusal(lambda: upload.finish(replace=False)).status == HTTPStatus.LOCKED
    first.close()
    write(upload, 0, DATA)


def test_more_than_the_file_has_is_refused(upload: Upload) -> None:
    assert refusal(lambda: write(upload, 0, DATA + b"1")).status == 413
    assert upload.state()["offset"] == 0


@pytest.mark.parametrize("name", ["", ".hidden", "..", "a/b", "a\0b", "x" * 256, "\ud800"])
def test_some_names_are_refused_in_words(tmp_path: Path, name: str) -> None:
    assert refusal(lambda: Upload(tmp_path, name, 1, "")).status == 400


def test_a_name_as_long_as_it_may_be_is_uploaded(tmp_path: Path) -> None:
    upload = Upload(tmp_path, "x" * 255, 1, "")
    write(upload, 0, b"1")
    upload.finish(replace=False)
    assert names(tmp_path) == ["x" * 255]


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_what_somebody_put_where_a_part_belongs_is_not_written(
    upload: Upload, tmp_path_factory: Any, kind: str
) -> None:
    precious = tmp_path_factory.mktemp("other") / "precious"
    precious.write_text("mine")
    place = upload.folder / upload.partial
    makers: dict[str, Callable[[], None]] = {
        "link": lambda: place.symlink_to(precious),
        "hard link": lambda: place.hardlink_to(precious),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }
    makers[kind]()
    with pytest.raises((UploadRefused, OSError)):
        write(upload, 0, DATA)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_link_or_a_folder_with_its_name_stays(upload: Upload, tmp_path_factory: Any, kind: str) -> None:
    precious = tmp_path_factory.mktemp("other") / "precious"
    precious.write_text("mine")
    write(upload, 0, DATA)
    place = upload.folder / "big.bin"
    place.symlink_to(precious) if kind == "link" else place.mkdir()
    assert refusal(upload.state).status == 409
    assert refusal(lambda: upload.finish(replace=True)).status == 409
    assert (precious.read_text(), place.is_symlink() or place.is_dir()) == ("mine", True)


def test_a_file_is_replaced_only_where_that_is_wanted_and_keeps_its_rights(upload: Upload) -> None:
    old = upload.folder / "big.bin"
    old.write_text("old")
    old.chmod(0o640)
    assert upload.state()["exists"]
    write(upload, 0, DATA)
    assert refusal(lambda: upload.finish(replace=False)).status == 412
    assert (old.read_text(), upload.state()["offset"]) == ("old", len(DATA))

    upload.finish(replace=True)

    assert (old.read_bytes(), old.stat().st_mode & 0o777, names(upload.folder)) == (DATA, 0o640, ["big.bin"])


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder another group")
@pytest.mark.parametrize(("is_member", "mode_after"), [(True, 0o640), (False, 0o600)])
def test_what_replaces_a_file_gives_its_rights_to_no_group_of_the_folders(
    upload: Upload, monkeypatch: pytest.MonkeyPatch, is_member: bool, mode_after: int
) -> None:
    old = upload.folder / "big.bin"
    old.write_text("old")
    old.chmod(0o640)
    group = old.stat().st_gid
    os.chown(upload.folder, -1, SOMEBODY_ELSE)
    upload.folder.chmod(0o2775)
    write(upload, 0, DATA)
    if not is_member:
        monkeypatch.setattr("os.fchown", Mock(side_effect=PermissionError))

    upload.finish(replace=True)

    assert old.read_bytes() == DATA
    after = old.stat()
    assert (after.st_mode & 0o777, after.st_gid) == (mode_after, group if is_member else SOMEBODY_ELSE)


def test_what_will_replace_a_private_file_is_private_while_it_comes(upload: Upload) -> None:
    old = upload.folder / "big.bin"
    old.write_text("old")
    old.chmod(0o600)

    write(upload, 0, DATA[:10])

    assert (upload.folder / upload.partial).stat().st_mode & 0o777 == 0o300


# Owner rwx, user 4000000 rw-, group r--, mask rwx, others r--.
OF_FOLDER = (
    *((USER_OBJ, 7, NOBODYS), (USER, 6, SOMEBODY_ELSE), (GROUP_OBJ, 4, NOBODYS)),
    *((MASK, 7, NOBODYS), (OTHER, 4, NOBODYS)),
)


def rights(file: Path) -> object:
    """The mode of a file, and its access list."""
    listed = "system.posix_acl_access" in os.listxattr(file)
    return oct(file.stat().st_mode), os.getxattr(file, "system.posix_acl_access") if listed else b""


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
@pytest.mark.parametrize("with_list", [False, True])
def test_what_comes_is_nobody_elses_to_open_or_lock_and_the_file_has_the_rights_of_any_new_one(
    upload: Upload, umask: int, with_list: bool
) -> None:
    if with_list:
        give(upload.folder, *OF_FOLDER, name=DEFAULT)
    before = os.umask(umask)
    try:
        (upload.folder / "usual").touch()
        write(upload, 0, DATA[:10])
        assert (upload.folder / upload.partial).stat().st_mode & 0o777 == 0o200
        write(upload, 10, DATA[10:])
        upload.finish(replace=False)
    finally:
        os.umask(before)
    assert rights(upload.folder / "big.bin") == rights(upload.folder / "usual")
    assert names(upload.folder) == ["big.bin", "usual"]


def test_a_file_of_others_that_is_replaced_lets_nobody_write_the_new_one(
    upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = upload.folder / "big.bin"
    old.write_text("old")
    old.chmod(0o666)
    write(upload, 0, DATA)
    found = list(old.stat())
    theirs = KnownFile(EVERYBODY, os.stat_result([*found[:4], os.geteuid() + 1, *found[5:]]))
    monkeypatch.setattr(partial, "known_file", lambda *_: theirs)

    upload.finish(replace=True)

    assert old.stat().st_mode & 0o777 == 0o644


def test_a_file_that_came_meanwhile_is_not_replaced(upload: Upload, monkeypatch: pytest.MonkeyPatch) -> None:
    write(upload, 0, DATA)
    synced = os.fsync

    def comes(descriptor: int) -> None:
        synced(descriptor)
        (upload.folder / "big.bin").write_text("another")

    monkeypatch.setattr(os, "fsync", comes)
    assert refusal(lambda: upload.finish(replace=False)).status == 412
    assert (upload.folder / "big.bin").read_text() == "another"


def test_a_file_system_without_hard_links_takes_uploads(upload: Upload, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    write(upload, 0, DATA)
    monkeypatch.setattr(os, "link", no_links)
    upload.finish(replace=False)
    assert names(upload.folder) == ["big.bin"]


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "your quota is used up")]
)
def test_a_full_disk_keeps_what_fits_and_the_upload_goes_on(
    upload: Upload, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    written = os.pwrite

    def fills(descriptor: int, data: bytes, offset: int) -> int:
        if offset >= 60_000:
            raise OSError(number, os.strerror(number))
        return written(descriptor, data[: 60_000 - offset], offset)

    monkeypatch.setattr(os, "pwrite", fills)
    refused = refusal(lambda: write(upload, 0, DATA))
    assert (refused.status, words in refused.message, "Make room" in refused.message) == (507, True, True)
    monkeypatch.undo()
    assert upload.state()["offset"] == 60_000
    write(upload, 60_000, DATA[60_000:])
    upload.finish(replace=False)
    assert (upload.folder / "big.bin").read_bytes() == DATA


def test_a_file_for_which_there_is_no_room_is_refused_before_it_comes(tmp_path: Path) -> None:
    refused = refusal(Upload(tmp_path, "huge", 2**60, "").state)
    assert (refused.status, "are free there" in refused.message) == (507, True)


def test_uploads_that_nobody_goes_on_with_are_removed_by_the_next(upload: Upload) -> None:
    old, young = (Upload(upload.folder, name, 9, "") for name in ("old", "young"))
    for one in (old, young):
        write(one, 0, b"1")
    then = time.time() - KEPT_S - 60
    os.utime(upload.folder / old.partial, (then, then))
    write(upload, 0, b"1")
    assert names(upload.folder) == sorted([young.partial, upload.partial])


def test_a_cancelled_upload_leaves_nothing(upload: Upload) -> None:
    write(upload, 0, DATA)
    upload.remove()
    upload.remove()
    assert names(upload.folder) == []


class Step(UploadHandler):
    """The handler, with who asks it as a header says: the rest of a session's server is elsewhere."""

    async def prepare(self) -> None:  # type: ignore[override]
        """Ask the header alone."""
        self.current_user = self.request.headers.get("Person")
        if not self.current_user:
            raise HTTPError(403)
        await self.begun()

    def check_xsrf_cookie(self) -> None:
        """Looked at elsewhere."""


class Client:
    """Speaks HTTP to the handler, so that it can stop in the middle."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def begin(self, method: str, query: str, length: int = 0, offset: int = 0, who: str = "alice") -> Any:
        """The connection, with the head sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"{method} /upload?{query} HTTP/1.1\r\nHost: x\r\nUpload-Offset: {offset}\r\nConnection: close\r\n"
        head += f"Content-Length: {length}\r\n" + (f"Person: {who}\r\n" if who else "")
        writer.write(f"{head}\r\n".encode())
        await writer.drain()
        return reader, writer

    async def ask(self, method: str, query: str, body: bytes = b"", offset: int = 0, who: str = "alice") -> Any:
        """The status and what is said."""
        reader, writer = await self.begin(method, query, len(body), offset, who)
        writer.write(body)
        answer = await reader.read()
        writer.close()
        head, _, text = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(text) if text.startswith(b"{") else None


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    """What a session knows of its uploads, into one folder."""
    return Uploads(Downloads(tmp_path).shown)


@pytest.fixture
async def client(uploads: Uploads) -> AsyncIterator[Client]:
    """A client of a server that takes uploads."""
    server = HTTPServer(Application([("/upload", Step, {"uploads": uploads})]))
    listener, port = bind_unused_port()
    server.add_socket(listener)
    yield Client(port)
    server.stop()
    await server.close_all_connections()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition, for ten seconds at most."""
    async with asyncio.timeout(10):
        while not await holds():  # noqa: ASYNC110  what is waited for is elsewhere
            await asyncio.sleep(0.01)


async def there(client: Client, query: str, least: int) -> None:
    """Wait until so many bytes are kept."""

    async def are_kept() -> bool:
        return bool((await client.ask("GET", query))[1]["offset"] >= least)

    await until(are_kept)


async def heard(uploads: Uploads, size: int) -> None:
    """Wait until so much of the one upload that is on its way has come."""

    async def is_heard() -> bool:
        return [len(one._held) for one in uploads.going.values() if one._partial] == [size]

    await until(is_heard)


QUERY = f"path=big.bin&size={len(DATA)}&stamp=1"


async def test_what_came_before_the_connection_broke_is_kept(client: Client, uploads: Uploads, tmp_path: Path) -> None:
    _, writer = await client.begin("PATCH", QUERY, len(DATA))
    writer.write(DATA[:40_000])
    await writer.drain()
    await heard(uploads, 40_000)
    writer.close()

    async def is_over() -> bool:
        return not uploads.going

    await until(is_over)
    assert await client.ask("PATCH", QUERY, DATA[40_000:], 40_000) == (200, {"offset": len(DATA)})
    assert (await client.ask("POST", QUERY))[0] == 204
    assert (await client.ask("POST", QUERY))[0] == 204  # its answer may have been lost
    assert (tmp_path / "big.bin").read_bytes() == DATA


async def test_a_silent_writer_gives_way_and_one_that_sends_does_not(
    client: Client, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SILENT_S", 60.0)
    _, writer = await client.begin("PATCH", QUERY, len(DATA))
    writer.write(DATA[:40_000])
    await writer.drain()
    await heard(uploads, 40_000)
    assert (await client.ask("PATCH", QUERY, DATA[:1]))[0] == 423
    monkeypatch.setattr(pages, "SILENT_S", 0.0)
    status, said = await client.ask("PATCH", QUERY, b"")
    assert (status, said["offset"]) == (409, 40_000)
    assert await client.ask("PATCH", QUERY, DATA[40_000:], 40_000) == (200, {"offset": len(DATA)})
    writer.close()


async def test_what_another_window_has_sent_is_all_there_until_the_file_changes(client: Client, tmp_path: Path) -> None:
    for _ in range(2):
        await client.ask("PATCH", QUERY, DATA)
        assert (await client.ask("POST", QUERY))[0] == 204
        assert await client.ask("GET", QUERY) == (200, {"offset": len(DATA), "exists": False})
        assert (await client.ask("PATCH", QUERY, DATA[9:], 9))[0] == 409
        assert (await client.ask("POST", QUERY))[0] == 204
        (tmp_path / "big.bin").unlink()
        assert await client.ask("GET", QUERY) == (200, {"offset": 0, "exists": False})
    (tmp_path / "big.bin").write_text("another")
    assert await client.ask("GET", QUERY) == (200, {"offset": 0, "exists": True})


async def test_what_is_sent_once_more_on_purpose_replaces_nothing_unasked(client: Client, tmp_path: Path) -> None:
    for status in (204, 412):
        assert await client.ask("PATCH", QUERY, DATA) == (200, {"offset": len(DATA)})
        assert (await client.ask("POST", QUERY))[0] == status
    assert (await client.ask("POST", f"{QUERY}&replace=1"))[0] == 204
    assert names(tmp_path) == ["big.bin"]


async def test_a_big_part_that_is_refused_is_answered_when_it_is_read(client: Client) -> None:
    size = 4 * BUFFER
    status, said = await client.ask("PATCH", f"path=big.bin&size={size}&stamp=1", bytes(size - 5), 5)
    assert (status, said["offset"]) == (409, 0)


async def test_a_part_is_written_while_it_comes(client: Client) -> None:
    size = 8 * BUFFER
    query = f"path=big.bin&size={size}&stamp=1"
    _, writer = await client.begin("PATCH", query, size)
    writer.write(bytes(size - 1))
    await writer.drain()
    await there(client, query, size - 2 * BUFFER)
    writer.close()


NO_NUMBERS = ("x", "-1", str(2**64), "9" * 5000)  # the last has more digits than Python reads


@pytest.mark.parametrize("query", ["size=9", "path=a", *(f"path=a&size={size}" for size in NO_NUMBERS)])
async def test_a_question_that_makes_no_sense_is_refused(client: Client, query: str) -> None:
    assert (await client.ask("PATCH", query))[0] == 400


async def test_it_goes_through_ones_own_link_on_the_way_and_out_of_no_folder(client: Client, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "own").symlink_to(tmp_path / "private")
    query = f"path=own/big.bin&size={len(DATA)}"

    assert await client.ask("PATCH", query, DATA, 0) == (200, {"offset": len(DATA)})
    assert (await client.ask("POST", query))[0] == 204
    assert names(tmp_path / "private") == ["big.bin"]
    assert (await client.ask("GET", f"path=own/../private/big.bin&size={len(DATA)}"))[0] == 403


async def test_it_goes_through_no_link_of_others_on_the_way(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "private").mkdir()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "results").symlink_to(tmp_path / "private")
    monkeypatch.setattr(own_folder, "ROOT", SOMEBODY_ELSE)
    monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)

    status, said = await client.ask("PATCH", f"path=shared/results/big.bin&size={len(DATA)}", DATA, 0)

    assert status == 403
    assert "somebody else's link" in said["message"]
    assert names(tmp_path / "private") == []


async def test_what_began_in_a_folder_of_ones_own_is_refused_in_one_of_others_until_it_is_cancelled(
    client: Client, tmp_path: Path
) -> None:
    """Somebody has put theirs in its place: nothing tells the Lab to begin anew."""
    (tmp_path / "res").mkdir()
    query = f"path=res/big.bin&size={len(DATA)}&stamp=1"
    assert (await client.ask("PATCH", query, DATA[:10]))[0] == 200
    (tmp_path / "res").rename(tmp_path / "gone")
    (tmp_path / "res").mkdir()
    os.chown(tmp_path / "res", SOMEBODY_ELSE, SOMEBODY_ELSE)
    for method, data, offset in (("PATCH", DATA[10:], 10), ("GET", b"", 0), ("PATCH", DATA, 0), ("POST", b"", 0)):
        status, said = await client.ask(method, query, data, offset)
        assert (status, said["offset"], "cancel, and choose the file again" in said["message"]) == (403, None, True)
    assert names(tmp_path / "res") == []

    assert (await client.ask("DELETE", query))[0] == 204
    assert (await client.ask("PATCH", query, DATA))[0] == 200
    assert (await client.ask("POST", query))[0] == 204


async def test_a_stranger_is_refused_and_leaves_nothing(client: Client, tmp_path: Path) -> None:
    assert (await client.ask("PATCH", QUERY, who=""))[0] == 403
    assert names(tmp_path) == []


async def test_a_cancelled_upload_is_forgotten_while_it_comes(client: Client, uploads: Uploads, tmp_path: Path) -> None:
    _, writer = await client.begin("PATCH", QUERY, len(DATA))
    writer.write(DATA[:10])
    await writer.drain()
    await heard(uploads, 10)
    assert (await client.ask("DELETE", QUERY))[0] == 204
    assert names(tmp_path) == []
    writer.close()


@pytest.mark.parametrize(("condition", "is_kept"), [("Tue, 24 Nov 2026 10:00:00 GMT", True), ('"other"', False)])
def test_a_download_goes_on_only_with_the_file_that_it_began_with(
    monkeypatch: pytest.MonkeyPatch, condition: str, is_kept: bool
) -> None:
    monkeypatch.setattr(AuthenticatedFileHandler, "set_headers", lambda self: None)
    handler = FileHandler.__new__(FileHandler)
    handler._headers = HTTPHeaders({"Last-Modified": "Tue, 24 Nov 2026 10:00:00 GMT"})
    handler.request = type("Request", (), {"headers": HTTPHeaders({"Range": "bytes=5-", "If-Range": condition})})()
    handler.set_headers()
    assert ("Range" in handler.request.headers) == is_kept
    assert OwnFiles().files_handler_class is FileHandler
