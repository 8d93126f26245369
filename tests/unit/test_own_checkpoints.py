"""Checkpoints in a folder that others can change: whose they are, whatever is put there while a file is renamed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tornado.web import HTTPError

from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.singleuser.own_files import OwnFiles

SOMEBODY_ELSE = 4_000_000  # no account of this machine
BOTH = pytest.mark.parametrize("uid", [SOMEBODY_ELSE, 0])  # a link of others, or one's own that others moved


class Lab:
    """A home with a file that has a checkpoint, and a folder that others can change."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.shared = home / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o777)
        self.plan = self.shared / "plan.txt"
        self.thesis = home / "thesis.txt"
        self.thesis.write_text("kept")
        self.kept = home / ".ipynb_checkpoints/thesis-checkpoint.txt"
        self.files: Any = OwnFiles(root_dir=str(home), checkpoints_class=OwnCheckpoints)

    def exchange(self, path: Path, target: Path, uid: int) -> None:
        """Somebody puts a link where something was."""
        if path.is_symlink() or path.exists():
            path.rename(path.with_name(f"was-{path.name}"))
        path.symlink_to(target)
        os.lchown(path, uid, uid)

    def behind(self, act: str, then: Callable[[], object]) -> None:
        """Somebody waits until JupyterLab has done one thing, and does another one at once."""
        usual = getattr(self.files, act)

        async def done(*arguments: Any) -> None:
            await usual(*arguments)
            then()

        setattr(self.files, act, done)


@pytest.fixture
async def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("HOME", str(tmp_path))
    lab = Lab(tmp_path)
    await lab.files.create_checkpoint("thesis.txt")
    lab.thesis.write_text("written since")
    return lab


def private_one_exchanged(lab: Lab) -> Callable[[], Path]:
    """A private folder among those of a project, with a file, and what somebody does to have theirs in its place."""
    mine = lab.shared / "res"
    mine.mkdir(0o700)
    (mine / "plan.txt").write_text("private")

    def exchange() -> Path:
        mine.rename(lab.shared / "gone")
        mine.mkdir()
        (mine / "plan.txt").write_text("theirs")
        for path in (mine, mine / "plan.txt"):
            os.chown(path, SOMEBODY_ELSE, SOMEBODY_ELSE)
        return mine / "plan.txt"

    return exchange


async def test_a_folder_of_others_in_the_place_of_a_private_one_has_checkpoints_of_its_own(lab: Lab) -> None:
    """Also in the next session, which has read nothing there before; and it replaces none of the private one."""
    exchange = private_one_exchanged(lab)
    kept = await lab.files.create_checkpoint("shared/res/plan.txt")
    theirs = exchange()
    next_one: Any = OwnFiles(root_dir=str(lab.home), checkpoints_class=OwnCheckpoints)
    await next_one.get("shared/res/plan.txt")
    assert await next_one.list_checkpoints("shared/res/plan.txt") == []
    with pytest.raises(FileNotFoundError):
        await next_one.restore_checkpoint(kept["id"], "shared/res/plan.txt")
    assert theirs.read_text() == "theirs"

    await next_one.create_checkpoint("shared/res/plan.txt")
    theirs.write_text("theirs, written since")
    await next_one.restore_checkpoint(kept["id"], "shared/res/plan.txt")
    assert theirs.read_text() == "theirs"
    theirs.parent.rename(lab.shared / "theirs")
    (lab.shared / "gone").rename(lab.shared / "res")
    (lab.shared / "res/plan.txt").write_text("private, written since")
    await next_one.restore_checkpoint(kept["id"], "shared/res/plan.txt")
    assert (lab.shared / "res/plan.txt").read_text() == "private"


async def test_so_has_another_folder_of_ones_own(lab: Lab) -> None:
    """An open one, with a file of theirs that everybody can read, as private ones in a private folder may be."""
    mine, other = (lab.shared / name for name in ("res", "open"))
    mine.mkdir(0o700)
    other.mkdir()
    for folder, text in ((mine, "private"), (other, "theirs")):
        (folder / "plan.txt").write_text(text)
        (folder / "plan.txt").chmod(0o666)
    other.chmod(0o2777)
    kept = await lab.files.create_checkpoint("shared/res/plan.txt")
    mine.rename(lab.shared / "gone")
    other.rename(mine)
    next_one: Any = OwnFiles(root_dir=str(lab.home), checkpoints_class=OwnCheckpoints)
    await next_one.get("shared/res/plan.txt")

    with pytest.raises(FileNotFoundError):
        await next_one.restore_checkpoint(kept["id"], "shared/res/plan.txt")
    assert (mine / "plan.txt").read_text() == "theirs"
    await next_one.create_checkpoint("shared/res/plan.txt")
    mine.rename(lab.shared / "open")
    (lab.shared / "gone").rename(mine)
    await next_one.restore_checkpoint(kept["id"], "shared/res/plan.txt")
    assert (mine / "plan.txt").read_text() == "private"


async def test_what_takes_the_place_while_a_file_is_renamed_gets_no_checkpoint_of_it(lab: Lab) -> None:
    exchange = private_one_exchanged(lab)
    await lab.files.create_checkpoint("shared/res/plan.txt")
    lab.behind("rename_file", exchange)
    await lab.files.rename("shared/res/plan.txt", "shared/res/new.txt")
    assert await lab.files.list_checkpoints("shared/res/new.txt") == []


@BOTH
async def test_the_checkpoint_of_a_link_that_is_renamed_replaces_none_of_another_file(lab: Lab, uid: int) -> None:
    lab.plan.write_text("theirs")
    await lab.files.create_checkpoint("shared/plan.txt")
    lab.exchange(lab.plan, lab.thesis, uid)

    await lab.files.rename("shared/plan.txt", "shared/old.txt")

    assert lab.kept.read_text() == "kept"


@BOTH
@pytest.mark.parametrize("place", ["plan.txt", "folder"])
async def test_a_link_that_is_put_there_while_a_file_is_deleted_takes_no_checkpoint_along(
    lab: Lab, uid: int, place: str
) -> None:
    target = lab.thesis if place == "plan.txt" else lab.home
    path = place if place == "plan.txt" else f"{place}/thesis.txt"
    (lab.shared / path).parent.mkdir(exist_ok=True)
    (lab.shared / path).write_text("plan")
    lab.behind("delete_file", lambda: lab.exchange(lab.shared / place, target, uid))

    await lab.files.delete(f"shared/{path}")

    assert lab.kept.read_text() == "kept"


@BOTH
@pytest.mark.parametrize("place", ["plan.txt", "folder"])
async def test_a_link_that_is_put_there_while_a_file_is_renamed_brings_no_checkpoint_there(
    lab: Lab, uid: int, place: str
) -> None:
    target = lab.thesis if place == "plan.txt" else lab.home
    path = place if place == "plan.txt" else f"{place}/thesis.txt"
    (lab.shared / path).parent.mkdir(exist_ok=True)
    (lab.shared / path).write_text("plan")
    lab.behind("rename_file", lambda: lab.exchange(lab.shared / place, target, uid))

    await lab.files.rename(f"shared/{path}", "shared/new.txt")

    assert lab.kept.read_text() == "kept"
    assert await lab.files.list_checkpoints("shared/new.txt") == []


@BOTH
async def test_a_link_that_is_put_where_a_file_was_renamed_to_has_no_checkpoint_replaced(lab: Lab, uid: int) -> None:
    lab.plan.write_text("plan")
    await lab.files.create_checkpoint("shared/plan.txt")
    lab.behind("rename_file", lambda: lab.exchange(lab.shared / "new.txt", lab.thesis, uid))

    await lab.files.rename("shared/plan.txt", "shared/new.txt")

    assert lab.kept.read_text() == "kept"


@pytest.mark.parametrize("folder", ["", "shared/"])
async def test_a_checkpoint_goes_with_its_file(lab: Lab, folder: str) -> None:
    for name in ("plan.txt", "other.txt"):
        (lab.home / folder / name).write_text(name)
        await lab.files.create_checkpoint(f"{folder}{name}")

    await lab.files.rename(f"{folder}plan.txt", f"{folder}new.txt")
    assert await lab.files.list_checkpoints(f"{folder}plan.txt") == []
    (lab.home / folder / "new.txt").write_text("changed")
    await lab.files.restore_checkpoint("checkpoint", f"{folder}new.txt")
    assert (lab.home / folder / "new.txt").read_text() == "plan.txt"
    await lab.files.delete(f"{folder}new.txt")

    assert [path.name for path in lab.home.rglob("new-checkpoint*")] == []
    assert [path.read_text() for path in lab.home.rglob("other-checkpoint*")] == ["other.txt"]


@pytest.mark.parametrize("act", ["rename", "delete"])
async def test_behind_a_link_of_ones_own_in_a_shared_folder_the_checkpoint_goes_with_its_file(
    lab: Lab, act: str
) -> None:
    (lab.shared / "mine").symlink_to(lab.home)
    await lab.files.create_checkpoint("shared/mine/thesis.txt")

    await getattr(lab.files, act)("shared/mine/thesis.txt", *(["shared/mine/new.txt"] * (act == "rename")))
    lab.thesis.write_text("another one")

    assert await lab.files.list_checkpoints("shared/mine/thesis.txt") == []
    assert not lab.kept.exists()
    assert len(await lab.files.list_checkpoints("shared/mine/new.txt")) == (act == "rename")


@pytest.mark.parametrize("act", ["rename", "delete"])
async def test_a_link_of_ones_own_leaves_the_checkpoint_of_what_it_leads_to(lab: Lab, act: str) -> None:
    (lab.home / "link.txt").symlink_to(lab.thesis)

    await getattr(lab.files, act)("link.txt", *(["other.txt"] * (act == "rename")))

    assert lab.kept.read_text() == "kept"


@pytest.mark.parametrize("path", ["plan.txt", "folder/thesis.txt"])
async def test_what_is_behind_a_link_of_others_gets_no_new_checkpoint(lab: Lab, path: str) -> None:
    place, target = (lab.plan, lab.thesis) if path == "plan.txt" else (lab.shared / "folder", lab.home)
    lab.exchange(place, target, SOMEBODY_ELSE)

    assert await lab.files.list_checkpoints(f"shared/{path}") == []
    with pytest.raises(HTTPError) as refused:  # 403: JupyterLab says nothing, as of a folder that cannot be written
        await lab.files.create_checkpoint(f"shared/{path}")

    assert refused.value.status_code == 403
    assert lab.kept.read_text() == "kept"


@BOTH
async def test_a_checkpoint_is_put_back_into_the_file_that_it_is_of(
    lab: Lab, uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody exchanges the folder once it is known whose checkpoint is wanted."""
    lab.exchange(lab.shared / "folder", lab.home, uid)
    theirs = lab.shared / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("theirs")
    usual = OwnCheckpoints._place_of

    def place_of(self: Any, *arguments: Any) -> Path:
        place = usual(self, *arguments)
        if (lab.shared / "folder").is_symlink():
            (lab.shared / "folder").unlink()
            theirs.rename(lab.shared / "folder")
        return place

    monkeypatch.setattr(OwnCheckpoints, "_place_of", place_of)
    try:
        await lab.files.restore_checkpoint("checkpoint", "shared/folder/thesis.txt")
    except (HTTPError, FileNotFoundError):
        assert uid == SOMEBODY_ELSE
    else:
        assert lab.thesis.read_text() == "kept"

    assert {path.read_text() for path in lab.shared.rglob("thesis.txt")} == {"theirs"}


@pytest.mark.parametrize("is_member", [True, False])
@pytest.mark.parametrize(("mode", "kept"), [(0o640, 0o600), (0o644, 0o644), (0o600, 0o600)])
async def test_a_checkpoint_is_shown_to_no_other_group(
    lab: Lab, mode: int, kept: int, is_member: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in a folder that another Jupyter may have made for everybody."""

    def is_of_no_such_group(*_: object) -> None:
        raise PermissionError

    if not is_member:
        monkeypatch.setattr(os, "fchown", is_of_no_such_group)
    lab.thesis.chmod(mode)
    os.chown(lab.thesis, -1, SOMEBODY_ELSE)
    lab.kept.parent.chmod(0o755)
    await lab.files.create_checkpoint("thesis.txt")

    assert lab.kept.stat().st_mode & 0o777 == (mode if is_member else kept)
    assert (lab.kept.stat().st_gid == SOMEBODY_ELSE) is is_member
