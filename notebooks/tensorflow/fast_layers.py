"""Parts of a convolutional network that compute what Keras's own compute, in fewer steps.

On TensorFlow Keras builds a batch normalisation out of a dozen small operations, and a step of SGD with momentum out of
five for each weight; TensorFlow has one operation for each. A convolution of 1 × 1 pixels is a matrix product, which is
quicker when it is computed as one on a CPU.
"""

from __future__ import annotations

from typing import Any

import keras


@keras.saving.register_keras_serializable("dsportal")
class FusedBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """The same layer out of one operation of TensorFlow, for images (batch, height, width, channels).

    Anything else than images, and masks, go Keras's own way.
    """

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Normalise; in training also take the batch's mean and variance into the moving ones."""
        if mask is not None or len(inputs.shape) != 4 or self.axis not in (-1, 3) or not (self.scale and self.center):
            return super().call(inputs, training=training, mask=mask)
        import tensorflow as tf

        learns = bool(training) and self.trainable
        known = [] if learns else [self.moving_mean.value, self.moving_variance.value]
        mean, variance = known or ([], [])
        images = tf.cast(inputs, self.compute_dtype)
        normalised, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=images, scale=self.gamma.value, offset=self.beta.value, mean=mean, variance=variance,
            epsilon=self.epsilon, is_training=learns,
        )  # fmt: skip
        if learns:
            count = tf.cast(tf.size(images) // images.shape[-1], variance.dtype)
            self._remember(self.moving_mean, mean)
            # TensorFlow gives the variance of a sample, n / (n - 1) times that of the batch, which Keras keeps.
            self._remember(self.moving_variance, variance * (count - 1) / count)
        return normalised

    def _remember(self, moving: Any, new: Any) -> None:
        moving.assign(moving.value * self.momentum + new * (1 - self.momentum))


@keras.saving.register_keras_serializable("dsportal")
class PointwiseConvolution(keras.layers.Conv2D):  # type: ignore[misc]
    """A convolution of 1 × 1 pixels without stride, as one product: (pixels, channels) by (channels, filters)."""

    def call(self, inputs: Any) -> Any:
        """Images (batch, height, width, channels) to (batch, height, width, filters)."""
        channels = inputs.shape[-1]
        pixels = keras.ops.reshape(inputs, (-1, channels))
        products = keras.ops.matmul(pixels, keras.ops.reshape(self.kernel, (channels, self.filters)))
        images = keras.ops.reshape(products, (-1, *inputs.shape[1:3], self.filters))
        return self.activation(images + self.bias if self.use_bias else images)

    @staticmethod
    def replaces(layer: keras.layers.Conv2D) -> bool:
        """Whether a convolution is one of those."""
        ways = (layer.kernel_size, layer.strides, layer.groups, layer.data_format)
        return ways == ((1, 1), (1, 1), 1, "channels_last")


@keras.saving.register_keras_serializable("dsportal")
class FusedSGD(keras.optimizers.SGD):  # type: ignore[misc]
    """SGD with momentum, the step of a weight out of one operation of TensorFlow: the same numbers."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Take the step of one variable; sparse gradients, and no momentum, go Keras's own way."""
        import tensorflow as tf

        if not self.momentum or isinstance(gradient, tf.IndexedSlices):
            return super().update_step(gradient, variable, learning_rate)
        momentum = self.momentums[self._get_variable_index(variable)]
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=_resource(variable), accum=_resource(momentum), lr=tf.cast(learning_rate, variable.dtype),
            grad=tf.cast(gradient, variable.dtype), momentum=tf.cast(self.momentum, variable.dtype),
            use_nesterov=self.nesterov,
        )  # fmt: skip
        return None


def _resource(variable: Any) -> Any:
    """What TensorFlow knows a variable by, be it Keras's or its own."""
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle
