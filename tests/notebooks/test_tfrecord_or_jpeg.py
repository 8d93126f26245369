"""The lesson on TFRecords and JPEG files on its own kernel, in real Slurm jobs: the same pixels, all ways measured."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from tests.forms import LONG
from tests.notebooks.jobs import Run, changed_module, finished_run, in_a_job, own_folder

LESSON = "tensorflow/tfrecord_or_jpeg"
FEW = {"images": 60, "threads": [1, 4], "shards": 2, "passes": 1, "image_size": 64, "batch_size": 16}


@pytest.fixture(scope="module")
def measured() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    with finished_run(LESSON, "tfrecord-template", FEW) as run:
        yield run


def test_both_hold_the_same_images_of_a_photographs_size(measured: Run) -> None:
    printed = measured.text("prepare-data")
    assert re.search(r"60 images, (9\d|1[01]\d) KB each", printed)
    sizes = {
        kind: (int(count), float(mb)) for kind, count, mb in re.findall(r"(\w+) +(\d+) files, ([\d.]+) MB", printed)
    }
    assert {kind: count for kind, (count, _) in sizes.items()} == {"JPEG": 60, "TFRecord": 2}
    assert sizes["TFRecord"][1] == pytest.approx(sizes["JPEG"][1], rel=0.02)
    assert "As expected: 60 images with the same pixels and classes out of both" in measured.text("same-pixels")


def test_every_way_to_read_is_measured_and_the_table_says_whether_cold_was_cold(measured: Run) -> None:
    lines = measured.text("table").splitlines()
    found = {line[:20].strip(): [float(cell.replace(",", "")) for cell in line[20:].split()] for line in lines[2:6]}
    assert list(found) == ["1 shared", "1 private", "4 shared", "4 private"]
    for figures in found.values():
        assert len(figures) == 6
        assert min(figures) > 0
    assert re.match(r"Cold was (cold|not cold): ", lines[7])


def test_the_median_of_the_passes_is_named_and_drawn(measured: Run) -> None:
    assert len(re.findall(r"images/s at best, with \d (shared|private) threads", measured.text("compare"))) == 2
    assert len(re.findall(r"TFRecord is \d+\.\d\d times as fast as JPEG", measured.text("compare"))) == 2
    for cell in ("prepare-data", "plot"):
        assert len(measured.shown(cell, "image/png")) == 1, cell


def test_a_bar_shows_how_far_the_measurement_is(measured: Run) -> None:
    assert measured.bars("measure-all") == [1.0]


def test_nothing_puzzling_is_printed_to_stderr(measured: Run) -> None:
    assert {name: noise for name, noise in measured.stderr.items() if noise} == {}


if LONG:

    def test_a_tfrecord_with_another_image_in_it_is_found_out() -> None:
        folder = own_folder("tfrecord-other-image")
        other = "_example(Path(found.files[0]).read_bytes(), label)"
        lesson = changed_module(LESSON, "image_files.py", folder, "_example(Path(file).read_bytes(), label)", other)
        run = in_a_job(lesson, folder, FEW)
        assert run.status != 0
        assert (
            "the cell 'same-pixels' failed with AssertionError: 59 of 60 images are not the same out of both" in run.log
        )
        shutil.rmtree(folder)

    @pytest.mark.parametrize(
        ("values", "cell", "words"),
        [
            (
                {"data_folder": "nowhere"},
                "prepare-data",
                "There is no data: nowhere has no folders, one for each class",
            ),
            ({"threads": []}, "imports", "must be 1 or more, and no more shards than images."),
            ({"image_size": 60_000}, "imports", "start a session with more memory."),
        ],
    )
    def test_what_cannot_work_ends_early_with_one_sentence(values: dict[str, object], cell: str, words: str) -> None:
        folder = own_folder("tfrecord-cannot")
        run = in_a_job(LESSON, folder, {**FEW, **values})
        assert run.status != 0
        assert f"the cell {cell!r} failed with " in run.log
        assert words in run.log
        shutil.rmtree(folder)
