"""A training that is timed: the clock, the losses, and what it used, over a whole interval after a warm-up."""

from __future__ import annotations

import math
import time
from typing import Any

import keras
import measuring

MANY = 1_000_000  # steps: a training that is timed ends itself before


class Timing(keras.callbacks.Callback):  # type: ignore[misc]
    """The clock, the loss of each iteration, and what was used after the warm-up; a line every few iterations.

    Arguments:
        gpus: how many GPUs the training uses.
        least_s: how long the interval is at least; where the iterations take less, it has more of them.
        bar: one more iteration is done: 1 is added to its ``progress``, as IPython's ProgressBar has it.
    """

    def __init__(
        self, batch_size: int, warm_up: int, gpus: int = 0, least_s: float = 0, lines_every: int = 0, bar: Any = None
    ) -> None:
        super().__init__()
        self.batch_size, self.warm_up, self.least_s = batch_size, warm_up, least_s
        self.lines_every, self.bar = lines_every, bar
        self.iterations = self.last = 0  # as they were asked for, and the one that ends it
        self.ends_s: list[float] = []
        self.losses: list[Any] = []
        self.meter, self.use = measuring.Meter(gpus), None

    def on_train_begin(self, logs: Any = None) -> None:
        """The interval of a training without a warm-up begins here."""
        self.started_s, self.last = time.perf_counter(), self.iterations
        if not self.warm_up:
            self.meter.start()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras tells the mean of an epoch so far: forget it, so that each loss is that of one batch."""
        self.model.reset_metrics()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """A loss that is looked at makes a GPU finish first: only at the ends of the interval, and for a line."""
        self.losses.append(logs["loss"])
        count = len(self.losses)
        tells = bool(self.lines_every) and count % self.lines_every == 0
        if tells or count in (self.warm_up, self.iterations, self.last):
            self.losses[-1] = float(self.losses[-1])
        self.ends_s.append(time.perf_counter())
        if count == self.warm_up:
            self.meter.start()
        if tells:
            print(f"iteration {count}, loss {self.losses[-1]:.4f}", flush=True)
        if self.bar is not None and count <= self.iterations:
            self.bar.progress += 1
        if count == self.iterations:
            self.last = count + self._more()
        self.model.stop_training = count >= self.last

    def _more(self) -> int:
        """How many iterations are left, so that the interval is long enough."""
        took_s = self.seconds
        return max(0, math.ceil((self.least_s / took_s - 1) * self.measured)) if self.least_s else 0

    def on_train_end(self, logs: Any = None) -> None:
        """The interval ends."""
        self.use = self.meter.stop()
        self.losses = [float(loss) for loss in self.losses]

    @property
    def measured(self) -> int:
        """The iterations after the warm-up."""
        return len(self.ends_s) - self.warm_up

    @property
    def seconds(self) -> float:
        """The interval."""
        return self.ends_s[-1] - (self.ends_s[self.warm_up - 1] if self.warm_up else self.started_s)

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
    timing.iterations = iterations
    steps = MANY if timing.least_s else iterations
    model.fit(batches, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=0, callbacks=[timing])
    return timing
