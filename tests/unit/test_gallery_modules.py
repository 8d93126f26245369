"""Who has one framework of a folder of templates runs nothing in the copies of somebody else's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from portal import data
from portal.cli import main
from portal.gallery import units
from tests.lessons import lesson, write

ROOT, CAROL, BOB = 0, 20001, 20002
gives = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to somebody else")


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A lesson that needs a module of another framework."""
    write(tmp_path / "pytorch/lesson.ipynb", lesson("import measuring\nimport json\nimport numpy"))
    write(tmp_path / "tensorflow/measuring.py", "import reading\n")
    write(tmp_path / "tensorflow/reading.py", "")
    for place in (tmp_path / "tensorflow").iterdir():
        place.chmod(0o644)
    for place in tmp_path.iterdir():
        place.chmod(0o755)
    return tmp_path


def give(folder: Path, owner: int) -> None:
    for place in (folder, *folder.iterdir()):
        os.chown(place, owner, -1, follow_symlinks=False)


def files(shelf: Path) -> dict[str, str]:
    """What is in a copy of the lesson besides the notebook, and where that is from."""
    found = units.find([shelf])["pytorch/lesson"]
    return {name: str(path.relative_to(shelf)) for name, path in found.files.items() if name != found.notebook}


MEASURING = {name: f"tensorflow/{name}" for name in ("measuring.py", "reading.py")}


def test_a_module_and_what_it_imports_come_from_the_same_owners_other_framework(shelf: Path) -> None:
    assert files(shelf) == MEASURING


@gives
@pytest.mark.parametrize(
    ("of_lesson", "of_modules", "comes"),
    [(CAROL, ROOT, True), (CAROL, CAROL, True), (ROOT, CAROL, False), (CAROL, BOB, False), (ROOT, BOB, False)],
)
def test_a_module_is_taken_of_the_same_owner_and_of_root_alone(
    shelf: Path, of_lesson: int, of_modules: int, comes: bool
) -> None:
    give(shelf / "pytorch", of_lesson)
    give(shelf / "tensorflow", of_modules)

    assert files(shelf) == (MEASURING if comes else {})


@gives
def test_a_check_says_which_module_no_copy_has(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said() -> str:
        main(["notebooks", "check", "--folder", str(shelf)])
        return capsys.readouterr().out

    assert "note:" not in said()
    give(shelf / "tensorflow", BOB)

    assert "pytorch/lesson: note: it imports measuring, and no copy has tensorflow/measuring.py" in said()


@gives
def test_somebody_elses_file_in_ones_own_framework_is_not_taken(shelf: Path) -> None:
    os.chown(shelf / "tensorflow/measuring.py", BOB, -1)

    assert files(shelf) == {}


@gives
def test_a_module_of_somebody_elses_hides_no_module_of_the_same_owner(shelf: Path) -> None:
    write(shelf / "aaa/measuring.py", "")
    write(shelf / "aaa/numpy.py", "")
    give(shelf / "aaa", BOB)

    assert files(shelf) == MEASURING


@pytest.mark.parametrize("open_to", [0o020, 0o002])
@pytest.mark.parametrize("place", ["tensorflow", "tensorflow/measuring.py"])
def test_a_module_that_others_may_write_is_not_taken(shelf: Path, place: str, open_to: int) -> None:
    (shelf / place).chmod((shelf / place).stat().st_mode | open_to)

    assert files(shelf) == {}


def to_a_file(shelf: Path) -> None:
    (shelf / "tensorflow/measuring.py").rename(shelf / "pytorch/1.py")
    (shelf / "tensorflow/measuring.py").symlink_to("../pytorch/1.py")


def to_a_framework(shelf: Path) -> None:
    write(shelf / ".inner/measuring.py", "")
    (shelf / "tensorflow").rename(shelf / ".tensorflow")
    (shelf / "tensorflow").symlink_to(".inner")


@pytest.mark.parametrize("link", [to_a_file, to_a_framework])
def test_a_link_is_no_module_for_other_frameworks(shelf: Path, link: Callable[[Path], None]) -> None:
    link(shelf)

    assert files(shelf) == {}


def test_a_file_of_another_framework_takes_no_place_of_a_module_of_pythons(shelf: Path) -> None:
    write(shelf / "tensorflow/json.py", "").chmod(0o644)

    assert files(shelf) == MEASURING


def test_in_the_portals_own_folder_an_umask_of_002_takes_nothing_away(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (shelf / "tensorflow", *(shelf / "tensorflow").iterdir()):
        place.chmod(place.stat().st_mode | 0o020)
    assert files(shelf) == {}

    monkeypatch.setattr(data, "folder", {"notebooks": shelf}.__getitem__)

    assert files(shelf) == MEASURING
