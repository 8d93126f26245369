"""Train a Keras 3 model on many processes with Horovod: averaged gradients, one common start, averaged metrics.

Horovod 0.28's own Keras optimizer hooks into methods that Keras 3 never calls. It raises nothing, averages nothing, and
the processes drift apart. This module does it with what Keras 3 has:

    import keras3_horovod as hvd

    hvd.init()                                                  # under horovodrun, mpirun or srun
    x, y = hvd.shard(x, y)                                      # this rank's part of the data
    model.compile(
        optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(1e-3)),
        loss="sparse_categorical_crossentropy",
        jit_compile=False,                                      # XLA does not know Horovod's operations
    )
    model.fit(x, y, batch_size=batch // hvd.size(), callbacks=[hvd.BroadcastState(), hvd.AverageMetrics()],
              verbose=1 if hvd.rank() == 0 else 0)

What it promises: N processes with a batch of B/N each take the steps of one process with a batch of B (rounding apart),
if each batch of B is what the N ranks see together, and the model has no layer that looks at a whole batch
(BatchNormalization sees B/N images; its moving means are averaged by :class:`AverageMetrics`). Loss functions must
average over the batch, as those of Keras do.

Needs the TensorFlow backend; checked on CPUs with Keras 3.15, TensorFlow 2.21, Horovod 0.28.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import horovod.tensorflow as hvd
import horovod_srun
import keras
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError
from horovod.tensorflow import local_rank, local_size, rank, size

__all__ = [
    "AverageMetrics",
    "BroadcastState",
    "DistributedOptimizer",
    "HorovodInternalError",
    "average",
    "broadcast_state",
    "check",
    "init",
    "local_rank",
    "local_size",
    "rank",
    "shard",
    "size",
]


def init() -> None:
    """Find the other processes and, where there are GPUs, keep to one of them.

    Raises:
        RuntimeError: Keras runs on another backend than TensorFlow.
        horovod_srun.LaunchError: srun started this, and the tasks do not find each other.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(f"Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=tensorflow for this module")
    by_srun = horovod_srun.prepare()
    hvd.init()
    if by_srun and rank() == 0:
        horovod_srun.clean()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        mine = gpus[local_rank() % len(gpus)]  # Slurm may show each task its own GPU only
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)


def DistributedOptimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """The same optimizer, which averages the gradients of all processes before it uses them.

    It is a new optimizer of a class below ``type(optimizer)``, so that clipping, weight decay, schedules and moving
    averages of weights work on the averaged gradients. With 16-bit floats wrap the loss scaling, not what is in it:
    ``DistributedOptimizer(LossScaleOptimizer(Adam()))``. A saved model names the plain class, and loads without
    Horovod.

    Raises:
        RuntimeError: :func:`init` was not called before.
        ValueError: the optimizer has state already (it was used), or is one of these.
    """
    _check_started()
    base = type(optimizer)
    if is_distributed(optimizer):
        raise ValueError(f"this {base.__name__} is a DistributedOptimizer already: wrap an optimizer once")
    if optimizer.built:
        raise ValueError(f"this {base.__name__} was used before, and its state would be lost: give a new one")
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    derived = type(base.__name__, (_Averaging, base), names)
    made: keras.optimizers.Optimizer = derived.from_config(optimizer.get_config())
    return made


def is_distributed(optimizer: object) -> bool:
    """Whether an optimizer came out of :func:`DistributedOptimizer`."""
    return isinstance(optimizer, _Averaging)


class _Averaging:
    """What :func:`DistributedOptimizer` puts before the optimizer's own class."""

    started_alike = False  # True when the weights of all ranks have been made equal

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> Any:
        """Average ``grads`` (a tensor, sparse slices or None for each variable) over the ranks, then apply them."""
        if size() > 1 and not self.started_alike:
            raise RuntimeError(
                "the ranks have not been given the same weights: add BroadcastState() to the callbacks of fit(), "
                "or call broadcast_state(model) before your own training loop"
            )
        return super().apply(average(grads), trainable_variables)  # type: ignore[misc]


def average(gradients: Sequence[Any]) -> list[Any]:
    """The mean over all ranks of each gradient, in one exchange; None stays None."""
    present = [index for index, gradient in enumerate(gradients) if gradient is not None]
    averaged = list(gradients)
    reduced = hvd.grouped_allreduce([gradients[index] for index in present], op=hvd.Average, name="gradients")
    for index, gradient in zip(present, reduced, strict=True):
        averaged[index] = gradient
    return averaged


def broadcast_state(model: keras.Model) -> None:
    """Give every rank the weights and the optimizer's state of rank 0 (a fresh start, or a checkpoint it loaded).

    All ranks must call it. Random seeds stay each rank's own, so that dropout differs.

    Raises:
        RuntimeError: the model cannot be trained on many processes as it was compiled.
    """
    check(model)
    optimizer = model.optimizer
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    tensors = [variable.value for variable in [*model.weights, *optimizer.variables]]
    hvd.broadcast_variables(tensors, root_rank=0)
    optimizer.started_alike = True


def check(model: keras.Model) -> None:
    """Refuse what would fail later without saying why, or not fail and train wrongly.

    Raises:
        RuntimeError: the model is not built, compiled for XLA, or its optimizer averages nothing.
    """
    _check_started()
    if not model.built:
        raise RuntimeError("the model has no weights yet: start it with keras.Input, or call it once, before fit()")
    if model.jit_compile:
        raise RuntimeError(
            "the model is compiled for XLA, which does not know Horovod's operations (with a GPU, Keras chooses it by "
            "itself): write model.compile(..., jit_compile=False)"
        )
    if not is_distributed(model.optimizer):
        kind = type(model.optimizer).__name__
        hint = "DistributedOptimizer(keras.optimizers.LossScaleOptimizer(...))" if "LossScale" in kind else ""
        raise RuntimeError(
            f"the model's optimizer is a plain {kind}, and every rank would train by itself: "
            f"compile the model with {hint or 'DistributedOptimizer(...)'}"
        )


def _check_started() -> None:
    if not hvd.is_initialized():
        raise RuntimeError("Horovod has not been started: call keras3_horovod.init() first")


class BroadcastState(keras.callbacks.Callback):  # type: ignore[misc]
    """Before the first step: all ranks get rank 0's weights, and what cannot work is said."""

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Raises ``RuntimeError`` as :func:`check` does, and when the ranks would take unequal numbers of steps."""
        broadcast_state(self.model)
        steps = hvd.allgather(tf.constant([self.params.get("steps") or 0], tf.int64), name="steps").numpy()
        if len(set(steps)) > 1:
            raise RuntimeError(
                f"the ranks have {', '.join(map(str, steps))} steps in an epoch; those with more would wait for ever: "
                "give each rank as many samples (keras3_horovod.shard does)"
            )


class AverageMetrics(keras.callbacks.Callback):  # type: ignore[misc]
    """After each epoch: the metrics, and the moving means of normalisation layers, become the mean over all ranks.

    Put it before callbacks that use the metrics (checkpoints, early stopping, learning-rate plateaus), so that all
    ranks decide alike.
    """

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Changes ``logs`` in place; the history that ``fit`` returns has the means."""
        if not logs:
            return
        names = sorted(logs)
        means = hvd.allreduce(tf.constant([float(logs[name]) for name in names], tf.float64), name="metrics")
        logs.update(zip(names, means.numpy().tolist(), strict=True))
        for index, variable in enumerate(self.model.non_trainable_weights):
            if tf.as_dtype(variable.dtype).is_floating:
                variable.assign(hvd.allreduce(variable.value, op=hvd.Average, name=f"statistic.{index}"))


def shard(*arrays: Any, batch_size: int | None = None) -> tuple[Any, ...]:
    """This rank's part of each array: every ``size()``-th sample, as many on each rank (a rest is left out).

    With ``batch_size``, the number of samples that all ranks see together in one step, a rest of the last batch is
    left out too: then every step is the step of one process with that batch.

    Raises:
        ValueError: the arrays differ in length, or ``batch_size`` cannot be divided among the ranks.
    """
    _check_started()
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ValueError(f"the arrays have {sorted(lengths)} samples: they must be equally long")
    unit = batch_size or size()
    if unit % size():
        raise ValueError(f"a batch of {unit} cannot be divided among {size()} ranks: use a multiple")
    whole = lengths.pop() // unit * unit
    return tuple(array[rank() : whole : size()] for array in arrays)
