"""ResNet50 in Keras 3, as fast as the hardware gives, and how to see that the fast way learns the same.

The fast network has no biases in its convolutions: each is followed by a batch normalisation, which takes them out
again. On TensorFlow it is also put together from ``fast_layers.py``; on other backends (``KERAS_BACKEND=torch`` or
``jax``) Keras's own layers and optimizer are left as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import image_files
import keras
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


@contextlib.contextmanager
def exact() -> Iterator[None]:
    """Meanwhile GPUs multiply float32 numbers whole; else those since the A100 round them to TF32's 10 bits first.

    What is compiled meanwhile may stay so: forget a model's compiled step before its speed is measured.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        before = tf.config.experimental.tensor_float_32_execution_enabled()
        tf.config.experimental.enable_tensor_float_32_execution(False)
        yield
        tf.config.experimental.enable_tensor_float_32_execution(before)
    elif backend == "torch":
        import torch

        with torch.backends.cudnn.flags(allow_tf32=False):  # of products PyTorch does so only when it is asked to
            yield
    else:
        import jax

        with jax.default_matmul_precision("highest"):
            yield


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
    """ResNet50, compiled to train on images (batch, size, size, 3) of bytes; its scores are not normalised.

    It makes numbers from -1 to 1 of the bytes itself: a quarter of the memory to bring to a GPU.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy_for(precision))
    try:
        images = keras.Input((image_size, image_size, 3), dtype="uint8")
        numbers = keras.layers.Rescaling(1 / 127.5, offset=-1)(images)
        plain = keras.applications.ResNet50(
            weights=None, input_tensor=numbers, classes=classes, classifier_activation=None
        )
    finally:
        keras.config.set_dtype_policy(before)
    model = keras.models.clone_model(plain, clone_function=_faster if fused else _as_it_is)
    sgd = FusedSGD if fused and keras.backend.backend() == "tensorflow" else keras.optimizers.SGD
    optimizer = sgd(LEARNING_RATE, momentum=0.9)
    if policy_for(precision) == POLICIES["float16"]:  # its smallest number is 6e-8: most gradients would be 0
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
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


def synthetic(classes: int, how: image_files.How, seed: int) -> Any:
    """The same batch of noise again and again: no storage, no decoding."""
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (how.batch_size, how.size, how.size, 3), dtype="uint8")
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
            return image_files.read_plainly(found, how, indices)

        return Batches(batch, how)
    how = dataclasses.replace(how, forever=True)
    read = image_files.read_tfrecords(records, how) if records else image_files.read_jpegs(found, how)
    return read.prefetch(2)


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
