"""Those few tests that failed run once more, by themselves; `make test` names them, and fails where they are many."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import run, second_try

ROOT = Path(__file__).parents[2]
BOOK = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({unsteady}))
def test_unsteady(number):
    seen = Path(__file__).with_name(f"seen-{{number}}")
    was = seen.exists()
    seen.touch()
    assert was, "the machine stood still"

@pytest.fixture
def unready():
    yield
    seen = Path(__file__).with_name("seen-unready")
    was = seen.exists()
    seen.touch()
    assert was

def test_with_what_is_not_taken_down(unready):
    assert Path(__file__).with_name("seen-unready").exists() or {is_ready}

def test_good():
    pass

def test_bad():
    assert {is_good}
"""


SKIPS = """
from pathlib import Path
import pytest

@pytest.mark.skipif(Path(__file__).with_name("seen-0").exists(), reason="it is not here any more")
def test_bad():
    assert False
"""


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    return tmp_path


def tried(folder: Path, unsteady: int, *, is_good: bool = True, is_ready: bool = True) -> tuple[run.Count, str]:
    """What a run of a ring counts and prints, and what `make test` says of it."""
    if is_ready:
        (folder / "seen-unready").touch()
    (folder / "test_book.py").write_text(BOOK.format(unsteady=unsteady, is_good=is_good, is_ready=is_ready))
    argv = [sys.executable, "-m", "tests.second_try", str(folder), f"--junitxml={run.report_of('hub')}"]
    options = ["-p", "no:cacheprovider", f"--rootdir={folder}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*argv, *options], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return run.judged("hub", done.returncode, []), done.stdout


@pytest.mark.parametrize("unsteady", [1, second_try.MOST])
def test_what_passes_by_itself_is_named_with_what_was_wrong_and_the_run_is_good(
    books: Path, capsys: pytest.CaptureFixture[str], unsteady: int
) -> None:
    (books / "test_other.py").write_text("def test_other():\n    pass\n")

    count, printed = tried(books, unsteady)

    assert count == run.Count(passed=unsteady + 4, unsteady=unsteady)
    assert f"{unsteady} failed; once more, their modules by themselves" in printed
    assert f"{unsteady + 3} passed in" in printed.splitlines()[-1], "no other module runs again"
    assert run.tell({"hub": (count, 1.0)}) == 0
    told = capsys.readouterr().out
    assert "UNSTEADY hub test_book::test_unsteady[0]: AssertionError: the machine stood still" in told
    assert f"{unsteady} UNSTEADY, passed at the second try alone" in told
    assert "FAILED" not in told
    assert told.splitlines()[-1] == f"{unsteady + 4} passed, 0 failed, 0 skipped"


def test_what_fails_again_has_failed(books: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count, _printed = tried(books, 1, is_good=False)

    assert (count.failed, count.unsteady) == (2, 0)
    assert run.tell({"hub": (count, 1.0)}) == 1
    assert "FAILED  hub test_book::test_bad: assert False" in capsys.readouterr().out


def test_where_many_fail_there_is_no_second_try(books: Path) -> None:
    count, printed = tried(books, second_try.MOST + 1)

    assert (count.failed, count.unsteady) == (second_try.MOST + 1, 0)
    assert "once more" not in printed


def test_what_skips_at_the_second_try_has_failed(books: Path) -> None:
    (books / "test_skips.py").write_text(SKIPS)

    count, printed = tried(books, 1)

    assert "4 passed, 1 skipped in" in printed
    assert (count.failed, count.unsteady) == (2, 0)


def test_what_fails_by_what_ran_before_it_has_failed(books: Path) -> None:
    """By itself it would pass, whatever is wrong."""
    (books / "test_order.py").write_text(
        "seen = []\ndef test_a():\n    seen.append(1)\ndef test_b():\n    assert not seen\n"
    )

    count, printed = tried(books, 0)

    assert "once more" in printed
    assert (count.failed, count.unsteady) == (1, 0)


def test_what_cannot_be_taken_down_is_tried_again_too(books: Path) -> None:
    count, _printed = tried(books, 0, is_ready=False)

    assert (count.failed, count.unsteady) == (0, 1)


def test_a_run_in_which_many_rings_have_one_fails() -> None:
    one = run.Count(passed=7, unsteady=1)
    assert run.tell({"hub": (one, 1.0), "browser": (one, 1.0)}) == 0
    assert run.tell({"hub": (one, 1.0), "browser": (one, 1.0), "security": (one, 1.0)}) == 1
    assert run.UNSTEADY_MAX == second_try.MOST


def test_a_test_that_somebody_chose_has_no_second_try(books: Path) -> None:
    ring = run.Ring("books", False, "lessons")
    assert "tests.second_try" in run.pytest_command(ring, [])
    assert "tests.second_try" not in run.pytest_command(ring, ["-k", "good"])
    assert books.is_dir()


def test_a_test_that_hangs_fails_but_in_the_long_forms_and_the_rings_that_install_systems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound = f"--timeout={run.HANGS_AFTER_S}"
    monkeypatch.delenv("DSPORTAL_FORM", raising=False)
    assert bound in run.pytest_command(run.Ring("hub", True, ""), [])
    assert bound not in run.pytest_command(run.Ring("systems", True, "", usual=False), [])
    monkeypatch.setenv("DSPORTAL_FORM", "long")
    assert bound not in run.pytest_command(run.Ring("hub", True, ""), [])
