"""The page that a person sees, in Gradio's parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd

from .images import NotPossible, classes_of, small, write_example
from .networks import guess, kept_in
from .training import WELCOME, Training

SHOWN = 24
LOOK_EVERY_S = 1.0
CURVES = ["epoch", "value", "images"]
COLOURS = {"training": "#1b4f9c", "validation": "#c2410c"}


@dataclass(frozen=True)
class TrainerParts:
    """The parts of the page that say something, or that a person sets and presses."""

    folder: Any
    show: Any
    make: Any
    size: Any
    epochs: Any
    train: Any
    stop: Any
    words: Any
    plots: Sequence[Any]
    pictures: Any
    network: Any
    image: Any
    label: Any


class TrainerActs:
    """What the page does.

    Arguments:
        kept: the folder of what is trained.
        data_sets: where the site may have the example's images.
    """

    def __init__(self, kept: Path, data_sets: Sequence[str]) -> None:
        self.kept = kept
        self.training = Training(kept)
        self._data_sets = data_sets

    def look(self, chosen: str | None) -> tuple[Any, ...]:
        """How the training goes: words, curves, the networks that there are, what may be pressed."""
        names = kept_in(self.kept)
        on = self.training.is_on
        shown = gr.Dropdown(choices=names, value=chosen if on and chosen in names else next(iter(names), None))
        rows_of = (self.training.loss, self.training.accuracy)
        # None while there are no points: from the first ones the page has its axes and colours.
        curves = (pd.DataFrame(rows, columns=CURVES) if rows else None for rows in rows_of)
        buttons = (gr.Button(interactive=not on), gr.Button(interactive=on))
        return self.training.words, *curves, shown, *buttons, gr.Timer(active=on)

    def begin(self, folder: str, size: int, epochs: int, chosen: str | None) -> tuple[Any, ...]:
        """Begin to train."""
        self.training.start(Path(folder).expanduser(), int(size), int(epochs))
        return self.look(chosen)

    def example(self) -> str:
        """Make a folder to begin with; answers which."""
        folder = self.kept / "example"
        write_example(folder, self._data_sets)
        return str(folder)

    def some_images(self, folder: str) -> list[tuple[Any, str]]:
        """A few of each class."""
        classes = classes_of(Path(folder).expanduser())
        of_each = max(1, SHOWN // len(classes))
        return [(small(image), name) for name, images in classes.items() for image in images[:of_each]]

    def answer(self, name: str, image: Any) -> Any:
        """What a network says of an image."""
        if image is None:
            return None
        if not name:
            raise NotPossible("No network is trained yet.")
        return guess(self.kept / f"{name}.keras", image)


def told(act: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with what is refused as a message on the page."""

    @functools.wraps(act)
    def done(*given: Any) -> Any:
        try:
            return act(*given)
        except (NotPossible, OSError, RuntimeError) as error:  # RuntimeError: ~NAME of nobody
            raise gr.Error(str(error), title="Not possible", print_exception=False) from error

    return done


def page(home: Path, data_sets: Sequence[str]) -> Any:
    """Gradio's page."""
    acts = TrainerActs(home / "image-trainer", data_sets)
    with gr.Blocks(title="Image Trainer", analytics_enabled=False) as blocks:
        gr.Markdown("# Image Trainer")
        with gr.Row():
            with gr.Column(scale=2):
                to_set = form(acts.kept / "example")
            with gr.Column(scale=3):
                words = gr.Markdown(WELCOME)
                plots = [plot(what) for what in ("loss", "accuracy")]
        pictures = gr.Gallery(label="Images", columns=10, height=230, object_fit="contain")
        gr.Markdown("## Try an image")
        with gr.Row():
            with gr.Column(scale=2):
                network = gr.Dropdown([], label="Network")
                image = gr.Image(type="pil", sources=["upload", "clipboard"], label="Image", height=240)
            label = gr.Label(num_top_classes=5, label="What it is", scale=3)
        shown = {"words": words, "plots": plots, "pictures": pictures}
        connect(blocks, TrainerParts(**to_set, **shown, network=network, image=image, label=label), acts)
    return blocks


def form(example: Path) -> dict[str, Any]:
    """What a training is made of, and its buttons."""
    parts: dict[str, Any] = {"folder": gr.Textbox(str(example), label="Folder of images", info=WELCOME)}
    with gr.Row():
        parts["show"] = gr.Button("Show images")
        parts["make"] = gr.Button("Make an example")
    parts["size"] = gr.Dropdown([32, 64, 128], value=32, label="Size of the images, in pixels")
    parts["epochs"] = gr.Slider(1, 50, value=5, step=1, label="Epochs")
    with gr.Row():
        parts["train"] = gr.Button("Train", variant="primary")
        parts["stop"] = gr.Button("Stop", variant="stop", interactive=False)
    return parts


def plot(measure: str) -> Any:
    """The curves of a measure."""
    how = {"x": "epoch", "y": "value", "color": "images", "color_map": COLOURS}
    return gr.LinePlot(**how, y_title=measure, height=200, show_label=False)


def connect(blocks: Any, parts: TrainerParts, acts: TrainerActs) -> None:
    """What each part does when it is pressed or changed."""
    timer = gr.Timer(LOOK_EVERY_S, active=False)
    seen = [parts.words, *parts.plots, parts.network, parts.train, parts.stop, timer]
    asked = [parts.folder, parts.size, parts.epochs, parts.network]
    images = told(acts.some_images)
    gr.on([blocks.load, timer.tick], acts.look, parts.network, seen, show_progress="hidden")
    parts.train.click(told(acts.begin), asked, seen, show_progress="hidden")
    parts.stop.click(acts.training.stop)
    parts.make.click(told(acts.example), None, parts.folder).success(images, parts.folder, parts.pictures)
    parts.show.click(images, parts.folder, parts.pictures)
    gr.on([parts.image.change, parts.network.change], told(acts.answer), [parts.network, parts.image], parts.label)
