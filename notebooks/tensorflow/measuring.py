"""How fast a training is, and what it uses meanwhile: cores, GPUs, storage. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MB = 1_000_000
RESNET50 = (3, 4, 6, 3)  # blocks of its four stages


def images_per_s(started_s: float, ends_s: Sequence[float], batch_size: int, warm_up: int) -> float:
    """The speed over **all** iterations after the warm-up, not that of the best one.

    Arguments:
        started_s: when the first iteration began.
        ends_s: when each iteration ended, warm-up included.
        warm_up: so many iterations at the beginning do not count.

    Raises:
        ValueError: no iteration is left after the warm-up.
    """
    if len(ends_s) <= warm_up:
        raise ValueError(f"{len(ends_s)} iterations with a warm-up of {warm_up}: none is left to measure")
    began = ends_s[warm_up - 1] if warm_up else started_s
    return batch_size * (len(ends_s) - warm_up) / (ends_s[-1] - began)


def needed_mb_per_s(speed: float, bytes_per_image: float) -> float:
    """What the storage must deliver for so many images a second, in MB/s."""
    return speed * bytes_per_image / MB


@dataclass(frozen=True)
class Use:
    """What this process used between two moments."""

    seconds: float
    cores: float  # CPU seconds a second
    read_mb_s: float  # through read(2), out of the page cache or not
    storage_mb_s: float  # of it, what really came from a disk or over the network
    gpu_percent: float | None  # of all GPUs together, 100 for each; None without a GPU


class Meter:
    """Watch this process: ``start()``, then ``stop()``.

    Arguments:
        gpus: how many GPUs the training uses; above 0 ``nvidia-smi`` is asked once a second.
    """

    def __init__(self, gpus: int = 0) -> None:
        self._asks = bool(gpus) and shutil.which("nvidia-smi") is not None
        self._smi: subprocess.Popen[str] | None = None
        self._before: tuple[float, float, int, int] | None = None

    def start(self) -> None:
        """The interval begins."""
        if self._asks:
            command = ["nvidia-smi", "--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits", "-l", "1"]
            self._smi = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._before = counters()

    def stop(self) -> Use:
        """The interval ends.

        Raises:
            RuntimeError: it never began.
        """
        if self._before is None:
            raise RuntimeError("start() comes before stop()")
        seconds, cpu_s, read, stored = (now - then for now, then in zip(counters(), self._before, strict=True))
        return Use(seconds, cpu_s / seconds, read / seconds / MB, stored / seconds / MB, self._gpu_percent())

    def _gpu_percent(self) -> float | None:
        if self._smi is None:
            return None
        self._smi.terminate()
        return gpu_percent(self._smi.communicate()[0])


def counters() -> tuple[float, float, int, int]:
    """Now: the clock (s), CPU time of all threads (s), bytes read, bytes read from storage (proc(5), ``io``)."""
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return time.perf_counter(), time.process_time(), int(io["rchar"]), int(io["read_bytes"])


def gpu_percent(text: str) -> float | None:
    """The mean use of each GPU, added up; from lines of ``index, percent``. None when no line is complete."""
    uses: dict[str, list[float]] = {}
    for index, percent in re.findall(r"^(\d+), (\d+)\n", text, re.MULTILINE):
        uses.setdefault(index, []).append(float(percent))
    return sum(sum(values) / len(values) for values in uses.values()) if uses else None


def memory_mib() -> int:
    """What this process may still take: what the node has free, and no more than its job's limit.

    Read from ``/proc/meminfo``, Slurm's ``SLURM_MEM_PER_NODE``, and the limits of the control group (both versions).
    """
    free = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    limits = [int(free[1]) >> 10] if free else []
    if job := os.environ.get("SLURM_MEM_PER_NODE", ""):
        limits.append(int(job))
    limits += control_group_limits(Path("/proc/self/cgroup").read_text(), Path("/sys/fs/cgroup"))
    return min(limit for limit in limits if limit > 0)


def control_group_limits(groups: str, root: Path) -> list[int]:
    """The memory limits (MiB) that hold for the control groups listed in ``groups`` (``/proc/self/cgroup``)."""
    found: list[int] = []
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        below = path.strip("/")
        if "memory" in controllers.split(","):
            stat = root / "memory" / below / "memory.stat"
            text = stat.read_text() if stat.is_file() else ""
            found += [
                int(value) >> 20 for value in re.findall(r"^hierarchical_memory_limit (\d+)$", text, re.MULTILINE)
            ]
        elif not controllers:
            folders = [root / below, *(root / below).parents]
            files = [f / "memory.max" for f in folders if f.is_relative_to(root) and (f / "memory.max").is_file()]
            found += [int(text) >> 20 for file in files if (text := file.read_text().strip()) != "max"]
    return found


def training_memory_mib(batch_size: int, image_size: int, precision: str, blocks: Sequence[int] = RESNET50) -> int:
    """About what a training of ResNet50 takes on a CPU, frameworks included (measured: see the lesson).

    A block of each later stage keeps half as many numbers as one of the stage before, in a network of other depth, too.
    """
    each = 130 if precision == "float32" else 75
    depth = _kept(blocks) / _kept(RESNET50)
    return round(1300 + each * depth * batch_size * (image_size / 224) ** 2)


def _kept(blocks: Sequence[int]) -> int:
    """What all blocks keep for the way back, in numbers of the last stage's blocks."""
    return sum(count << (3 - stage) for stage, count in enumerate(blocks))
