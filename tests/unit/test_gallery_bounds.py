"""Whoever writes into a folder of templates decides neither how long a look at it takes, nor what memory."""

from __future__ import annotations

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
