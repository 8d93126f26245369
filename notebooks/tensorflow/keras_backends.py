"""What differs between the backends of Keras: the GPUs, the kind of 16 bits, and batches where there is no tf.data."""

from __future__ import annotations

import keras
import numpy as np
from PIL import Image
from training_data import Part

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
FORMATS = ("JPEG", "PNG")  # whatever a file is called: to read some others Pillow starts a program


def gpu_count() -> int:
    """The GPUs that the backend sees."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return len(tf.config.list_physical_devices("GPU"))
    if keras.backend.backend() == "torch":
        import torch

        return torch.cuda.device_count()
    return sum(name.startswith(("gpu", "cuda")) for name in keras.distribution.list_devices())


def policy_for(precision: str) -> str:
    """Keras's dtype policy: for "mixed" bfloat16, or float16 (with loss scaling) on GPUs that lack it.

    Raises:
        ValueError: ``precision`` is not known.
    """
    if precision == "mixed":
        return POLICIES["float16" if _gpu_without_bfloat16() else "bfloat16"]
    if precision not in POLICIES:
        raise ValueError(f"precision is {precision!r}; use 'mixed', {', '.join(map(repr, POLICIES))}")
    return POLICIES[precision]


def _gpu_without_bfloat16() -> bool:
    """True when there is a GPU older than compute capability 8.0, a V100 for example."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        found = tf.config.list_physical_devices("GPU")
        details = [tf.config.experimental.get_device_details(gpu) for gpu in found]
        return any(detail.get("compute_capability", (8, 0)) < (8, 0) for detail in details)
    if keras.backend.backend() == "torch":
        import torch

        return torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0)
    return False


class PlainBatches(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches of images (batch, size, size, 3) of bytes and their labels, without TensorFlow.

    Arguments:
        training: shuffled, a random part of each image, mirrored half of the time, and without end; otherwise every
            image once, the middle of it.
        smallest: the random part is at least this share of the image.
        noise: the same batch of noise again and again instead, with labels below this number.
    """

    def __init__(
        self, part: Part, size: int, batch_size: int, threads: int, training: bool, smallest: float, noise: int = 0
    ) -> None:
        super().__init__(workers=threads, max_queue_size=2 * threads)
        self.part, self.size, self.batch_size = part, size, batch_size
        self.training, self.smallest = training, smallest
        self._order = np.random.default_rng(0).permutation(part.count) if training else np.arange(part.count)
        self._noise = _noise(batch_size, size, noise) if noise else None

    @property
    def num_batches(self) -> int | None:
        """To train there is no end."""
        return None if self.training else -(-self.part.count // self.batch_size)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        if self._noise is not None:
            return self._noise
        places = range(number * self.batch_size, (number + 1) * self.batch_size)
        if self.training:
            chosen = [self._order[place % self.part.count] for place in places]
        else:
            chosen = [self._order[place] for place in places if place < self.part.count]
        random = np.random.default_rng(number) if self.training else None
        squares = [square(self.part.files[index], self.size, self.smallest, random) for index in chosen]
        return np.stack(squares), np.array([self.part.labels[index] for index in chosen], np.int64)


def _noise(count: int, size: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.integers(0, 256, (count, size, size, 3), dtype="uint8"), random.integers(0, classes, count)


def square(file: str, size: int, smallest: float, random: np.random.Generator | None) -> np.ndarray:
    """A part of an image (size, size, 3): a random one, mirrored half of the time; without ``random`` the middle."""
    with Image.open(file, formats=FORMATS) as image:
        width, height = image.size
        if random is None:
            side = 0.875 * min(width, height)
            wide, high, left, top = side, side, (width - side) / 2, (height - side) / 2
        else:
            share, shape = random.uniform(smallest, 1), np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
            wide = min(width, (share * width * height * shape) ** 0.5)
            high = min(height, (share * width * height / shape) ** 0.5)
            left, top = random.uniform(0, width - wide), random.uniform(0, height - high)
        box = (left, top, left + wide, top + high)
        pixels = np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box))
    return pixels[:, ::-1] if random is not None and random.integers(2) else pixels
