"""What the test of the fast layers runs in TensorFlow's environment: it prints one line ``RESULT {json}``.

The networks are those of the lesson ``tensorflow/resnet50``: its cells are run, as they stand there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.append(sys.argv[1])  # the folder of the lessons
import fast_layers
import h5py
import keras
import numpy as np
import tensorflow as tf
import timed_training
from keras.src.legacy.saving import legacy_h5_format

LESSONS, FOLDER = map(Path, sys.argv[1:3])
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
SHAPE = (32, 6, 5, 3)
SHORT = (1, 1, 1, 1)  # blocks of a stage: ResNet50 has 3, 4, 6, 3
NOISE = np.random.default_rng(0).integers(0, 256, (8, 64, 64, 3), dtype="uint8"), np.arange(8) % 5
OPEN = """
import keras, sys
model = keras.saving.load_model(sys.argv[1])
print(type(model.optimizer).__module__, float(model(keras.ops.ones((1, 64, 64, 3))).numpy().sum()))
"""


def lesson() -> dict[str, Any]:
    """The names that the cell with the network gives."""
    names: dict[str, Any] = {"keras": keras, "layers": keras.layers}
    (cell,) = (c for c in json.loads((LESSONS / "resnet50.ipynb").read_bytes())["cells"] if c["id"] == "model")
    exec("".join(cell["source"]), names)  # noqa: S102  the lesson as it stands is what is tested
    return names


def trained(fast: bool, **options: Any) -> np.ndarray:
    """The weights after three epochs of the same small network."""
    keras.utils.set_random_seed(1)
    convolutions = [keras.layers.Conv2D(4, 1, activation="relu"), keras.layers.Conv2D(4, 3)]
    after = [keras.layers.BatchNormalization(), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input(SHAPE[1:]), *convolutions, *after])
    model.compile(keras.optimizers.SGD(**options), "mse", jit_compile=False)
    if fast:
        counts = fast_layers.speed_up(model)
        assert counts == {"normalisations": 1, "convolutions": 1, "optimizers": 1}, counts
    x = np.random.default_rng(0).normal(size=SHAPE)
    model.fit(x, x.mean((1, 2, 3)), batch_size=8, epochs=3, shuffle=False, verbose=0)
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


def apart(**options: Any) -> dict[str, float]:
    """How far the fast way is from Keras's own after twelve steps, and how far both came: the largest differences."""
    plain, fast = trained(False, learning_rate=0.01, **options), trained(True, learning_rate=0.01, **options)
    start = trained(False, learning_rate=0.0)
    return {"apart": float(np.abs(plain - fast).max()), "moved": float(np.abs(plain - start).max())}


def network(names: dict[str, Any], fast: bool, **options: Any) -> keras.Model:
    """A short ResNet50, compiled as the lesson does it, whose blocks all count from the first step."""
    keras.utils.set_random_seed(1)
    model = names["resnet50"](64, 5, blocks=SHORT, **options)
    for layer in model.layers:
        if layer.name.endswith("_3_bn"):
            layer.gamma.assign(keras.ops.ones_like(layer.gamma))
    sgd = keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=5e-4)
    sgd.exclude_from_weight_decay(var_names=["gamma", "beta", "bias"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(sgd, loss, metrics=["accuracy"], jit_compile=False)
    if fast:
        fast_layers.speed_up(model)
    return model


def stepped(names: dict[str, Any], fast: bool) -> tuple[float, dict[str, np.ndarray]]:
    """The loss of a step, and how all moved."""
    model = network(names, fast)
    start = {variable.path: variable.numpy() for variable in model.variables}
    batches = tf.data.Dataset.from_tensors(NOISE)
    loss = model.fit(batches, verbose=0).history["loss"][0]
    return loss, {variable.path: variable.numpy() - start[variable.path] for variable in model.variables}


def proof(names: dict[str, Any]) -> dict[str, float]:
    """How far a step of the lesson's network is from that of plain Keras; 1 is nothing in common."""
    (slow, one), (quick, other) = stepped(names, False), stepped(names, True)
    moving = [path for path in one if "moving_" in path]
    rest = [path for path in one if "moving_" not in path]
    return {
        "loss": abs(slow - quick) / slow,
        "moving": max(distance([one[path]], [other[path]]) for path in moving),
        "weights": distance([one[path] for path in rest], [other[path] for path in rest]),
    }


def distance(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    """How far two ways are apart, as a share of the first."""
    return length([a - b for a, b in zip(one, other, strict=True)]) / length(one)


def length(arrays: list[np.ndarray]) -> float:
    """The length of all numbers together."""
    return float(sum(float(np.square(array).sum()) for array in arrays) ** 0.5)


def saved(names: dict[str, Any]) -> dict[str, Any]:
    """A fast network that has trained, saved, and opened by a Python that does not know the lesson's folder."""
    model = network(names, fast=True)
    model.fit(*NOISE, verbose=0)
    file = FOLDER / "model.keras"
    model.save(file)
    opened = subprocess.run([sys.executable, "-c", OPEN, file], capture_output=True, text=True, check=False)
    module, _, its = opened.stdout.strip().partition(" ")
    mine = float(model(keras.ops.ones((1, 64, 64, 3))).numpy().sum())
    return {"optimizer": module, "apart": abs(float(its or "nan") - mine), "errors": opened.stderr[-2000:]}


def standard(names: dict[str, Any]) -> dict[str, Any]:
    """Keras's own ResNet50, its weights in a file of the format that the published ones have."""
    keras.utils.set_random_seed(1)
    own = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=7, classifier_activation=None)
    random = np.random.default_rng(1)
    own.set_weights([w + random.uniform(0, 0.02, w.shape).astype(w.dtype) for w in own.get_weights()])
    file = FOLDER / "standard.h5"
    with h5py.File(file, "w") as opened:
        legacy_h5_format.save_weights_to_hdf5_group(opened, own)
    scores = {}
    for version, classes in (("v1", 7), ("v1.5", 7), ("v1", 9)):
        ours = names["resnet50"](64, classes, version, biases=True)
        names["begin_with"](ours, str(file))
        scores[f"{version}, {classes}"] = np.asarray(ours(NOISE[0]))
    pixels = keras.applications.resnet.preprocess_input(NOISE[0].astype("float32"))
    right = np.asarray(own(pixels))
    like = {name: its for name, its in scores.items() if its.shape == right.shape}
    near = {name: float(np.abs(its - right).max() / np.abs(right).max()) for name, its in like.items()}
    shape = list(scores["v1, 9"].shape)
    imagenet = names["resnet50"](224, 1000)
    return {
        "apart": near,
        "other classes": shape,
        "weights": sum(int(np.prod(w.shape)) for w in imagenet.trainable_weights),
    }


def mirrored(names: dict[str, Any]) -> dict[str, Any]:
    """Two devices, each with half of the batch, and plain Keras on the same two."""
    weights = []
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    for fast in (False, True):
        with strategy.scope():
            model = network(names, fast)
        model.fit(tf.data.Dataset.from_tensors(NOISE).repeat(2), verbose=0)
        weights.append(model.get_weights())
    kernel = model.get_layer("conv2_block1_1_conv").kernel.value
    copies = [np.asarray(copy) for copy in strategy.experimental_local_results(kernel)]
    return {
        "copies": len(copies),
        "copies apart": float(np.abs(copies[0] - copies[-1]).max()),
        "apart from plain": distance(*weights),
    }


def half(names: dict[str, Any]) -> dict[str, Any]:
    """The network in float16 after some steps: its optimizer, and whether its scale suits the gradients."""
    keras.config.set_dtype_policy("mixed_float16")
    model = network(names, fast=True)
    keras.config.set_dtype_policy("float32")
    start = model.get_layer("conv1_conv").kernel.numpy()
    timing = timed_training.Timing(8, warm_up=15, least_s=1)  # the first steps find the scale, and learn nothing
    timed_training.train(model, tf.data.Dataset.from_tensors(NOISE).repeat(), 16, timing)
    optimizer = model.optimizer
    inner = optimizer.inner_optimizer
    return {
        "optimizers": [type(optimizer).__name__, type(inner).__name__, inner.update_step.__name__],
        "learned": bool(np.abs(model.get_layer("conv1_conv").kernel.numpy() - start).max() > 0),
        "losses": timing.losses,
        "measured": timing.measured,
        "seconds": timing.seconds,
    }


if __name__ == "__main__":
    cells = lesson()
    parts = {part.__name__: part for part in (proof, saved, standard, mirrored, half)}
    result: dict[str, Any] = {name: parts[name](cells) for name in sys.argv[3:]}
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    ways = {"momentum": {"momentum": 0.9}, "nesterov": {"momentum": 0.9, "nesterov": True}, "plain": {}}
    result["ways"] = {name: apart(**options) for name, options in ways.items()}
    print("RESULT", json.dumps(result), flush=True)
