"""An upload that was begun in a folder of one's own begins anew in none of others that took its place."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from portal.homes.held_files import own_known_file
from portal.homes.held_place import held
from portal.homes.readers import KnownFile
from portal.uploads import beginnings
from portal.uploads.beginnings import Beginnings
from portal.uploads.partial import Upload
from portal.uploads.refused import UploadRefused
from tests.unit.access_lists import ACCESS, open_to_one

DATA = b"hers alone"
SOMEBODY_ELSE = 4_000_000  # no account of this machine


class Project:
    """A folder of a project's, one in it where files are uploaded, and somebody who puts others in its place."""

    def __init__(self, team: Path) -> None:
        self.team = team
        self.known = Beginnings()
        self.folder = self.exchange(os.geteuid())

    def exchange(self, uid: int) -> Path:
        """Somebody puts a folder that belongs to a UID where the other one is."""
        folder = self.team / "folder"
        if folder.exists():
            folder.rename(self.team / f"old-{len(list(self.team.iterdir()))}")
        folder.mkdir()
        os.chown(folder, uid, uid)
        return folder

    def upload(self, name: str = "big.bin") -> Upload:
        """The next step of an upload, as each of its requests makes one."""
        return Upload(self.folder, name, len(DATA), "1", self.known)

    def write(self, offset: int, end: int = len(DATA)) -> None:
        """Send a part."""
        there = self.upload().opened(offset)
        there.write(DATA[offset:end])
        there.close()

    def state(self) -> object:
        """What the Lab is told: how far it is, or why it does not go on, which has nothing to begin anew from."""
        try:
            return self.upload().state()["offset"]
        except UploadRefused as refused:
            return refused.status, refused.offset, "is another one than when" in refused.message


@pytest.fixture
def project(tmp_path: Path) -> Project:
    tmp_path.chmod(0o777)
    return Project(tmp_path)


REFUSED = (403, None, True)


@pytest.mark.parametrize("is_whole", [False, True])
def test_what_began_in_a_folder_of_ones_own_does_not_begin_anew_in_one_of_others(
    project: Project, is_whole: bool
) -> None:
    project.write(0, len(DATA) if is_whole else 4)
    project.exchange(SOMEBODY_ELSE)

    assert project.state() == REFUSED
    for act in (lambda: project.write(4), lambda: project.write(0), lambda: project.upload().finish(replace=False)):
        with pytest.raises(UploadRefused, match="Look what that folder is, then cancel") as refused:
            act()
        assert (refused.value.status, refused.value.offset) == (403, None)
    assert list(project.folder.iterdir()) == []


def test_nor_where_it_has_just_been_looked_for(project: Project) -> None:
    assert project.state() == 0
    project.exchange(SOMEBODY_ELSE)
    with pytest.raises(UploadRefused):
        project.write(0)


def test_nor_when_the_answer_is_lost_that_it_has_its_name(project: Project) -> None:
    project.write(0)
    named = project.upload().finish(replace=False)
    assert project.upload().has_its_name(named)
    project.exchange(SOMEBODY_ELSE)
    with pytest.raises(UploadRefused):
        project.upload().has_its_name(named)
    assert project.state() == REFUSED


def test_what_was_cancelled_begins_where_the_person_wants_it(project: Project) -> None:
    project.write(0, 4)
    project.exchange(SOMEBODY_ELSE)
    assert project.state() == REFUSED
    project.upload().remove()
    project.write(0)
    project.upload().finish(replace=False)
    assert (project.folder / "big.bin").read_bytes() == DATA


def test_another_upload_into_that_folder_is_one_of_its_own(project: Project) -> None:
    project.write(0, 4)
    project.exchange(SOMEBODY_ELSE)
    assert project.upload("other.bin").state()["offset"] == 0


@pytest.mark.parametrize("uid", [SOMEBODY_ELSE, os.geteuid()])
def test_an_upload_into_a_folder_of_a_colleagues_begins_anew_where_that_is_made_anew(
    project: Project, uid: int
) -> None:
    """Or where one's own took its place."""
    project.exchange(SOMEBODY_ELSE)
    project.write(0, 4)
    project.exchange(uid)
    assert project.state() == 0
    project.write(0)
    project.upload().finish(replace=False)


def test_nor_does_it_go_from_one_colleague_to_another(project: Project) -> None:
    project.exchange(SOMEBODY_ELSE)
    project.write(0, 4)
    project.exchange(SOMEBODY_ELSE + 1)
    assert project.state() == REFUSED


def test_of_very_many_those_are_known_that_were_asked_for_last(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginnings, "KNOWN_MOST", 2)
    for name in ("first", "second", "first", "third"):
        project.upload(name).state()
    project.exchange(SOMEBODY_ELSE)
    for name in ("first", "third"):
        with pytest.raises(UploadRefused):
            project.upload(name).state()
    assert project.upload("second").state()["offset"] == 0


@pytest.mark.parametrize(("mode", "is_taken"), [(0o700, True), (0o750, False), (0o777, False)])
def test_nor_in_one_of_ones_own_that_others_can_read_where_they_could_not(
    project: Project, mode: int, is_taken: bool
) -> None:
    project.folder.chmod(0o700)
    project.write(0, 4)
    project.exchange(os.geteuid()).chmod(mode)

    assert project.state() == (0 if is_taken else REFUSED)


def test_a_folder_that_is_opened_to_others_meanwhile_is_the_same(project: Project) -> None:
    project.folder.chmod(0o700)
    project.write(0, 4)
    project.folder.chmod(0o775)

    assert project.state() == 4


@pytest.fixture
def closed(project: Project) -> Path:
    """Another file of the person's in that folder, which nobody else reads."""
    (project.folder / "closed.txt").write_bytes(b"nobody else's")
    (project.folder / "closed.txt").chmod(0o600)
    project.folder.chmod(0o777)
    return project.folder / "closed.txt"


@pytest.mark.parametrize("is_later", [False, True])
def test_another_closed_file_in_the_place_of_what_has_come_is_neither_written_nor_shown(
    project: Project, closed: Path, is_later: bool
) -> None:
    project.write(0, 4)
    part = project.folder / project.upload().partial
    part.rename(project.folder / "taken")
    closed.rename(part)
    if is_later:
        project.known = Beginnings()

    steps = (lambda: project.write(4), lambda: project.write(part.stat().st_size), lambda: project.write(0))
    for act in (*steps, lambda: project.upload().finish(replace=True)):
        with pytest.raises(UploadRefused):
            act()
    with pytest.raises(UploadRefused, match="another file of yours, which somebody may have put there"):
        project.write(part.stat().st_size)
    assert (part.read_bytes(), part.stat().st_mode & 0o777) == (b"nobody else's", 0o600)

    with pytest.raises(UploadRefused, match="another file of yours"):  # it is no part of an upload that is cancelled
        project.upload().remove()
    assert part.read_bytes() == b"nobody else's"


def test_nor_is_what_has_come_of_another_upload(project: Project) -> None:
    project.folder.chmod(0o777)
    project.write(0, 4)
    other = project.upload("other.bin")
    other.opened(0).close()
    part = project.folder / project.upload().partial
    part.rename(project.folder / other.partial)

    with pytest.raises(UploadRefused, match="not what this upload has made"):
        other.opened(4)
    part.with_name(other.partial).rename(part)
    project.write(4)
    project.upload().finish(replace=False)


@pytest.mark.parametrize(
    "other_is", ["of this session", "of an earlier session", "cancelled", "cancelled when both are gone"]
)
def test_nor_is_it_when_the_other_one_is_begun_again(project: Project, other_is: str) -> None:
    """What was refused stays so; and what was moved, so that no cancel took it away, is known further."""
    project.folder.chmod(0o777)
    other = project.upload("other.bin")
    other.opened(0).close()
    if other_is == "of an earlier session":
        project.known = Beginnings()
    project.write(0, 4)
    part = project.folder / project.upload().partial
    aside = part.rename(project.folder / "aside")
    if other_is == "cancelled when both are gone":
        (project.folder / other.partial).unlink()
        project.upload().remove()
        project.upload("other.bin").remove()
    aside.rename(project.folder / other.partial)
    if other_is == "cancelled":
        with pytest.raises(UploadRefused, match="another file of yours"):
            project.upload("other.bin").remove()

    with pytest.raises(UploadRefused, match="another file of yours"):
        project.upload("other.bin").opened(4)
    with pytest.raises(UploadRefused):
        project.upload("other.bin").finish(replace=True)
    assert not (project.folder / "other.bin").exists()


def test_an_upload_goes_on_by_another_way_to_its_folder(project: Project) -> None:
    project.folder.chmod(0o777)
    project.write(0, 4)
    (project.team / "way").symlink_to(project.folder)
    project.folder = project.team / "way"

    project.write(4)
    project.upload().finish(replace=False)
    assert (project.folder / "big.bin").read_bytes() == DATA


def test_a_file_that_is_made_with_the_number_of_an_earlier_one_is_its_uploads(project: Project) -> None:
    """As where a file system tells no births."""
    project.write(0, 4)
    with held(project.folder / project.upload().partial) as place:
        part = own_known_file(place.folder, place.name)
    assert part is not None
    known = Beginnings()
    known.made("first", part)
    known.made("second", part)
    assert (known.is_of("first", part), known.is_of("second", part)) == (False, True)


def test_nor_one_that_got_its_number(project: Project, closed: Path) -> None:
    """A file system gives the number of a file that is gone to the next one."""
    project.write(0, 4)
    part = project.folder / project.upload().partial
    part.unlink()
    closed.rename(part)
    with held(project.folder / "big.bin") as place:
        begun = project.known.check(project.upload(), place, project.folder / "big.bin")
    assert begun.part is not None
    begun.part = replace(begun.part, found=part.stat())

    with pytest.raises(UploadRefused, match="another file of yours"):
        project.write(part.stat().st_size)


def test_a_finish_that_fails_leaves_what_has_come_as_it_was(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.folder.chmod(0o777)
    project.write(0)
    (project.folder / "big.bin").write_text("came meanwhile")
    monkeypatch.setattr(Upload, "_replaced", lambda *_: None)
    with pytest.raises(UploadRefused, match="already, and it stays as it is"):
        project.upload().finish(replace=False)
    monkeypatch.undo()
    project.known = Beginnings()

    project.upload().finish(replace=True)
    assert (project.folder / "big.bin").read_bytes() == DATA


def test_what_its_person_opens_after_an_upload_stays_open_after_the_next(project: Project, closed: Path) -> None:
    place = project.folder / "big.bin"
    closed.rename(place)
    for mode in (0o600, 0o644):
        place.chmod(mode)
        project.write(0)
        project.upload().finish(replace=True)
        assert place.stat().st_mode & 0o777 == mode


def test_nor_where_it_is_as_long_as_the_file(project: Project, closed: Path) -> None:
    project.write(0)
    part = project.folder / project.upload().partial
    closed.write_bytes(b"x" * len(DATA))
    closed.rename(part)

    with pytest.raises(UploadRefused, match="another file of yours"):
        project.upload().finish(replace=False)
    assert part.stat().st_mode & 0o777 == 0o600


def test_an_upload_goes_on_in_a_later_session(project: Project) -> None:
    project.folder.chmod(0o777)
    project.write(0, 4)
    project.known = Beginnings()
    project.write(4)
    project.upload().finish(replace=False)

    assert (project.folder / "big.bin").read_bytes() == DATA
    assert project.folder.joinpath("big.bin").stat().st_mode & 0o400


def test_what_replaces_a_closed_file_is_closed_where_somebody_took_that_away(project: Project, closed: Path) -> None:
    closed.rename(project.folder / "big.bin")
    project.write(0)
    (project.folder / "big.bin").rename(project.folder / "taken")
    project.upload().finish(replace=False)

    assert (project.folder / "big.bin").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("there", ["nothing", "theirs", "an open one of hers"])
def test_nor_where_it_was_exchanged_after_the_session_had_opened_it(project: Project, closed: Path, there: str) -> None:
    target = closed.rename(project.folder / "big.bin")
    with target.open("rb") as file:
        known = {target: KnownFile.of(file.fileno())}
    project.known = Beginnings(known.get)
    target.unlink()
    if there != "nothing":
        target.write_text("exchanged")
        target.chmod(0o666)
        os.chown(target, SOMEBODY_ELSE if there == "theirs" else -1, -1)

    project.write(0)
    project.upload().finish(replace=True)
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (DATA, 0o600)


def test_nor_where_it_was_cancelled_meanwhile(project: Project, closed: Path) -> None:
    target = closed.rename(project.folder / "big.bin")
    project.write(0, 4)
    target.unlink()
    project.upload().remove()

    project.write(0)
    project.upload().finish(replace=False)
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("there", ["nothing", "an open file"])
def test_nor_where_it_was_begun_in_an_earlier_session(project: Project, closed: Path, there: str) -> None:
    target = closed.rename(project.folder / "big.bin")
    project.write(0, 4)
    target.unlink()
    if there == "an open file":
        target.write_text("hers")
        target.chmod(0o644)
    project.known = Beginnings()

    project.write(4)
    project.upload().finish(replace=True)
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (DATA, 0o600)


def test_what_replaces_a_file_with_an_access_list_has_that_list(project: Project) -> None:
    """Without it, what it gave to one person would be its group's."""
    target = project.folder / "big.bin"
    target.write_text("first")
    open_to_one(target, SOMEBODY_ELSE, 6, group=4)
    before = os.getxattr(target, ACCESS)
    project.write(0)
    project.upload().finish(replace=True)

    assert (target.read_bytes(), os.getxattr(target, ACCESS)) == (DATA, before)
    assert target.stat().st_mode & 0o777 == 0o660


def test_nor_does_it_go_into_a_folder_of_another_group(project: Project) -> None:
    """Whom it belongs to, both times, is root."""
    for group in (SOMEBODY_ELSE, SOMEBODY_ELSE + 1):
        folder = project.exchange(os.geteuid())
        os.chown(folder, -1, group)
        folder.chmod(0o2770)
        if group == SOMEBODY_ELSE:
            project.write(0, 4)

    assert project.state() == REFUSED
