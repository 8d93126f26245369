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

from deploy.run_module import CHECKOUT
from tests.bench.cluster_setup import say

LESSONS = CHECKOUT / "notebooks" / "tensorflow"
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
        words = ["python", "-B", "-m", f"tests.bench.training.{self.script}", *sizes, f"--precision={self.precision}"]
        path = f"PYTHONPATH={shlex.quote(str(LESSONS))}${{PYTHONPATH:+:$PYTHONPATH}}"
        return ["bash", "-lc", f"module load shared {self.module} && {path} exec {shlex.join(words)}"]

    @property
    def images_per_s(self) -> float:
        """All images of all rounds by all their seconds: the mean, not the best round."""
        return sum(images for images, _ in self.rounds) / sum(seconds for _, seconds in self.rounds)


def stacks(*, only_ours: bool = False) -> list[Stack]:
    """Ours first, then the plain ones."""
    tensorflow = "shared/tensorflow"
    pytorch = "shared/pytorch"
    ours = Stack("ours", tensorflow, "ours", "bfloat16")
    if only_ours:
        return [ours]
    return [
        ours,
        Stack("keras_float32", tensorflow, "plain_keras", "float32"),
        Stack("keras_bfloat16", tensorflow, "plain_keras", "bfloat16"),
        Stack("torch_float32", pytorch, "plain_torch", "float32"),
        Stack("torch_bfloat16", pytorch, "plain_torch", "bfloat16"),
    ]


def run(options: Namespace) -> dict[str, Any]:
    """Measure.

    Raises:
        RuntimeError: there is too little memory, a module is missing, or a script failed; with its last lines.
    """
    chosen = stacks(only_ours=bool(options.only))
    check_memory(options, Path("/proc/meminfo").read_text(), len(chosen))
    with contextlib.ExitStack() as started:
        running = [(stack, started.enter_context(script(stack, options))) for stack in chosen]
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            for stack, process in turns(running, number):
                seconds = float(ask(stack, process, options.steps)["seconds"])
                stack.rounds.append((options.steps * options.batch_size, seconds))
    return figures(chosen)


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
        stack.command(options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=CHECKOUT,
    ) as process:
        try:
            answer_of(stack, process)
            yield process
        finally:
            process.kill()


def ask(stack: Stack, process: subprocess.Popen[str], steps: int) -> dict[str, Any]:
    """Let it train, and wait for its answer."""
    if process.stdin is None:
        raise RuntimeError(f"{stack.key} has no standard input")
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    return answer_of(stack, process)


def answer_of(stack: Stack, process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next answer of a script; what libraries print is skipped.

    Raises:
        RuntimeError: it ended instead.
    """
    skipped: list[str] = []
    for line in process.stdout or ():
        if line.startswith("{"):
            return dict(json.loads(line))
        skipped.append(line)
    last = "".join(skipped[-LAST_LINES:]).strip()
    raise RuntimeError(f"{stack.key} ({stack.script} with {stack.module}) ended with {process.wait()}: {last}")


def figures(measured: Sequence[Stack]) -> dict[str, Any]:
    """Ours; and where there are plain scripts, the speed of the fastest, and how many times as fast ours is."""
    ours, *plain = measured
    found = {
        "images_per_s": round(ours.images_per_s, 2),
        "slowest_round_images_per_s": round(min(images / s for images, s in ours.rounds), 2),
        "fastest_round_images_per_s": round(max(images / s for images, s in ours.rounds), 2),
    }
    if plain:
        fastest = max(stack.images_per_s for stack in plain)
        found["fastest_plain_images_per_s"] = round(fastest, 2)
        found["ratio"] = round(ours.images_per_s / fastest, 3)
    return {"ours": found, "stock": {}, "plain": speeds(plain)}


def speeds(plain: Sequence[Stack]) -> Mapping[str, float]:
    """Images a second of each plain script."""
    return {stack.key: round(stack.images_per_s, 2) for stack in plain}
