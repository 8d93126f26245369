"""The training step of the template tensorflow/resnet50, out of its own cells; PYTHONPATH names its folder."""

from __future__ import annotations

import contextlib
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import fast_layers
import keras
import tensorflow as tf
import timed_training

from tests.bench.training import training_script

LESSON = Path(fast_layers.__file__).with_name("resnet50.ipynb")


def main() -> None:
    """The lesson's network, pipeline and optimizer on the lesson's batch of noise."""
    asked = training_script.arguments()
    lesson = cells(asked.batch_size, asked.image_size, asked.precision)
    model = lesson["compiled"]("ours")
    batches = lesson["batches"](None, "synthetic")

    def train(steps: int) -> float:
        timing = timed_training.train(model, batches, steps, timed_training.Timing(asked.batch_size, warm_up=0))
        return float(timing.losses[-1])

    training_script.serve(train)


def cells(batch_size: int, image_size: int, precision: str) -> dict[str, Any]:
    """The names that the lesson's cells give: with its own values, but for these."""
    data = Namespace(classes=1000, train=Namespace(count=100 * batch_size))
    policy = {"float32": "float32", "bfloat16": "mixed_bfloat16"}[precision]
    names = {"keras": keras, "layers": keras.layers, "tf": tf, "fast_layers": fast_layers, "contextlib": contextlib}
    found = {cell["id"]: "".join(cell["source"]) for cell in json.loads(LESSON.read_bytes())["cells"]}
    names |= {"on_tensorflow": True, "parts": 1, "seen": 0, "threads": 1, "data": data, "policies": {"ours": policy}}
    exec(found["parameters"], names)  # noqa: S102  the lesson as it stands is what is measured
    names |= {"batch_size": batch_size, "image_size": image_size, "precisions": ["ours"]}
    for cell in ("batches", "model", "compile"):
        exec(found[cell], names)  # noqa: S102
    return names


if __name__ == "__main__":
    main()
