"""ResNet50 in Keras 3, as fast as the hardware gives, and how to see that the fast way learns the same.

The fast network has no biases in its convolutions: each is followed by a batch normalisation, which takes them out
again. On TensorFlow it is also put together from ``fast_layers.py``; on other backends (``KERAS_BACKEND=torch`` or
``jax``) Keras's own layers and optimizer are left as they are.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import image_files
import keras
import measuring
import numpy as np
from fast_layers import FusedBatchNormalization, FusedSGD, PointwiseConvolution

LEARNING_RATE = 0.006  # 0.1 for each 256 images in a batch of 16
LAST_OF_A_BLOCK = "_3_bn/gamma"  # the scale of the normalisation after the third convolution of each block
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


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


def gpu_count() -> int:
    """The GPUs that the backend sees."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return len(tf.config.list_physical_devices("GPU"))
    if keras.backend.backend() == "torch":
        import torch

        return torch.cuda.device_count()
    return sum(name.startswith(("gpu", "cuda")) for name in keras.distribution.list_devices())


def resnet50(classes: int, image_size: int, precision: str = "float32", fused: bool = True) -> keras.Model:
    """ResNet50, compiled to train on images (batch, size, size, 3) of bytes; its scores are not normalised."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy_for(precision))
    try:
        shape = (image_size, image_size, 3)
        plain = keras.applications.ResNet50(
            weights=None, input_shape=shape, classes=classes, classifier_activation=None
        )
    finally:
        keras.config.set_dtype_policy(before)
    model = keras.models.clone_model(plain, clone_function=_faster if fused else _as_it_is)
    sgd = FusedSGD if fused and keras.backend.backend() == "tensorflow" else keras.optimizers.SGD
    model.compile(
        optimizer=sgd(LEARNING_RATE, momentum=0.9), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def _faster(layer: keras.layers.Layer) -> keras.layers.Layer:
    config, on_tensorflow = layer.get_config(), keras.backend.backend() == "tensorflow"
    if on_tensorflow and isinstance(layer, keras.layers.BatchNormalization):
        return FusedBatchNormalization.from_config(config)
    if isinstance(layer, keras.layers.Conv2D):
        as_product = on_tensorflow and not gpu_count() and PointwiseConvolution.replaces(layer)
        return (PointwiseConvolution if as_product else type(layer)).from_config(config | {"use_bias": False})
    return _as_it_is(layer)


def _as_it_is(layer: keras.layers.Layer) -> keras.layers.Layer:
    """A copy; the last layer computes in float32, as the loss needs it."""
    config = layer.get_config()
    if isinstance(layer, keras.layers.Dense):
        config["dtype"] = "float32"
    return type(layer).from_config(config)


def fused_layers(model: keras.Model) -> int:
    """How many layers of a model are :class:`FusedBatchNormalization`."""
    return sum(isinstance(layer, FusedBatchNormalization) for layer in model.layers)


def weights_of(model: keras.Model) -> dict[str, np.ndarray]:
    """Everything that a model keeps, weights and moving statistics, each by its path."""
    return {variable.path: keras.ops.convert_to_numpy(variable) for variable in model.variables}


def restart(model: keras.Model, weights: dict[str, np.ndarray]) -> None:
    """Give a model what :func:`weights_of` gave, of itself or of one that has more; its optimizer forgets."""
    for variable in model.variables:
        variable.assign(weights[variable.path])
    for variable in model.optimizer.variables:
        if "momentum" in variable.path:
            variable.assign(keras.ops.zeros(variable.shape, variable.dtype))


def calm(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same weights for the start of a training: each block begins as its shortcut alone, which learns sooner.

    Goyal and others, 2017 (arXiv:1706.02677), section 5.1.
    """
    return {path: value * (not path.endswith(LAST_OF_A_BLOCK)) for path, value in weights.items()}


def differences(slow: keras.Model, fast: keras.Model, start: dict[str, np.ndarray]) -> dict[str, float]:
    """How far apart a training brought two models that began alike: 0 is the same, 1 is nothing in common.

    Arguments:
        start: what :func:`weights_of` gave before, of ``slow``.

    Returns:
        "moving statistics": the largest over all layers; "weights": all together, as single ones hang on rounding;
        "biases left out": how far those moved that only ``slow`` has, as a share of all of its weights' way.
    """
    one, other = ({path: new - start[path] for path, new in weights_of(model).items()} for model in (slow, fast))
    trained = [variable.path for variable in slow.trainable_variables]
    shared = [path for path in trained if path in other]
    left_out = [one[path] for path in trained if path not in other]
    return {
        "moving statistics": max(_apart([one[path]], [other[path]]) for path in one if _is_moving(path)),
        "weights": _apart([one[path] for path in shared], [other[path] for path in shared]),
        "biases left out": _length(left_out) / _length([one[path] for path in trained]),
    }


def _is_moving(path: str) -> bool:
    return path.split("/")[-1].startswith("moving_")


def _apart(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    return _length([a - b for a, b in zip(one, other, strict=True)]) / _length(one)


def _length(arrays: list[np.ndarray]) -> float:
    return sum(float(np.square(array).sum()) for array in arrays) ** 0.5


def scaled(images: Any, labels: Any) -> tuple[Any, Any]:
    """Bytes as numbers from -1 to 1."""
    return keras.ops.cast(images, "float32") / 127.5 - 1, labels


def synthetic(classes: int, how: image_files.How, seed: int) -> Any:
    """The same batch of noise again and again: no storage, no decoding."""
    random = np.random.default_rng(seed)
    images = random.uniform(-1, 1, (how.batch_size, how.size, how.size, 3)).astype("float32")
    labels = random.integers(0, classes, how.batch_size)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.data.Dataset.from_tensors((images, labels)).repeat().with_options(image_files.options(how))
    return Batches(lambda number: (images, labels), how)


def from_files(found: image_files.Images, records: list[str] | None, how: image_files.How) -> Any:
    """Batches of the images over and over, out of TFRecord files where ``records`` names them, else out of JPEGs."""
    if keras.backend.backend() != "tensorflow":

        def batch(number: int) -> tuple[Any, Any]:
            first = number * how.batch_size
            indices = [index % len(found.files) for index in range(first, first + how.batch_size)]
            images, labels = image_files.read_plainly(found, how, indices)
            return images.astype("float32") / 127.5 - 1, labels

        return Batches(batch, how)
    how = dataclasses.replace(how, forever=True)
    read = image_files.read_tfrecords(records, how) if records else image_files.read_jpegs(found, how)
    return read.map(scaled).prefetch(2)


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches by their number, read by ``how.threads`` threads: for the backends that are not TensorFlow."""

    def __init__(self, batch: Callable[[int], tuple[Any, Any]], how: image_files.How) -> None:
        super().__init__(workers=how.threads, max_queue_size=2 * how.threads)
        self._batch = batch

    @property
    def num_batches(self) -> None:
        """Without end."""
        return

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        return self._batch(number)


class Timing(keras.callbacks.Callback):  # type: ignore[misc]
    """The clock, the loss of each iteration, and what was used after the warm-up; a line every few iterations.

    Arguments:
        bar: one more iteration is done: 1 is added to its ``progress``, as IPython's ProgressBar has it.
    """

    def __init__(self, batch_size: int, warm_up: int, lines_every: int = 0, bar: Any = None) -> None:
        super().__init__()
        self.batch_size, self.warm_up, self.lines_every, self.bar = batch_size, warm_up, lines_every, bar
        self.ends_s: list[float] = []
        self.losses: list[Any] = []
        self.meter, self.use = measuring.Meter(gpu_count()), None

    def on_train_begin(self, logs: Any = None) -> None:
        """The interval of a training without a warm-up begins here."""
        self.started_s = time.perf_counter()
        if not self.warm_up:
            self.meter.start()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras tells the mean of an epoch so far: forget it, so that each loss is that of one batch."""
        self.model.reset_metrics()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """A loss that is looked at makes a GPU finish first: only at the two ends of the interval, and for a line."""
        self.losses.append(logs["loss"])
        count = len(self.losses)
        tells = bool(self.lines_every) and count % self.lines_every == 0
        if tells or count in (self.warm_up, self.params["steps"]):
            self.losses[-1] = float(self.losses[-1])
        self.ends_s.append(time.perf_counter())
        if count == self.warm_up:
            self.meter.start()
        if tells:
            print(f"iteration {count}, loss {self.losses[-1]:.4f}", flush=True)
        if self.bar is not None:
            self.bar.progress += 1

    def on_train_end(self, logs: Any = None) -> None:
        """The interval ends."""
        self.use = self.meter.stop()
        self.losses = [float(loss) for loss in self.losses]

    @property
    def images_per_s(self) -> float:
        """Over all iterations after the warm-up."""
        return measuring.images_per_s(self.started_s, self.ends_s, self.batch_size, self.warm_up)


def train(model: keras.Model, batches: Any, iterations: int, timing: Timing) -> Timing:
    """Train so many iterations and time them; warm-up included, so at least one more than it.

    Raises:
        ValueError: fewer iterations than the warm-up needs.
    """
    if iterations <= timing.warm_up:
        raise ValueError(f"iterations is {iterations}, but the warm-up alone takes {timing.warm_up}: ask for more")
    model.fit(batches, steps_per_epoch=iterations, epochs=1, shuffle=False, verbose=0, callbacks=[timing])
    return timing
