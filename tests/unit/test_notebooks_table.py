"""The table of the notebooks ring: what it says of each template, and when it fails the ring."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from portal.data import folder
from portal.notebooks.catalogue import templates
from portal.notebooks.template import Template
from tests.notebooks import gpu_paths, table
from tests.notebooks.table import Ran, Row, as_json, rows, text
from tests.second_try import MODULES

ROOT = Path(__file__).parents[2]
EVERY = [template.name for template in templates(folder("notebooks"))]
RING = """
import pytest
from tests.notebooks.jobs import Run
from tests.notebooks.table import record
from tests.notebooks.{module} import *

@pytest.fixture(scope="module", params={names})
def trained(request):
    record(request.param, {status}, 2.5, request.node.nodeid + " (setup)")
    return Run(request.param, {status}, "", None, {{}})

def test_it_learns(trained):
    assert trained.notebook != {wrong!r}
"""


def template(name: str) -> Template:
    return Template(name, Path(name), "A title", "", "Keras", "tensorflow", 1, 1, "MNIST")


def test_a_template_has_one_row_whatever_it_was_run_for() -> None:
    runs = [
        Ran("a/one", 0, 9.04, "t1"),
        Ran("a/one", 1, 3.0, "t2"),
        Ran("a/one", 0, 8.0, "t3"),
        Ran("b/two", 1, 4, "t4"),
    ]
    found = rows([template("a/one"), template("b/two"), template("c/three")], runs, {})
    assert found == [
        Row("a/one", "tensorflow", "passed", 8.0, 3, ""),
        Row("b/two", "tensorflow", "not finished", None, 1, ""),
        Row("c/three", "tensorflow", "not run", None, 0, ""),
    ]


def test_a_failed_test_makes_the_row_of_its_template_failed_though_its_run_ended_well() -> None:
    (row,) = rows([template("a/one")], [Ran("a/one", 0, 9.0, "t")], {"a/one": ["test_curves"]})
    assert (row.result, row.seconds, row.failed) == ("failed", 9.0, ("test_curves",))


def test_what_a_part_ran_is_kept_when_a_module_of_it_runs_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that failed by chance, of the editor, would leave the whole without the templates of its part."""
    first = [Ran("a/one", 0, 9.0, "tests/a.py::test"), Ran("b/two", 1, 4.0, "tests/b.py::test")]
    for name, value in {
        "FOLDER": tmp_path,
        "PART": "1",
        "PARTS": ("1",),
        "RUNS": first,
        "FAILED": {"b/two": ["test"]},
    }.items():
        monkeypatch.setattr(table, name, value)
    table.keep_part()

    again = Ran("b/two", 0, 5.0, "tests/b.py::test")
    monkeypatch.setattr(table, "RUNS", [again])
    monkeypatch.setattr(table, "FAILED", {})
    monkeypatch.setenv(MODULES, "tests/b.py tests/c.py")
    table.keep_part()

    monkeypatch.setattr(table, "RUNS", [])
    table.take_parts()
    found = (table.RUNS, table.FAILED)
    assert found == ([first[0], again], {})


def test_the_table_is_aligned_and_sums_up() -> None:
    found = rows([template("a/one"), template("a/longer")], [Ran("a/one", 0, 9.04, "t")], {})
    assert text(found).splitlines() == [
        "template  kernel      result   seconds  runs  gpu_path  failed",
        "--------------------------------------------------------------",
        "a/one     tensorflow  passed   9.0      1     -         -",
        "a/longer  tensorflow  not run  -        0     -         -",
        "1 of 2 templates passed; one run of each takes 9 s",
    ]
    assert [row["result"] for row in json.loads(as_json(found))["templates"]] == ["passed", "not run"]


def test_it_is_said_of_every_template_and_in_the_docs_what_was_seen_of_its_path_on_gpus() -> None:
    assert sorted(gpu_paths.GPU_PATHS) == sorted(EVERY)
    told: dict[str, str] = {}
    for line in (ROOT / "docs" / "howto" / "kernels.md").read_text().splitlines():
        names, _, rest = line.strip("| ").partition(" | ")
        path = rest.partition(" | ")[0]
        if path in (gpu_paths.NONE, gpu_paths.READ, gpu_paths.EMULATED, gpu_paths.RUN):
            told |= dict.fromkeys(re.findall(r"`(\w+/\w+)`", names), path)
    assert told == gpu_paths.GPU_PATHS


def ring(place: Path, *options: str, names: list[str], status: int = 0, wrong: str = "") -> tuple[int, str]:
    """Run a ring of this conftest in ``place``: its exit status and what it printed; its last test is not left out."""
    (place / "conftest.py").write_text("from tests.notebooks.conftest import *\n")
    (place / "test_a.py").write_text("from tests.notebooks.test_table import *\n")
    (place / "test_b.py").write_text(RING.format(module="jobs", names=names, status=status, wrong=wrong))
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(place), *options]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "DSPORTAL_ARTEFACTS": str(place)}
    done = subprocess.run(argv, cwd=place, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_ring_that_ran_every_template_is_green_and_keeps_its_table(tmp_path: Path) -> None:
    status, said = ring(tmp_path, ".", names=EVERY)
    assert status == 0, said
    assert f"{len(EVERY)} of {len(EVERY)} templates passed" in said
    kept = json.loads((tmp_path / "notebooks.json").read_text())["templates"]
    assert [(row["template"], row["result"], row["seconds"]) for row in kept] == [(n, "passed", 2.5) for n in EVERY]


def test_a_ring_that_leaves_a_template_out_fails_and_names_it(tmp_path: Path) -> None:
    status, said = ring(tmp_path, names=EVERY[1:])
    assert status == 1
    assert f"'{EVERY[0]}': 'not run'" in said
    assert f"{len(EVERY) - 1} of {len(EVERY)} templates passed" in said


def test_a_template_that_never_reached_its_end_fails_the_ring(tmp_path: Path) -> None:
    status, said = ring(tmp_path, names=EVERY, status=1)
    assert status == 1
    assert f"'{EVERY[0]}': 'not finished'" in said


def test_a_test_that_looks_at_a_run_and_fails_is_named_in_the_row(tmp_path: Path) -> None:
    status, said = ring(tmp_path, names=EVERY, wrong=EVERY[-1])
    assert status == 1, said
    kept = json.loads((tmp_path / "notebooks.json").read_text())["templates"]
    assert [row["result"] for row in kept] == [*["passed"] * (len(EVERY) - 1), "failed"]
    assert kept[-1]["failed"] == [f"test_it_learns[{EVERY[-1]}]"]


@pytest.mark.parametrize("options", [["-k", "learns"], ["-k", "every_template or mxnet"], ["test_a.py", "test_b.py"]])
def test_a_part_of_the_ring_does_not_miss_the_other_templates(options: list[str], tmp_path: Path) -> None:
    status, said = ring(tmp_path, *options, names=EVERY[1:])
    assert status == 0, said
    ran = 1 if "every_template or mxnet" in options else len(EVERY) - 1
    assert f"{ran} of {len(EVERY)} templates passed" in said


def test_a_choice_that_takes_nothing_out_is_the_whole_ring(tmp_path: Path) -> None:
    status, said = ring(tmp_path, "-k", "template or learns", names=EVERY[1:])
    assert (status, f"'{EVERY[0]}': 'not run'" in said) == (1, True), said
