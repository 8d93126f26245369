"""The image trainer without its libraries: which folders it takes, what its curves are made of, what it keeps."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from deploy.environments.image_trainer.images import NotPossible, classes_of, fashion_images
from deploy.environments.image_trainer.networks import kept_in
from deploy.environments.image_trainer.training import points


def images(folder: Path, count: int, ending: str = ".png") -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number}{ending}").touch()


def test_each_folder_with_images_is_a_class(tmp_path: Path) -> None:
    images(tmp_path / "dogs", 6)
    images(tmp_path / "cats", 4, ".JPG")
    images(tmp_path / ".thumbnails", 4)
    images(tmp_path / "notes", 4, ".txt")
    assert {name: len(found) for name, found in classes_of(tmp_path).items()} == {"cats": 4, "dogs": 6}


@pytest.mark.parametrize("counts", [(), (20,), (5, 4), (20, 0)])
def test_too_few_classes_or_images_are_refused_with_what_is_needed(tmp_path: Path, counts: tuple[int, ...]) -> None:
    for number, count in enumerate(counts):
        images(tmp_path / f"class-{number}", count)
    with pytest.raises(NotPossible, match="needs two folders with images in them, and 10 images in all"):
        classes_of(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotPossible, match=r"There is no folder .*/none"):
        classes_of(tmp_path / "none")


def test_an_epoch_is_a_point_on_each_curve_that_has_one() -> None:
    logs = {"loss": 1.5, "val_loss": 2, "accuracy": 0.5}
    assert points(3, logs, "loss") == [(3, 1.5, "training"), (3, 2.0, "validation")]
    assert points(3, logs, "accuracy") == [(3, 0.5, "training")]


def test_kept_networks_are_listed_with_the_newest_first_when_they_are_whole(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old", "half")):
        (tmp_path / f"{name}.keras").touch()
        os.utime(tmp_path / f"{name}.keras", (1000 - age, 1000 - age))
        if name != "half":
            (tmp_path / f"{name}.json").touch()
    assert kept_in(tmp_path) == ["new", "old"]
    assert kept_in(tmp_path / "none") == []


def test_the_example_is_read_where_the_site_has_its_images(tmp_path: Path) -> None:
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"h" * 16 + b"pixels"))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"h" * 8 + b"\1\2"))
    assert fashion_images(["/nowhere", str(tmp_path)]) == (b"pixels", b"\1\2")
    with pytest.raises(NotPossible, match="not on this cluster"):
        fashion_images(["", "/nowhere"])
