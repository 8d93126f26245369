"""Parts of a convolutional network that compute what Keras's own compute, in fewer steps.

On TensorFlow Keras builds a batch normalisation out of a dozen small operations, and a step of SGD with momentum out of
five for each weight; TensorFlow has one operation for each. A convolution of 1 × 1 pixels is a matrix product, which is
quicker when it is computed as one on a CPU.

``speed_up(model)`` lets a compiled model compute in this way. Its layers and its optimizer stay Keras's own, so it is
saved, loaded and copied like any other, without this module. That both ways take the same steps is tested in
``tests/notebooks/test_fast_layers.py``.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import keras


def speed_up(model: keras.Model) -> dict[str, int]:
    """Let a compiled model compute in fewer steps; call it before ``fit``.

    Returns:
        How many parts of each kind compute otherwise now: none with another backend than TensorFlow.
    """
    changed = {"normalisations": 0, "convolutions": 0, "optimizers": 0}
    if keras.backend.backend() != "tensorflow":
        return changed
    import tensorflow as tf

    on_cpu = not tf.config.list_physical_devices("GPU")
    for layer in model.layers:
        if type(layer) is keras.layers.BatchNormalization:
            layer.call = MethodType(normalised, layer)
            changed["normalisations"] += 1
        elif type(layer) is keras.layers.Conv2D and on_cpu and is_pointwise(layer):
            layer.call = MethodType(as_product, layer)
            changed["convolutions"] += 1
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # a LossScaleOptimizer has another inside
    if type(optimizer) is keras.optimizers.SGD:
        optimizer.update_step = MethodType(momentum_step, optimizer)
        changed["optimizers"] += 1
    model.train_function = model.test_function = model.predict_function = None  # what was compiled before goes
    return changed


def normalised(self: keras.layers.BatchNormalization, inputs: Any, training: Any = None, mask: Any = None) -> Any:
    """``BatchNormalization.call`` out of one operation of TensorFlow, for images (batch, height, width, channels).

    In training it takes the batch's mean and variance into the moving ones. Anything else than images, masks, and
    double precision go Keras's own way.
    """
    images_of_channels = len(inputs.shape) == 4 and self.axis in (-1, 3) and self.compute_dtype != "float64"
    if mask is not None or not images_of_channels or not (self.scale and self.center):
        return keras.layers.BatchNormalization.call(self, inputs, training=training, mask=mask)
    import tensorflow as tf

    learns = bool(training) and self.trainable
    mean, variance = ([], []) if learns else (self.moving_mean.value, self.moving_variance.value)
    images = tf.cast(inputs, self.compute_dtype)
    outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=images, scale=self.gamma.value, offset=self.beta.value, mean=mean, variance=variance,
        epsilon=self.epsilon, is_training=learns,
    )  # fmt: skip
    if learns:
        count = tf.cast(tf.size(images) // images.shape[-1], variance.dtype)
        _remember(self, self.moving_mean, mean)
        # TensorFlow gives the variance of a sample, n / (n - 1) times that of the batch, which Keras keeps.
        _remember(self, self.moving_variance, variance * (count - 1) / count)
    return outputs


def _remember(layer: keras.layers.BatchNormalization, moving: Any, new: Any) -> None:
    moving.assign(moving.value * layer.momentum + new * (1 - layer.momentum))


def is_pointwise(layer: keras.layers.Conv2D) -> bool:
    """Whether a convolution is one of 1 × 1 pixels without stride."""
    ways = (layer.kernel_size, layer.strides, layer.groups, layer.data_format)
    return ways == ((1, 1), (1, 1), 1, "channels_last")


def as_product(self: keras.layers.Conv2D, inputs: Any) -> Any:
    """``Conv2D.call`` of a convolution of 1 × 1 pixels as one product: (pixels, channels) by (channels, filters)."""
    channels = inputs.shape[-1]
    pixels = keras.ops.reshape(inputs, (-1, channels))
    products = keras.ops.matmul(pixels, keras.ops.reshape(self.kernel, (channels, self.filters)))
    images = keras.ops.reshape(products, (-1, *inputs.shape[1:3], self.filters))
    return self.activation(images + self.bias if self.use_bias else images)


def momentum_step(self: keras.optimizers.SGD, gradient: Any, variable: Any, learning_rate: Any) -> None:
    """``SGD.update_step`` out of one operation; sparse gradients, and no momentum, go Keras's own way."""
    import tensorflow as tf

    if not self.momentum or isinstance(gradient, tf.IndexedSlices):
        keras.optimizers.SGD.update_step(self, gradient, variable, learning_rate)
        return
    momentum = self.momentums[self._get_variable_index(variable)]
    tf.raw_ops.ResourceApplyKerasMomentum(
        var=_resource(variable), accum=_resource(momentum), lr=tf.cast(learning_rate, variable.dtype),
        grad=tf.cast(gradient, variable.dtype), momentum=tf.cast(self.momentum, variable.dtype),
        use_nesterov=self.nesterov,
    )  # fmt: skip


def _resource(variable: Any) -> Any:
    """What TensorFlow knows a variable by, be it Keras's or its own."""
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle


@keras.saving.register_keras_serializable("dsportal")
class FusedBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """A layer that computes so from the start, for networks that are put together out of it."""

    call = normalised
