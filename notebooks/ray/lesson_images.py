"""The images that lessons learn from: MNIST, or Fashion-MNIST where that cannot be had, and where they lie.

``load("auto")`` looks into the folders of ``DATASET_PATH``, which the cluster sets, then into the person's own
(``~/.cache/datasets``, and Keras's), and fetches what is in none of them into the former. ``find("auto")`` names a
folder of ``DATASET_PATH`` alone: for lessons whose processes read the files by themselves, on any node.

It runs in the kernels' own Pythons and needs NumPy only. The original is in portal/lessons; the copies beside lessons
are the same file, which ``portal notebooks check`` looks after.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import numpy as np

USUAL_FOLDER = "/usr/share/datasets"
FETCH_WITHIN_S = 10  # a compute node without a network must not wait for minutes
TITLES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
CLASS_NAMES = {
    "mnist": list("0123456789"),
    "fashion-mnist": ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"],
}
ORIGINS = {
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist",
    "fashion-mnist": "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
}
FILES = tuple(f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))


class DataError(Exception):
    """There is no data, or the name of none was given: one sentence that says what to do."""


class DataFolder(NamedTuple):
    """A data set that is there: its name, and the folder of its four files."""

    name: str
    folder: Path

    @property
    def title(self) -> str:
        """As people write it."""
        return TITLES[self.name]


class Data(NamedTuple):
    """Images (n, 28, 28) of bytes and their labels (n,), to learn from and to be tested on."""

    name: str
    x_train: Any
    y_train: Any
    x_test: Any
    y_test: Any

    @property
    def title(self) -> str:
        """As people write it."""
        return TITLES[self.name]

    @property
    def class_names(self) -> list[str]:
        """What the labels 0 to 9 mean."""
        return CLASS_NAMES[self.name]


def find(data_set: str = "auto", variables: Mapping[str, str] = os.environ) -> DataFolder:
    """The first of the data sets wanted that is in a folder of ``DATASET_PATH``, which every node sees.

    Raises:
        DataError: there is no such data set, or it is in none of the folders.
    """
    wanted = _wanted(data_set)
    folders = _folders(variables)
    for name in wanted:
        for folder in folders:
            if _is_whole(folder / name):
                return DataFolder(name, folder / name)
    raise DataError(_no_data(wanted, folders))


def load(data_set: str = "auto", variables: Mapping[str, str] = os.environ) -> Data:
    """The first of the data sets wanted that can be had; what the network refuses is said in a line.

    Raises:
        DataError: there is no such data set, or it is nowhere and cannot be fetched.
    """
    wanted = _wanted(data_set)
    folders = _folders(variables)
    own = Path.home() / ".cache" / "datasets"
    keras = Path(variables.get("KERAS_HOME") or Path.home() / ".keras") / "datasets"
    for name in wanted:
        there = next((folder / name for folder in (*folders, own, keras) if _is_whole(folder / name)), None)
        if there is None and _is_file(keras / f"{name}.npz"):
            return _read_keras(name, keras / f"{name}.npz")
        try:
            there = there or _fetched(name, own)
        except OSError as error:
            print(f"{name} is not on this cluster and cannot be fetched ({error}).", flush=True)
            continue
        return read(DataFolder(name, there))
    raise DataError(_no_data(wanted, folders, " and cannot be fetched"))


def read(found: DataFolder) -> Data:
    """The images and labels out of the files of a data set."""
    return Data(found.name, *_part(found.folder, "train"), *_part(found.folder, "t10k"))


def _wanted(data_set: str) -> list[str]:
    if data_set not in ("auto", *TITLES):
        raise DataError(f"data_set is {data_set!r}; use 'auto', 'mnist' or 'fashion-mnist'.")
    return list(TITLES) if data_set == "auto" else [data_set]


def _folders(variables: Mapping[str, str]) -> list[Path]:
    return [Path(folder) for folder in (variables.get("DATASET_PATH") or USUAL_FOLDER).split(":") if folder]


def _is_whole(folder: Path) -> bool:
    return all(_is_file(folder / file) for file in FILES)


def _is_file(path: Path) -> bool:
    """Whether a file is there; in a folder that may not be entered none is, where pathlib raises an error."""
    return os.path.isfile(path)  # noqa: PTH113


def _no_data(wanted: list[str], folders: list[Path], besides: str = "") -> str:
    return (
        f"There is no data: {' or '.join(wanted)} is in none of {', '.join(map(str, folders))}{besides}; "
        "ask your administrator for it (Debian's package dataset-fashion-mnist is enough)."
    )


def _part(folder: Path, part: str) -> Iterator[Any]:
    """Images and labels in MNIST's own file format: a header, then one byte for each value."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        yield np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        yield np.frombuffer(file.read(), np.uint8, offset=8)


def _read_keras(name: str, file: Path) -> Data:
    with np.load(file, allow_pickle=False) as arrays:
        return Data(name, *(arrays[part] for part in ("x_train", "y_train", "x_test", "y_test")))


def _fetched(name: str, own: Path) -> Path:
    """The person's own folder with the files out of the network; what breaks off leaves no half file."""
    folder = own / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        if not (folder / file).is_file():
            _fetch(f"{ORIGINS[name]}/{file}", folder / file)
    return folder


def _fetch(address: str, target: Path) -> None:
    with urlopen(address, timeout=FETCH_WITHIN_S) as answer:  # noqa: S310  the addresses are those above
        content = answer.read()
    handle, unfinished = tempfile.mkstemp(dir=str(target.parent), prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(unfinished).replace(target)
    except BaseException:
        Path(unfinished).unlink()
        raise
