"""What the lessons on inference check before they begin: the data, the memory, and what a training has to reach."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TITLES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
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


@dataclass(frozen=True)
class Data:
    """Images (n, 28, 28, 1) from 0 to 255 and their labels, to learn from and to be tested on."""

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def title(self) -> str:
        return TITLES[self.name]


def load_data(name: str = "auto", variables: Mapping[str, str] = os.environ) -> Data:
    """MNIST, or Fashion-MNIST where there is none, from the folders of ``DATASET_PATH``.

    Raises:
        LessonError: there is no such data set, or it is in none of the folders.
    """
    if name not in ("auto", *TITLES):
        raise LessonError(f"data_set is {name!r}; use 'auto', 'mnist' or 'fashion-mnist'.")
    wanted = list(TITLES) if name == "auto" else [name]
    folders = [Path(folder) for folder in variables.get("DATASET_PATH", "/usr/share/datasets").split(":")]
    places = [(one, folder / one) for one in wanted for folder in folders]
    for one, place in places:
        if (place / "train-images-idx3-ubyte.gz").is_file():
            return Data(one, *_read(place, "train"), *_read(place, "t10k"))
    raise LessonError(
        f"There is no data: {' or '.join(wanted)} is in none of {', '.join(map(str, folders))}; "
        "ask your administrator for it (Debian's package dataset-fashion-mnist is enough)."
    )


def _read(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        return images.astype("float32"), np.frombuffer(file.read(), np.uint8, offset=8)


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
