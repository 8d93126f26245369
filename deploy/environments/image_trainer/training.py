"""The one training of a page, in a thread of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .images import NotPossible, classes_of
from .networks import network_for

WELCOME = "Each class of images is a folder of its own below the folder that you name."


def points(epoch: int, logs: Mapping[str, float], measure: str) -> list[tuple[int, float, str]]:
    """The points of an epoch on the curves of a measure, ``loss`` or ``accuracy``."""
    of = {"training": logs.get(measure), "validation": logs.get(f"val_{measure}")}
    return [(epoch, float(value), images) for images, value in of.items() if value is not None]


class Training:
    """The one training of this page, in a thread of its own; the page looks at it."""

    def __init__(self, kept: Path) -> None:
        self.kept = kept
        self.words = WELCOME
        self.loss: list[tuple[int, float, str]] = []
        self.accuracy: list[tuple[int, float, str]] = []
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._begins = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether it goes on."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, folder: Path, size: int, epochs: int) -> None:
        """Begin, unless one is on.

        Raises:
            NotPossible: one is on, or the folder has no images.
        """
        with self._begins:  # another tab may ask as well, and a folder may take seconds to list
            if self.is_on:
                raise NotPossible("A training is on: stop it first, or wait for its end.")
            classes = classes_of(folder)
            self.loss = []
            self.accuracy = []
            self._stop.clear()
            self.words = f"Reads {sum(map(len, classes.values())):,} images of {len(classes)} classes …"
            self._thread = threading.Thread(target=self._run, args=(folder, list(classes), size, epochs), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Have it end after this step; what it has learnt is kept."""
        self._stop.set()

    def _run(self, folder: Path, classes: list[str], size: int, epochs: int) -> None:
        try:
            self._train(folder, classes, size, epochs)
        except Exception as error:
            self.words = f"It failed: `{str(error).replace('`', ' ')}`"
            raise  # into the log

    def _train(self, folder: Path, classes: list[str], size: int, epochs: int) -> None:
        import keras

        training, validation = keras.utils.image_dataset_from_directory(
            folder, class_names=classes, validation_split=0.2, subset="both", seed=1, image_size=(size, size)
        )
        network = network_for(len(classes), size)
        began = time.monotonic()

        def step(*_: Any, **__: Any) -> None:
            network.stop_training |= self._stop.is_set()

        def epoch(number: int, logs: Mapping[str, float]) -> None:
            self.loss += points(number + 1, logs, "loss")
            self.accuracy += points(number + 1, logs, "accuracy")
            right = f"{logs['val_accuracy']:.0%} of the images that it has not seen are told right"
            self.words = f"Epoch {number + 1} of {epochs} in {time.monotonic() - began:.0f} s: {right}."

        self.words = f"Epoch 1 of {epochs} …"
        looks = keras.callbacks.LambdaCallback(on_train_batch_end=step, on_epoch_end=epoch)
        network.fit(training, validation_data=validation, epochs=epochs, verbose=2, callbacks=[looks], shuffle=False)
        name = f"{folder.name}-{time.strftime('%Y-%m-%d-%H%M%S')}"
        self.kept.mkdir(parents=True, exist_ok=True)
        network.save(self.kept / f"{name}.keras")
        (self.kept / f"{name}.json").write_text(json.dumps({"classes": classes, "size": size}))
        self.words = f"{'Stopped' if self._stop.is_set() else 'Done'}. {self.words} Kept: {self.kept / name}.keras"
