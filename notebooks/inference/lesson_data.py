"""What the lessons on inference check before they begin: the data, the memory, and what a training has to reach."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import lesson_images
import numpy as np
from lesson_images import Data

MEMORY_MIB = {"small": 3_000, "resnet50": 8_000}  # for training, calibration and the runtimes; 6.3 GiB were seen
# Test accuracy that a network reaches at least: {images seen in training: accuracy}
FLOORS = {
    ("small", "mnist"): {0: 0.10, 30_000: 0.95, 120_000: 0.98},
    ("small", "fashion-mnist"): {0: 0.10, 30_000: 0.80, 60_000: 0.85},
    ("resnet50", "mnist"): {0: 0.10, 30_000: 0.90, 60_000: 0.95},
    ("resnet50", "fashion-mnist"): {0: 0.10, 30_000: 0.70, 60_000: 0.82},
}


class LessonError(Exception):
    """The lesson cannot begin, in one sentence."""


def load_data(name: str = "auto", variables: Mapping[str, str] = os.environ) -> Data:
    """MNIST, or Fashion-MNIST where there is none, from ``DATASET_PATH``; the images are floats (n, 28, 28, 1).

    Raises:
        DataError: there is no such data set, or it is in none of the folders.
    """
    data = lesson_images.read(lesson_images.find(name, variables))
    x_train, x_test = (images[..., np.newaxis].astype("float32") for images in (data.x_train, data.x_test))
    return data._replace(x_train=x_train, x_test=x_test)


def memory_mib(variables: Mapping[str, str] = os.environ, meminfo: Path = Path("/proc/meminfo")) -> int:
    """The memory that this session may use: what Slurm gave the job, and no more than the machine has left."""
    lines = dict(line.split(":") for line in meminfo.read_text().splitlines() if ":" in line)
    free = int(lines["MemAvailable"].split()[0]) >> 10
    given = int(variables.get("SLURM_MEM_PER_NODE", "0"))
    return min(given, free) if given else free


def check_memory(kind: str, available_mib: int) -> None:
    """Raise :class:`LessonError` for an unknown network, or when there is too little memory for it."""
    if kind not in MEMORY_MIB:
        raise LessonError(f"model is {kind!r}; use {' or '.join(map(repr, MEMORY_MIB))}.")
    if available_mib < MEMORY_MIB[kind]:
        raise LessonError(
            f"This session has {available_mib:,} MiB of memory, but the model {kind!r} needs {MEMORY_MIB[kind]:,} MiB: "
            f"start a session with more{', or set model to small' if kind != 'small' else ''}."
        )


def floor(kind: str, data_name: str, images_seen: int) -> float:
    """The test accuracy that so much training gives at least."""
    return max(accuracy for seen, accuracy in FLOORS[kind, data_name].items() if seen <= images_seen)


def check_accuracy(kind: str, data_name: str, images_seen: int, accuracy: float) -> None:
    """Raise :class:`LessonError` when a network learned less than it should have."""
    if accuracy < (least := floor(kind, data_name, images_seen)):
        raise LessonError(
            f"The accuracy is {accuracy:.4f}, but {images_seen:,} training images should give {least} or more: look at "
            "what you changed in the network, its data or its values."
        )


def policy(cpu_info: str, compute_capability: tuple[int, int] | None = None) -> str:
    """Keras's dtype policy for training: bfloat16 where the hardware computes in it, float32 elsewhere."""
    has_bfloat16 = compute_capability >= (8, 0) if compute_capability else "avx512_bf16" in cpu_info
    return "mixed_bfloat16" if has_bfloat16 else "float32"
