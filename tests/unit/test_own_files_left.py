"""What JupyterLab does in a folder that was shared, and that is one's own alone by now: what others left is there."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tornado.web import HTTPError

from portal.downloads import own_checkpoints
from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.homes import held_place
from portal.homes.held_place import is_own_all_the_way
from portal.singleuser.own_files import OwnFiles

SOMEBODY_ELSE = 4_000_000  # no account of this machine
NOTEBOOK: dict[str, Any] = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


class Closed:
    """A home, and in it a folder that others could change until now."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "closed"
        self.folder.mkdir(mode=0o755)
        self.hers = home / "hers.txt"
        self.hers.write_text("hers")
        self.files: Any = OwnFiles(root_dir=str(home), checkpoints_class=OwnCheckpoints, delete_to_trash=False)

    def left(self, name: str, target: str | Path) -> Path:
        """A link that somebody else has left."""
        link = self.folder / name
        link.symlink_to(target)
        os.lchown(link, SOMEBODY_ELSE, SOMEBODY_ELSE)
        return link

    async def save(self, name: str, text: str) -> None:
        """Save a file of text, as JupyterLab does."""
        await self.files.save({"type": "file", "format": "text", "content": text}, f"closed/{name}")

    def names(self) -> set[str]:
        """What is in the folder."""
        return {path.name for path in self.folder.iterdir()}


def in_child(act: Callable[[], None]) -> int:
    """Do something in a process of its own; its exit status."""
    child = os.fork()
    if not child:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Closed:
    monkeypatch.setenv("HOME", str(tmp_path))
    lab = Closed(tmp_path)
    assert is_own_all_the_way(lab.folder)
    return lab


async def test_what_is_kept_while_a_file_is_saved_goes_through_no_link(closed: Closed) -> None:
    await closed.save("plan.txt", "theirs")
    closed.left(".~plan.txt", closed.hers)

    await closed.save("plan.txt", "mine")

    assert closed.hers.read_text() == "hers"
    assert (closed.folder / "plan.txt").read_text() == "mine"
    assert closed.names() == {"plan.txt"}


async def test_a_folder_of_the_kept_files_name_is_in_nobodys_way(closed: Closed) -> None:
    await closed.save("plan.txt", "before")
    (closed.folder / ".~plan.txt").mkdir()
    await closed.save("plan.txt", "after")
    assert (closed.folder / "plan.txt").read_text() == "after"
    assert closed.names() == {"plan.txt", ".~plan.txt"}


async def test_a_notebook_whose_saving_was_killed_is_put_back_from_ones_own_file_alone(closed: Closed) -> None:
    await closed.files.save({"type": "notebook", "format": "json", "content": NOTEBOOK}, "closed/plan.ipynb")

    def killed() -> None:
        with closed.files.atomic_writing(str(closed.folder / "plan.ipynb")):
            os.kill(os.getpid(), 9)

    assert in_child(killed) == -9
    kept = closed.folder / ".~plan.ipynb"
    os.chown(kept, SOMEBODY_ELSE, SOMEBODY_ELSE)
    with pytest.raises(HTTPError, match="Unreadable Notebook"):
        await closed.files.get("closed/plan.ipynb")
    os.chown(kept, 0, 0)

    assert (await closed.files.get("closed/plan.ipynb"))["content"] == NOTEBOOK


async def test_what_could_not_be_put_back_outlives_the_next_saving(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await closed.save("plan.txt", "before")
    with monkeypatch.context() as full:
        full.setattr(held_place, "put_back", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(OSError, match="No space"), closed.files.atomic_writing(str(closed.folder / "plan.txt")):
            raise ZeroDivisionError

    await closed.save("plan.txt", "after")

    assert sorted(path.read_text() for path in closed.folder.iterdir()) == ["after", "before"]


def test_a_file_is_saved_in_a_folder_where_one_may_not_write(tmp_path: Path) -> None:
    """As root is asked nothing, somebody else saves."""
    (tmp_path / "file.txt").write_text("before")
    os.chown(tmp_path / "file.txt", SOMEBODY_ELSE, SOMEBODY_ELSE)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)

    def saved() -> None:
        os.setuid(SOMEBODY_ELSE)
        with OwnFiles(root_dir=str(tmp_path)).atomic_writing(str(tmp_path / "file.txt")) as file:
            file.write("after")

    assert in_child(saved) == 0
    assert (tmp_path / "file.txt").read_text() == "after"


def put(closed: Closed, there: str, at: Path) -> None:
    """Something of somebody else's."""
    at.parent.mkdir(exist_ok=True)
    if there == "link":
        at.symlink_to(closed.hers)
    elif there == "pipe":
        os.mkfifo(at)
    elif there == "folder":
        at.mkdir()
    else:
        at.write_text("theirs")
    os.lchown(at, SOMEBODY_ELSE, SOMEBODY_ELSE)


@pytest.mark.parametrize("there", ["link", "pipe", "folder", "file"])
async def test_a_checkpoint_lies_apart_where_something_of_others_has_its_name(closed: Closed, there: str) -> None:
    put(closed, there, closed.folder / ".ipynb_checkpoints/plan-checkpoint.txt")
    await closed.save("plan.txt", "before")
    assert await closed.files.list_checkpoints("closed/plan.txt") == []

    await closed.files.create_checkpoint("closed/plan.txt")
    await closed.save("plan.txt", "after")
    await closed.files.restore_checkpoint("checkpoint", "closed/plan.txt")

    assert (closed.folder / "plan.txt").read_text() == "before"
    assert closed.hers.read_text() == "hers"


@pytest.mark.parametrize("how", ["others made it", "others write there", "it is their link"])
async def test_a_checkpoint_lies_apart_where_its_folder_is_not_ones_own(closed: Closed, how: str) -> None:
    folder = closed.folder / ".ipynb_checkpoints"
    if how == "it is their link":
        (closed.home / "elsewhere").mkdir()
        closed.left(folder.name, closed.home / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o775 if how == "others write there" else 0o755)
        os.chown(folder, SOMEBODY_ELSE if how == "others made it" else 0, 0)
    await closed.save("plan.txt", "before")

    await closed.files.create_checkpoint("closed/plan.txt")

    (kept,) = closed.home.rglob("plan-checkpoint.txt")
    assert kept.is_relative_to(closed.home / ".local")


async def test_a_default_access_list_does_not_open_the_folder_of_the_checkpoints(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = os.mkdir

    def mkdir(path: Any, mode: int = 0o777, **told: Any) -> None:
        usual(path, mode, **told)
        os.chmod(path, mode)  # noqa: PTH101  no umask takes anything away: acl(5)

    monkeypatch.setattr("os.mkdir", mkdir)
    await closed.save("plan.txt", "before")
    await closed.files.create_checkpoint("closed/plan.txt")
    assert (closed.folder / ".ipynb_checkpoints").stat().st_mode & 0o777 == 0o700
    assert (closed.folder / ".ipynb_checkpoints/plan-checkpoint.txt").read_text() == "before"


@pytest.mark.parametrize("there", ["link", "pipe", "file"])
async def test_what_others_put_into_a_home_that_they_can_change_is_replaced(closed: Closed, there: str) -> None:
    closed.folder.chmod(0o777)
    await closed.save("plan.txt", "before")
    await closed.files.create_checkpoint("closed/plan.txt")
    (kept,) = closed.home.rglob("plan-checkpoint.txt")
    kept.unlink()
    put(closed, there, kept)
    with pytest.raises((HTTPError, OSError)):
        await closed.files.restore_checkpoint("checkpoint", "closed/plan.txt")

    await closed.files.create_checkpoint("closed/plan.txt")

    assert (kept.read_text(), closed.hers.read_text()) == ("before", "hers")
    assert (closed.folder / "plan.txt").read_text() == "before"


@pytest.fixture
def far(closed: Closed, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own that is said to be on another file system."""
    folder = closed.home / "far"
    folder.mkdir()
    renamed = os.rename

    def rename(*names: Any, **told: Any) -> None:
        if told and told["src_dir_fd"] == told["dst_dir_fd"]:
            return renamed(*names, **told)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr("os.rename", rename)
    monkeypatch.setattr("os.replace", rename)
    return folder


async def test_a_link_of_others_does_not_become_ones_own_on_another_file_system(closed: Closed, far: Path) -> None:
    link = closed.left("notes.txt", closed.hers)
    (closed.folder / "deep").mkdir()
    closed.left("deep/notes.txt", closed.hers)

    with pytest.raises(HTTPError, match="somebody else made"):
        await closed.files.rename_file("closed/notes.txt", "far/notes.txt")
    with pytest.raises(
        HTTPError, match=r"closed/deep stays where it is.* without: notes.txt \(is somebody else's link"
    ):
        await closed.files.rename_file("closed/deep", "far/deep")

    assert list(far.iterdir()) == []
    assert link.is_symlink()
    assert (closed.folder / "deep/notes.txt").is_symlink()


async def test_a_link_that_leads_nowhere_is_not_written_through_by_a_move(closed: Closed, far: Path) -> None:
    (far / "data.txt").write_text("content")
    closed.left("data.txt", closed.home / "new")
    with pytest.raises(HTTPError, match="already exists"):
        await closed.files.rename_file("far/data.txt", "closed/data.txt")
    assert not (closed.home / "new").exists()
    assert (far / "data.txt").read_text() == "content"


async def test_what_is_ones_own_moves_to_another_file_system(closed: Closed, far: Path) -> None:
    await closed.save("plan.txt", "plan")
    await closed.files.create_checkpoint("closed/plan.txt")
    (closed.folder / "plan.txt").chmod(0o640)
    (closed.folder / "deep/er").mkdir(parents=True)
    (closed.folder / "deep/er/out").symlink_to(closed.hers)
    (closed.folder / "link").symlink_to("plan.txt")

    for name in ("plan.txt", "deep", "link"):
        await closed.files.rename(f"closed/{name}", f"far/{name}")

    assert closed.names() == {".ipynb_checkpoints"}
    assert ((far / "plan.txt").read_text(), (far / "plan.txt").stat().st_mode & 0o777) == ("plan", 0o640)
    assert ((far / "deep/er/out").readlink(), str((far / "link").readlink())) == (closed.hers, "plan.txt")
    assert (far / ".ipynb_checkpoints/plan-checkpoint.txt").read_text() == "plan"


async def test_a_folder_that_cannot_be_copied_as_a_whole_is_not_moved(closed: Closed, far: Path) -> None:
    (closed.folder / "deep").mkdir()
    (closed.folder / "deep/file.txt").write_text("here")
    os.mkfifo(closed.folder / "deep/pipe")
    with pytest.raises(HTTPError, match=r"without: pipe \(is no regular file\)"):
        await closed.files.rename_file("closed/deep", "far/deep")
    assert (closed.folder / "deep/file.txt").read_text() == "here"
    assert list(far.iterdir()) == []


@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_link_of_others_that_leads_through_ones_own_is_not_copied(closed: Closed, is_shared: bool) -> None:
    """Neither where it lies, nor in the copy, does it lead out of the folder by itself."""
    (closed.home / "private").mkdir()
    (closed.home / "private/results.csv").write_text("years")
    (closed.folder / "mine").mkdir(mode=0o755)
    (closed.folder / "mine/data").symlink_to(closed.home / "private")
    closed.left("notes.csv", "mine/data/results.csv")
    closed.left("again.csv", "notes.csv")
    closed.left("to_come.csv", "mine/none")
    closed.folder.chmod(0o777 if is_shared else 0o755)

    with pytest.raises(HTTPError, match="without: ") as refused:
        await closed.files.copy("closed", "")

    copy = closed.home / "closed-Copy1"
    assert all(f"{name}.csv (is somebody else's link)" in str(refused.value) for name in ("notes", "again", "to_come"))
    assert {path.name for path in copy.iterdir()} == {"mine"}
    assert (copy / "mine/data").readlink() == closed.home / "private"


async def test_links_of_others_within_a_folder_are_copied_with_it(closed: Closed) -> None:
    """As those of libraries are, with their versions."""
    (closed.folder / "lib").mkdir()
    for name, target in (("lib/z.so", "z.so.1"), ("lib/z.so.1", "z.so.1.2"), ("lib64", "lib"), ("zlib", "lib64/z.so")):
        closed.left(name, target)
    closed.left("lib/here", ".")
    (closed.folder / "lib/z.so.1.2").write_text("z")
    closed.folder.chmod(0o777)

    await closed.files.copy("closed", "")

    copy = closed.home / "closed-Copy1"
    assert (copy / "zlib").read_text() == (copy / "lib/here/z.so").read_text() == "z"


async def test_links_of_others_in_a_circle_are_not_copied(closed: Closed) -> None:
    closed.left("one", "two")
    closed.left("two", "one")
    with pytest.raises(HTTPError, match="without: "):
        await closed.files.copy("closed", "")
    assert list((closed.home / "closed-Copy1").iterdir()) == []


async def test_a_checkpoint_is_replaced_by_a_whole_one_and_by_two_tabs_at_a_time(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again() -> Any:
        return closed.files.checkpoints.create_checkpoint(closed.files, "closed/plan.txt")

    await closed.save("plan.txt", "whole " * 9999)
    await asyncio.gather(*(again() for _ in range(60)))
    monkeypatch.setattr(own_checkpoints, "copy_content", Mock(side_effect=OSError(errno.EDQUOT, "Quota exceeded")))
    with pytest.raises(OSError, match="Quota"):
        await again()

    kept = closed.folder / ".ipynb_checkpoints"
    assert [path.name for path in kept.iterdir()] == ["plan-checkpoint.txt"]
    assert (kept / "plan-checkpoint.txt").read_text() == "whole " * 9999
