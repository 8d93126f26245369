"""What the test of the fast layers runs in TensorFlow's environment: it prints one line ``RESULT {json}``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.append(sys.argv[1])  # the folder of the lessons
import image_files
import keras
import numpy as np
import resnet50_fast
import timed_training
from fast_layers import FusedBatchNormalization, FusedSGD, PointwiseConvolution

SHAPE = (32, 6, 5, 3)


def trained(optimizer: keras.optimizers.Optimizer, convolution: type[keras.layers.Conv2D]) -> dict[str, Any]:
    """The weights after three epochs of the same small network, and its optimizer."""
    keras.utils.set_random_seed(1)
    layers = [convolution(4, 1, activation="relu"), keras.layers.Conv2D(4, 3), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input(SHAPE[1:]), *layers, keras.layers.Dense(1)])
    model.compile(optimizer, "mse", jit_compile=False)
    x = np.random.default_rng(0).normal(size=SHAPE)
    model.fit(x, x.mean((1, 2, 3)), batch_size=8, epochs=3, shuffle=False, verbose=0)
    return {"weights": np.concatenate([weight.ravel() for weight in model.get_weights()]), "step": optimizer.iterations}


def apart(**options: Any) -> float:
    """How far the fast way is from Keras's own after twelve steps in double precision: the largest difference."""
    plain = trained(keras.optimizers.SGD(0.01, **options), keras.layers.Conv2D)
    fast = trained(FusedSGD(0.01, **options), PointwiseConvolution)
    assert int(plain["step"]) == int(fast["step"]) == 12
    moved = np.abs(plain["weights"] - trained(keras.optimizers.SGD(0.0), keras.layers.Conv2D)["weights"]).max()
    assert moved > 1e-3
    return float(np.abs(plain["weights"] - fast["weights"]).max())


def loaded() -> dict[str, Any]:
    """A saved network of fast parts, loaded again: its parts, and how far its answers are from those before."""
    keras.utils.set_random_seed(1)
    layers = [PointwiseConvolution(4, 1), FusedBatchNormalization(), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input(SHAPE[1:]), *layers])
    model.compile(FusedSGD(0.01, momentum=0.9), "mse", jit_compile=False)
    x = np.random.default_rng(0).normal(size=SHAPE).astype("float32")
    model.fit(x, x.mean((1, 2, 3)), batch_size=8, verbose=0)
    file = Path(sys.argv[2])
    model.save(file)
    again = keras.saving.load_model(file)
    parts = [type(part).__name__ for part in (*again.layers[:2], again.optimizer)]
    return {"parts": parts, "apart": float(np.abs(again(x) - model(x)).max())}


def half() -> dict[str, Any]:
    """ResNet50 in float16 after some steps: its optimizer, and whether its scale found the range of the gradients."""
    how = image_files.How(32, 4, 1, private=True)
    model = resnet50_fast.resnet50(3, 32, "float16")
    start = model.layers[3].kernel.numpy()
    timing = timed_training.Timing(4, warm_up=15, least_s=1)  # the first steps find the scale, and learn nothing
    timed_training.train(model, resnet50_fast.synthetic(3, how, 0), 16, timing)
    optimizer = model.optimizer
    return {
        "optimizers": [type(optimizer).__name__, type(getattr(optimizer, "inner_optimizer", None)).__name__],
        "learned": bool(np.abs(model.layers[3].kernel.numpy() - start).max() > 0),
        "losses": timing.losses,
        "measured": timing.measured,
        "seconds": timing.seconds,
    }


if __name__ == "__main__":
    result: dict[str, Any] = {"loaded": loaded(), "half": half()}
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    ways = {"momentum": {"momentum": 0.9}, "nesterov": {"momentum": 0.9, "nesterov": True}, "plain": {}}
    result["apart"] = {name: apart(**options) for name, options in ways.items()}
    print("RESULT", json.dumps(result), flush=True)
