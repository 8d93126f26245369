"""What the session's own job uses: one look at cgroup, GPUs, processes and disk, however many pages ask for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.session_usage import cgroups, gpus, processes

FRESH_S = 2.0  # so long a look counts as now
WITHIN_S = 5.0  # a home whose file server is silent is not waited for longer
MIB = 1024 * 1024
PROC = Path("/proc/self")

Answer = dict[str, Any]


@dataclass(frozen=True)
class RunningKernel:
    """A kernel of this session; ``path`` is the notebook that has it, ``""`` for none."""

    id: str
    name: str
    path: str
    pid: int


class Rates:
    """How many cores were busy between two looks, by the CPU time at each."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}

    def busy(self, name: str, cpu_s: float | None, at: float) -> float | None:
        """Cores that ``name`` kept busy since it was asked for last; None the first time."""
        if cpu_s is None:
            return None
        before = self._last.get(name)
        self._last[name] = (cpu_s, at)
        if before is None or at <= before[1]:
            return None
        return round(max(0.0, cpu_s - before[0]) / (at - before[1]), 2)


class JobUsage:
    """What the job of this session uses.

    Arguments:
        home: whose disk is looked at.
        environ: of the session's server; Slurm's variables say what the job was given.
    """

    def __init__(self, home: Path, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._environ = environ
        self._clock = clock
        self._rates = Rates()
        self._group = cgroups.job_group((PROC / "cgroup").read_text(), (PROC / "mountinfo").read_text())

    def look(self, kernels: Sequence[RunningKernel]) -> Answer:
        """One look at everything; it may block."""
        found, why_no_gpus = gpus.look(self._environ)
        return {
            **self._of_job(),
            "gpus": [_shown(one) for one in found],
            "why_no_gpus": why_no_gpus,
            "disk": self._disk(),
            "kernels": [self._of_kernel(kernel) for kernel in kernels],
        }

    def _of_job(self) -> Answer:
        used = cgroups.use(self._group) if self._group else cgroups.GroupUse()
        source = f"cgroup v{self._group.version}" if self._group else "processes"
        memory_bytes = used.memory_bytes
        cpu_s = used.cpu_s
        if memory_bytes is None or cpu_s is None:
            summed = processes.use_of_job(self._environ.get(processes.JOB, ""))
            source = source if memory_bytes is not None else "processes"
            memory_bytes = summed.memory_bytes if memory_bytes is None else memory_bytes
            cpu_s = summed.cpu_s if cpu_s is None else cpu_s
        return {
            "source": source,
            "memory": {"used_bytes": memory_bytes, "limit_bytes": used.limit_bytes or memory_given(self._environ)},
            "cpu": {"cores_busy": self._rates.busy("", cpu_s, self._clock()), "cores": cores_given(self._environ)},
        }

    def _of_kernel(self, kernel: RunningKernel) -> Answer:
        used = processes.use_of_tree(kernel.pid)
        busy = self._rates.busy(kernel.id, used.cpu_s, self._clock())
        shown = {"id": kernel.id, "name": kernel.name, "path": kernel.path}
        return {**shown, "memory_bytes": used.memory_bytes, "cores_busy": busy}

    def _disk(self) -> Answer | None:
        try:
            found = os.statvfs(self._home)
        except OSError:
            return None
        size = found.f_blocks * found.f_frsize
        free = found.f_bavail * found.f_frsize
        return {"size_bytes": size, "used_bytes": size - found.f_bfree * found.f_frsize, "free_bytes": free}


class Looks:
    """One look at a time, and none while the last one is fresh."""

    def __init__(
        self, look: Callable[[Sequence[RunningKernel]], Answer], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._clock = clock
        self._begun_at = 0.0
        self._running: asyncio.Future[Answer] | None = None

    async def latest(self, kernels: Sequence[RunningKernel]) -> Answer | None:
        """The last look, or a new one; None while it takes too long: then there is still one alone."""
        is_old = self._clock() - self._begun_at > FRESH_S
        if self._running is None or (self._running.done() and is_old):
            self._begun_at = self._clock()
            self._running = asyncio.ensure_future(asyncio.to_thread(self._look, kernels))
        await asyncio.wait([self._running], timeout=WITHIN_S)
        return self._running.result() if self._running.done() else None


def memory_given(environ: Mapping[str, str]) -> int | None:
    """What Slurm gave the job on this node, in bytes (sbatch(1), output environment variables); None: not known."""
    per_node = _count(environ.get("SLURM_MEM_PER_NODE", ""))
    per_cpu = _count(environ.get("SLURM_MEM_PER_CPU", ""))
    mib = per_node or per_cpu * _count(environ.get("SLURM_CPUS_ON_NODE", ""))
    return mib * MIB or None


def cores_given(environ: Mapping[str, str]) -> int | None:
    """The cores that Slurm gave the job on this node; None outside of a job."""
    return _count(environ.get("SLURM_CPUS_ON_NODE", "")) or None


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _shown(one: gpus.GpuUse) -> Answer:
    return {
        "uuid": one.uuid,
        "name": one.name,
        "busy_percent": one.busy_percent,
        "memory_used_bytes": one.memory_used_bytes,
        "memory_bytes": one.memory_bytes,
        "error": one.error,
    }
