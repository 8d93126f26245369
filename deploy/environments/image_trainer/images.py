"""The images of each class, in folders of the person's; and a folder to begin with. They need no library but Pillow."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif"}  # what keras.utils.image_dataset_from_directory reads
FEWEST = 10  # images of all classes together
SMALL = 128  # pixels
EXAMPLE_OF_EACH = 200
FASHION = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Boot")


class NotPossible(Exception):
    """What a person asked for is not possible; its words say why."""


def classes_of(folder: Path) -> dict[str, list[Path]]:
    """The images of each class: those in each folder below ``folder``.

    Raises:
        NotPossible: there are fewer than two classes, or too few images.
    """
    if not folder.is_dir():
        raise NotPossible(f"There is no folder {folder}.")
    classes = {one.name: images_in(one) for one in sorted(folder.iterdir()) if one.is_dir() and one.name[0] != "."}
    classes = {name: images for name, images in classes.items() if images}
    if len(classes) < 2 or sum(map(len, classes.values())) < FEWEST:
        raise NotPossible(
            f"{folder} needs two folders with images in them, and {FEWEST} images in all: one for each class."
        )
    return classes


def images_in(folder: Path) -> list[Path]:
    """The images of one folder."""
    return sorted(one for one in folder.iterdir() if one.suffix.lower() in ENDINGS and one.is_file())


def small(image: Path) -> Any:
    """An image as the page shows it: a picture of its own, since the page hands out no files of the home."""
    from PIL import Image

    with Image.open(image) as opened:
        opened.thumbnail((SMALL, SMALL))
        return opened.convert("RGB")


def fashion_images(data_sets: Sequence[str]) -> tuple[bytes, bytes]:
    """The pixels and the classes of Fashion-MNIST, where the site has it.

    Raises:
        NotPossible: it is in none of these folders.
    """
    for one in data_sets:
        images, labels = (
            Path(one, "fashion-mnist", f"train-{what}-ubyte.gz") for what in ("images-idx3", "labels-idx1")
        )
        if images.is_file() and labels.is_file():
            return gzip.decompress(images.read_bytes())[16:], gzip.decompress(labels.read_bytes())[8:]
    raise NotPossible("The example's images (Fashion-MNIST) are not on this cluster.")


def write_example(folder: Path, data_sets: Sequence[str]) -> None:
    """A folder to begin with: clothes of ten classes, 28 by 28 pixels."""
    from PIL import Image

    pixels, labels = fashion_images(data_sets)
    left = dict.fromkeys(range(len(FASHION)), EXAMPLE_OF_EACH)
    for number, label in enumerate(labels):
        if left[label]:
            left[label] -= 1
            place = folder / FASHION[label]
            place.mkdir(parents=True, exist_ok=True)
            Image.frombytes("L", (28, 28), pixels[number * 784 : (number + 1) * 784]).save(place / f"{number}.png")
