"""Copies of templates in a folder that others can change: what they put there is neither written nor taken."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.gallery import copies, new_name, told, units
from portal.gallery.compare import compare
from portal.gallery.files import HeldFolder
from portal.gallery.pages import Gallery
from portal.gallery.stamp import STAMP, Stamp, TemplateRefused
from portal.homes import own_folder
from tests.lessons import lesson, ran, write

SOMEBODY_ELSE = 4_000_000  # no account of this machine
LINKS = "../../templates/tf"


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder of templates."""
    folder = tmp_path / "shelf"
    write(folder / "tf/first.ipynb", lesson("open('data/numbers.csv')", "See [the next](second.ipynb)."))
    write(folder / "tf/second.ipynb", lesson("print(2)"))
    write(folder / "tf/data/numbers.csv", "1,2\n")
    return folder


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A project's folder, which everybody can change, with another folder of the person's in it."""
    folder = tmp_path / "home/project"
    write(folder / "results/first.ipynb", "mine")
    folder.chmod(0o777)
    return folder


def first(shelf: Path) -> units.Unit:
    return units.find((shelf,))["tf/first"]


def update(copy: Path, shelf: Path) -> copies.Outcome:
    with HeldFolder.at(copy) as folder:
        return copies.update(folder, units.find((shelf,)))


def exchange(shared: Path, put: str) -> None:
    """What somebody does with the folder that is being made, as soon as it is there."""
    (building,) = shared.glob(".new-template-*")
    building.rename(shared / "moved")
    if put == "a link":
        building.symlink_to("results")
    elif put == "another folder":
        (shared / "results").rename(building)


def assert_untouched(shared: Path) -> None:
    """The person's other folder is as it was, whatever it is called now."""
    (hers,) = (one for one in shared.rglob("first.ipynb") if one.read_text() == "mine")
    assert [one.name for one in hers.parent.iterdir()] == ["first.ipynb"]


@pytest.mark.parametrize("put", ["a link", "another folder", "nothing"])
def test_a_folder_that_is_exchanged_as_soon_as_it_is_made_is_not_written(
    shelf: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, put: str
) -> None:
    before = os.mkdir

    def made(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        before(path, mode, dir_fd=dir_fd)
        if ".new-template" in str(path):
            exchange(shared, put)

    monkeypatch.setattr("os.mkdir", made)
    with pytest.raises(OSError, match=r"No such file|Not a directory|is not the folder any more"):
        copies.make(first(shelf), shared)
    assert_untouched(shared)
    assert not (shared / "tf-first").exists()


@pytest.mark.parametrize("put", ["a link", "another folder", "nothing"])
def test_a_folder_that_is_exchanged_while_it_is_written_gets_no_name(
    shelf: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, put: str
) -> None:
    before = Stamp.write

    def written(stamp: Stamp, folder: HeldFolder) -> None:
        before(stamp, folder)
        exchange(shared, put)

    monkeypatch.setattr(Stamp, "write", written)
    with pytest.raises(TemplateRefused, match=r"somebody who can change .* put something else in its place"):
        copies.make(first(shelf), shared)
    assert_untouched(shared)
    assert not os.path.lexists(shared / "tf-first")
    assert list((shared / "moved").iterdir()) == []


def test_what_got_the_name_is_told_where_it_is_not_what_was_made(
    shelf: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(folder: HeldFolder, old: str, new: str) -> None:
        exchange(shared, "another folder")
        os.rename(shared / old, shared / new)  # noqa: PTH104

    monkeypatch.setattr(HeldFolder, "give_name", given, raising=False)
    with pytest.raises(TemplateRefused, match=r"What lies at .*/tf-first is not yours to trust"):
        copies.make(first(shelf), shared)
    assert_untouched(shared)


def test_a_failure_takes_away_what_was_made_and_nothing_else(
    shelf: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(stamp: Stamp, folder: HeldFolder) -> None:
        (building,) = shared.glob(".new-template-*")
        (shared / "results").rename(building / "results")  # where others can change that one, too
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Stamp, "write", full)
    with pytest.raises(OSError, match="No space"):
        copies.make(first(shelf), shared)
    (building,) = shared.iterdir()
    assert [one.name for one in building.iterdir()] == ["results"]
    assert_untouched(shared)


@pytest.mark.parametrize("is_known", [True, False])
def test_an_empty_folder_that_somebody_just_made_is_not_replaced(
    shelf: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """On file systems that know RENAME_NOREPLACE, and on those that do not, as NFS."""

    def unknown(folder: int, old: str, new: str) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), new)

    if not is_known:
        monkeypatch.setattr(new_name, "_rename", unknown)
    monkeypatch.setattr("os.path.lexists", lambda _: False)  # who looked saw nothing yet
    (shared / "tf-first").mkdir()
    (shared / "tf-first-2").symlink_to("results")
    (shared / "tf-first-3").write_text("a file")
    theirs = (shared / "tf-first").stat().st_ino
    assert copies.make(first(shelf), shared) == shared / "tf-first-4"
    assert (shared / "tf-first").stat().st_ino == theirs
    assert (shared / "tf-first-4/data/numbers.csv").read_text() == "1,2\n"
    assert_untouched(shared)


def test_a_name_that_cannot_be_given_is_not_left_taken(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(folder: int, old: str, new: str) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), new)

    monkeypatch.setattr(new_name, "_rename", unknown)
    with HeldFolder.at(shared) as folder, pytest.raises(FileNotFoundError):
        folder.give_name("gone", "new")
    assert [one.name for one in shared.iterdir()] == ["results"]


def test_a_folder_behind_a_link_of_others_gets_no_copy(
    shelf: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shared / "here").symlink_to("results")
    monkeypatch.setattr(own_folder, "ROOT", SOMEBODY_ELSE)
    monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)
    with pytest.raises(TemplateRefused, match="cannot be done: here is somebody else's link"):
        told.main_copy([shelf], "tf/first", shared / "here")
    assert_untouched(shared)


def test_a_link_of_ones_own_leads_to_where_copies_are_made(shelf: Path, shared: Path) -> None:
    (shared / "here").symlink_to("results")
    assert copies.make(first(shelf), shared / "here") == shared / "here/tf-first"
    assert (shared / "results/tf-first/first.ipynb").is_file()


# -- the stamp ------------------------------------------------------------------------------------------


def looks() -> dict[str, Callable[[HeldFolder, dict[str, units.Unit]], object]]:
    return {"state": copies.state, "compare": compare, "update": copies.update, "reset": copies.reset}


@pytest.mark.parametrize("act", looks())
@pytest.mark.parametrize(
    "links",
    [
        "javascript:alert(1)//templates/tf",
        "/home/mallory/templates/tf",
        "//mallory.example/templates/tf",
        "../../templates/tf\n",
        "../../templates/tf) <img src=x onerror=alert(1)> [x](templates/tf",
        "../../templates/mallory",
        "../../projects/../templates/tf",
        "../x/templates/tf",
        "templates/tf",
        "../../Templates/tf",
    ],
)
def test_links_that_no_catalogue_gives_are_refused(shelf: Path, shared: Path, links: str, act: str) -> None:
    copy = copies.make(first(shelf), shared, LINKS)
    stamp = json.loads((copy / STAMP).read_text())
    (copy / STAMP).write_text(json.dumps({**stamp, "links": links}))
    before = {one: one.read_bytes() for one in copy.rglob("*") if one.is_file()}
    with HeldFolder.at(copy) as folder, pytest.raises(TemplateRefused, match="is not your catalogue"):
        looks()[act](folder, units.find((shelf,)))
    assert {one: one.read_bytes() for one in copy.rglob("*") if one.is_file()} == before


def test_links_of_ones_own_copy_lead_to_no_folder_of_others(
    shelf: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copies.make(first(shelf), shared, "../templates/tf")
    write(shared / "templates/tf/second.ipynb", "theirs")
    monkeypatch.setattr("portal.gallery.files.is_of_others", lambda _: True, raising=False)
    with HeldFolder.at(copy) as folder, pytest.raises(TemplateRefused, match="is not your catalogue"):
        copies.state(folder, units.find((shelf,)))


def test_a_copy_that_was_moved_is_looked_at_as_before(shelf: Path, shared: Path) -> None:
    copy = copies.make(first(shelf), shared, LINKS)
    (shared / "deep/er").mkdir(parents=True)
    moved = copy.rename(shared / "deep/er/mine")
    with HeldFolder.at(moved) as folder:
        assert copies.state(folder, units.find((shelf,))).word == "same"


def test_an_endless_stamp_is_none(shelf: Path, shared: Path) -> None:
    copy = copies.make(first(shelf), shared, LINKS)
    stamp = json.loads((copy / STAMP).read_text())
    stamp["files"] |= {str(number): "0" * 64 for number in range(20_000)}
    (copy / STAMP).write_text(json.dumps(stamp))
    with HeldFolder.at(copy) as folder, pytest.raises(TemplateRefused, match="is no copy of a template"):
        copies.state(folder, units.find((shelf,)))


def test_the_name_of_a_folder_steers_no_terminal(shelf: Path, shared: Path) -> None:
    (shared / "\x1b]0;taken\x07").mkdir()
    with pytest.raises(TemplateRefused) as refused:
        told.main_state([shelf], shared / "\x1b]0;taken\x07")
    assert "?]0;taken? is no copy of a template" in refused.value.message
    assert "\x1b" not in refused.value.message


# -- the new version beside a copy ----------------------------------------------------------------------


@pytest.fixture
def both(shelf: Path, shared: Path) -> Path:
    """A copy in which the person and the template changed the same file."""
    copy = copies.make(first(shelf), shared, LINKS)
    ran(copy / "first.ipynb", "print('mine')")
    write(shelf / "tf/first.ipynb", lesson("print('newer')"))
    return copy


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to somebody else")
def test_somebody_elses_copy_is_not_called_the_new_version_of_mine(both: Path, shelf: Path, shared: Path) -> None:
    theirs = copies.make(first(shelf), shared, LINKS)
    os.chown(theirs, SOMEBODY_ELSE, -1)
    assert theirs == shared / "tf-first-2"
    assert update(both, shelf).beside == shared / "tf-first-3"
    assert update(both, shelf).beside == shared / "tf-first-3"


def test_links_and_pipes_that_are_called_like_copies_are_passed_by(both: Path, shelf: Path, shared: Path) -> None:
    os.mkfifo(shared / "tf-first-2")
    (shared / "tf-first-3").mkdir()
    os.mkfifo(shared / "tf-first-3" / STAMP)
    elsewhere = copies.make(first(shelf), shared / "results", LINKS)
    (shared / "tf-first-4").symlink_to(elsewhere)
    assert update(both, shelf).beside == shared / "tf-first-5"


def test_other_things_in_the_folder_are_not_looked_at(
    both: Path, shelf: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(copies.MOST_COPIES, 4 * copies.MOST_COPIES):
        (shared / f"tf-first-{number}").mkdir()
    looked: list[str] = []
    before = Stamp.read

    def read(folder: HeldFolder) -> Stamp:
        looked.append(folder.path.name)
        return before(folder)

    monkeypatch.setattr(Stamp, "read", read)
    assert update(both, shelf).beside == shared / "tf-first-2"
    assert set(looked) == {"tf-first"}


def test_a_copy_that_is_moved_meanwhile_gets_no_new_version_beside(both: Path, shelf: Path, shared: Path) -> None:
    with HeldFolder.at(both) as folder:
        both.rename(shared / "results/tf-first")
        with pytest.raises(OSError, match="is not the folder any more"):
            copies.update(folder, units.find((shelf,)))
    assert not (shared / "results/tf-first-2").exists()


# -- as the pages offer it ------------------------------------------------------------------------------


def test_the_pages_make_a_copy_and_put_a_newer_version_beside_it(shelf: Path, shared: Path) -> None:
    home = shared.parent
    (home / "here").symlink_to("project")
    gallery = Gallery(home, (shelf,))
    assert gallery.new("tf/first", "here") == {"path": "here/tf-first/first.ipynb"}
    assert "[the next](../../templates/tf/second.ipynb)" in (shared / "tf-first/first.ipynb").read_text()
    ran(shared / "tf-first/first.ipynb", "print('mine')")
    write(shelf / "tf/first.ipynb", lesson("print('newer')"))
    assert gallery.copy("here/tf-first/first.ipynb")["state"] == "both"
    assert gallery.act("here/tf-first", "update")["path"] == "here/tf-first-2"
    assert gallery.act("here/tf-first-2", "reset")["path"] == "here/tf-first-2"


@pytest.mark.parametrize(
    ("folder", "words"),
    [("gone", "There is no folder"), ("templates", "is in the catalogue"), ("../x", "is not below your files")],
)
def test_the_pages_refuse_folders_that_are_not_for_copies(shelf: Path, shared: Path, folder: str, words: str) -> None:
    (shared.parent / "templates").mkdir()
    with pytest.raises(TemplateRefused, match=words):
        Gallery(shared.parent, (shelf,)).new("tf/first", folder)


def test_an_update_leaves_a_notebook_as_closed_as_its_person_has_made_it(shared: Path, shelf: Path) -> None:
    """Whatever a new file is there, by the umask or by a list of the folder's."""
    copy = copies.make(first(shelf), shared)
    (copy / "first.ipynb").chmod(0o600)
    write(shelf / "tf/first.ipynb", lesson("open('data/numbers.csv')  # anew"))

    update(copy, shelf)

    assert "anew" in (copy / "first.ipynb").read_text()
    assert (copy / "first.ipynb").stat().st_mode & 0o777 == 0o600
