"""What the doctor says of the folders of a site's own templates."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.mark.parametrize("inner", ["first", "first/steps.ipynb"])
def test_what_lies_in_it_is_not_for_all_to_write_either(inner: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "own/first/steps.ipynb", lesson("1")).parents[1]
    folder.chmod(0o755)
    (folder / inner).chmod(0o777)

    (check,) = folders(parse({"notebooks": {"folders": [str(folder)]}}))

    assert (check.result, f"everybody can write into {folder / inner}," in check.found) == ("failed", True)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    (check,) = folders(parse({"notebooks": {"folders": [str(tmp_path / "none")]}}))
    assert check.result == "failed"
    assert "there is no folder" in check.found
