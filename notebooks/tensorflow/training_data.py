"""What to train on and what to validate with: a folder as ImageNet is laid out, TFRecords, or images made here."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from image_files import Images, NoData, find, images, make_tfrecords

VALIDATION = ("val", "validation", "test")  # what the folder, or the TFRecord files, for it are called
SHARE = 5  # where nothing is called so, every fifth image, or file of TFRecords, is kept for it


@dataclass(frozen=True)
class Part:
    """Images to train on, or to validate with: JPEG files with their labels, TFRecord files, or both."""

    count: int
    files: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()
    records: tuple[str, ...] = ()


@dataclass(frozen=True)
class Data:
    """A data set in two parts."""

    train: Part
    validation: Part
    classes: int
    names: tuple[str, ...]  # of the classes, where they are known
    bytes_per_image: float
    source: str


def load(folder: str, made: Path, count: int, classes: int, seed: int, records: bool) -> Data:
    """Find a data set.

    Arguments:
        folder: with folders ``train`` and ``val``, each with one folder of JPEG files for each class; or with the
            classes alone, of which a fifth is kept for validation; or with TFRecord files ``train-…`` and
            ``validation-…``. '' makes images out of Fashion-MNIST, or draws stripes where there is none.
        made: where images, and TFRecord files of images, are put that are made here.
        count: how many images to use, those for validation included; 0 is all.
        classes: how many there are in TFRecord files, which do not tell.
        records: pack the images to train on into TFRecord files, too.

    Raises:
        NoData: there is nothing of that kind.
    """
    if folder and (found := _tfrecords(Path(folder))):
        return _of_tfrecords(folder, found, count, classes)
    train, validation = _images(folder, made / "jpeg", count, seed)
    packed = make_tfrecords(train, made / "tfrecord", shards=4) if records else []
    return Data(
        Part(len(train.files), train.files, train.labels, tuple(packed)),
        Part(len(validation.files), validation.files, validation.labels),
        len(train.classes),
        train.classes,
        replace(train, files=train.files[:1000]).bytes_per_image,  # of a million, asking all would take minutes
        train.source,
    )


def _images(folder: str, made: Path, count: int, seed: int) -> tuple[Images, Images]:
    """To train on, and to validate with."""
    root = Path(folder)
    own = next((root / name for name in VALIDATION if folder and (root / name).is_dir()), None)
    if own is None or not (root / "train").is_dir():
        if not folder and count < SHARE:
            raise NoData(f"images is {count}: use {SHARE} or more, of which a fifth is for validation.")
        every = images(folder, made, count or None, seed, draw=True)
        kept = max(1, len(every.files) // SHARE)
        return _slice(every, kept, None), _slice(every, 0, kept)
    train = find(root / "train", count or None, seed, f"the images in {folder}")
    validation = find(own, max(1, count // SHARE) if count else None, seed, train.source)
    if validation.classes != train.classes:
        other = sorted(set(train.classes) ^ set(validation.classes))
        raise NoData(f"{own} and {root / 'train'} must have the same classes; only one of them has {other[0]!r}.")
    return train, validation


def _slice(every: Images, first: int, end: int | None) -> Images:
    return replace(every, files=every.files[first:end], labels=every.labels[first:end])


def _tfrecords(folder: Path) -> list[str]:
    """The TFRecord files of a folder: those that say so, and those called as ImageNet's are."""
    numbered = "[0-9]" * 5
    patterns = ("*.tfrecord", "*.tfrecords", f"*-{numbered}-of-{numbered}", f"*.tfrecord-{numbered}-of-{numbered}")
    return sorted({str(path) for pattern in patterns for path in folder.glob(pattern) if path.is_file()})


def _of_tfrecords(folder: str, found: Sequence[str], count: int, classes: int) -> Data:
    kept = [name for name in found if Path(name).name.startswith(VALIDATION)] or found[::SHARE]
    rest = [name for name in found if name not in set(kept)]
    if not rest:
        raise NoData(f"{folder} has one TFRecord file only: there must be two, one of them for validation.")
    if classes < 2:
        raise NoData(f"{folder} has TFRecord files, which do not tell how many classes there are: set classes.")
    each = max(1, _records_in(rest[0]))
    train, validation = (
        Part(min(len(names) * each, most or len(names) * each), records=tuple(names))
        for names, most in ((rest, count), (kept, max(1, count // SHARE) if count else 0))
    )
    size = os.path.getsize(rest[0]) / each  # noqa: PTH202  a name, as TensorFlow takes it
    return Data(train, validation, classes, (), size, f"the TFRecords in {folder}")


def _records_in(name: str) -> int:
    """How many records a file has: each is its length, a check sum, the record, a check sum."""
    count = 0
    end = os.path.getsize(name)  # noqa: PTH202
    with Path(name).open("rb") as file:
        while file.tell() + 8 < end:
            (length,) = struct.unpack("<Q", file.read(8))
            file.seek(length + 8, os.SEEK_CUR)
            count += 1
    return count
