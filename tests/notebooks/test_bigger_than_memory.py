"""The lesson on tables larger than memory: small, on the storage that is linked in the home."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forms import LONG
from tests.inside import home, sh
from tests.notebooks.jobs import NO_GPU, PERSON, Run, finished_run, in_a_job, own_folder

LESSON = "data/bigger_than_memory"
STORAGE = Path("/mnt/isilon")
# A smaller limit leaves too little for Polars itself, and the table is three times as large.
FEW = {"days": 32, "memory_limit_mb": 320, "small_files": 600}
ROWS = 32 * 1440 * 576


@pytest.fixture(scope="module")
def asked() -> Iterator[Run]:
    """One run of the lesson, with a storage linked in the home as a session does it."""
    sh("ln", "-sfn", str(STORAGE), str(home(PERSON) / "isilon"), user=PERSON)
    with finished_run(LESSON, "bigger-lesson", FEW, resources=NO_GPU) as run:
        yield run


def test_the_table_is_on_the_linked_storage_and_three_times_the_limit(asked: Run) -> None:
    assert re.search(r"^/\S+/isilon/bigger-than-memory-\w+ \(", asked.text("choose-folder"), re.MULTILINE)
    ((rows, table_mb),) = re.findall(r"^([\d,]+) rows: at least ([\d,]+) MB in memory", asked.text("write-table"), re.M)
    assert int(rows.replace(",", "")) == ROWS
    assert int(table_mb.replace(",", "")) >= 3 * 320


def test_only_the_streaming_way_answers_within_the_limit(asked: Run) -> None:
    lines = {line[:12].strip(): line for line in asked.text("ask").splitlines()}
    for way in ("everything", "in memory"):
        assert re.search(r"ended: SIG\w+, .*memory allocation", lines[way]), lines[way]
    assert re.search(r" MB   answered in ", lines["streaming"])
    assert "As expected: the same sums as day by day" in asked.text("check-ways")
    counts = re.findall(r"% +([\d,]+)$", asked.text("check-ways"), re.MULTILINE)
    assert sum(int(count.replace(",", "")) for count in counts) == ROWS
    assert len(asked.shown("memory-plot", "image/png")) == 1


def test_a_query_reads_the_columns_row_groups_and_folders_that_it_needs(asked: Run) -> None:
    printed = "".join(map(asked.text, ("count-columns", "count-row-groups", "count-folders")))
    read = {title: float(mb) for title, mb in re.findall(r"^(\S.*?) +([\d.]+) MB +[\d.]+ s", printed, re.MULTILINE)}
    assert read["one column"] < read["three columns"] < read["all ten columns"]
    assert read["three hours, one folder"] < read["three hours, all folders"] < 10
    groups = re.findall(r"^(three .*?) +[\d.]+ MB .*? (\d+) of +(\d+) row groups", printed, re.MULTILINE)
    assert groups == [
        ("three hours, sorted by time", "3", "24"),
        ("three hours, shuffled", "24", "24"),
        ("three hours, all folders", "3", str(32 * 24)),
        ("three hours, one folder", "3", "24"),
    ]
    assert len(asked.shown("count-folders", "image/png")) == 1


def test_csv_small_files_and_half_files_are_compared(asked: Run) -> None:
    assert "As expected: CSV is " in asked.text("compare-csv")
    assert "    600" in asked.text("compare-files")
    assert "As expected: half a file under its final name stops everybody" in asked.text("half-a-file")
    assert "rows were written to idle.parquet" in asked.text("write-result")


def test_the_lesson_takes_its_data_away_and_prints_nothing_to_stderr(asked: Run) -> None:
    assert list(STORAGE.glob("bigger-than-memory-*")) == []
    assert "Removed: " in asked.text("tidy")
    assert {name: noise for name, noise in asked.stderr.items() if noise} == {}


if LONG:

    def test_too_little_space_is_said_before_anything_is_written() -> None:
        folder = own_folder("bigger-too-big")
        run = in_a_job(LESSON, folder, {"days": 1_000_000_000, "folder": str(folder)}, resources=NO_GPU)
        assert run.status != 0
        words = r"the cell 'choose-folder' failed with AssertionError: \S+ has [\d,]+ MB free, but [\d,]+ MB are needed"
        assert re.search(words, run.log)
        assert [file.name for file in folder.iterdir() if file.name.startswith("bigger")] == []
        shutil.rmtree(folder)
