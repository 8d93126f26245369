"""The lesson on job arrays: points as real array tasks, one of which fails in the first run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.inside import VENV_BIN
from tests.notebooks.jobs import NO_GPU, Run, finished_run, no_job_is_left

LESSON = "cluster/sweep"
FEW = {"grid": {"learning_rate": [0.1, 1.0], "hidden": [4, 16]}, "steps": 50, "mistake_in": 2, "job_minutes": 2}
# In a session the portal's command is the last of the PATH.
AS_IN_A_SESSION = [f"export PATH=$PATH:{VENV_BIN.parent / 'share/dsportal/deploy/bin'}"]


@pytest.fixture(scope="module")
def swept() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    with finished_run(LESSON, "sweep-lesson", FEW, prelude=AS_IN_A_SESSION, resources=NO_GPU) as run:
        yield run


def test_the_point_that_fails_is_told_with_its_cell_and_runs_again_alone(swept: Run) -> None:
    (first,) = re.findall(r"^Submitted --array=0,1,2,3%4: job (\d+)$", swept.text("run-all"), re.MULTILINE)
    assert re.search(
        r"the cell 'check' failed with AssertionError: hidden is 0; a network", swept.text("find-failures")
    )
    assert "3 of 4 points have a result; without one: [2]" in swept.text("find-failures")
    (second,) = re.findall(r"^Submitted --array=2%4: job (\d+)$", swept.text("run-again"), re.MULTILINE)
    rows = [line.split() for line in swept.text("table").splitlines()[1:]]
    assert {row[0]: row[5] for row in rows} == {"0": first, "1": first, "2": second, "3": first}
    assert "As expected: 4 points have a result, 1 of them by a second run of nothing else" in swept.text("check")
    no_job_is_left()


def test_every_point_keeps_its_notebook_with_its_values(swept: Run) -> None:
    for number in range(4):
        cells = json.loads((swept.folder / f"sweep/points/{number}/point.ipynb").read_bytes())["cells"]
        (given,) = (cell for cell in cells if "injected-parameters" in cell["metadata"].get("tags", ()))
        assert f"hidden = {[4, 16][number % 2]}" in "".join(given["source"])


def test_the_summaries_open_in_the_portals_tensorboard(swept: Run) -> None:
    (link,) = swept.shown("hparams", "text/html")
    assert 'href="/user/' in link
    assert "/tensorboard/open?path=sweep-lesson/logs/sweep_20" in link
    assert len(swept.shown("plot", "image/png")) == 1


def test_nothing_puzzling_is_printed_to_stderr(swept: Run) -> None:
    assert {name: noise for name, noise in swept.stderr.items() if noise} == {}
