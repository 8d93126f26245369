"""`portal bench training`: the template's training step beside plain scripts, in turns, in the module environments."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ground import say

HERE = Path(__file__).resolve().parent
LAST_LINES = 5


@dataclass
class Stack:
    """One script on one module; the rounds that it ran: images and seconds of each."""

    key: str
    module: str
    script: str
    precision: str
    rounds: list[tuple[int, float]] = field(default_factory=list)

    def command(self, options: Namespace) -> list[str]:
        """What a person would type: load the module, run the script with its Python."""
        sizes = [f"--batch-size={options.batch_size}", f"--image-size={options.image_size}"]
        words = ["python", str(HERE / self.script), *sizes, f"--precision={self.precision}"]
        return ["bash", "-lc", f"module load shared {self.module} && exec {shlex.join(words)}"]

    @property
    def images_per_s(self) -> float:
        """All images of all rounds by all their seconds: the mean, not the best round."""
        return sum(images for images, _ in self.rounds) / sum(seconds for _, seconds in self.rounds)


def stacks() -> list[Stack]:
    """Ours first, then the plain ones."""
    tensorflow, pytorch = "shared/tensorflow", "shared/pytorch"
    return [
        Stack("ours", tensorflow, "ours.py", "bfloat16"),
        Stack("keras_float32", tensorflow, "plain_keras.py", "float32"),
        Stack("keras_bfloat16", tensorflow, "plain_keras.py", "bfloat16"),
        Stack("torch_float32", pytorch, "plain_torch.py", "float32"),
        Stack("torch_bfloat16", pytorch, "plain_torch.py", "bfloat16"),
    ]


def run(options: Namespace) -> dict[str, Any]:
    """Measure.

    Raises:
        RuntimeError: there is too little memory, a module is missing, or a script failed; with its last lines.
    """
    check_memory(options, Path("/proc/meminfo").read_text(), len(stacks()))
    with contextlib.ExitStack() as started:
        running = [(stack, started.enter_context(script(stack, options))) for stack in stacks()]
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            for stack, process in turns(running, number):
                seconds = float(ask(stack, process, options.steps)["seconds"])
                stack.rounds.append((options.steps * options.batch_size, seconds))
    return figures([stack for stack, _ in running])


def check_memory(options: Namespace, meminfo: str, scripts: int) -> None:
    """Every script keeps its model, so that they can take turns.

    Raises:
        RuntimeError: that does not fit.
    """
    need = scripts * round(1300 + 130 * options.batch_size * (options.image_size / 224) ** 2)
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    free = int(found[1]) >> 10 if found else 0
    if free < need:
        raise RuntimeError(f"{scripts} models take about {need} MiB, {free} MiB are free: ask for a smaller batch")


def turns(running: Sequence[Any], number: int) -> list[Any]:
    """Each round begins with another one, so that no script always follows the same neighbour's heat or idleness."""
    first = number % len(running)
    return [*running[first:], *running[:first]]


@contextlib.contextmanager
def script(stack: Stack, options: Namespace) -> Iterator[subprocess.Popen[str]]:
    """One script, warmed up and waiting."""
    say(f"{stack.key}: loading {stack.module}, warming up")
    with subprocess.Popen(
        stack.command(options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            heard(stack, process)
            yield process
        finally:
            process.kill()


def ask(stack: Stack, process: subprocess.Popen[str], steps: int) -> dict[str, Any]:
    """Let it train, and wait for its answer."""
    if process.stdin is None:
        raise RuntimeError(f"{stack.key} does not listen")
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    return heard(stack, process)


def heard(stack: Stack, process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next answer of a script; what libraries print is passed over.

    Raises:
        RuntimeError: it ended instead.
    """
    said: list[str] = []
    for line in process.stdout or ():
        if line.startswith("{"):
            return dict(json.loads(line))
        said.append(line)
    last = "".join(said[-LAST_LINES:]).strip()
    raise RuntimeError(f"{stack.key} ({stack.script} with {stack.module}) ended with {process.wait()}: {last}")


def figures(measured: Sequence[Stack]) -> dict[str, Any]:
    """Ours, the fastest plain script's speed, and how many times as fast ours is."""
    ours, *plain = measured
    fastest = max(stack.images_per_s for stack in plain)
    return {
        "ours": {
            "images_per_s": round(ours.images_per_s, 2),
            "slowest_round_images_per_s": round(min(images / s for images, s in ours.rounds), 2),
            "fastest_round_images_per_s": round(max(images / s for images, s in ours.rounds), 2),
            "fastest_plain_images_per_s": round(fastest, 2),
            "ratio": round(ours.images_per_s / fastest, 3),
        },
        "stock": {},
        "plain": speeds(plain),
    }


def speeds(plain: Sequence[Stack]) -> Mapping[str, float]:
    """Images a second of each plain script."""
    return {stack.key: round(stack.images_per_s, 2) for stack in plain}
