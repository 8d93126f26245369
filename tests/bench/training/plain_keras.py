"""ResNet50 in Keras as its documentation shows it: keras.applications (which is v1, a tenth less to compute), fit."""

from __future__ import annotations

import keras
import numpy as np

from tests.bench.training import training_script


def main() -> None:
    """Train on one batch of noise; mixed precision by Keras's own policy."""
    asked = training_script.arguments()
    if asked.precision == "bfloat16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    shape = (asked.image_size, asked.image_size, 3)
    model = keras.applications.ResNet50(weights=None, input_shape=shape, classes=1000, classifier_activation=None)
    model.compile(
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=5e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    images = np.random.default_rng(0).uniform(-1, 1, (asked.batch_size, *shape)).astype("float32")
    labels = np.random.default_rng(0).integers(0, 1000, asked.batch_size)

    def train(steps: int) -> float:
        history = model.fit(Repeated(images, labels, steps), epochs=1, verbose=0, shuffle=False)
        return float(history.history["loss"][-1])

    training_script.serve(train)


class Repeated(keras.utils.PyDataset):  # type: ignore[misc]
    """The same batch, so many times."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, steps: int) -> None:
        super().__init__()
        self.batch = (images, labels)
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        return self.batch


if __name__ == "__main__":
    main()
