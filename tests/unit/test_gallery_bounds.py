"""Whoever writes into a folder of templates decides neither how long a look at it takes, nor what memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from portal.gallery import units
from portal.notebooks import look, shares
from portal.notebooks.files import read_file
from portal.showcase import cards
from tests.lessons import lesson, write


def bound(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    monkeypatch.setattr(units, name, most, raising=False)


def files(shelf: Path) -> dict[str, list[str]]:
    """What each template has beside its notebook."""
    return {name: sorted({*unit.files} - {unit.notebook}) for name, unit in units.find([shelf]).items()}


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose names were read."""
    found: list[Path] = []
    usual = Path.iterdir

    def iterdir(folder: Path) -> object:
        found.append(folder)
        return usual(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    return found


def test_a_long_text_beside_many_names_is_not_searched_for_each_and_hides_no_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_named = Mock(side_effect=units._is_named)
    monkeypatch.setattr(units, "_is_named", is_named)
    bound(monkeypatch, "SEARCHED_MAX", 2**20)
    write(tmp_path / "tf/a-long.ipynb", lesson("#" * 10_000 + "\nimport m7"))
    write(tmp_path / "tf/short.ipynb", lesson("import m7"))
    for number in range(300):
        write(tmp_path / f"tf/m{number}.py", "")

    assert files(tmp_path) == {"tf/a-long": [], "tf/short": ["m7.py"]}
    assert sum(len(call.args[1]) for call in is_named.call_args_list) <= 2**20


def test_a_tree_of_folders_without_files_is_walked_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walked: list[Path]
) -> None:
    bound(monkeypatch, "PLACES_MAX", 50)
    write(tmp_path / "tf/first.ipynb", lesson("open('data/1.csv')\nimport helper"))
    write(tmp_path / "tf/helper.py", "")
    for number in range(200):
        (tmp_path / f"tf/data/{number % 10}/{number}").mkdir(parents=True)

    assert list(files(tmp_path)) == ["tf/first"]
    assert len(walked) < 60


def test_a_folder_that_many_templates_name_is_walked_once(tmp_path: Path, walked: list[Path]) -> None:
    for number in range(20):
        write(tmp_path / f"tf/{number}.ipynb", lesson("open('data/1.csv')"))
    write(tmp_path / "tf/data/1.csv", "1")

    assert set(map(tuple, files(tmp_path).values())) == {("data/1.csv",)}
    assert walked.count(tmp_path / "tf/data") == 1


def test_links_that_lead_nowhere_are_followed_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_folder = Mock(side_effect=units._is_folder)
    monkeypatch.setattr(units, "_is_folder", is_folder)
    bound(monkeypatch, "PLACES_MAX", 50)
    write(tmp_path / "tf/first.ipynb", lesson("1", "".join(f"[a]({number}.png)" for number in range(1000))))

    assert list(files(tmp_path)) == ["tf/first"]
    assert is_folder.call_count < 60


def test_templates_that_are_long_together_are_left_out_from_some_length_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, "KEPT_MAX", 200_000)
    for number in range(5):
        write(tmp_path / f"tf/{number}.ipynb", lesson("open('numbers.csv')"))
    write(tmp_path / "tf/numbers.csv", 70_000 * "1")
    write(tmp_path / "tf/short.ipynb", lesson("1"))

    assert list(files(tmp_path)) == ["tf/0", "tf/1", "tf/short"]


def test_templates_of_one_framework_take_no_room_of_another_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, "SEARCHED_MAX", 800_000)
    bound(monkeypatch, "PLACES_MAX", 200)
    for number in range(20):
        long = write(tmp_path / f"aaa/{number}.ipynb", lesson("#" * 4000))
        (tmp_path / f"aaa/{number}-folder").mkdir()
    write(tmp_path / "tf/first.ipynb", lesson("import helper\nopen('data/1.csv')"))
    write(tmp_path / "tf/helper.py", "")
    write(tmp_path / "tf/data/1.csv", "1")
    bound(monkeypatch, "KEPT_MAX", 4 * long.stat().st_size + 100)

    found = files(tmp_path)

    assert found.pop("tf/first") == ["data/1.csv", "helper.py"]
    assert 0 < len(found) < 5


def test_empty_folders_take_no_room_of_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, "SEARCHED_MAX", 100_000)
    bound(monkeypatch, "PLACES_MAX", 700)
    write(tmp_path / "tf/first.ipynb", lesson("import helper\nopen('data/1.csv')"))
    write(tmp_path / "tf/helper.py", "")
    write(tmp_path / "tf/data/1.csv", "1")
    for number in range(200):
        (tmp_path / f"{number}").mkdir()

    assert files(tmp_path) == {"tf/first": ["data/1.csv", "helper.py"]}


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A template with what belongs to it."""
    write(tmp_path / "tf/first.ipynb", lesson("import helper\nopen('data/1.csv')"))
    write(tmp_path / "tf/helper.py", "")
    write(tmp_path / "tf/data/1.csv", "1")
    (tmp_path / "tf").chmod(0o755)
    return tmp_path


FIRST = {"tf/first": ["data/1.csv", "helper.py"]}


@pytest.mark.parametrize("frameworks", ["aaa", "a{}"])
def test_notebooks_that_are_none_take_no_turn_of_a_template(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, frameworks: str
) -> None:
    monkeypatch.setattr(look, "NOTEBOOKS_MAX", 50)
    for number in range(60):
        write(shelf / frameworks.format(number) / f"{number}.ipynb", "")
        (shelf / frameworks.format(number)).chmod(0o775)  # others may write there

    assert files(shelf) == FIRST
    assert [card.name for card in cards.read([shelf], ())] == list(FIRST)


def test_long_notebooks_of_one_framework_take_no_room_of_a_template(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "BYTES_MAX", 100_000)
    for number in range(9):
        write(shelf / f"aaa/{number}.ipynb", " " * 20_000)

    assert files(shelf) == FIRST


def test_names_of_one_framework_take_no_room_of_a_template(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "NAMES_MAX", 50)
    bound(monkeypatch, "PLACES_MAX", 100)
    for number in range(100):
        write(shelf / f"aaa/{number}", "")
        write(shelf / f"bbb/{number}", "")

    assert files(shelf) == FIRST
    assert [card.name for card in cards.read([shelf], ())] == list(FIRST)


def test_what_one_framework_leaves_is_listed_of_the_others(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path / f"many/{number}", "")
    write(tmp_path / "few/1", "")
    frameworks = [tmp_path / "few", tmp_path / "many"]
    first = Mock(side_effect=lambda one, most: list(one.iterdir())[:most])

    assert [len(names) for names in shares.listed(frameworks, 41, first).values()] == [1, 40]
    assert [len(names) for names in shares.listed(frameworks, 21, first).values()] == [1, 20]


def test_a_file_that_grows_while_it_is_read_has_no_more_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, "KEPT_MAX", 5000)
    write(tmp_path / "tf/first.ipynb", lesson("import helper"))
    write(tmp_path / "tf/helper.py", "")

    def grown(path: Path, *more: Any) -> bytes:
        return b"#" * 10_000 if path.suffix == ".py" else read_file(path, *more)

    monkeypatch.setattr(units, "read_file", grown)

    assert files(tmp_path) == {}


BOB = 20002
gives = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to somebody else")


@gives
def test_long_files_of_one_owner_in_two_frameworks_take_no_room_of_others(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "BYTES_MAX", 100_000)
    for number in range(8):
        write(shelf / f"root{number % 2}/{number}.ipynb", lesson("1"))
    for framework, mode in (("bob", 0o755), ("bobs", 0o775)):
        for number in range(9):
            write(shelf / f"{framework}/{number}.ipynb", (25_000 >> number) * " ")
        os.chown(shelf / framework, BOB, -1)
        (shelf / framework).chmod(mode)

    assert len(files(shelf)) == 9
    assert len(cards.read([shelf], ())) == 9


def test_a_notebook_longer_than_its_frameworks_part_has_room_in_what_others_leave(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for framework in ("aaa", "bbb", "ccc"):
        write(shelf / f"{framework}/short.ipynb", lesson("1"))
    long = write(shelf / "tf/long.ipynb", lesson("#" * 20_000))
    monkeypatch.setattr(look, "BYTES_MAX", long.stat().st_size + 5000)

    assert "tf/long" in files(shelf)


@gives
def test_one_owners_templates_take_no_room_that_anothers_frameworks_leave_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, "KEPT_MAX", 160_000)
    for number in range(8):
        write(tmp_path / f"root{number}/lesson.ipynb", lesson("#" * (15_000 if number == 7 else 10)))
    for number in range(9):
        write(tmp_path / f"aaa/{number}.ipynb", lesson("#" * 17_000))
    os.chown(tmp_path / "aaa", BOB, -1)

    found = files(tmp_path)

    assert {f"root{number}/lesson" for number in range(8)} <= found.keys()
    assert "aaa/3" in found, "there is more for Bob than his own part, where others leave some"


@gives
def test_what_owners_leave_is_handed_on_by_turns(tmp_path: Path) -> None:
    """Of 90 bytes each of three has 30; the third leaves 29 of them."""
    first, second = ([tmp_path / framework / str(number) for number in range(9)] for framework in ("a", "b"))
    sizes = dict.fromkeys([*first, *second], 10) | {tmp_path / "c/1": 1}
    for owner, framework in enumerate(("a", "b", "c"), BOB):
        (tmp_path / framework).mkdir()
        os.chown(tmp_path / framework, owner, -1)

    def take(one: Path, room: int) -> int | None:
        return sizes[one] if sizes[one] <= room else None

    over = shares.dealt(list(sizes), 90, take)

    assert sorted(over) == [*first[4:], *second[4:]]


@pytest.mark.parametrize("name", [".{}", "a{}"])
def test_what_is_no_framework_takes_no_room_of_frameworks(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(look, "NAMES_MAX", 20)
    bound(monkeypatch, "NAMES_MAX", 20)
    listed = [shelf / name.format(number) for number in range(100)]
    names_first(monkeypatch, listed)
    for one in listed:
        write(one, "")

    assert files(shelf) == FIRST
    assert [card.name for card in cards.read([shelf], ())] == list(FIRST)


def names_first(monkeypatch: pytest.MonkeyPatch, first: list[Path]) -> None:
    """A disk whose order has these names first."""
    scandir, iterdir = os.scandir, Path.iterdir
    names = {one.name for one in first}

    class Ordered:
        def __init__(self, folder: Any) -> None:
            self._folder = folder

        def __enter__(self) -> Any:
            return iter(sorted(scandir(self._folder), key=lambda one: one.name not in names))

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Ordered)
    monkeypatch.setattr(Path, "iterdir", lambda one: iter(sorted(iterdir(one), key=lambda two: two.name not in names)))


@gives
@pytest.mark.parametrize("are_links", [False, True])
def test_many_frameworks_of_one_owner_take_no_room_of_anothers(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, are_links: bool
) -> None:
    for name in ("NAMES_MAX", "NOTEBOOKS_MAX"):
        monkeypatch.setattr(look, name, 20)
    bound(monkeypatch, "NAMES_MAX", 20)
    write(shelf / "zzz/own.ipynb", lesson("1"))
    os.chown(shelf / "zzz", BOB, -1)
    for number in range(100):
        one = shelf / f"a{number}"
        if are_links:
            one.symlink_to("zzz" if number % 2 else "tf")
        else:
            write(one / "1.ipynb", lesson("1"))
        os.chown(one, BOB, -1, follow_symlinks=False)

    assert "tf/first" in files(shelf)
    assert "tf/first" in [card.name for card in cards.read([shelf], ())]


def test_the_names_of_a_folder_are_read_up_to_a_bound(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "ENTRIES_MAX", 20)
    asked = Mock(side_effect=look._may_be_shown)
    monkeypatch.setattr(look, "_may_be_shown", asked)
    for number in range(100):
        write(shelf / f".{number}", "")

    look.notebooks(shelf)

    assert asked.call_count == 20
