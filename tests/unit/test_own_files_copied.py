"""Folders that JupyterLab copies, while others exchange what is copied, or what the copy becomes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

from portal.downloads import folder_copy
from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.homes.sparse import copy_content
from portal.singleuser.own_files import OwnFiles
from tests.unit.access_lists import ACCESS, DEFAULT, GROUP_OBJ, MASK, NOBODYS, OTHER, USER, USER_OBJ, give, open_to_one

SOMEBODY_ELSE = 4_000_000
COPY = "shared/folder-Copy1"


class CopyLab:
    """A home, a folder in it that others can change, and in that a folder to be copied."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.shared = home / "shared"
        self.folder = self.shared / "folder"
        (self.folder / "deep").mkdir(parents=True)
        self.shared.chmod(0o777)
        (self.folder / "deep/file.txt").write_text("shared")
        self.hers = home / "hers"
        (self.hers / "deep").mkdir(parents=True)
        (self.hers / "deep/file.txt").write_text("hers")
        self.files: Any = OwnFiles(root_dir=str(home), checkpoints_class=OwnCheckpoints)

    async def refused(self, *arguments: str) -> HTTPError:
        """What JupyterLab is answered where a copy is refused."""
        with pytest.raises(HTTPError) as refused:
            await self.files.copy(*arguments)
        return refused.value

    def texts(self) -> set[str]:
        """Everything that stands in the files of the shared folder."""
        return {path.read_text() for path in self.shared.rglob("*") if path.is_file()}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CopyLab:
    monkeypatch.setenv("HOME", str(tmp_path))
    return CopyLab(tmp_path)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def exchange(lab: CopyLab, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has something else in the place of the copy as soon as that is made."""
    usual = os.mkdir

    def take(other: Path, copy: str = COPY) -> None:
        def mkdir(name: Any, *args: Any, **kwargs: Any) -> None:
            usual(name, *args, **kwargs)
            if name == Path(copy).name:
                (lab.home / copy).rename(lab.shared / "away")
                other.rename(lab.home / copy)

        monkeypatch.setattr("os.mkdir", mkdir)

    return take


@pytest.mark.parametrize("path", ["shared/folder", "shared/folder/deep", "shared/folder/deep/file.txt"])
async def test_a_link_of_ones_own_that_others_may_have_moved_is_not_copied_through(lab: CopyLab, path: str) -> None:
    (lab.shared / "out").symlink_to(lab.hers)
    lab.folder.rename(lab.shared / "away")
    (lab.shared / "out").rename(lab.folder)  # as everybody may who can change that folder
    (lab.shared / "target").mkdir()

    refused = await lab.refused(path, "shared/target")

    assert (refused.status_code, "may have put there" in str(refused)) == (403, True)
    assert not list((lab.shared / "target").iterdir())


async def test_a_link_of_ones_own_in_a_folder_of_ones_own_is_copied_through(lab: CopyLab) -> None:
    (lab.home / "link").symlink_to(lab.hers)
    await lab.files.copy("link/deep", "shared")
    await lab.files.copy("link/deep/file.txt", "shared")
    assert (lab.shared / "deep/file.txt").read_text() == (lab.shared / "file.txt").read_text() == "hers"


async def test_the_folder_is_copied_that_was_held_whatever_takes_its_place(
    lab: CopyLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exchanged(self: Any, path: str) -> None:
        lab.folder.rename(lab.shared / "away")
        lab.folder.symlink_to(lab.hers)

    monkeypatch.setattr(AsyncLargeFileManager, "check_folder_size", exchanged)
    await lab.files.copy("shared/folder")
    assert (lab.home / COPY / "deep/file.txt").read_text() == "shared"


async def test_a_file_that_was_held_is_no_folder_that_is_copied(lab: CopyLab, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.shared / "data").write_text("shared")
    get = AsyncLargeFileManager.get

    async def exchanged(self: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        if path == "shared/data" and not (lab.shared / "data").is_dir():
            (lab.shared / "data").unlink()
            lab.hers.rename(lab.shared / "data")
        return await get(self, path, *args, **kwargs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(AsyncLargeFileManager, "get", exchanged)
    assert (await lab.refused("shared/data")).status_code == 400
    assert not (lab.shared / "data-Copy1").exists()


async def test_a_folder_of_others_that_takes_the_place_of_the_copy_gets_nothing(
    lab: CopyLab, exchange: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = lab.shared / "theirs"
    theirs.mkdir()
    number = theirs.stat().st_ino
    usual = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        found = list(usual(descriptor))
        if found[stat.ST_INO] == number:
            found[stat.ST_UID] = SOMEBODY_ELSE
        return os.stat_result(found)

    monkeypatch.setattr("os.fstat", fstat)
    exchange(theirs, "shared/hers")
    refused = await lab.refused("hers", "shared")
    assert "exchanged" in str(refused)
    assert "hers" not in lab.texts()


async def test_another_folder_of_ones_own_that_takes_its_place_stays_as_it_is(
    lab: CopyLab, exchange: Callable[..., None]
) -> None:
    other = lab.shared / "other"
    other.mkdir()
    other.chmod(0o700)
    (other / "key").write_text("key")
    lab.folder.chmod(0o777)
    exchange(other)

    assert (await lab.refused("shared/folder")).status_code == 400

    found = lab.home / COPY
    assert {path.name for path in found.iterdir()} == {"key"}
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


async def test_a_link_that_takes_its_place_is_not_followed(lab: CopyLab, exchange: Callable[..., None]) -> None:
    (lab.shared / "link").symlink_to(lab.hers)
    exchange(lab.shared / "link")
    assert (await lab.refused("shared/folder")).status_code == 400
    assert {path.name for path in lab.hers.iterdir()} == {"deep"}


async def test_nobody_else_comes_into_a_copy_before_it_is_whole(
    lab: CopyLab, exchange: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = lab.shared / "other"
    other.mkdir()
    other.chmod(0o777)
    exchange(other)
    usual = folder_copy._copy_entry
    modes: list[int] = []

    def copy_entry(source: int, name: str, target: int, *args: Any) -> list[str]:
        modes.append(stat.S_IMODE(os.fstat(target).st_mode))
        return usual(source, name, target, *args)

    monkeypatch.setattr(folder_copy, "_copy_entry", copy_entry)
    await lab.files.copy("shared/folder")
    assert set(modes) == {0o700}


async def test_what_others_made_is_opened_to_nobody_by_its_copy(
    lab: CopyLab, umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab.folder / "deep").chmod(0o2777)
    (lab.folder / "deep/file.txt").chmod(0o666)
    for place in (lab.folder / "deep", lab.folder / "deep/file.txt"):
        rest = ((MASK, 7, NOBODYS), (OTHER, 5 if place.is_dir() else 4, NOBODYS))
        give(place, (USER_OBJ, 7, NOBODYS), (USER, 7, 4_000_007), (GROUP_OBJ, 0, NOBODYS), *rest)
        os.setxattr(place, "user.note", b"kept")
    monkeypatch.setattr(folder_copy, "is_of_others", lambda _: True)

    await lab.files.copy("shared/folder")

    copy = lab.home / COPY
    assert stat.S_IMODE((copy / "deep").stat().st_mode) & 0o777 == 0o705  # with a list, that of the group is its mask
    assert stat.S_IMODE((copy / "deep/file.txt").stat().st_mode) == 0o704
    for place in (copy / "deep", copy / "deep/file.txt"):
        assert os.listxattr(place) == ["user.note"]


@pytest.mark.parametrize(
    ("group", "mode", "copied", "file"),
    [
        (4_000_009, 0o750, 0o700, 0o600),
        (4_000_009, 0o2770, 0o700, 0o600),
        (4_000_009, 0o2775, 0o755, 0o600),
        (4_000_009, 0o751, 0o711, 0o600),
        (4_000_009, 0o771, 0o711, 0o600),
        (4_000_009, 0o740, 0o700, 0o600),
        (None, 0o2770, 0o2770, 0o640),
    ],
)
async def test_a_copy_of_a_folder_is_entered_listed_and_changed_by_no_other_group(
    lab: CopyLab, umask: None, group: int | None, mode: int, copied: int, file: int
) -> None:
    """It has the group that its folder gives it, as what one copies out of a project into the home."""
    for place in (lab.folder / "deep/file.txt", lab.folder / "deep"):
        os.chown(place, -1, -1 if group is None else group)
        place.chmod(mode if place.is_dir() else 0o640)
    copy = lab.home / COPY / "deep"
    await lab.files.copy("shared/folder")

    assert copy.stat().st_gid == lab.home.stat().st_gid
    assert copy.stat().st_mode & 0o7777 == copied
    assert copy.joinpath("file.txt").stat().st_mode & 0o777 == file


async def test_a_copy_of_a_folder_has_no_list_of_the_folder_that_it_is_in(lab: CopyLab, umask: None) -> None:
    (lab.folder / "deep").chmod(0o750)
    (lab.folder / "deep/file.txt").chmod(0o640)
    for place in (lab.home, lab.folder.parent):
        open_to_one(place, 4_000_007, 7, group=7, name=DEFAULT)
    await lab.files.copy("shared/folder")

    for place, mode in ((lab.home / COPY / "deep", 0o750), (lab.home / COPY / "deep/file.txt", 0o640)):
        assert ACCESS not in os.listxattr(place)
        assert place.stat().st_mode & 0o777 == mode


async def test_what_is_ones_own_is_as_open_as_before(lab: CopyLab, umask: None) -> None:
    (lab.folder / "deep").chmod(0o2770)
    (lab.folder / "deep/file.txt").chmod(0o660)
    await lab.files.copy("shared/folder")
    assert stat.S_IMODE((lab.home / COPY / "deep").stat().st_mode) & 0o777 == 0o770
    assert stat.S_IMODE((lab.home / COPY / "deep/file.txt").stat().st_mode) == 0o660


async def test_a_folder_of_others_without_an_end_is_copied_as_deep_as_folders_are(lab: CopyLab) -> None:
    descriptor = os.open(lab.folder, os.O_RDONLY)
    for _ in range(150):
        os.mkdir("in", dir_fd=descriptor)
        inner = os.open("in", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)

    refused = await lab.refused("shared/folder", "shared")

    assert refused.status_code == 400
    assert f"({folder_copy.TOO_DEEP})" in str(refused)
    assert Path(lab.home, COPY, *["in"] * folder_copy.DEEPEST).is_dir()
    assert not Path(lab.home, COPY, *["in"] * (folder_copy.DEEPEST + 1)).exists()
    assert (lab.home / COPY / "deep/file.txt").read_text() == "shared"


async def test_holes_of_a_file_of_others_stay_holes_in_its_copy(lab: CopyLab) -> None:
    sparse = lab.folder / "sparse.bin"
    with sparse.open("wb") as file:
        for at in (0, 2**20, 2**30):
            file.seek(at)
            file.write(b"here")
        file.truncate(2**31)
    (lab.folder / "empty").touch()

    await lab.files.copy("shared/folder", "shared")

    copy = lab.home / COPY / "sparse.bin"
    assert copy.stat().st_size == 2**31
    assert copy.stat().st_blocks * 512 < 2**24
    with copy.open("rb") as file:
        for at in (0, 2**20, 2**30):
            file.seek(at)
            assert file.read(8) == b"here\0\0\0\0"
    assert (lab.home / COPY / "empty").read_bytes() == b""


@pytest.mark.parametrize("call", ["pread", "lseek"])
@pytest.mark.parametrize(("grown", "length"), [(2**22, 2**20), (0, 2**21)])
def test_a_file_that_grows_or_is_cut_while_it_is_copied_is_no_endless_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, grown: int, length: int
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 2**21)
    usual = getattr(os, call)

    def after_a_change(*told: int) -> Any:
        found = usual(*told)
        os.truncate(source, grown)
        return found

    monkeypatch.setattr(f"os.{call}", after_a_change)
    with source.open("rb") as there, (tmp_path / "copy").open("wb") as copy:
        copy_content(there.fileno(), copy.fileno(), length)
    assert (tmp_path / "copy").stat().st_size == length


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_knows_no_holes_has_its_files_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "source").write_bytes(b"words" * 2**20)
    monkeypatch.setattr("os.lseek", Mock(side_effect=OSError(number, "no such way")))
    with (tmp_path / "source").open("rb") as there, (tmp_path / "copy").open("wb") as copy:
        copy_content(there.fileno(), copy.fileno(), 5 * 2**20)
    assert (tmp_path / "copy").read_bytes() == b"words" * 2**20


def test_a_file_that_is_shorter_than_it_says_is_copied_as_far_as_it_goes(tmp_path: Path) -> None:
    """As those of Linux's own are, which say that they have a page."""
    said = Path("/sys/devices/system/cpu/online")
    with said.open("rb") as there, (tmp_path / "copy").open("wb") as copy:
        copy_content(there.fileno(), copy.fileno(), said.stat().st_size)
    assert (tmp_path / "copy").read_bytes().rstrip(b"\0") == said.read_bytes()
