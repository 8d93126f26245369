"""Image files to train on: one JPEG each, or packed into TFRecords; how to make both, and how to read them quickly.

A folder of images has one folder for each class, with the JPEG files of that class in it, as ImageNet is laid out.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lesson_images
import numpy as np
from PIL import Image

CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
WIDTH, HEIGHT = 500, 400  # of the images made here: about those of ImageNet
MARK = "made.json"
ALL = 60_000  # images in Fashion-MNIST
DRAWN = 1_000  # images, where all of those that are drawn are asked for


class NoData(RuntimeError):
    """There is nothing to train on; the message says what was looked for."""


class NoFashion(NoData):
    """There is no Fashion-MNIST."""


@dataclass(frozen=True)
class Images:
    """JPEG files, in an order that mixes the classes, with the number of each one's class."""

    files: tuple[str, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]
    source: str

    @property
    def bytes_per_image(self) -> float:
        """The mean size of a file."""
        return sum(os.path.getsize(file) for file in self.files) / len(self.files)  # noqa: PTH202  many files


@dataclass(frozen=True)
class How:
    """How a pipeline reads.

    Arguments:
        size: the side of the square images that come out, in pixels.
        threads: how many images are read and decoded at the same time.
        private: a pool of ``threads`` threads of its own, instead of the one that TensorFlow computes with.
        forever: after the last image comes the first again, and all batches are full.
    """

    size: int
    batch_size: int
    threads: int
    private: bool = False
    forever: bool = False


def images(folder: str, made: Path, count: int | None, seed: int = 0, draw: bool = False) -> Images:
    """The first ``count`` images of ``folder``, None all; with ``folder`` '' those made out of Fashion-MNIST.

    They are put below ``made``. With ``draw`` stripes are drawn where there is no Fashion-MNIST.

    Raises:
        NoData: ``folder`` has no images in folders of classes, or there is no Fashion-MNIST.
    """
    if folder:
        return find(Path(folder), count, seed, f"the images in {folder}")
    try:
        make_jpegs(made, *fashion_mnist(count or ALL), seed)
    except NoFashion:
        if not draw:
            raise
        make_jpegs(made, *stripes(count or DRAWN, seed), seed)
        return find(made, count, seed, "stripes drawn here (there is no Fashion-MNIST)")
    return find(made, count, seed, "Fashion-MNIST, enlarged and coloured")


def find(folder: Path, count: int | None, seed: int, source: str) -> Images:
    """``count`` images of a folder with one folder for each class, mixed.

    Raises:
        NoData: there are none.
    """
    classes = sorted(path.name for path in folder.glob("*") if path.is_dir()) if folder.is_dir() else []
    found = [
        (str(file), label)
        for label, name in enumerate(classes)
        for file in sorted((folder / name).iterdir())
        if file.suffix.lower() in (".jpg", ".jpeg")
    ]
    if not found:
        raise NoData(f"There is no data: {folder} has no folders, one for each class, with JPEG files in them.")
    order = np.random.default_rng(seed).permutation(len(found))[:count]
    files, labels = zip(*(found[index] for index in order), strict=True)
    return Images(files, labels, tuple(classes), source)


def fashion_mnist(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first images (count, 28, 28) and labels (count,) of Fashion-MNIST, from the folders of ``DATASET_PATH``.

    Raises:
        NoFashion: it is in none of them.
    """
    try:
        data = lesson_images.read(lesson_images.find("fashion-mnist"))
    except lesson_images.DataError as error:
        raise NoFashion(f"{error} Or name a folder of images.") from error
    return data.x_train[:count], data.y_train[:count]


def stripes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 28, 28) and labels (count,) of ten classes: stripes in ten directions, anywhere."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(CLOTHES), count).astype(np.uint8)
    angle = (labels * np.pi / len(CLOTHES))[:, np.newaxis, np.newaxis]
    down, right = np.mgrid[:28, :28]
    start = random.uniform(0, 2 * np.pi, (count, 1, 1))
    wave = np.sin(0.8 * (down * np.cos(angle) + right * np.sin(angle)) + start)
    return (127.5 + 127.5 * wave).astype(np.uint8), labels


def make_jpegs(folder: Path, small: np.ndarray, labels: np.ndarray, seed: int) -> None:
    """Photographs of clothes, so to say: images (n, 28, 28) enlarged, with colours and texture, about 105 KB each.

    The same call again finds them made. Others that this made before are taken away; nothing else is.

    Raises:
        NoData: ``folder`` holds something else.
    """
    mark = {"images": len(small), "seed": seed, "size": [WIDTH, HEIGHT], "check": zlib.crc32(small[:100])}
    if (folder / MARK).is_file() and json.loads((folder / MARK).read_text()) == mark:
        return
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise NoData(f"{folder} holds files that were not made here: name another folder for the images.")
    shutil.rmtree(folder, ignore_errors=True)
    for name in CLOTHES:
        (folder / name).mkdir(parents=True)
    paint = Paint(seed)
    for number, (image, label) in enumerate(zip(small, labels, strict=True)):
        (folder / CLOTHES[label] / f"{number:06}.jpg").write_bytes(jpeg(paint.picture(image)))
    (folder / MARK).write_text(json.dumps(mark))


class Paint:
    """Colours and texture: fine grain and coarse weave, so that a JPEG is as big as a photograph's."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._grain = self._random.normal(0, 21, (HEIGHT + 64, WIDTH + 64, 3)).astype(np.float32)

    def picture(self, small: np.ndarray) -> np.ndarray:
        """An image (28, 28) of grey as a picture (HEIGHT, WIDTH, 3) of colours, both bytes."""
        large = Image.fromarray(small).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
        shape = np.asarray(large, np.float32)[..., np.newaxis] / 255
        cloth, wall = self._random.uniform((110, 20), (235, 90), (3, 2)).T
        light = np.linspace(0.8, 1.1, WIDTH, dtype=np.float32)[np.newaxis, :, np.newaxis]
        top, left = self._random.integers(0, 64, 2)
        grain = self._grain[top : top + HEIGHT, left : left + WIDTH]
        painted = (wall * (1 - shape) + cloth * shape * (0.4 + 0.6 * shape)) * light + grain
        return painted.clip(0, 255).astype(np.uint8)


def jpeg(picture: np.ndarray) -> bytes:
    """A picture (height, width, 3) as a JPEG file of quality 90."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=90)
    return file.getvalue()


def make_tfrecords(found: Images, folder: Path, shards: int) -> list[str]:
    """Pack JPEG files, as they are, into ``shards`` TFRecord files below ``folder``; the files' names.

    Image ``i`` goes into file ``i % shards``, so that reading the files in turns gives the images in their order.
    """
    import tensorflow as tf

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("images-*.tfrecord"):
        old.unlink()
    names = [str(folder / f"images-{shard:05}-of-{shards:05}.tfrecord") for shard in range(shards)]
    for shard, name in enumerate(names):
        with tf.io.TFRecordWriter(name) as writer:
            for file, label in zip(found.files[shard::shards], found.labels[shard::shards], strict=True):
                writer.write(_example(Path(file).read_bytes(), label))
    return names


def _example(content: bytes, label: int) -> bytes:
    import tensorflow as tf

    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[content])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(example.SerializeToString())


def read_jpegs(found: Images, how: How) -> Any:
    """A ``tf.data.Dataset`` of batches out of single files: images (batch, size, size, 3) of bytes, labels (batch,)."""
    import tensorflow as tf

    def load(file: Any, label: Any) -> tuple[Any, Any]:
        return _decoded(tf.io.read_file(file), how.size), label

    files = tf.data.Dataset.from_tensor_slices((list(found.files), np.array(found.labels, np.int64)))
    return _batches(files.map(load, num_parallel_calls=how.threads), how)


def read_tfrecords(names: Sequence[str], how: How) -> Any:
    """The same batches in the same order out of TFRecord files."""
    import tensorflow as tf

    kinds = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def load(record: Any) -> tuple[Any, Any]:
        fields = tf.io.parse_single_example(record, kinds)
        return _decoded(fields["image/encoded"], how.size), fields["image/class/label"]

    records = tf.data.Dataset.from_tensor_slices(list(names)).interleave(
        lambda name: tf.data.TFRecordDataset(name, buffer_size=1 << 20),
        cycle_length=len(names),
        block_length=1,
        num_parallel_calls=min(how.threads, len(names)),
    )
    return _batches(records.map(load, num_parallel_calls=how.threads), how)


def _decoded(content: Any, size: int) -> Any:
    import tensorflow as tf

    image = tf.image.resize(tf.io.decode_jpeg(content, channels=3), (size, size))
    return tf.cast(tf.round(image), tf.uint8)


def _batches(dataset: Any, how: How) -> Any:
    endless = dataset.repeat() if how.forever else dataset
    return endless.batch(how.batch_size, drop_remainder=how.forever).prefetch(2).with_options(options(how))


def options(how: How) -> Any:
    """TensorFlow's options of a pipeline: the order of the files, the threads asked for, nothing tuned meanwhile.

    What tunes an endless pipeline sleeps for up to as long as the training took before it lets that end.
    """
    import tensorflow as tf

    asked = tf.data.Options()
    asked.deterministic = True
    asked.autotune.enabled = False
    if how.private:
        asked.threading.private_threadpool_size = how.threads
    return asked


def drop_from_cache(files: Sequence[str]) -> None:
    """Ask the kernel to forget the files' content, so that the next reading comes from the storage.

    Needs no rights (posix_fadvise(2), POSIX_FADV_DONTNEED). A file system in memory cannot do it, and says nothing.
    """
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
