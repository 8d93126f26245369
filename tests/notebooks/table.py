"""What the notebooks ring ran, as a table: each template, its kernel, how it ended, and how long it took."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from portal.notebooks.template import Template
from tests.notebooks.gpu_paths import GPU_PATHS
from tests.second_try import MODULES

FOLDER = Path(os.environ.get("DSPORTAL_ARTEFACTS", "/tmp"))
PARTS = ("1", "2")
WHOLE = "whole"
PART = os.environ.get("DSPORTAL_PART", "")  # one of PARTS; WHOLE looks at what these ran; '' runs the whole ring


@dataclass(frozen=True)
class Ran:
    """One job with a template: its exit status, seconds from its submission to its end, and the test that ran it."""

    template: str
    status: int
    seconds: float
    test: str


@dataclass(frozen=True)
class Row:
    """One template.

    Arguments:
        result: "passed", "failed" (a test of it failed), "not finished" (no run reached its end) or "not run".
        seconds: its shortest run to the end, or None.
        runs: how many jobs ran it, those that were to fail included.
        gpu_path: what was ever seen of its path on GPUs (:mod:`tests.notebooks.gpu_paths`).
        failed: the tests of it that failed.
    """

    template: str
    kernel: str
    result: str
    seconds: float | None
    runs: int
    gpu_path: str
    failed: tuple[str, ...] = ()


RUNS: list[Ran] = []  # what this session ran, in order
FAILED: dict[str, list[str]] = {}  # the tests that failed, by template


def record(template: str, status: int, seconds: float, test: str) -> None:
    """Keep one run; ``test`` as PYTEST_CURRENT_TEST has it."""
    RUNS.append(Ran(template, status, seconds, test.rpartition(" ")[0]))


def keep_part() -> None:
    """Keep what this part of the ring ran for the look at the whole; with what the first try did, in a second one."""
    runs = [asdict(ran) for ran in RUNS]
    if again := os.environ.get(MODULES, "").split():
        before = json.loads(_file_of(PART).read_text())["runs"]
        runs = [ran for ran in before if ran["test"].partition("::")[0] not in again] + runs
    _file_of(PART).write_text(json.dumps({"runs": runs, "failed": FAILED}))


def take_parts() -> None:
    """What the parts of the ring ran, as if this session had run it."""
    for file in map(_file_of, PARTS):
        kept = json.loads(file.read_text())
        RUNS.extend(Ran(**ran) for ran in kept["runs"])
        for template, tests in kept["failed"].items():
            FAILED.setdefault(template, []).extend(tests)


def _file_of(part: str) -> Path:
    return FOLDER / f"notebooks-{part}.json"


def record_failure(test: str, looked_at: Iterable[str]) -> None:
    """A test failed: it counts against the templates that it ran and those whose run it looked at."""
    for template in {*looked_at, *(ran.template for ran in RUNS if ran.test == test)}:
        FAILED.setdefault(template, []).append(test.rpartition("::")[2])


def rows(templates: Iterable[Template], runs: Sequence[Ran], failed: Mapping[str, Sequence[str]]) -> list[Row]:
    """One row for each template of the catalogue."""
    return [_row(one, [ran for ran in runs if ran.template == one.name], failed.get(one.name, ())) for one in templates]


def _row(template: Template, runs: Sequence[Ran], failed: Sequence[str]) -> Row:
    seconds = min((ran.seconds for ran in runs if ran.status == 0), default=None)
    reached = "not run" if not runs else "not finished" if seconds is None else "passed"
    result = "failed" if failed else reached
    gpu_path = GPU_PATHS.get(template.name, "")
    return Row(template.name, template.kernel, result, seconds, len(runs), gpu_path, tuple(failed))


def text(lines: Iterable[Row]) -> str:
    """The rows below their titles, in columns, and the seconds of all."""
    found = list(lines)
    titles = [field.name for field in fields(Row)]
    cells = [titles, *([_shown(value) for value in asdict(row).values()] for row in found)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    total = sum(row.seconds or 0 for row in found)
    passed = sum(row.result == "passed" for row in found)
    end = f"{passed} of {len(found)} templates passed; one run of each takes {total:.0f} s"
    return "\n".join([table[0], "-" * (sum(widths) + 2 * len(widths) - 2), *table[1:], end]) + "\n"


def _shown(value: object) -> str:
    if value is None or value in ((), ""):
        return "-"
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def as_json(lines: Iterable[Row]) -> str:
    """The rows for programs."""
    return json.dumps({"templates": [asdict(row) for row in lines]}, indent=1) + "\n"
