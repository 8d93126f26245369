"""What JupyterLab renames, deletes, makes and copies, where others exchange folders and prepare a trash."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_core import paths
from jupyter_server.services.contents import filemanager
from tornado.web import HTTPError

from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.homes import held_files, held_place, own_folder
from portal.singleuser import own_files
from portal.singleuser.own_files import OwnFiles

SOMEBODY_ELSE = 4_000_000


class Lab:
    """A home with a file in a folder that others can change."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.shared = home / "shared"
        self.folder = self.shared / "folder"
        self.folder.mkdir(parents=True)
        self.shared.chmod(0o777)
        (self.folder / "file.txt").write_text("shared")
        self.hers = home / "hers"
        self.hers.mkdir()
        (self.hers / "file.txt").write_text("hers")
        self.files: Any = OwnFiles(root_dir=str(home), checkpoints_class=OwnCheckpoints)

    async def status(self, act: str, *arguments: Any) -> int:
        """What JupyterLab is answered where something is refused."""
        with pytest.raises(HTTPError) as refused:
            await getattr(self.files, act)(*arguments)
        return refused.value.status_code

    def hers_now(self) -> dict[str, str]:
        """What is in her own folder."""
        return {path.name: path.read_text() for path in self.hers.iterdir()}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return Lab(tmp_path)


@pytest.fixture
def exchanged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared folder becomes a link to her own one after it was looked at, and before something is done in it."""
    usual: Callable[..., bool] = paths.is_hidden

    def is_hidden(*args: str) -> bool:
        if not lab.folder.is_symlink():
            lab.folder.rename(lab.shared / "away")
            lab.folder.symlink_to(lab.hers)
        return usual(*args)

    monkeypatch.setattr(own_files, "is_hidden", is_hidden, raising=False)
    monkeypatch.setattr(filemanager, "is_hidden", is_hidden)


@pytest.fixture
def other_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home is on another file system."""
    monkeypatch.setattr(own_files, "has_home_trash", lambda place: False, raising=False)


@pytest.fixture
def send2trash(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What went into a trash that Jupyter chose."""
    sent: list[str] = []
    monkeypatch.setattr(filemanager, "send2trash", sent.append)
    return sent


@pytest.mark.parametrize(
    ("act", "paths"),
    [
        ("rename_file", ("shared/folder/file.txt", "shared/mine.txt")),
        ("rename_file", ("shared/other.txt", "shared/folder/other.txt")),
        ("delete_file", ("shared/folder/file.txt",)),
        ("save", ({"type": "directory"}, "shared/folder/new")),
    ],
)
async def test_a_folder_that_is_exchanged_in_the_last_moment_is_not_followed(
    lab: Lab, exchanged: None, act: str, paths: tuple[Any, ...]
) -> None:
    (lab.shared / "other.txt").write_text("other")
    try:
        await getattr(lab.files, act)(*paths)
    except HTTPError as error:  # JupyterLab looks at the new folder by its path
        assert act == "save", error
    assert lab.hers_now() == {"file.txt": "hers"}


async def test_renaming_answers_as_jupyter_does(lab: Lab) -> None:
    (lab.shared / "there.txt").write_text("there")
    assert await lab.status("rename_file", "shared/folder/file.txt", "shared/there.txt") == 409
    assert await lab.status("rename_file", "shared/none.txt", "shared/new.txt") == 404
    assert await lab.status("rename_file", "shared/none/file.txt", "shared/new.txt") == 404
    assert await lab.status("rename_file", "shared/there.txt", "shared/none/there.txt") == 404
    assert await lab.status("rename_file", "shared/there.txt", "shared/.there.txt") == 400
    assert (lab.shared / "there.txt").read_text() == "there"
    await lab.files.rename_file("shared/folder", "hers/folder")
    assert (lab.hers / "folder/file.txt").read_text() == "shared"


async def test_a_move_to_another_file_system_is_refused_in_plain_words(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr("os.rename", rename)
    with pytest.raises(HTTPError, match=r"are on different file systems.*Copy it, then delete it where it was"):
        await lab.files.rename_file("shared/folder/file.txt", "hers/new.txt")
    assert (lab.folder / "file.txt").exists()


async def test_what_is_deleted_is_in_the_trash_of_the_home(lab: Lab, send2trash: list[str]) -> None:
    for text in ("one", "two"):
        (lab.folder / "file.txt").write_text(text)
        await lab.files.delete_file("shared/folder/file.txt")
    await lab.files.delete_file("shared/folder")
    trash = lab.home / ".local/share/Trash"
    assert {path.name for path in (trash / "files").iterdir()} == {"file.txt", "file 1.txt", "folder"}
    assert (trash / "files/file 1.txt").read_text() == "two"
    assert f"\nPath={lab.folder}/file.txt\n" in (trash / "info/file 1.txt.trashinfo").read_text()
    assert stat.S_IMODE((trash / "files").stat().st_mode) == 0o700
    assert not send2trash


@pytest.mark.parametrize("is_private", [True, False])
async def test_on_another_file_system_than_the_home_a_folder_is_deleted_for_good(
    lab: Lab, other_device: None, send2trash: list[str], monkeypatch: pytest.MonkeyPatch, is_private: bool
) -> None:
    monkeypatch.setattr(held_place, "is_closed", lambda folder: is_private)
    await lab.files.delete_file("shared/folder")
    assert not lab.folder.exists()
    assert not send2trash
    assert not (lab.home / ".local").exists()


async def test_in_a_place_of_her_own_jupyter_uses_the_trash(
    lab: Lab, send2trash: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_place, "is_closed", lambda folder: True)
    await lab.files.delete_file("shared/folder/file.txt")
    assert send2trash == [str(lab.folder / "file.txt")]


async def test_deleting_answers_as_jupyter_does(lab: Lab) -> None:
    lab.files.delete_to_trash = False
    assert await lab.status("delete_file", "shared/none.txt") == 404
    assert await lab.status("delete_file", "shared/none/file.txt") == 404
    assert await lab.status("delete_file", "shared/folder") == 400  # not empty
    (lab.shared / ".hidden").touch()
    assert await lab.status("delete_file", "shared/.hidden") == 400
    (lab.folder / "file.txt").unlink()
    await lab.files.delete_file("shared/folder")
    assert not lab.folder.exists()


async def test_a_new_folder_is_made_once(lab: Lab) -> None:
    for _ in range(2):
        assert (await lab.files.save({"type": "directory"}, "shared/new"))["type"] == "directory"
    (lab.shared / "file").touch()
    assert await lab.status("save", {"type": "directory"}, "shared/file") == 400


async def test_a_folder_is_copied_with_what_is_in_it(lab: Lab) -> None:
    (lab.folder / "deep").mkdir()
    (lab.folder / "deep").chmod(0o750)
    program = lab.folder / "deep/program"
    program.write_text("#!")
    os.utime(program, (1_000_000, 1_000_000))
    program.chmod(0o4755)
    (lab.folder / "link").symlink_to("deep/program")
    (lab.folder / "out").symlink_to(lab.hers)  # her own
    model = await lab.files.copy("shared/folder", "shared")
    copy = lab.shared / "folder-Copy1"
    assert (model["path"], model["type"]) == ("shared/folder-Copy1", "directory")
    assert (copy / "file.txt").read_text() == "shared"
    found = (copy / "deep/program").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o755, 1_000_000)  # it does not run as the person
    assert stat.S_IMODE((copy / "deep").stat().st_mode) == 0o750
    assert {name: str((copy / name).readlink()) for name in ("link", "out")} == {
        "link": "deep/program",
        "out": str(lab.hers),
    }


async def test_links_of_others_that_lead_out_of_a_folder_are_not_copied(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab.folder / "deep").mkdir()
    (lab.folder / "deep/theirs.txt").symlink_to(lab.hers / "file.txt")
    (lab.folder / "deep/up.txt").symlink_to("../../../hers/file.txt")
    (lab.folder / "near.txt").symlink_to("file.txt")
    monkeypatch.setattr(own_folder, "ROOT", SOMEBODY_ELSE)
    monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)
    with pytest.raises(HTTPError, match=r"is there, without: .*deep/theirs.txt \(is somebody else's link") as refused:
        await lab.files.copy("shared/folder", "hers")
    assert "deep/up.txt" in str(refused.value)
    assert not list((lab.hers / "folder/deep").iterdir())
    assert (lab.hers / "folder/near.txt").readlink() == Path("file.txt")


async def test_a_folder_that_is_copied_into_itself_is_copied_once(lab: Lab) -> None:
    (lab.folder / "deep").mkdir()
    await lab.files.copy("shared/folder", "shared/folder/deep")
    assert not list((lab.folder / "deep/folder/deep").iterdir())


async def test_a_pipe_is_left_out_of_a_copy_and_nobody_waits_for_it(lab: Lab) -> None:
    os.mkfifo(lab.folder / "pipe")
    with pytest.raises(HTTPError, match=r"without: pipe \(is no regular file\)"):
        await lab.files.copy("shared/folder", "shared")
    assert (lab.shared / "folder-Copy1/file.txt").exists()


async def test_of_a_link_to_a_folder_the_link_alone_is_deleted(lab: Lab, other_device: None) -> None:
    (lab.shared / "link").symlink_to(lab.hers)
    await lab.files.delete_file("shared/link")
    assert not (lab.shared / "link").is_symlink()
    assert lab.hers_now() == {"file.txt": "hers"}


async def test_where_a_file_system_is_mounted_nothing_is_deleted(
    lab: Lab, other_device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        found = list(usual(descriptor))
        found[stat.ST_DEV] += 1
        return os.stat_result(found)

    monkeypatch.setattr("os.fstat", fstat)
    assert await lab.status("delete_file", "shared/folder") == 400
    assert (lab.folder / "file.txt").exists()


def test_a_folder_that_python_cannot_delete_says_how_it_is_done(tmp_path: Path) -> None:
    inner = "mkdir top && cd top && for i in $(seq 1200); do mkdir d && cd d; done"
    subprocess.run(["sh", "-c", inner], cwd=tmp_path, check=True)
    told = ""
    try:
        with held_place.held(tmp_path / "top") as place:
            held_files.delete(place)
    except OSError as error:
        told = str(error)
    is_gone = not (tmp_path / "top").exists()  # since Python 3.13
    subprocess.run(["rm", "-rf", str(tmp_path / "top")], check=True)

    assert is_gone or "delete it in a terminal" in told
