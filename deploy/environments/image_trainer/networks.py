"""The networks: what is trained, which are kept, and what one says of an image."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any


def kept_in(folder: Path) -> list[str]:
    """The names of the networks that are kept, the newest first."""
    files = sorted(folder.glob("*.keras"), key=lambda one: one.stat().st_mtime, reverse=True)
    return [one.stem for one in files if one.with_suffix(".json").is_file()]


def network_for(classes: int, size: int) -> Any:
    """A small convolutional network: it learns on the cores of a node, and faster on a GPU."""
    import keras

    layers = [keras.Input((size, size, 3)), keras.layers.Rescaling(1 / 255)]
    for filters in (32, 64, 128):
        layers += [keras.layers.Conv2D(filters, 3, padding="same", activation="relu"), keras.layers.MaxPooling2D()]
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dropout(0.2)]
    network = keras.Sequential([*layers, keras.layers.Dense(classes, activation="softmax")])
    network.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return network


@functools.lru_cache(maxsize=2)
def loaded(file: Path) -> tuple[Any, list[str], int]:
    """A network that was kept, its classes, and how big its images are."""
    import keras

    told = json.loads(file.with_suffix(".json").read_text())
    return keras.models.load_model(file), told["classes"], told["size"]


def guess(file: Path, image: Any) -> dict[str, float]:
    """How sure a network is of each class for an image."""
    import keras

    network, classes, size = loaded(file)
    pixels = keras.utils.img_to_array(image.convert("RGB").resize((size, size)))
    scores = network.predict(pixels[None], verbose=0)[0]
    return dict(zip(classes, map(float, scores), strict=True))
