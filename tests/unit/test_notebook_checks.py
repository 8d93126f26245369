"""What the doctor says of the folders of a site's own templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.doctor import notebook_checks
from portal.doctor.notebook_checks import folders
from portal.site import parse
from tests.lessons import lesson, write


@pytest.mark.parametrize(("mode", "result"), [(0o755, "ok"), (0o777, "failed"), (0o775, "ok"), (0o750, "warning")])
def test_a_folder_is_for_all_to_read_and_not_for_all_to_write(mode: int, result: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "own/first/steps.ipynb", lesson("1")).parents[1]
    folder.chmod(mode)
    (check,) = folders(parse({"notebooks": {"folders": [str(folder)]}}))
    assert check.result == result
    assert (check.found == f"{folder} (1 notebooks)") is (result == "ok")
    assert bool(check.repair) is (result != "ok")


@pytest.mark.parametrize("inner", ["", "steps.ipynb", "data/a/b/1.csv", "data/a", ".hidden"])
def test_what_lies_in_it_is_not_for_all_to_write_either(inner: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "own/first/steps.ipynb", lesson("1")).parents[1]
    folder.chmod(0o755)
    for name in ("data/a/b/1.csv", ".hidden"):
        write(folder / "first" / name, "1")
    (folder / "first" / inner).chmod(0o777)

    (check,) = folders(parse({"notebooks": {"folders": [str(folder)]}}))

    assert (check.result, f"everybody can write into {folder / 'first' / inner}," in check.found) == ("failed", True)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    (check,) = folders(parse({"notebooks": {"folders": [str(tmp_path / "none")]}}))
    assert check.result == "failed"
    assert "there is no folder" in check.found


def test_a_link_out_of_the_templates_is_told_and_one_into_another_folder_of_them_is_not(tmp_path: Path) -> None:
    one = write(tmp_path / "one/first/steps.ipynb", lesson("1")).parents[1]
    two = write(tmp_path / "two/own/start.ipynb", lesson("1")).parents[1]
    for folder in (one, two):
        folder.chmod(0o755)
    (one / "own").symlink_to(two / "own")
    site = parse({"notebooks": {"folders": [str(one), str(two)]}})
    assert [check.result for check in folders(site)] == ["ok", "ok"]

    (one / "first/data").mkdir()
    (one / "first/data/1.csv").symlink_to(write(tmp_path / "elsewhere/1.csv", "1"))
    (told, fine) = folders(site)
    assert (told.result, fine.result) == ("warning", "ok")
    assert f"{one / 'first/data/1.csv'} leads out of the folders of templates" in told.found
    assert told.repair


def test_a_folder_of_very_many_files_is_looked_through_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "own/first/steps.ipynb", lesson("1")).parents[1]
    folder.chmod(0o755)
    monkeypatch.setattr(notebook_checks, "PLACES_MAX", 1)
    (check,) = folders(parse({"notebooks": {"folders": [str(folder)]}}))
    assert check.result == "warning"
    assert "has more than 1 files and folders" in check.found
