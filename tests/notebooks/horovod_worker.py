"""What the Horovod tests start on every rank: it prints one line ``RESULT {json}`` for each task that it is given."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import keras3_horovod as hvd
import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
keras.config.set_floatx("float64")
BATCH, STEPS, EPOCHS = 64, 12, 2
DATA = Path("/usr/share/datasets/fashion-mnist")
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=1.0),
    "adam": lambda: keras.optimizers.Adam(2e-3, weight_decay=1e-3),
}


def images() -> tuple[np.ndarray, np.ndarray]:
    """The first images of Fashion-MNIST, (768, 28, 28, 1) from 0 to 1, and their labels."""
    count = BATCH * STEPS
    with gzip.open(DATA / "train-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(16 + count * 784), np.uint8, offset=16).reshape(count, 28, 28, 1)
    with gzip.open(DATA / "train-labels-idx1-ubyte.gz") as file:
        return x / 255.0, np.frombuffer(file.read(8 + count), np.uint8, offset=8)


def network(seed: int, **options: Any) -> keras.Model:
    """A small network; every seed starts with other weights."""
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((28, 28, 1)), keras.layers.Conv2D(6, 5, 2, activation="relu"), keras.layers.Flatten()]
    model = keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")])
    model.compile(
        **{"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], "jit_compile": False} | options
    )
    return model


def train(kind: str) -> dict[str, Any]:
    """Train from rank 0's weights; the losses of the epochs, and a fingerprint of the weights."""
    x, y = hvd.shard(*images(), batch_size=BATCH)
    model = network(hvd.rank(), optimizer=hvd.DistributedOptimizer(OPTIMIZERS[kind]()))
    callbacks = [hvd.BroadcastState(), hvd.AverageMetrics()]
    batch = BATCH // hvd.size()
    seen = model.fit(x, y, batch, EPOCHS, shuffle=False, verbose=0, callbacks=callbacks).history
    weights = b"".join(weight.tobytes() for weight in model.get_weights())
    return {"loss": seen["loss"], "accuracy": seen["accuracy"], "weights": hashlib.sha256(weights).hexdigest()}


def embedding() -> list[float]:
    """Two steps with sparse gradients: the embedding's weights afterwards."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,), dtype="int32"), keras.layers.Embedding(6, 2), keras.layers.Flatten(),
                              keras.layers.Dense(1)])  # fmt: skip
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.5)), "mse", jit_compile=False)
    x, y = hvd.shard(np.array([[0, 1], [2, 3], [1, 4], [5, 0], [0, 0], [3, 1], [2, 2], [4, 5]]), np.arange(8.0))
    model.fit(x, y, len(x) // 2, shuffle=False, verbose=0, callbacks=[hvd.BroadcastState()])
    return [float(value) for value in model.layers[0].get_weights()[0].ravel()]


def normalised() -> dict[str, Any]:
    """Two epochs of a model with moving means, each rank with other numbers."""
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse", jit_compile=False)
    x = np.random.default_rng(hvd.rank()).normal(hvd.rank(), 1.0, (32, 3))
    model.fit(x, x[:, 0], 8, 2, verbose=0, callbacks=[hvd.BroadcastState(), hvd.AverageMetrics()])
    return {"means": [float(value) for value in np.ravel(model.layers[0].moving_mean)]}


def scaled() -> dict[str, Any]:
    """The loss scaling of 16-bit floats, around which the gradients are averaged: the weights of this rank."""
    scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(2e-3))
    x, y = hvd.shard(*images(), batch_size=BATCH)
    model = network(hvd.rank(), optimizer=hvd.DistributedOptimizer(scaling))
    seen = model.fit(x, y, BATCH // hvd.size(), 2, verbose=0, callbacks=[hvd.BroadcastState(), hvd.AverageMetrics()])
    weights = b"".join(weight.tobytes() for weight in model.get_weights())
    return {"loss": seen.history["loss"], "weights": hashlib.sha256(weights).hexdigest()}


def message(act: Any) -> str:
    """What an action that must fail says."""
    try:
        act()
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def refused() -> dict[str, str]:
    """What cannot work, and what is said of it, on every rank."""
    x, y = hvd.shard(*images())
    sgd, distributed = keras.optimizers.SGD, hvd.DistributedOptimizer

    def fit(optimizer: Any, samples: int = 64, callbacks: Any = None, **options: Any) -> None:
        callbacks = [hvd.BroadcastState()] if callbacks is None else callbacks
        network(0, optimizer=optimizer, **options).fit(x[:samples], y[:samples], 16, verbose=0, callbacks=callbacks)

    used = sgd()
    used.build([keras.Variable([1.0])])
    return {
        "plain": message(lambda: fit(sgd())),
        "xla": message(lambda: fit(distributed(sgd()), jit_compile=True)),
        "scaled": message(lambda: fit(keras.optimizers.LossScaleOptimizer(distributed(sgd())))),
        "apart": message(lambda: fit(distributed(sgd()), callbacks=[])),
        "uneven": message(lambda: fit(distributed(sgd()), samples=64 - 16 * hvd.rank())),
        "twice": message(lambda: distributed(distributed(sgd()))),
        "used": message(lambda: distributed(used)),
        "unequal": message(lambda: hvd.shard(x, y[:3])),
        "indivisible": message(lambda: hvd.shard(x, batch_size=hvd.size() + 1)),
    }


def saved() -> dict[str, Any]:
    """A saved model loads with a plain optimizer, a schedule and its step included."""
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    model = network(0, optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(schedule)))
    x, y = hvd.shard(*images(), batch_size=BATCH)
    model.fit(x, y, BATCH // hvd.size(), verbose=0, callbacks=[hvd.BroadcastState()])
    file = Path(f"model-{hvd.rank()}.keras")
    model.save(file)
    loaded = keras.saving.load_model(file).optimizer
    file.unlink()
    place = type(loaded).__module__ + "." + type(loaded).__name__
    return {"class": place, "step": int(loaded.iterations), "rate": float(loaded.learning_rate)}


class Dies(keras.callbacks.Callback):  # type: ignore[misc]  # Keras is in the kernel's environment only
    """One rank is lost in the middle of an epoch."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 3 and hvd.rank() == 1:
            print("rank 1 is lost", flush=True)
            os.kill(os.getpid(), self.number)


def lost(number: int) -> dict[str, Any]:
    """Train with a rank that is lost."""
    x, y = hvd.shard(*images())
    model = network(0, optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD()))
    model.fit(x, y, 8, 100, verbose=0, callbacks=[hvd.BroadcastState(), Dies(number)])
    return {}


TASKS: dict[str, Callable[[], dict[str, Any]]] = {
    "equal": lambda: {**{kind: train(kind) for kind in OPTIMIZERS}, "embedding": embedding()},
    "refused": lambda: {"refused": refused(), "saved": saved(), "normalised": normalised(), "scaled": scaled()},
    "killed": lambda: lost(signal.SIGKILL),
    "stopped": lambda: lost(signal.SIGSTOP),
}

if __name__ == "__main__":
    before = message(lambda: hvd.DistributedOptimizer(keras.optimizers.SGD()))
    hvd.init()
    result = {"rank": hvd.rank(), "size": hvd.size(), "node": os.environ.get("SLURMD_NODENAME", ""), "before": before}
    for task in sys.argv[1:]:
        print("RESULT", json.dumps(result | TASKS[task]()), flush=True)
