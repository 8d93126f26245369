"""Where lessons find their images: the cluster's folders, the person's own, the network; words where none has them."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest

from portal.lessons import lesson_images
from portal.lessons.lesson_images import DataError


def data_set(folder: Path, images: int = 3) -> None:
    """A data set in MNIST's own format: image n holds the byte n, and its label is n."""
    folder.mkdir(parents=True)
    for part in ("train", "t10k"):
        pixels = b"".join(bytes([number]) * 784 for number in range(images))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + pixels))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + bytes(range(images))))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A home, and a network that answers with what ``answer`` gives; which addresses were asked."""
    found = SimpleNamespace(home=tmp_path / "home", addresses=[], answer=None)
    monkeypatch.setenv("HOME", str(found.home))

    def urlopen(address: str, timeout: float) -> Any:
        found.addresses.append(address)
        assert timeout == lesson_images.FETCH_WITHIN_S
        if found.answer is None:
            raise URLError("no way out")
        return io.BytesIO(found.answer(address))

    monkeypatch.setattr(lesson_images, "urlopen", urlopen)
    return found


def files_of(folder: Path) -> Callable[[str], bytes]:
    """A network that has the files of ``folder``."""
    return lambda address: (folder / address.rpartition("/")[2]).read_bytes()


def test_images_and_labels_are_read_as_they_are(asked: SimpleNamespace, tmp_path: Path) -> None:
    data_set(tmp_path / "mnist")
    data = lesson_images.load("mnist", {"DATASET_PATH": str(tmp_path)})
    assert (data.title, data.class_names[7]) == ("MNIST", "7")
    assert data.x_train.shape == data.x_test.shape == (3, 28, 28)
    assert str(data.x_test.dtype) == "uint8"
    assert [int(image.max()) for image in data.x_train] == [0, 1, 2]
    assert list(data.y_test) == [0, 1, 2]
    assert asked.addresses == []


def test_mnist_is_taken_before_fashion_mnist_and_the_first_folder_before_the_second(tmp_path: Path) -> None:
    data_set(tmp_path / "a" / "fashion-mnist")
    variables = {"DATASET_PATH": f"{tmp_path}/a::{tmp_path}/b"}
    assert lesson_images.find("auto", variables) == ("fashion-mnist", tmp_path / "a" / "fashion-mnist")
    data_set(tmp_path / "b" / "mnist", 2)
    assert lesson_images.find("auto", variables).title == "MNIST"
    data_set(tmp_path / "a" / "mnist", 5)
    assert len(lesson_images.read(lesson_images.find("auto", variables)).x_train) == 5


def test_a_folder_that_lacks_a_file_or_may_not_be_entered_is_passed_over(tmp_path: Path) -> None:
    for name in ("half", "whole"):
        data_set(tmp_path / name / "mnist")
    (tmp_path / "half/mnist/t10k-labels-idx1-ubyte.gz").unlink()
    variables = {"DATASET_PATH": f"{tmp_path}/half:{tmp_path}/{'x' * 300}:{tmp_path}/whole"}
    assert lesson_images.find("mnist", variables).folder == tmp_path / "whole" / "mnist"


@pytest.mark.parametrize(("wanted", "named"), [("auto", "mnist or fashion-mnist is"), ("mnist", "mnist is")])
def test_without_data_the_folders_are_named(
    asked: SimpleNamespace, tmp_path: Path, wanted: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"DATASET_PATH": f"{tmp_path}:/none"}
    with pytest.raises(DataError, match=f"There is no data: {named} in none of {tmp_path}, /none; ask your"):
        lesson_images.find(wanted, variables)
    with pytest.raises(DataError, match=f"{named} in none of {tmp_path}, /none and cannot be fetched; ask your"):
        lesson_images.load(wanted, variables)
    assert (
        "mnist is not on this cluster and cannot be fetched (<urlopen error no way out>).\n" in capsys.readouterr().out
    )


def test_a_wrong_name_lists_the_data_sets() -> None:
    for ask in (lesson_images.find, lesson_images.load):
        with pytest.raises(DataError, match="data_set is 'cifar'; use 'auto', 'mnist' or 'fashion-mnist'"):
            ask("cifar", {})


def test_what_the_network_has_is_fetched_once_into_the_persons_own_folder(
    asked: SimpleNamespace, tmp_path: Path
) -> None:
    data_set(tmp_path / "far")
    asked.answer = files_of(tmp_path / "far")
    variables = {"DATASET_PATH": str(tmp_path / "none")}
    for _ in range(2):
        assert lesson_images.load("mnist", variables).name == "mnist"
    assert asked.addresses == [f"{lesson_images.ORIGINS['mnist']}/{file}" for file in lesson_images.FILES]
    assert sorted(file.name for file in (asked.home / ".cache/datasets/mnist").iterdir()) == sorted(lesson_images.FILES)


def test_a_fetch_that_breaks_off_leaves_no_half_file_and_goes_on_the_next_time(
    asked: SimpleNamespace, tmp_path: Path
) -> None:
    data_set(tmp_path / "far")
    data_set(tmp_path / "near" / "fashion-mnist")
    whole = files_of(tmp_path / "far")

    def broken(address: str) -> bytes:
        if "t10k" in address:
            raise URLError("cut")
        return whole(address)

    asked.answer = broken
    variables = {"DATASET_PATH": str(tmp_path / "near")}
    assert lesson_images.load("auto", variables).name == "fashion-mnist"
    kept = sorted(file.name for file in (asked.home / ".cache/datasets/mnist").iterdir())
    assert kept == [file for file in sorted(lesson_images.FILES) if file.startswith("train")]
    asked.answer = whole
    assert lesson_images.load("auto", variables).name == "mnist"


def test_what_keras_has_fetched_before_is_used(asked: SimpleNamespace, tmp_path: Path) -> None:
    folder = tmp_path / "keras" / "datasets"
    folder.mkdir(parents=True)
    images, labels = np.zeros((2, 28, 28), np.uint8), np.array([4, 2], np.uint8)
    np.savez(folder / "mnist.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    data = lesson_images.load("auto", {"DATASET_PATH": "/none", "KERAS_HOME": str(tmp_path / "keras")})
    assert (data.name, list(data.y_train), asked.addresses) == ("mnist", [4, 2], [])
