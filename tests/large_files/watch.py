"""What is measured meanwhile: seconds, and the memory of each process on the way."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.hub.conftest import Hub
from tests.inside import home

SESSION = b"portal.singleuser"
BROWSER = b"chrom"
FORGET_PEAK = "5"  # proc(5), /proc/pid/clear_refs
PROC = Path("/proc")


@dataclass
class Measured:
    """How long something took, and the resident memory before and at its peak, by process, in MiB."""

    seconds: float = 0.0
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)

    def growth(self) -> int:
        """By how many MiB the process grew that grew most, the browser's left away."""
        return max(peak - before for name, (before, peak) in self.memory.items() if name != "browser")

    def line(self, what: str, size: int) -> str:
        """A row of a table of the docs."""
        columns = [what, f"{self.seconds:.0f}", f"{size / 1e6 / self.seconds:.0f}"]
        columns += [f"{before}, {peak}" for before, peak in self.memory.values()]
        return f"| {' | '.join(columns)} |"


@contextmanager
def measured(hub: Hub) -> Iterator[Measured]:
    """Measure what is done in the block."""
    found = Measured()
    before = {}
    for name, pids in _processes(hub).items():
        before[name] = (pids, max(_forget(pid) for pid in pids))
    start = time.monotonic()
    yield found
    found.seconds = time.monotonic() - start
    for name, (pids, then) in before.items():
        found.memory[name] = (then, max(_kib(pid, "VmHWM") for pid in pids) // 1024)


def session_of(user: str) -> int:
    """The process of a person's session."""
    owner = home(user).stat().st_uid
    return min(pid for pid in _running(SESSION) if (PROC / str(pid)).stat().st_uid == owner)


def _processes(hub: Hub) -> dict[str, list[int]]:
    state = hub.folder / "state"
    return {
        "session": [session_of("alice")],
        "proxy": [int((state / "proxy.pid").read_text())],
        "hub": [int((state / "hub.pid").read_text())],
        "browser": _running(BROWSER),
    }


def _running(word: bytes) -> list[int]:
    found = []
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if word in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


def _forget(pid: int) -> int:
    """Forget a process's peak; its memory now."""
    with suppress(OSError):
        (PROC / str(pid) / "clear_refs").write_text(FORGET_PEAK)
    return _kib(pid, "VmRSS") // 1024


def _kib(pid: int, key: str) -> int:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1])
    return 0
