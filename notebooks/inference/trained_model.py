"""What the lessons on inference begin with: real images, and a network that was really trained on them.

A network takes the bytes of an image as numbers from 0 to 255; scaling them is its first layer, so that a program that
uses an exported file has nothing to prepare. A trained network is kept in a file and used again.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import lesson_folders
import numpy as np
from IPython.display import ProgressBar
from lesson_data import Data, check_accuracy, policy

sys.path.append(str(Path(__file__).resolve().parent.parent / "tensorflow"))  # the lessons on training lie there
from fast_layers import FusedBatchNormalization

CLASSES = 10
BATCH = 128
CHECKED = 2_000  # test images that tell whether the training was one
MOMENTUM = 0.9
LEARNING_RATE = {"small": 3e-3, "resnet50": 1e-3}


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def build(kind: str) -> keras.Model:
    """A network that gives ten probabilities for an image: ``resnet50``, or a ``small`` one of the same kind."""
    inputs = keras.Input((28, 28, 1), name="image")
    images = keras.layers.Rescaling(1 / 255)(inputs)
    features = _resnet50(images) if kind == "resnet50" else _small(images)
    probabilities = keras.layers.Dense(CLASSES, activation="softmax", dtype="float32", name="probabilities")(features)
    return keras.Model(inputs, probabilities, name=kind)


def _resnet50(images: Any) -> Any:
    """ResNet50 as it is, on images of 56 x 56 pixels."""
    larger = keras.layers.UpSampling2D(2)(images)
    return keras.applications.ResNet50(weights=None, include_top=False, input_tensor=larger, pooling="avg").output


def _small(images: Any) -> Any:
    """Three residual blocks, as ResNet50 has sixteen."""
    layers = _normalised(images, 16, 3, stride=2)
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        inner = _normalised(_normalised(layers, filters, 3, stride), filters, 3, activation=None)
        shortcut = layers if stride == 1 else _normalised(layers, filters, 1, stride, activation=None)
        layers = keras.layers.ReLU()(keras.layers.Add()([inner, shortcut]))
    return keras.layers.GlobalAveragePooling2D()(layers)


def _normalised(layers: Any, filters: int, size: int, stride: int = 1, activation: str | None = "relu") -> Any:
    layers = keras.layers.Conv2D(filters, size, stride, padding="same", use_bias=False)(layers)
    layers = keras.layers.BatchNormalization()(layers)
    return keras.layers.ReLU()(layers) if activation else layers


def _fused(layer: keras.layers.Layer) -> keras.layers.Layer:
    """A copy. Normalizations are fused, and remember the last steps only: a short training has no time for more."""
    config = layer.get_config()
    if isinstance(layer, keras.layers.BatchNormalization):
        return FusedBatchNormalization.from_config(config | {"momentum": MOMENTUM})
    return type(layer).from_config(config)


def _policy_here() -> str:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
    return policy(Path("/proc/cpuinfo").read_text(), details[0] if details else None)


def train(kind: str, data: Data, images: int, epochs: int, seed: int, tell: Callable[[str], None]) -> keras.Model:
    """A network trained on the first ``images`` images, ``epochs`` times; it computes in float32 afterwards."""
    keras.utils.set_random_seed(seed)
    x, y = data.x_train[:images], data.y_train[:images]
    model, before = build(kind), keras.config.dtype_policy()
    keras.config.set_dtype_policy(_policy_here())
    try:
        learner = keras.models.clone_model(build(kind), clone_function=_fused)
    finally:
        keras.config.set_dtype_policy(before)
    learner.set_weights(model.get_weights())
    steps = epochs * -(-len(x) // BATCH)
    rate = keras.optimizers.schedules.CosineDecay(LEARNING_RATE[kind], steps)
    loss = "sparse_categorical_crossentropy"
    learner.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"], jit_compile=False)
    learner.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=[_Progress(epochs, len(x), tell)])
    model.set_weights(learner.get_weights())
    return model


class _Progress(keras.callbacks.Callback):  # type: ignore[misc]
    """A bar, and a line for every epoch."""

    def __init__(self, epochs: int, images: int, tell: Callable[[str], None]) -> None:
        super().__init__()
        self.epochs, self.images, self.tell = epochs, images, tell

    def on_train_begin(self, logs: Any = None) -> None:
        self.bar = ProgressBar(self.epochs * self.params["steps"])
        self.bar.display()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch, self.started = epoch + 1, time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.bar.progress += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        seconds = time.monotonic() - self.started
        speed = f"{seconds:.0f} s, {self.images / seconds:,.0f} images/s"
        self.tell(f"Epoch {self.epoch} of {self.epochs}: training accuracy {(logs or {})['accuracy']:.4f}, {speed}")


def obtain(
    kind: str, data: Data, folder: Path, images: int, epochs: int, seed: int, tell: Callable[[str], None] = say
) -> tuple[keras.Model, Path]:
    """The network out of its file in ``folder``, or trained now and kept there; and the file.

    Raises:
        LessonError: it learned less than so much training should give.
    """
    images = min(images, len(data.x_train))
    file = folder / f"{kind}-{data.name}-{epochs}x{images}-seed{seed}.keras"
    if file.is_file():
        tell(f"{file} was trained before and is used again; take the file away to train anew")
        model = keras.models.load_model(file)
    else:
        model = train(kind, data, images, epochs, seed, tell)
    probabilities = model.predict(data.x_test[:CHECKED], batch_size=100, verbose=0)
    accuracy = float((probabilities.argmax(axis=1) == data.y_test[:CHECKED]).mean())
    check_accuracy(kind, data.name, epochs * images, accuracy)
    tell(f"Accuracy on {len(probabilities):,} test images {accuracy:.4f}")
    if not file.is_file():
        _keep(model, file)
    return model, file


def _keep(model: keras.Model, file: Path) -> None:
    """Keep it whole or not at all; Keras itself would write through a link that others put in the folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{secrets.token_hex(4)}.{file.name}")
    private = lesson_folders.temporary("trained-model-")
    try:
        saved = private / file.name
        model.save(saved)
        with saved.open("rb") as there, beside.open("xb") as kept:
            shutil.copyfileobj(there, kept)
        beside.rename(file)
    finally:
        beside.unlink(missing_ok=True)
        shutil.rmtree(private)


def export(model: keras.Model, file: Path, kinds: Sequence[str] = ("onnx", "openvino")) -> dict[str, Path]:
    """Write the network for other runtimes beside ``file``, as ONNX and as OpenVINO's own format."""
    model(np.zeros((1, 28, 28, 1), "float32"))  # Keras exports to ONNX only what has computed something
    endings = {"onnx": ".onnx", "openvino": ".xml"}
    paths = {kind: file.with_suffix(endings[kind]) for kind in kinds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Keras looks for names that NumPy once had
        for kind, path in paths.items():
            model.export(str(path), format=kind, verbose=False)
    return paths


def quantized(model: Any, batches: Sequence[np.ndarray]) -> Any:
    """An OpenVINO model in INT8, calibrated by NNCF on batches of images."""
    import nncf
    import rich

    rich.reconfigure(force_jupyter=False, force_terminal=False)  # NNCF's progress as plain lines
    return nncf.quantize(model, nncf.Dataset(batches), subset_size=len(batches), fast_bias_correction=False)
