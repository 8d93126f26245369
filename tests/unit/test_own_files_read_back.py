"""What was read through a link that others can take away is not saved there when they have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tornado.web import HTTPError

from portal.downloads import listed_folders
from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.homes import regular_file
from portal.singleuser.own_files import OwnFiles

SOMEBODY_ELSE = 4_000_000  # no account of this machine
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
NAMES = ("plan.txt", "plan.ipynb")


class Lab:
    """A private folder, one of somebody else's, and one of a project's that everybody can change."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.private = self.folder("private", 0o700)
        for folder in (self.private, self.folder("team", 0o777)):
            (folder / "plan.txt").write_text("private")
            (folder / "plan.ipynb").write_text(NOTEBOOK)
        self.team = home / "team"
        self.theirs = self.folder("theirs", 0o777)
        for folder in (self.team, self.theirs):
            os.chown(folder, SOMEBODY_ELSE, SOMEBODY_ELSE)
        self.files: Any = OwnFiles(root_dir=str(home), checkpoints_class=OwnCheckpoints, delete_to_trash=False)

    def folder(self, name: str, mode: int) -> Path:
        (self.home / name).mkdir()
        (self.home / name).chmod(mode)
        return self.home / name

    def link(self, name: str, target: Path, uid: int = SOMEBODY_ELSE) -> Path:
        link = self.home / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        os.lchown(link, uid, uid)
        return link

    async def writable(self, path: str, **asked: Any) -> bool:
        """What JupyterLab is told of it."""
        found: bool = (await self.files.get(path, **asked))["writable"]
        return found

    async def save(self, path: str) -> int:
        """Save a text: with which status that is answered."""
        try:
            await self.files.save({"type": "file", "format": "text", "content": "private"}, path)
        except HTTPError as error:
            return error.status_code
        return 200


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Lab(tmp_path)


@pytest.mark.parametrize(
    "asked", [{}, {"require_hash": True}, {"content": False}, {"content": False, "require_hash": True}]
)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("uid", [SOMEBODY_ELSE, 0])
async def test_what_lies_behind_a_link_that_others_can_take_away_is_not_writable(
    lab: Lab, uid: int, name: str, asked: dict[str, bool]
) -> None:
    """A file, or a folder on the way; of others, or the person's own that they may have put there."""
    lab.link(f"theirs/{name}", lab.private / name, uid)
    lab.link("theirs/res", lab.private, uid)

    assert not await lab.writable(f"theirs/{name}", **asked)
    assert not await lab.writable(f"theirs/res/{name}", **asked)
    assert await lab.writable(f"team/{name}", **asked)
    assert await lab.writable(f"private/{name}", **asked)


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o1777])
async def test_behind_a_link_of_ones_own_it_is_where_nobody_takes_that_away(lab: Lab, mode: int) -> None:
    """Nor where it is just the group of a folder of one's own, as with umask 002; a sticky folder keeps it."""
    lab.folder("own", mode)
    lab.link("own/data", lab.private, os.getuid())
    lab.link("own/stolen", lab.private)
    assert await lab.writable("own/data/plan.txt")
    assert await lab.save("own/data/plan.txt") == 200
    assert not await lab.writable("own/stolen/plan.txt")


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_read_and_whether_it_is_writable_is_one_look(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The link is there but for the moment in which the file is opened, or is there in that moment alone."""
    usual: Callable[..., int] = regular_file.without_waiting
    link = lab.theirs / name

    def put_there(path: str, flags: int, **kwargs: Any) -> int:
        lab.link(f"theirs/{name}", lab.private / name)
        try:
            return usual(path, flags, **kwargs)
        finally:
            link.unlink()
            link.write_text(NOTEBOOK)

    link.write_text(NOTEBOOK)
    monkeypatch.setattr("portal.downloads.read_back.without_waiting", put_there)
    assert not await lab.writable(f"theirs/{name}")


async def test_what_a_link_of_others_led_to_is_not_saved_when_the_link_is_gone(lab: Lab) -> None:
    """Nor written over what is there then, be it renamed meanwhile."""
    link = lab.link("theirs/plan.txt", lab.private / "plan.txt")
    assert (await lab.files.get("theirs/plan.txt"))["content"] == "private"
    link.unlink()
    with pytest.raises(HTTPError, match="the way there led through a link that is gone"):
        await lab.files.save({"type": "file", "format": "text", "content": "private"}, "theirs/plan.txt")
    assert not link.exists()

    link.write_text("theirs")
    await lab.files.rename_file("theirs/plan.txt", "theirs/new.txt")
    assert not await lab.writable("theirs/new.txt", content=False)
    assert await lab.save("theirs/new.txt") == 403
    assert (lab.theirs / "new.txt").read_text() == "theirs"

    assert await lab.writable("theirs/new.txt")  # it is opened anew
    assert await lab.save("theirs/new.txt") == 200


async def test_a_name_that_was_deleted_or_given_to_another_file_is_a_new_one(lab: Lab) -> None:
    lab.link("theirs/plan.txt", lab.private / "plan.txt")
    await lab.files.get("theirs/plan.txt")
    await lab.files.delete_file("theirs/plan.txt")
    assert await lab.save("theirs/plan.txt") == 200

    lab.link("theirs/new.txt", lab.private / "plan.txt")
    await lab.files.get("theirs/new.txt")
    (lab.theirs / "new.txt").unlink()
    await lab.files.rename_file("theirs/plan.txt", "theirs/new.txt")
    assert await lab.save("theirs/new.txt") == 200


@pytest.mark.parametrize("is_link", [False, True])
async def test_what_was_read_in_a_folder_of_ones_own_is_not_saved_in_one_of_others_that_took_its_place(
    lab: Lab, is_link: bool
) -> None:
    """A private folder among those of a project, or a link of one's own to one."""
    if is_link:
        lab.link("team/res", lab.private, os.getuid())
    else:
        lab.private.rename(lab.team / "res")
    assert await lab.writable("team/res/plan.txt") is not is_link
    assert await lab.save("team/res/plan.txt") == 200

    (lab.team / "res").rename(lab.team / "gone")
    lab.theirs.rename(lab.team / "res")
    assert await lab.save("team/res/plan.txt") == 403
    assert list((lab.team / "res").iterdir()) == []


async def test_a_file_of_a_project_is_saved_where_it_was_removed_or_its_folder_made_anew(lab: Lab) -> None:
    await lab.files.get("team/plan.txt")
    (lab.team / "plan.txt").unlink()
    assert await lab.save("team/plan.txt") == 200
    lab.team.rename(lab.home / "old")
    lab.theirs.rename(lab.team)
    assert await lab.save("team/plan.txt") == 200


async def test_a_file_that_was_saved_in_a_folder_of_ones_own_stays_out_of_that_of_others(lab: Lab) -> None:
    """It was never read: it was made there."""
    lab.private.rename(lab.team / "res")
    assert await lab.save("team/res/new.txt") == 200
    (lab.team / "res").rename(lab.team / "gone")
    lab.theirs.rename(lab.team / "res")
    assert await lab.save("team/res/new.txt") == 403


async def test_a_list_of_a_folder_looks_at_no_way(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.downloads.read_files.look_at", None)
    assert len((await lab.files.get("team"))["content"]) == 2
    assert not listed_folders.LISTED.get()
