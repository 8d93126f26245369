"""Links that somebody else made, or may have put where they are: in a folder of one's own they are not followed either.

JupyterLab moves what it is told to, and a program as mv does so, too: the link keeps whose it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tornado.web import HTTPError

from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.homes import held_files
from portal.homes.held_place import LinkOfOthers, held, is_own_all_the_way
from portal.singleuser.own_files import OwnFiles
from portal.uploads.partial import Upload
from portal.uploads.refused import UploadRefused

SOMEBODY_ELSE = 4_000_000  # no account of this machine


class Lab:
    """A home with a folder that others can change, and one of the person's own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.shared = home / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o777)
        self.own = home / "own"
        self.own.mkdir()
        self.key = home / "key.txt"
        self.key.write_text("key")
        self.files: Any = OwnFiles(root_dir=str(home), checkpoints_class=OwnCheckpoints)

    def link(self, name: str, target: Path, uid: int = SOMEBODY_ELSE) -> Path:
        """A link, of somebody else's where nothing else is said."""
        link = self.home / name
        link.symlink_to(target)
        os.lchown(link, uid, uid)
        return link

    async def refused(self, act: str, *arguments: Any) -> str:
        """What JupyterLab is answered where something is refused."""
        with pytest.raises(HTTPError) as refused:
            await getattr(self.files, act)(*arguments)
        assert refused.value.status_code == 403
        return str(refused.value)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return Lab(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved(path: str) -> tuple[str, dict[str, str], str]:
    return "save", {"type": "file", "format": "text", "content": "theirs"}, path


async def test_a_link_of_others_that_somebody_moved_is_not_written_through(lab: Lab) -> None:
    lab.link("own/plan.txt", lab.key)

    said = await lab.refused(*saved("own/plan.txt"))

    assert "plan.txt is a link that somebody else made, or may have put there" in said
    assert "make a link of your own" in said
    assert lab.key.read_text() == "key"


async def test_a_folder_behind_such_a_link_is_none_of_ones_own(lab: Lab) -> None:
    lab.link("own/data", lab.home)

    assert not is_own_all_the_way(lab.own / "data")
    await lab.refused(*saved("own/data/key.txt"))
    await lab.refused("delete_file", "own/data/key.txt")
    await lab.refused("rename_file", "own/data/key.txt", "own/key.txt")
    await lab.refused("copy", "own/data/key.txt", "own")
    with pytest.raises(UploadRefused):
        Upload(lab.own / "data", "new.txt", 3, "1").opened(0)
    assert lab.key.read_text() == "key"


@pytest.mark.parametrize("whose", ["the person's", "root's"])
async def test_a_link_of_ones_own_or_of_roots_is_followed_there(
    lab: Lab, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if whose == "root's":
        for path in (lab.key, lab.own, lab.home):
            os.chown(path, SOMEBODY_ELSE, SOMEBODY_ELSE)
        monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)
    lab.link("own/plan.txt", lab.key, uid=0)

    with held(lab.own / "plan.txt") as place:
        assert (place.name, place.is_private, place.through) == ("key.txt", True, "")


async def test_a_link_of_others_is_not_moved_out_of_its_folder(lab: Lab) -> None:
    lab.link("shared/plan.txt", lab.key)
    lab.link("shared/data", lab.own)
    (lab.shared / "deep").mkdir()

    said = await lab.refused("rename_file", "shared/plan.txt", "own/plan.txt")
    await lab.refused("rename_file", "shared/data", "data")
    await lab.refused("rename_file", "shared/data", "shared/deep/data")

    assert "plan.txt is a link in a folder that others can change: it can be renamed there" in said
    assert names(lab.shared) == ["data", "deep", "plan.txt"]


async def test_it_is_renamed_where_it_is_and_deleted(lab: Lab) -> None:
    link = lab.link("shared/plan.txt", lab.key)

    await lab.files.rename_file("shared/plan.txt", "shared/old.txt")
    assert link.with_name("old.txt").readlink() == lab.key
    await lab.files.delete_file("shared/old.txt")

    assert names(lab.shared) == []
    assert (lab.home / ".local/share/Trash/files/old.txt").readlink() == lab.key
    assert lab.key.read_text() == "key"


async def test_a_link_of_ones_own_that_others_may_have_moved_comes_into_no_private_folder(lab: Lab) -> None:
    lab.link("shared/plan.txt", lab.key, uid=os.getuid())
    (lab.shared / "deep").mkdir()
    (lab.shared / "deep").chmod(0o777)

    await lab.refused("rename_file", "shared/plan.txt", "own/plan.txt")
    await lab.files.rename_file("shared/plan.txt", "shared/deep/plan.txt")  # there it is followed no more than here

    assert names(lab.own) == []
    await lab.refused(*saved("shared/deep/plan.txt"))


async def test_links_of_a_folder_of_ones_own_are_moved(lab: Lab) -> None:
    lab.link("own/mine.txt", lab.key, uid=os.getuid())

    await lab.files.rename_file("own/mine.txt", "mine.txt")
    await lab.files.rename_file("mine.txt", "shared/mine.txt")

    assert (lab.shared / "mine.txt").readlink() == lab.key


@pytest.mark.parametrize("uid", [SOMEBODY_ELSE, 0])
@pytest.mark.parametrize("again", ["", "file", "away"])
async def test_a_link_that_is_put_there_in_the_last_moment_does_not_stay_where_it_is_moved_to(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, uid: int, again: str
) -> None:
    (lab.shared / "plan.txt").write_text("plan")
    usual: Callable[..., None] = os.rename

    def rename(source: str, target: str, **kwargs: Any) -> None:
        if (lab.shared / "plan.txt").is_file() and not (lab.shared / "plan.txt").is_symlink():
            (lab.shared / "plan.txt").unlink()
            lab.link("shared/plan.txt", lab.key, uid)
            usual(source, target, **kwargs)
            if again == "file":
                (lab.shared / "plan.txt").write_text("another")
        elif again == "away":
            raise PermissionError
        else:
            usual(source, target, **kwargs)

    monkeypatch.setattr("os.rename", rename)
    await lab.refused("rename_file", "shared/plan.txt", "own/plan.txt")

    assert names(lab.own) == []
    found = {one.name: str(one.readlink()) if one.is_symlink() else one.read_text() for one in lab.shared.iterdir()}
    assert found == {"": {"plan.txt": str(lab.key)}, "file": {"plan.txt": "another"}, "away": {}}[again]
    assert lab.key.read_text() == "key"


def test_a_link_that_was_moved_is_told_apart_from_what_is_missing(lab: Lab) -> None:
    with (
        held(lab.shared / "none", follow=False) as source,
        held(lab.own / "none", follow=False) as target,
        pytest.raises(FileNotFoundError),
    ):
        held_files.move(source, target)
    lab.link("own/gone.txt", lab.home / "none")
    with pytest.raises(LinkOfOthers), held(lab.own / "gone.txt"):
        pass


@pytest.mark.parametrize(("mode", "is_copied"), [(0o777, False), (0o2775, False), (0o755, True)])
async def test_a_link_that_others_may_have_put_into_a_folder_is_not_copied_with_it(
    lab: Lab, mode: int, is_copied: bool
) -> None:
    """Of the person's own: the copy of others' folder is a folder of one's own, where it would be followed."""
    (lab.shared / "deep").mkdir()
    lab.link("shared/deep/plan.txt", lab.key, uid=os.getuid())
    lab.link("shared/deep/near.txt", Path("plan.txt"), uid=os.getuid())
    (lab.shared / "deep").chmod(mode)

    if is_copied:
        await lab.files.copy("shared/deep", "own")
    else:
        words = (
            r"without: .*plan.txt \(is a link in a folder that others can change\).*\. .* umask 002, "
            r".*: portal chmod g-w"
        )
        with pytest.raises(HTTPError, match=words):
            await lab.files.copy("shared/deep", "own")

    assert names(lab.own / "deep") == ["near.txt", "plan.txt"] * is_copied  # without the other one it leads nowhere
