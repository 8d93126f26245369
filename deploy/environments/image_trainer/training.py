"""Train a network on a folder of images from the browser, watch it learn, and try a picture on it.

    python3 -m image_trainer SOCKET BASE HOME

The page is Gradio's, on the Unix socket SOCKET, at the path BASE of the portal; the network is Keras'. A training goes
on when its page is closed, until it is stopped or the session ends. What is trained is kept in HOME/image-trainer.

It is copied into the environment image-trainer, whose packages it imports late: the functions at its top need none.
"""

from __future__ import annotations

import functools
import gzip
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif"}  # what keras.utils.image_dataset_from_directory reads
FEWEST = 10  # images of all classes together
SHOWN = 24
SMALL = 128  # pixels
LOOK_EVERY_S = 1.0
EXAMPLE_OF_EACH = 200
FASHION = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Boot")
WELCOME = "Each class of images is a folder of its own below the folder that you name."
CURVES = ["epoch", "value", "images"]
COLOURS = {"training": "#1b4f9c", "validation": "#c2410c"}


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


def points(epoch: int, logs: Mapping[str, float], measure: str) -> list[tuple[int, float, str]]:
    """The points of an epoch on the curves of a measure, ``loss`` or ``accuracy``."""
    of = {"training": logs.get(measure), "validation": logs.get(f"val_{measure}")}
    return [(epoch, float(value), images) for images, value in of.items() if value is not None]


def kept_in(folder: Path) -> list[str]:
    """The names of the networks that are kept, the newest first."""
    files = sorted(folder.glob("*.keras"), key=lambda one: one.stat().st_mtime, reverse=True)
    return [one.stem for one in files if one.with_suffix(".json").is_file()]


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


def page(home: Path, data_sets: Sequence[str]) -> Any:
    """Gradio's page."""
    import gradio as gr
    import pandas as pd

    kept = home / "image-trainer"
    training = Training(kept)

    def told(act: Any) -> Any:
        """The same, with what is refused as a message on the page."""

        @functools.wraps(act)
        def done(*given: Any) -> Any:
            try:
                return act(*given)
            except (NotPossible, OSError, RuntimeError) as error:  # RuntimeError: ~NAME of nobody
                raise gr.Error(str(error), title="Not possible", print_exception=False) from error

        return done

    def look(chosen: str | None) -> tuple[Any, ...]:
        names = kept_in(kept)
        on = training.is_on
        shown = gr.Dropdown(choices=names, value=chosen if on and chosen in names else next(iter(names), None))
        # None while there are no points: from the first ones the page has its axes and colours.
        curves = (pd.DataFrame(rows, columns=CURVES) if rows else None for rows in (training.loss, training.accuracy))
        buttons = (gr.Button(interactive=not on), gr.Button(interactive=on))
        return training.words, *curves, shown, *buttons, gr.Timer(active=on)

    def begin(folder: str, size: int, epochs: int, chosen: str | None) -> tuple[Any, ...]:
        training.start(Path(folder).expanduser(), int(size), int(epochs))
        return look(chosen)

    def example() -> str:
        folder = kept / "example"
        write_example(folder, data_sets)
        return str(folder)

    def some_images(folder: str) -> list[tuple[Any, str]]:
        classes = classes_of(Path(folder).expanduser())
        of_each = max(1, SHOWN // len(classes))
        return [(small(image), name) for name, images in classes.items() for image in images[:of_each]]

    def answer(name: str, image: Any) -> Any:
        if image is None:
            return None
        if not name:
            raise NotPossible("No network is trained yet.")
        return guess(kept / f"{name}.keras", image)

    with gr.Blocks(title="Image Trainer", analytics_enabled=False) as blocks:
        gr.Markdown("# Image Trainer")
        with gr.Row():
            with gr.Column(scale=2):
                folder = gr.Textbox(str(kept / "example"), label="Folder of images", info=WELCOME)
                with gr.Row():
                    show = gr.Button("Show images")
                    make = gr.Button("Make an example")
                size = gr.Dropdown([32, 64, 128], value=32, label="Size of the images, in pixels")
                epochs = gr.Slider(1, 50, value=5, step=1, label="Epochs")
                with gr.Row():
                    train = gr.Button("Train", variant="primary")
                    stop = gr.Button("Stop", variant="stop", interactive=False)
            with gr.Column(scale=3):
                words = gr.Markdown(WELCOME)
                plots = [
                    gr.LinePlot(
                        x="epoch",
                        y="value",
                        color="images",
                        color_map=COLOURS,
                        y_title=what,
                        height=200,
                        show_label=False,
                    )
                    for what in ("loss", "accuracy")
                ]
        pictures = gr.Gallery(label="Images", columns=10, height=230, object_fit="contain")
        gr.Markdown("## Try an image")
        with gr.Row():
            with gr.Column(scale=2):
                network = gr.Dropdown([], label="Network")
                image = gr.Image(type="pil", sources=["upload", "clipboard"], label="Image", height=240)
            label = gr.Label(num_top_classes=5, label="What it is", scale=3)
        timer = gr.Timer(LOOK_EVERY_S, active=False)
        seen = [words, *plots, network, train, stop, timer]
        gr.on([blocks.load, timer.tick], look, network, seen, show_progress="hidden")
        train.click(told(begin), [folder, size, epochs, network], seen, show_progress="hidden")
        stop.click(training.stop)
        make.click(told(example), None, folder).success(told(some_images), folder, pictures)
        show.click(told(some_images), folder, pictures)
        gr.on([image.change, network.change], told(answer), [network, image], label)
    return blocks


def main(socket: str, base: str, home: str) -> None:
    """Serve the page until the session ends it."""
    import os

    import gradio as gr
    import uvicorn
    from fastapi import FastAPI

    data_sets = os.environ.get("DATASET_PATH", "").split(os.pathsep)
    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    app = gr.mount_gradio_app(FastAPI(), page(Path(home), data_sets), "/", root_path=base, theme=theme, footer_links=[])
    uvicorn.run(app, uds=socket, access_log=False)  # its log is about the trainings


if __name__ == "__main__":
    main(*sys.argv[1:])
