"""Files in folders that others can change: which links are followed, and what is left where a write fails."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from portal.homes import held_files, held_place, own_folder
from portal.homes.held_place import LinkOfOthers, held, is_own_all_the_way
from portal.homes.readers import Readers
from tests.unit.access_lists import ACCESS, DEFAULT, open_to_one

SOMEBODY_ELSE = 4_000_000  # no account of this machine
PERSON = 4_000_001  # nor this


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that everybody can change."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies there is of others: whoever asks is somebody else."""
    monkeypatch.setattr(own_folder, "ROOT", SOMEBODY_ELSE)
    monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)


def test_a_link_of_ones_own_is_followed_wherever_it_lies(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "far/deep").mkdir(parents=True)
    (shared / "far").symlink_to("../far")
    (shared / "far/deep/again").symlink_to(tmp_path / "far")
    with held(shared / "far/deep/again/file") as place, place.written() as file:
        file.write(b"words")
    assert (tmp_path / "far/file").read_bytes() == b"words"
    assert not place.is_private


@pytest.mark.parametrize("path", ["file", "folder/file", "folder/../own"])
def test_a_link_of_others_is_not_followed(shared: Path, tmp_path: Path, others: None, path: str) -> None:
    (tmp_path / "hers").mkdir()
    (tmp_path / "hers/file").write_text("hers")
    (shared / "file").symlink_to(tmp_path / "hers/file")
    (shared / "folder").symlink_to(tmp_path / "hers")
    with pytest.raises(LinkOfOthers) as refused, held(shared / path):
        pass
    assert refused.value.filename == path.partition("/")[0]


@pytest.mark.parametrize(
    ("mode", "owner", "is_followed"), [(0o755, 0, True), (0o1777, 0, False), (0o755, PERSON, False)]
)
def test_a_link_of_others_that_root_alone_can_have_put_there_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, is_followed: bool
) -> None:
    """As /scratch is, where an administrator brought the links along with their owners."""
    (tmp_path / "scratch").symlink_to("far")
    (tmp_path / "far").mkdir()
    os.lchown(tmp_path / "scratch", SOMEBODY_ELSE, SOMEBODY_ELSE)
    tmp_path.chmod(mode)
    os.chown(tmp_path, owner, owner)
    monkeypatch.setattr("os.geteuid", lambda: PERSON)
    if is_followed:
        with held(tmp_path / "scratch/file") as place:
            assert place.is_private
    else:
        with pytest.raises(LinkOfOthers), held(tmp_path / "scratch/file"):
            pass


def test_a_link_at_the_end_can_be_meant_itself(shared: Path, others: None) -> None:
    (shared / "file").symlink_to("elsewhere")
    with held(shared / "file", follow=False) as place:
        assert os.readlink(place.name, dir_fd=place.folder) == "elsewhere"
    with pytest.raises(OSError, match="Invalid argument"), held(shared / "..", follow=False):
        pass


def test_a_link_that_is_put_there_in_the_last_moment_is_not_followed(shared: Path, tmp_path: Path) -> None:
    hers = tmp_path / "hers"
    hers.write_text("hers")
    with held(shared / "file") as place:
        (shared / "file").symlink_to(hers)
        for append in (True, False):
            with pytest.raises(LinkOfOthers), place.written(append=append) as file:
                file.write(b"theirs")
    assert hers.read_text() == "hers"


def test_a_folder_that_is_moved_away_in_the_last_moment_is_still_the_one(shared: Path, tmp_path: Path) -> None:
    (shared / "folder").mkdir()
    (tmp_path / "hers").mkdir()
    with held(shared / "folder/file") as place:
        (shared / "folder").rename(shared / "moved")
        (shared / "folder").symlink_to(tmp_path / "hers")
        with place.written() as file:
            file.write(b"words")
    assert (shared / "moved/file").read_bytes() == b"words"
    assert not list((tmp_path / "hers").iterdir())


@pytest.mark.parametrize("before", [b"before", None])
@pytest.mark.parametrize("append", [True, False])
def test_a_write_that_fails_leaves_what_was_there(shared: Path, before: bytes | None, append: bool) -> None:
    if before:
        (shared / "file").write_bytes(before)
    with pytest.raises(ZeroDivisionError), held(shared / "file") as place, place.written(append=append) as file:
        file.write(b"x" * 3_000_000)
        1 / 0  # noqa: B018
    found = {path.name: path.read_bytes() for path in shared.iterdir()}
    assert found == {"file": before or b""}


def test_who_is_killed_meanwhile_has_what_was_there_beside_the_file(shared: Path) -> None:
    (shared / "file").write_bytes(b"before")
    (shared / ".~file").symlink_to(shared / "somewhere")
    child = os.fork()
    if not child:
        with held(shared / "file") as place, place.written():
            os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    (kept,) = shared.glob(".~file.*")
    assert kept.read_bytes() == b"before"
    assert not (shared / "somewhere").exists()


def test_a_file_keeps_its_mode_and_is_the_same_file(shared: Path) -> None:
    (shared / "file").write_bytes(b"before and long")
    (shared / "file").chmod(0o664)
    before = (shared / "file").stat()
    with held(shared / "file") as place, place.written() as file:
        file.write(b"after")
    after = (shared / "file").stat()
    assert (after.st_ino, stat.S_IMODE(after.st_mode), after.st_size) == (before.st_ino, 0o664, 5)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder another group")
@pytest.mark.parametrize(("is_member", "mode_after"), [(True, 0o640), (False, 0o600)])
def test_a_file_in_the_place_of_another_one_gives_its_rights_to_no_group_of_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_member: bool, mode_after: int
) -> None:
    (tmp_path / "notes").write_bytes(b"before")
    (tmp_path / "notes").chmod(0o640)
    group = (tmp_path / "notes").stat().st_gid
    os.chown(tmp_path, -1, SOMEBODY_ELSE)
    tmp_path.chmod(0o2775)
    if not is_member:
        monkeypatch.setattr("os.fchown", Mock(side_effect=PermissionError))

    with held(tmp_path / "notes") as place:
        held_files.put(place, b"after")

    after = (tmp_path / "notes").stat()
    assert (tmp_path / "notes").read_bytes() == b"after"
    assert (stat.S_IMODE(after.st_mode), after.st_gid) == (mode_after, group if is_member else SOMEBODY_ELSE)


def test_a_pipe_is_refused_and_nobody_waits_for_it(shared: Path) -> None:
    os.mkfifo(shared / "pipe")
    with pytest.raises(OSError), held(shared / "pipe") as place, place.written():
        pass


def test_links_in_a_circle_end(shared: Path) -> None:
    (shared / "a").symlink_to("b")
    (shared / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"), held(shared / "a/file"):
        pass


def test_a_file_on_the_way_is_no_folder(shared: Path) -> None:
    (shared / "file").touch()
    with pytest.raises(NotADirectoryError), held(shared / "file/other"):
        pass


def test_a_folder_that_may_only_be_passed_is_passed(shared: Path) -> None:
    (shared / "passed").mkdir()
    (shared / "passed/inner").mkdir()
    (shared / "passed").chmod(0o311)
    with held(shared / "passed/inner/file") as place, place.written() as file:
        file.write(b"words")
    (shared / "passed").chmod(0o755)
    assert (shared / "passed/inner/file").read_bytes() == b"words"


def test_where_what_was_there_cannot_be_put_back_its_copy_stays(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "file").write_bytes(b"before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(held_place, "put_back", full)
    with pytest.raises(OSError, match="No space left"), held(shared / "file") as place, place.written() as file:
        file.write(b"after")
        1 / 0  # noqa: B018
    (kept,) = shared.glob(".~file.*")
    assert kept.read_bytes() == b"before"


@pytest.mark.parametrize(("mode", "is_own"), [(0o755, True), (0o1777, True), (0o777, False), (0o775, False)])
def test_a_folder_is_ones_own_where_nobody_can_put_another_in_its_place(
    tmp_path: Path, mode: int, is_own: bool
) -> None:
    (tmp_path / "team/mine/deep").mkdir(parents=True)
    (tmp_path / "team").chmod(mode)
    assert is_own_all_the_way(tmp_path / "team/mine/deep") == is_own
    (tmp_path / "by-link").symlink_to("team/mine")
    assert is_own_all_the_way(tmp_path / "by-link/deep") == is_own
    assert not is_own_all_the_way(tmp_path / "none")


def test_a_folder_that_a_link_in_a_shared_one_leads_to_is_not_ones_own_there(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (shared / "mine").symlink_to(tmp_path / "mine")
    assert is_own_all_the_way(tmp_path / "mine")
    assert not is_own_all_the_way(shared / "mine")


def test_of_what_is_longer_than_what_is_opened_nothing_is_kept(shared: Path) -> None:
    with (shared / "long").open("wb") as there:
        there.truncate(held_place.KEPT_MAX + 1)

    with held(shared / "long") as place, place.written() as new:
        assert [one.name for one in shared.iterdir()] == ["long"]
        new.write(b"short")

    assert (shared / "long").read_bytes() == b"short"


def test_nor_of_what_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not even read."""
    (shared / "theirs").write_text("theirs")
    monkeypatch.setattr(held_place, "copy_content", Mock(side_effect=AssertionError))
    refused = Mock(side_effect=PermissionError)

    with held(shared / "theirs") as place, pytest.raises(PermissionError), place.written(seen=refused):
        pass

    assert (shared / "theirs").read_text() == "theirs"


def test_what_is_kept_while_a_file_is_written_has_its_holes(shared: Path, tmp_path: Path) -> None:
    file = shared / "long"
    with file.open("wb") as there:
        there.truncate(2**27)
    (tmp_path / "kept").mkdir()

    with held(file) as place, place.written() as new:
        (kept,) = (one for one in shared.iterdir() if one != file)
        assert (kept.stat().st_size, kept.stat().st_blocks * 512 < 2**20) == (2**27, True)
        new.write(b"short")

    assert file.read_bytes() == b"short"


@pytest.mark.parametrize(
    ("mode", "owner", "is_sure"), [(0o1777, PERSON, False), (0o1777, 0, True), (0o1755, PERSON, True)]
)
def test_others_may_have_moved_ones_own_link_into_a_sticky_folder(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, is_sure: bool
) -> None:
    """From a folder of a group on the same file system; a link of root's in one of root's is an administrator's."""
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/text").write_text("years")
    for name in ("thesis", "thesis/text"):
        os.chown(tmp_path / name, PERSON, PERSON)
    for name in ("thesis", "thesis/text"):
        (shared / Path(name).name).symlink_to(tmp_path / name)
        os.lchown(shared / Path(name).name, owner, owner)
    shared.chmod(mode)
    monkeypatch.setattr("os.geteuid", lambda: PERSON)

    assert is_own_all_the_way(shared / "thesis") == is_sure
    with held(shared / "text") as place:
        assert bool(place.through) != is_sure
    for path in ("text", "thesis/text"):
        with suppress(LinkOfOthers) if not is_sure else nullcontext(), held(shared / path, moved=False):
            assert is_sure


def test_a_folder_of_ones_own_in_a_sticky_one_is_ones_own(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "mine").mkdir()
    os.chown(shared / "mine", PERSON, PERSON)
    shared.chmod(0o1777)
    monkeypatch.setattr("os.geteuid", lambda: PERSON)
    assert is_own_all_the_way(shared / "mine")


@pytest.mark.parametrize("becomes", [None, 0o666])
def test_what_replaces_a_closed_file_is_as_closed_where_others_took_that_away(
    shared: Path, becomes: int | None
) -> None:
    """Or put another one of the person's own in its place."""
    (shared / "file").write_text("first")
    (shared / "file").chmod(0o600)
    with held(shared / "file") as place:
        before = held_files.own_known_file(place.folder, place.name)
        for text in (b"second", b"third"):
            (shared / "file").rename(shared / "taken")
            if becomes:
                (shared / "file").write_text("another")
                (shared / "file").chmod(becomes)
            before = held_files.put(place, text, before)
            assert (shared / "file").stat().st_mode & 0o777 == 0o600


def test_nor_where_they_exchanged_it_before_it_had_its_name(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there then is no measure of what is put there next."""
    (shared / "file").write_text("first")
    (shared / "file").chmod(0o600)
    rename = os.rename

    def exchanged(beside: str, name: str, **places: int) -> None:
        (shared / beside).unlink()
        (shared / beside).write_text("another")
        (shared / beside).chmod(0o666)
        rename(beside, name, **places)

    with held(shared / "file") as place:
        with monkeypatch.context() as others:
            others.setattr(os, "rename", exchanged)
            before = held_files.put(place, b"second", held_files.own_known_file(place.folder, place.name))
        held_files.put(place, b"third", before)

    assert (shared / "file").read_bytes() == b"third"
    assert (shared / "file").stat().st_mode & 0o777 == 0o600


def test_what_its_person_opens_meanwhile_stays_open(shared: Path) -> None:
    with held(shared / "file") as place:
        before = held_files.put(place, b"first")
        (shared / "file").chmod(0o604)
        held_files.put(place, b"second", before)

    assert (shared / "file").stat().st_mode & 0o777 == 0o604


def test_what_replaces_a_file_with_an_access_list_has_that_list(shared: Path) -> None:
    """Without it, what it gave to one person would be its group's."""
    (shared / "file").write_text("first")
    open_to_one(shared / "file", 4_000_007, 6, group=4)
    before = os.getxattr(shared / "file", ACCESS)
    with held(shared / "file") as place:
        held_files.put(place, b"second")

    assert (shared / "file").read_bytes() == b"second"
    assert os.getxattr(shared / "file", ACCESS) == before
    assert (shared / "file").stat().st_mode & 0o777 == 0o660


def test_the_list_opens_nothing_before_the_mode_does(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for that moment would have the new one."""
    (shared / "file").write_text("first")
    open_to_one(shared / "file", 4_000_007, 6, group=4)
    readers: list[Readers] = []
    give = os.setxattr

    def and_look(descriptor: int, *told: Any) -> None:
        give(descriptor, *told)
        readers.append(Readers.of(descriptor))

    monkeypatch.setattr(os, "setxattr", and_look)
    with held(shared / "file") as place:
        held_files.put(place, b"second")

    assert [(one.everybody, one.groups, one.people) for one in readers] == [(False, frozenset(), frozenset())]


@pytest.mark.parametrize(("group", "mode"), [(0, 0o600), (4, 0o640)])
def test_where_it_gets_none_its_group_has_not_what_the_list_gave(
    shared: Path, monkeypatch: pytest.MonkeyPatch, group: int, mode: int
) -> None:
    (shared / "file").write_text("first")
    open_to_one(shared / "file", 4_000_007, 6, group=group)
    monkeypatch.setattr(os, "setxattr", Mock(side_effect=OSError))
    with held(shared / "file") as place:
        held_files.put(place, b"second")

    assert ACCESS not in os.listxattr(shared / "file")
    assert (shared / "file").stat().st_mode & 0o777 == mode


def test_what_replaces_a_file_without_a_list_is_not_shown_to_whom_the_folders_list_names(shared: Path) -> None:
    (shared / "file").write_text("first")
    (shared / "file").chmod(0o640)
    open_to_one(shared, 4_000_007, 6, group=6, name=DEFAULT)
    with held(shared / "file") as place:
        held_files.put(place, b"second")

    assert ACCESS not in os.listxattr(shared / "file")
    assert (shared / "file").stat().st_mode & 0o777 == 0o640
