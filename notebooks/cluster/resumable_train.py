"""Train a network that may be stopped at any step, and goes on, in another job if need be, as if nothing had happened.

    python resumable_train.py --folder my-run        begins, or goes on where the checkpoint in my-run says

Copy it and put your own model and data into :class:`Training`; what makes it go on is marked with a number:

1. Slurm tells that the time is nearly over with a signal. The signal is noted, and looked at between two steps.
2. A checkpoint holds everything that the next step depends on: weights, optimizer, schedule, position in the data, and
   the state of the random numbers.
3. A checkpoint is written under another name, pushed to the disk, and renamed: it is there whole, or not at all.
4. When it is there, the job puts itself back into the queue.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTICES: list[int] = []  # the signals that have come
if __name__ == "__main__":
    # 1. USR1: the time is nearly over; TERM: somebody ends this job now. Before the slow imports: a signal that nobody
    # takes ends the training at once.
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, _: NOTICES.append(number))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Sampler, TensorDataset  # noqa: E402

CHECKPOINT = "checkpoint.pt"


class ShuffledFrom(Sampler[int]):
    """The numbers below ``length``, in another order in each epoch, from any position of an epoch on."""

    def __init__(self, length: int, seed: int) -> None:
        self.length, self.seed = length, seed
        self.epoch = 0
        self.used = 0

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.length, generator=torch.Generator().manual_seed(self.seed + self.epoch))
        return iter(order[self.used :].tolist())

    def __len__(self) -> int:
        return self.length - self.used

    def state_dict(self) -> dict[str, int]:
        """Where in which epoch it is."""
        return {"epoch": self.epoch, "used": self.used}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on there."""
        self.epoch, self.used = state["epoch"], state["used"]


def two_spirals(count: int, seed: int) -> TensorDataset:
    """Points on two spirals, one wound into the other, and on which of them each lies."""
    random = torch.Generator().manual_seed(seed)
    turn = torch.rand(count, generator=random).sqrt() * 9 + 1
    side = torch.arange(count) % 2
    angle = turn + side * torch.pi
    points = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / 10
    return TensorDataset(points + 0.01 * torch.randn(count, 2, generator=random), side)


class Training:
    """A training that is taken step by step; everything that its next step depends on is in :meth:`state`."""

    def __init__(self, steps: int, seed: int = 0, batch_size: int = 64) -> None:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs for the next line
        torch.use_deterministic_algorithms(True)  # the same steps give the same weights, on GPUs too
        torch.manual_seed(seed)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # Dropout draws random numbers in every step: without their state a training that goes on is another one.
        self.model = nn.Sequential(
            nn.Linear(2, 128), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(128, 2),
        ).to(self.device)  # fmt: skip
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=steps)
        data = two_spirals(2000, seed)
        self.sampler = ShuffledFrom(len(data), seed)
        # A loader draws a number each time it begins: from a generator of its own, or those of the training move on.
        self.loader = DataLoader(data, batch_size, sampler=self.sampler, drop_last=True, generator=torch.Generator())
        self.batches = self._batches()
        self.losses = torch.zeros(steps, device=self.device)
        self.runs: list[tuple[int, str, str]] = []  # each run of the job: its first step, its node, what computes there
        self.step = 0

    def _batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Batch after batch and epoch after epoch. What is counted is what was used, not what was read ahead."""
        while True:
            for points, sides in self.loader:
                self.sampler.used += len(sides)
                yield points.to(self.device), sides.to(self.device)
            self.sampler.epoch += 1
            self.sampler.used = 0

    def take_step(self) -> None:
        """One step of the training."""
        points, sides = next(self.batches)
        loss = nn.functional.cross_entropy(self.model(points), sides)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.losses[self.step] = loss.detach()
        self.step += 1

    def state(self) -> dict[str, Any]:
        """2. Everything that the next step depends on, and the curve so far."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "sampler": self.sampler.state_dict(),
            "random": {"cpu": torch.get_rng_state(), "gpus": torch.cuda.get_rng_state_all()},
            "losses": self.losses,
            "runs": self.runs,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was taken; what is not in it stays as it is at the beginning."""
        for name in ("model", "optimizer", "schedule", "sampler"):
            if name in state:
                getattr(self, name).load_state_dict(state[name])
        if "random" in state:
            torch.set_rng_state(state["random"]["cpu"])
            torch.cuda.set_rng_state_all(state["random"]["gpus"])
        self.step, self.runs = state["step"], state["runs"]
        self.losses.copy_(state["losses"])


def save(state: dict[str, Any], path: Path) -> None:
    """3. Write a checkpoint that is there whole or not at all, even if the node dies on the way."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)  # one that was cut off; or a link of others, through which nothing is written
    with partial.open("xb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)  # the new name is on the disk when its folder is
    os.fsync(folder)
    os.close(folder)


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint; nothing in it is run as a program."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def requeue() -> None:
    """4. Put this job back into the queue: it keeps its number, and the same script starts again from its beginning."""
    if job := os.environ.get("SLURM_JOB_ID"):
        done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"The checkpoint is saved, but Slurm does not requeue job {job}: {done.stderr.strip()}")


def place() -> tuple[str, str]:
    """This node's name, and what computes here: others may round otherwise in the last digit."""
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    if torch.cuda.is_available():
        return node, torch.cuda.get_device_name()
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return node, names[0].partition(":")[2].strip() if names else "an unknown processor"


def main() -> None:
    """Train from the beginning or from the checkpoint, to the end or to a notice."""
    parser = argparse.ArgumentParser(description="Train, or go on where the checkpoint in the folder says.")
    parser.add_argument("--folder", type=Path, required=True, help="where the checkpoint is; every node must see it")
    parser.add_argument("--steps", type=int, default=400, help="steps of the whole training")
    parser.add_argument("--save-every", type=int, default=100, help="steps from one checkpoint to the next")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a step takes at least so long")
    given = parser.parse_args()
    path = given.folder / CHECKPOINT
    given.folder.mkdir(parents=True, exist_ok=True)
    training = Training(given.steps, given.seed)
    if path.exists():
        training.restore(load(path))
    training.runs.append((training.step, *place()))
    print(f"step {training.step}: run {len(training.runs)} begins on {training.runs[-1][1]}", flush=True)
    while training.step < given.steps:
        begun = time.perf_counter()
        training.take_step()
        if training.step % given.save_every == 0:
            save(training.state(), path)
            print(f"step {training.step}: saved, loss {float(training.losses[training.step - 1]):.4f}", flush=True)
        if NOTICES:  # looked at after a step, so that each run gets on, however early it is told
            break
        time.sleep(max(0.0, given.step_seconds - (time.perf_counter() - begun)))
    save(training.state(), path)
    if training.step == given.steps:
        print(f"step {training.step}: the end", flush=True)
    elif NOTICES[0] == signal.SIGUSR1:
        print(f"step {training.step}: told that the time is over; saved, back into the queue", flush=True)
        requeue()
    else:
        print(f"step {training.step}: told to end; saved", flush=True)
        sys.exit(128 + NOTICES[0])


if __name__ == "__main__":
    main()
