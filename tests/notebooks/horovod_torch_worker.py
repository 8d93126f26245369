"""What the tests of Horovod for PyTorch start on every rank: a line ``RESULT {json}`` for each task it is given."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import horovod.torch as hvd
import horovod_srun
import numpy as np
import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
BATCH, STEPS, EPOCHS = 64, 12, 2
DATA = Path("/usr/share/datasets/fashion-mnist")
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9, nesterov=True),
    "adam": lambda parameters: torch.optim.AdamW(parameters, 2e-3, weight_decay=1e-3),
}


def images() -> tuple[torch.Tensor, torch.Tensor]:
    """The first images of Fashion-MNIST, (768, 1, 28, 28) from 0 to 1, and their labels."""
    count = BATCH * STEPS
    with gzip.open(DATA / "train-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(16 + count * 784), np.uint8, offset=16).reshape(count, 1, 28, 28)
    with gzip.open(DATA / "train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(8 + count), np.uint8, offset=8)
    return torch.from_numpy(x / 255.0), torch.from_numpy(y.astype("int64"))


def network() -> torch.nn.Module:
    """A small network; every rank starts with other weights."""
    torch.manual_seed(hvd.rank())
    layers = [torch.nn.Conv2d(1, 6, 5, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(6 * 12 * 12, 10)]
    return torch.nn.Sequential(*layers)


def train(kind: str, lost_with: int = 0) -> dict[str, Any]:
    """Train from rank 0's weights, gradients cut to length 1; the mean losses of the epochs, and the weights."""
    (x, y), model = images(), network()
    optimizer = OPTIMIZERS[kind](model.parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    seen = []
    for epoch in range(EPOCHS):
        total = torch.zeros(())
        for step in range(STEPS):
            mine = slice(step * BATCH + hvd.rank(), (step + 1) * BATCH, hvd.size())
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[mine]), y[mine])
            loss.backward()
            optimizer.synchronize()  # from here on the gradients are the mean of all ranks
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                optimizer.step()
            total += loss.detach()
            if lost_with and (epoch, step, hvd.rank()) == (0, 3, 1):
                print("rank 1 is lost", flush=True)
                os.kill(os.getpid(), lost_with)
        seen.append(float(hvd.allreduce(total / STEPS, name=f"loss.{epoch}")))
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    return {"loss": seen, "weights": hashlib.sha256(weights).hexdigest()}


TASKS: dict[str, Callable[[], dict[str, Any]]] = {
    "equal": lambda: {kind: train(kind) for kind in OPTIMIZERS},
    "killed": lambda: train("sgd", signal.SIGKILL),
    "stopped": lambda: train("sgd", signal.SIGSTOP),
}

if __name__ == "__main__":
    by_srun = horovod_srun.prepare()
    hvd.init()
    if by_srun and hvd.rank() == 0:
        horovod_srun.clean()
    result = {"rank": hvd.rank(), "size": hvd.size(), "node": os.environ.get("SLURMD_NODENAME", "")}
    for task in sys.argv[1:]:
        print("RESULT", json.dumps(result | TASKS[task]()), flush=True)
