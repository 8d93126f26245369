"""What the lessons on ResNet50 train on and validate with: ImageNet's folders, classes alone, TFRecord files."""

from __future__ import annotations

import importlib
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

LESSONS = Path(__file__).parents[2] / "notebooks" / "tensorflow"
MODULES = ("image_files", "training_data")


@pytest.fixture(scope="module")
def lesson() -> Iterator[Any]:
    """The module, found as a session finds it."""
    sys.path.insert(0, str(LESSONS))
    yield importlib.import_module("training_data")
    sys.path.remove(str(LESSONS))
    for name in MODULES:
        sys.modules.pop(name, None)


def photographs(folder: Path, classes: str, each: int, ending: str = ".JPEG") -> None:
    """Small JPEG files, so many of each class."""
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(each):
            Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(folder / name / f"{number}{ending}", "JPEG")


def tfrecords(file: Path, count: int) -> None:
    """A TFRecord file of so many records; no check sum is right, and nobody looks."""
    file.write_bytes(b"".join(struct.pack("<Q", 100) + bytes(4 + 100 + 4) for _ in range(count)))


def load(lesson: Any, folder: Path, count: int = 0, classes: int = 0) -> Any:
    return lesson.load(str(folder), folder / "made", count, classes, seed=0, records=False)


def test_a_folder_as_imagenet_is_laid_out_has_its_own_images_to_validate_with(lesson: Any, tmp_path: Path) -> None:
    photographs(tmp_path / "train", "abc", 4)
    photographs(tmp_path / "val", "abc", 1)
    data = load(lesson, tmp_path)
    assert (data.train.count, data.validation.count, data.classes, data.names) == (12, 3, 3, ("a", "b", "c"))
    assert {Path(file).parts[-3] for file in data.train.files} == {"train"}
    for part in (data.train, data.validation):
        assert [data.names[label] for label in part.labels] == [Path(file).parent.name for file in part.files]


def test_of_classes_alone_a_fifth_is_kept_and_never_trained_on(lesson: Any, tmp_path: Path) -> None:
    photographs(tmp_path, "ab", 10, ".jpg")
    data = load(lesson, tmp_path, count=15)
    assert (data.train.count, data.validation.count) == (12, 3)
    assert not set(data.train.files) & set(data.validation.files)


def test_classes_that_only_one_of_the_folders_has_are_named(lesson: Any, tmp_path: Path) -> None:
    photographs(tmp_path / "train", "abc", 1)
    photographs(tmp_path / "val", "abd", 1)
    with pytest.raises(RuntimeError, match="must have the same classes; only one of them has 'c'"):
        load(lesson, tmp_path)


@pytest.mark.parametrize("called", ["{}-0000{}-of-00003", "{}-{}.tfrecord", "imagenet-{}.tfrecord-0000{}-of-00003"])
def test_tfrecords_are_found_by_their_names_and_counted(lesson: Any, tmp_path: Path, called: str) -> None:
    for part, files in {"train": 3, "validation": 1}.items():
        for number in range(files):
            tfrecords(tmp_path / called.format(part, number), 7)
    data = load(lesson, tmp_path, classes=1000)
    assert (len(data.train.records), data.train.count) == (3, 21)
    assert (len(data.validation.records), data.validation.count) == (1, 7)
    assert (data.classes, data.bytes_per_image) == (1000, 116)
    assert load(lesson, tmp_path, count=10, classes=1000).train.count == 10


def test_tfrecords_need_to_be_told_how_many_classes_they_have(lesson: Any, tmp_path: Path) -> None:
    tfrecords(tmp_path / "train-0.tfrecord", 1)
    tfrecords(tmp_path / "validation-0.tfrecord", 1)
    with pytest.raises(RuntimeError, match="do not tell how many classes there are: set classes"):
        load(lesson, tmp_path)


def test_a_single_tfrecord_file_leaves_none_to_validate_with(lesson: Any, tmp_path: Path) -> None:
    tfrecords(tmp_path / "all.tfrecord", 1)
    with pytest.raises(RuntimeError, match="one TFRecord file only: there must be two"):
        load(lesson, tmp_path, classes=2)


def test_where_there_is_no_data_stripes_are_drawn_and_it_says_so(
    lesson: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATASET_PATH", str(tmp_path))
    data = lesson.load("", tmp_path / "made", 20, 0, seed=0, records=False)
    assert data.source == "stripes drawn here (there is no Fashion-MNIST)"
    assert (data.train.count, data.validation.count, data.classes) == (16, 4, 10)
    before = {file: Path(file).stat().st_mtime_ns for file in data.train.files}
    again = lesson.load("", tmp_path / "made", 20, 0, seed=0, records=False)
    assert {file: Path(file).stat().st_mtime_ns for file in again.train.files} == before
