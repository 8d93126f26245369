"""What was read through a link that others can take away is not saved there when they have."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.base.call_context import CallContext
from tornado.web import HTTPError

from portal.downloads import listed_folders, read_back
from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.homes import regular_file
from portal.singleuser.own_files import OwnFiles
from tests.unit.access_lists import DEFAULT, GROUP_OBJ, NOBODYS, OTHER, USER_OBJ, give, open_to_one

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

    async def save(self, path: str, **more: Any) -> int:
        """Save a text: with which status that is answered."""
        text = {"type": "file", "format": "text", "content": "private"}
        return await status(self.files.save(text | more, path))

    def exchange(self) -> Path:
        """Somebody puts a folder with a file that everybody may write in the place of a private one of a project."""
        (self.team / "res").rename(self.team / "gone")
        plan = self.theirs / "plan.txt"
        plan.write_text("theirs")
        plan.chmod(0o666)
        os.chown(plan, SOMEBODY_ELSE, SOMEBODY_ELSE)
        return self.theirs.rename(self.team / "res") / "plan.txt"


async def status(act: Awaitable[Any]) -> int:
    """With which status something is answered."""
    try:
        await act
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

    assert not await lab.writable("theirs/new.txt")  # another tab may have it still
    assert await lab.save("theirs/new.txt") == 403
    copy = (await lab.files.copy("theirs/new.txt"))["path"]
    assert await lab.writable(copy)
    assert await lab.save(copy) == 200


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


@pytest.mark.parametrize("name", NAMES)
async def test_another_look_opens_no_way_for_what_was_read_before(lab: Lab, name: str) -> None:
    """A second view, an export: the first tab has what was private, and its next save finds no file there."""
    lab.private.rename(lab.team / "res")
    await lab.files.get(f"team/res/{name}")
    theirs = lab.exchange().with_name(name)
    theirs.write_text(NOTEBOOK)

    await lab.files.get(f"team/res/{name}")
    theirs.unlink()
    assert await lab.save(f"team/res/{name}") == 403
    assert not theirs.exists()


async def test_what_two_people_had_in_a_place_one_after_the_other_is_saved_in_ones_own_alone(lab: Lab) -> None:
    await lab.files.get("team/plan.txt")
    os.chown(lab.team, SOMEBODY_ELSE + 1, SOMEBODY_ELSE)
    await lab.files.get("team/plan.txt")
    assert await lab.save("team/plan.txt") == 403
    os.chown(lab.team, os.getuid(), os.getgid())
    assert await lab.save("team/plan.txt") == 200


async def test_it_is_writable_again_where_nobody_else_can_exchange_it(lab: Lab) -> None:
    """What a link led to was read there before; the folder is a private one since."""
    link = lab.link("theirs/plan.txt", lab.private / "plan.txt")
    await lab.files.get("theirs/plan.txt")
    link.unlink()
    link.write_text("mine")
    os.chown(lab.theirs, os.getuid(), os.getgid())
    lab.theirs.chmod(0o700)
    lab.home.chmod(0o700)
    assert await lab.writable("theirs/plan.txt")
    assert await lab.save("theirs/plan.txt") == 200


async def test_what_is_moved_into_a_folder_of_a_colleague_is_saved_there(lab: Lab) -> None:
    """From a folder of one's own, or of another colleague: the person has chosen it."""
    for path in ("private/plan.txt", "team/plan.txt"):
        await lab.files.get(path)
        os.chown(lab.theirs, SOMEBODY_ELSE + 1, SOMEBODY_ELSE)
        await lab.files.rename_file(path, "theirs/moved.txt")
        assert await lab.writable("theirs/moved.txt")
        assert await lab.save("theirs/moved.txt") == 200
        await lab.files.delete_file("theirs/moved.txt")


async def test_what_was_exchanged_before_it_is_moved_is_saved_in_no_folder_of_others(lab: Lab) -> None:
    lab.private.rename(lab.team / "res")
    await lab.files.get("team/res/plan.txt")
    lab.exchange()
    await lab.files.rename_file("team/res/plan.txt", "team/moved.txt")
    assert await lab.save("team/moved.txt") == 403


async def test_what_a_link_led_to_is_saved_there_when_the_link_is_renamed(lab: Lab) -> None:
    """And in no folder that took the place of that, as the link is not where the file is."""
    lab.private.rename(lab.team / "res")
    own = lab.folder("own", 0o700)
    lab.link("own/team.txt", lab.team / "plan.txt", os.getuid())
    lab.link("own/plan.txt", lab.team / "res/plan.txt", os.getuid())
    for name in ("team", "plan"):
        await lab.files.get(f"own/{name}.txt")
        await lab.files.rename_file(f"own/{name}.txt", f"own/{name}-new.txt")
        assert (own / f"{name}-new.txt").is_symlink()
        assert await lab.save(f"own/{name}-new.txt") == 200
    theirs = lab.exchange()
    assert await lab.save("own/plan-new.txt") == 403
    assert theirs.read_text() == "theirs"


async def test_what_could_not_be_deleted_is_remembered(lab: Lab) -> None:
    """Its tab is open still, and the file may have been gone already."""
    lab.private.rename(lab.team / "res")
    await lab.files.get("team/res/plan.txt")
    theirs = lab.exchange()
    theirs.unlink()
    assert await status(lab.files.delete_file("team/res/plan.txt")) == 404
    assert await lab.save("team/res/plan.txt") == 403


async def test_a_checkpoint_goes_into_no_folder_that_took_the_place(lab: Lab) -> None:
    lab.private.rename(lab.team / "res")
    await lab.files.get("team/res/plan.txt")
    kept = await lab.files.create_checkpoint("team/res/plan.txt")
    theirs = lab.exchange()
    await lab.files.get("team/res/plan.txt")
    assert await status(lab.files.restore_checkpoint(kept["id"], "team/res/plan.txt")) == 403
    assert theirs.read_text() == "theirs"


async def test_the_further_parts_of_a_file_go_into_no_folder_that_took_the_place(lab: Lab) -> None:
    lab.private.rename(lab.team / "res")
    assert await lab.save("team/res/plan.txt", chunk=1) == 200
    assert await lab.save("team/res/plan.txt", chunk=2) == 200
    assert (lab.team / "res/plan.txt").read_text() == "privateprivate"
    theirs = lab.exchange()
    assert await lab.save("team/res/plan.txt", chunk=-1) == 403
    assert theirs.read_text() == "theirs"


async def test_a_list_of_a_folder_looks_at_no_way(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.downloads.read_files.look_at", None)
    assert len((await lab.files.get("team"))["content"]) == 2
    assert not listed_folders.LISTED.get()


@pytest.mark.parametrize(("mode", "answered"), [(0o700, 200), (0o755, 403), (0o2775, 403)])
async def test_a_folder_of_ones_own_that_others_can_read_takes_no_place_of_a_private_one(
    lab: Lab, mode: int, answered: int
) -> None:
    (lab.folder("team/res", 0o700) / "plan.txt").write_text("private")
    lab.folder("team/shared", mode)
    await lab.files.get("team/res/plan.txt")
    assert await lab.save("team/res/plan.txt") == 200
    (lab.team / "res").rename(lab.team / "gone")
    (lab.team / "shared").rename(lab.team / "res")

    assert await lab.save("team/res/plan.txt") == answered


async def test_a_folder_that_the_person_opens_to_others_is_the_same(lab: Lab) -> None:
    (lab.folder("team/res", 0o700) / "plan.txt").write_text("private")
    await lab.files.get("team/res/plan.txt")
    (lab.team / "res").chmod(0o2775)

    assert await lab.save("team/res/plan.txt") == 200


async def test_what_is_opened_anew_after_its_folder_got_another_owner_is_not_told_as_writable(lab: Lab) -> None:
    """An administrator has given it to somebody else; a save is refused, and JupyterLab says so before."""
    await lab.files.get("team/plan.txt")
    os.chown(lab.team, SOMEBODY_ELSE - 1, SOMEBODY_ELSE - 1)

    assert not await lab.writable("team/plan.txt")
    assert await lab.save("team/plan.txt") == 403


async def test_a_colleagues_folder_that_is_made_anew_more_open_is_taken_as_before(lab: Lab) -> None:
    lab.team.chmod(0o755)
    await lab.files.get("team/plan.txt")
    lab.team.rename(lab.home / "before")
    lab.theirs.rename(lab.team)

    assert await lab.save("team/plan.txt") == 200


def put(lab: Lab, name: str, mode: int = 0o666, uid: int = SOMEBODY_ELSE) -> Path:
    """Somebody who may write in that folder puts a file in the place of another one."""
    file = lab.team / name
    file.rename(lab.team / f".{name}.gone")
    file.write_text("theirs")
    file.chmod(mode)
    os.chown(file, uid, uid)
    return file


@pytest.mark.parametrize("chunk", [{}, {"chunk": 2}, {"chunk": -1}])
@pytest.mark.parametrize("look", [[], [{"content": False}], [{}], [{}, {}]])
async def test_what_was_closed_is_saved_in_no_file_that_others_put_in_its_place(
    tmp_path: Path, chunk: dict[str, int], look: list[dict[str, Any]]
) -> None:
    """JupyterLab asks for the hash of what is there before each save, and after it: by that they learn when."""
    lab = Lab(tmp_path)
    (lab.team / "plan.txt").chmod(0o600)
    await lab.files.get("team/plan.txt", require_hash=True)
    file = put(lab, "plan.txt")
    for asked in look:
        await lab.files.get("team/plan.txt", require_hash=True, **asked)

    assert await lab.save("team/plan.txt", **chunk) == 403
    assert file.read_text() == "theirs"


@pytest.mark.parametrize("mode", [0o600, 0o640])
async def test_nor_is_what_was_made_closed(tmp_path: Path, mode: int) -> None:
    lab = Lab(tmp_path)
    before = os.umask(0o077)
    try:
        assert await lab.save("team/new.txt") == 200
    finally:
        os.umask(before)
    file = put(lab, "new.txt", mode)
    await lab.files.get("team/new.txt")

    assert await lab.save("team/new.txt") == 403
    assert file.read_text() == "theirs"


async def test_nor_what_was_renamed(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (lab.team / "plan.txt").chmod(0o600)
    await lab.files.get("team/plan.txt")
    await lab.files.rename_file("team/plan.txt", "team/new.txt")
    file = put(lab, "new.txt")

    assert await lab.save("team/new.txt") == 403
    assert file.read_text() == "theirs"


@pytest.mark.parametrize("is_later", [False, True])
async def test_nor_is_a_checkpoint_of_it_restored_there(tmp_path: Path, is_later: bool) -> None:
    """In a later session, too, which has read their file alone."""
    lab = Lab(tmp_path)
    (lab.team / "plan.txt").chmod(0o600)
    await lab.files.get("team/plan.txt")
    kept = await lab.files.create_checkpoint("team/plan.txt")
    file = put(lab, "plan.txt")
    if is_later:
        lab.files = OwnFiles(root_dir=str(tmp_path), checkpoints_class=OwnCheckpoints, delete_to_trash=False)
        await lab.files.get("team/plan.txt")

    assert await status(lab.files.restore_checkpoint(kept["id"], "team/plan.txt")) == 403
    assert file.read_text() == "theirs"


@pytest.mark.parametrize(
    ("before", "after", "uid"),
    [(0o644, 0o644, SOMEBODY_ELSE), (0o600, 0o600, None), (0o664, 0o644, None), (0o664, 0o664, SOMEBODY_ELSE)],
)
async def test_a_new_file_that_shows_nobody_more_is_saved_and_restored_as_ever(
    tmp_path: Path, before: int, after: int, uid: int | None
) -> None:
    """Git and editors put a new one in the place of an old one."""
    lab = Lab(tmp_path)
    (lab.team / "plan.txt").chmod(before)
    await lab.files.get("team/plan.txt")
    kept = await lab.files.create_checkpoint("team/plan.txt")
    group = (lab.team / "plan.txt").stat().st_gid
    file = put(lab, "plan.txt", after)
    os.chown(file, os.geteuid() if uid is None else uid, group)

    assert await lab.save("team/plan.txt") == 200
    assert file.read_text() == "private"
    assert await status(lab.files.restore_checkpoint(kept["id"], "team/plan.txt")) == 200


async def test_what_its_person_opens_to_others_is_saved_and_restored(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (lab.team / "plan.txt").chmod(0o600)
    await lab.files.get("team/plan.txt")
    kept = await lab.files.create_checkpoint("team/plan.txt")
    (lab.team / "plan.txt").chmod(0o644)

    assert await lab.save("team/plan.txt") == 200
    assert await status(lab.files.restore_checkpoint(kept["id"], "team/plan.txt")) == 200


async def test_a_file_that_a_list_opens_to_one_person_is_closed_to_its_group(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    plan = lab.team / "plan.txt"
    open_to_one(plan, SOMEBODY_ELSE + 7)
    group = plan.stat().st_gid
    await lab.files.get("team/plan.txt")
    file = put(lab, "plan.txt", 0o660)
    os.chown(file, SOMEBODY_ELSE, group)

    assert await lab.save("team/plan.txt") == 403
    assert file.read_text() == "theirs"


@pytest.mark.parametrize("is_later", [False, True])
async def test_the_look_before_a_save_counts_too(tmp_path: Path, is_later: bool) -> None:
    """Closed in a terminal while it is open; or a tab that outlived the session in which it was opened."""
    lab = Lab(tmp_path)
    plan = lab.team / "plan.txt"
    plan.chmod(0o660)
    await lab.files.get("team/plan.txt", require_hash=True)
    plan.chmod(0o600)
    if is_later:
        lab.files = OwnFiles(root_dir=str(tmp_path), checkpoints_class=OwnCheckpoints, delete_to_trash=False)
    await lab.files.get("team/plan.txt", content=False, require_hash=True)
    file = put(lab, "plan.txt", 0o660)
    os.chown(file, SOMEBODY_ELSE, (lab.team / ".plan.txt.gone").stat().st_gid)

    assert await lab.save("team/plan.txt") == 403
    assert file.read_text() == "theirs"


async def test_a_look_for_the_hash_changes_nothing_else_of_what_is_known(lab: Lab) -> None:
    """Somebody's folder was there for a moment: in that of the project one goes on."""
    lab.private.rename(lab.team / "res")
    (lab.theirs / "plan.txt").write_text("theirs")
    await lab.files.get("team/plan.txt")
    os.chown(lab.team, SOMEBODY_ELSE + 1, SOMEBODY_ELSE)
    await lab.files.get("team/plan.txt", content=False, require_hash=True)
    os.chown(lab.team, SOMEBODY_ELSE, SOMEBODY_ELSE)

    assert await lab.save("team/plan.txt") == 200


async def test_of_two_saves_at_a_time_the_refused_one_opens_nothing_for_the_other(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (lab.team / "plan.txt").chmod(0o600)
    await lab.files.get("team/plan.txt")
    place = str(lab.team / "plan.txt")
    with lab.files.saved_at(place) as first, lab.files.written_at(first) as file:
        file.write("first")
        theirs = put(lab, "plan.txt")
        assert await lab.save("team/plan.txt") == 403

    assert await lab.save("team/plan.txt") == 403
    assert theirs.read_text() == "theirs"


async def test_a_closed_file_that_others_removed_is_made_anew_as_closed(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    plan = lab.team / "plan.txt"
    plan.chmod(0o600)
    await lab.files.get("team/plan.txt")
    plan.unlink()

    assert await lab.save("team/plan.txt") == 200
    assert plan.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("theirs", [True, False])
async def test_nor_is_it_saved_as_in_what_they_put_there_or_more_open(tmp_path: Path, theirs: bool) -> None:
    """JupyterLab deletes what is there by then; theirs comes again."""
    lab = Lab(tmp_path)
    plan = lab.team / "plan.txt"
    plan.chmod(0o600)
    await lab.files.get("team/plan.txt")
    put(lab, "plan.txt", uid=SOMEBODY_ELSE if theirs else os.geteuid())
    await lab.files.delete_file("team/plan.txt")
    if theirs:
        plan.write_text("theirs")
        plan.chmod(0o666)
        os.chown(plan, SOMEBODY_ELSE, SOMEBODY_ELSE)

    assert await lab.save("team/plan.txt") == (403 if theirs else 200)
    assert theirs or plan.stat().st_mode & 0o777 == 0o600


async def test_what_is_saved_as_a_closed_file_is_as_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterLab deletes what was there, and then saves."""
    lab = Lab(tmp_path)
    plan = lab.team / "plan.txt"
    plan.chmod(0o600)
    await lab.files.delete_file("team/plan.txt")
    assert await lab.save("team/plan.txt") == 200
    assert plan.stat().st_mode & 0o777 == 0o600

    await lab.files.delete_file("team/plan.txt")
    monkeypatch.setattr(read_back, "REPLACED_WITHIN_S", 0.0)  # then it is a new one
    before = os.umask(0o022)
    try:
        assert await lab.save("team/plan.txt") == 200
    finally:
        os.umask(before)
    assert plan.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("chunk", [{}, {"chunk": 2}])
async def test_nor_is_it_open_in_the_moment_in_which_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: dict[str, int]
) -> None:
    """Who opens it then reads it ever after; so it is with a copy."""
    lab = Lab(tmp_path)
    for name in NAMES:
        (lab.team / name).chmod(0o640)
    await lab.files.get("team/plan.txt")
    (lab.team / "plan.txt").unlink()
    opened = os.open
    made: dict[object, int] = {}

    def watched(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        descriptor = opened(path, flags, mode, **more)
        if flags & os.O_CREAT:
            made[path] = os.fstat(descriptor).st_mode & 0o777
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0o022)
    try:
        assert await lab.save("team/plan.txt", **chunk) == 200
        await lab.files.copy("team/plan.ipynb")
    finally:
        os.umask(before)

    names = ("plan.txt", "plan-Copy1.ipynb")
    assert [made[name] for name in names] == [0o600, 0o600]
    assert [(lab.team / name).stat().st_mode & 0o777 for name in names] == [0o640, 0o640]


async def test_what_was_exchanged_and_then_moved_home_is_saved_in_no_file_of_others(tmp_path: Path) -> None:
    """They may have a second name of it."""
    lab = Lab(tmp_path)
    (lab.team / "plan.txt").chmod(0o600)
    await lab.files.get("team/plan.txt")
    file = put(lab, "plan.txt")
    await lab.files.rename_file("team/plan.txt", "private/moved.txt")

    assert await lab.save("private/moved.txt") == 403
    assert (lab.private / "moved.txt").read_text() == "theirs"
    assert not file.exists()


@pytest.mark.parametrize("chunk", [{}, {"chunk": 2}])
@pytest.mark.parametrize("mode", [0o620, 0o660])
async def test_nor_in_a_file_of_the_same_group_whose_owner_is_not_in_it(
    tmp_path: Path, mode: int, chunk: dict[str, int]
) -> None:
    lab = Lab(tmp_path)
    plan = lab.team / "plan.txt"
    plan.chmod(0o640)
    await lab.files.get("team/plan.txt")
    file = put(lab, "plan.txt", mode)
    os.chown(file, SOMEBODY_ELSE, (lab.team / ".plan.txt.gone").stat().st_gid)

    assert await lab.save("team/plan.txt", **chunk) == 403
    assert file.read_text() == "theirs"


async def test_nor_is_a_checkpoint_restored_in_another_groups_file_in_a_later_session(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (lab.team / "plan.txt").chmod(0o640)
    await lab.files.get("team/plan.txt")
    kept = await lab.files.create_checkpoint("team/plan.txt")
    file = put(lab, "plan.txt", 0o660)
    lab.files = OwnFiles(root_dir=str(tmp_path), checkpoints_class=OwnCheckpoints, delete_to_trash=False)
    await lab.files.get("team/plan.txt")

    assert await status(lab.files.restore_checkpoint(kept["id"], "team/plan.txt")) == 403
    assert file.read_text() == "theirs"


@pytest.mark.parametrize("owner", [0, SOMEBODY_ELSE])
async def test_a_folder_of_another_group_takes_no_place_of_one_that_they_could_not_enter(lab: Lab, owner: int) -> None:
    for name, group in (("res", SOMEBODY_ELSE + 1), ("shared", SOMEBODY_ELSE + 2)):
        folder = lab.folder(f"team/{name}", 0o700)
        (folder / "plan.txt").write_text("private")
        os.chown(folder, owner, group)
        folder.chmod(0o2770)
    await lab.files.get("team/res/plan.txt")
    assert await lab.save("team/res/plan.txt") == 200
    (lab.team / "res").rename(lab.team / "gone")
    (lab.team / "shared").rename(lab.team / "res")

    assert await lab.save("team/res/plan.txt") == 403


async def test_a_copy_is_shown_to_nobody_more_than_what_it_is_made_of(tmp_path: Path) -> None:
    """Others may have put something closed in the place of what is duplicated."""
    lab = Lab(tmp_path)
    (lab.team / "plan.ipynb").chmod(0o600)
    for name in NAMES:
        copy = lab.home / (await lab.files.copy(f"team/{name}"))["path"]
        assert copy.stat().st_mode == (lab.team / name).stat().st_mode


async def test_nor_to_those_whom_a_list_of_the_folder_names(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for name in NAMES:
        (lab.team / name).chmod(0o640)
    await lab.files.get("team/plan.txt")
    (lab.team / "plan.txt").unlink()
    open_to_one(lab.team, SOMEBODY_ELSE + 7, 6, group=6, name=DEFAULT)

    assert await lab.save("team/plan.txt") == 200
    copy = lab.home / (await lab.files.copy("team/plan.ipynb"))["path"]
    for file in (lab.team / "plan.txt", copy):
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("listed", [False, True])
async def test_nor_is_it_written_by_more(tmp_path: Path, listed: bool) -> None:
    """By the folder's list for new files; or as what the list of the file gave to one person."""
    lab = Lab(tmp_path)
    team = ((USER_OBJ, 7, NOBODYS), (GROUP_OBJ, 7, NOBODYS), (OTHER, 4, NOBODYS))
    give(lab.team, *team, name=DEFAULT)
    (lab.team / "plan.ipynb").chmod(0o644)
    if listed:
        open_to_one(lab.team / "plan.ipynb", SOMEBODY_ELSE, 6, group=4)

    copy = lab.home / (await lab.files.copy("team/plan.ipynb"))["path"]

    assert copy.stat().st_mode & 0o777 == (0o640 if listed else 0o644)


async def test_a_copy_is_its_groups_where_the_folders_list_says_so_whatever_the_umask(tmp_path: Path) -> None:
    """As with ``setfacl -d`` on a folder of a project: what is made anew, too."""
    lab = Lab(tmp_path)
    team = ((USER_OBJ, 7, NOBODYS), (GROUP_OBJ, 7, NOBODYS), (OTHER, 0, NOBODYS))
    give(lab.team, *team, name=DEFAULT)
    for name in NAMES:
        (lab.team / name).chmod(0o660)
        await lab.files.get(f"team/{name}")
    before = os.umask(0o077)
    try:
        copy = lab.home / (await lab.files.copy("team/plan.ipynb"))["path"]
        (lab.team / "plan.txt").unlink()
        assert await lab.save("team/plan.txt") == 200
    finally:
        os.umask(before)

    for file in (copy, lab.team / "plan.txt"):
        assert file.stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("is_ones_own", [True, False])
async def test_a_groups_file_is_reverted_to_its_checkpoint_in_a_later_session(
    tmp_path: Path, is_ones_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    plan = lab.team / "plan.txt"
    plan.chmod(0o660)
    if not is_ones_own:
        os.chown(plan, SOMEBODY_ELSE, -1)
    bob = pwd.struct_passwd(("bob", "x", SOMEBODY_ELSE, plan.stat().st_gid, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {SOMEBODY_ELSE: bob}.__getitem__)
    kept = await lab.files.create_checkpoint("team/plan.txt")
    plan.write_text("changed")
    lab.files = OwnFiles(root_dir=str(tmp_path), checkpoints_class=OwnCheckpoints, delete_to_trash=False)

    assert await status(lab.files.restore_checkpoint(kept["id"], "team/plan.txt")) == 200
    assert plan.read_text() == "private"


async def test_a_file_that_comes_between_two_looks_of_a_save_is_saved_as_any(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server tells of it a moment later."""
    opened = os.open
    looks = ["no file yet"]

    def late(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        if path == "new.txt" and flags & os.O_WRONLY and not flags & os.O_CREAT and looks:
            looks.clear()
            (lab.team / "new.txt").write_text("theirs")
            raise FileNotFoundError(errno.ENOENT, "none", path)
        return opened(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", late)
    assert await lab.save("team/new.txt") == 200
    assert (lab.team / "new.txt").read_text() == "private"


@pytest.mark.parametrize(
    ("made", "name"),
    [
        ({"ext": ".txt"}, "untitled.txt"),
        ({"type": "notebook"}, "Untitled.ipynb"),
        ({"type": "directory"}, "Untitled Folder"),
    ],
)
async def test_what_is_new_has_a_name_that_nobody_else_took_meanwhile(
    tmp_path: Path, made: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    look = lab.files.increment_filename

    async def beaten(*asked: Any, **more: Any) -> str:
        found: str = await look(*asked, **more)
        if not (lab.team / name).exists():
            (lab.team / name).mkdir() if "type" in made and made["type"] == "directory" else put_new(lab.team / name)
        return found

    monkeypatch.setattr(lab.files, "increment_filename", beaten)
    model = await lab.files.new_untitled("team", **made)

    assert model["name"] != name
    assert not (lab.team / name).is_file() or (lab.team / name).read_text() == "theirs"


def put_new(file: Path) -> None:
    file.write_text("theirs")
    file.chmod(0o666)


async def test_nor_does_a_copy_go_into_what_somebody_put_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    look = lab.files.increment_filename

    async def beaten(*asked: Any, **more: Any) -> str:
        found: str = await look(*asked, **more)
        put_new(lab.team / "plan-Copy1.txt")
        return found

    monkeypatch.setattr(lab.files, "increment_filename", beaten)
    assert (await lab.files.copy("team/plan.txt"))["name"] == "plan-Copy2.txt"
    assert (lab.team / "plan-Copy1.txt").read_text() == "theirs"


async def test_where_somebody_takes_each_name_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    look = lab.files.increment_filename

    async def beaten(*asked: Any, **more: Any) -> str:
        found: str = await look(*asked, **more)
        put_new(lab.team / found)
        return found

    monkeypatch.setattr(lab.files, "increment_filename", beaten)
    with pytest.raises(HTTPError, match="at the same time") as refused:
        await lab.files.new_untitled("team", ext=".txt")
    assert refused.value.status_code == 409


@pytest.mark.parametrize("content", [None, False, True], ids=["not looked at", "its hash alone", "read"])
@pytest.mark.parametrize("is_open", [True, False])
async def test_a_page_that_is_older_than_the_session_saves_nothing_into_a_file_of_others(
    lab: Lab, is_open: bool, content: bool | None
) -> None:
    """It shows what it read in an earlier one, as a closed file; that theirs has the same text says nothing."""
    plan = lab.team / "plan.txt"
    plan.chmod(0o666)
    os.chown(plan, SOMEBODY_ELSE, SOMEBODY_ELSE)
    if content is not None:
        await lab.files.get("team/plan.txt", content=content, require_hash=not content)
    headers = {"X-Portal-Open": "yes"} if is_open else {}
    CallContext.set(CallContext.JUPYTER_HANDLER, SimpleNamespace(request=SimpleNamespace(headers=headers)))

    assert await lab.save("team/plan.txt") == (403 if is_open and not content else 200)
    assert await lab.save("team/new.txt") == 200  # theirs was taken away
    assert (lab.team / "new.txt").stat().st_mode & 0o077 == (0 if is_open else 0o044)
    assert await lab.save("private/plan.txt") == 200
