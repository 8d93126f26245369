"""How an environment is, as things are now: its note says what was, its folder and its maker say what is."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from pathlib import Path

from portal.environments import notes
from portal.environments.notes import EnvironmentNote, Maker, MakingState
from portal.environments.place import EnvironmentRefused

BROKEN = "broken"
AGAIN = "remove it, and make it anew"
SILENT_S = 900.0  # a package that is compiled says nothing for some minutes
ENDS_WITHIN_S = 10.0
LOOK_S = 0.1


def this_process(pid: int) -> Maker:
    """A process as a note names it."""
    return Maker(socket.gethostname(), pid, started_ticks(pid))


def started_ticks(pid: int) -> int:
    """When a process began, in ticks since its host did; 0 where there is none (proc(5), stat, field 22)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def told(note: EnvironmentNote, folder: Path, kernels: Path) -> tuple[str, str]:
    """MakingState and words of an environment.

    Arguments:
        folder: where the notes are.
        kernels: where the person's kernelspecs are.
    """
    if note.state is MakingState.FAILED:
        return note.state, note.words
    if note.state is MakingState.MAKING:
        if is_being_made(note, folder):
            return note.state, f"is being made on {note.maker.host}" if note.maker.host else "is being made"
        return BROKEN, f"its making was interrupted: {AGAIN}"
    if note.path and not Path(note.path).is_dir():
        return BROKEN, f"{note.path} is gone: {AGAIN}"
    if note.path and not Path(note.path, "bin", "python").exists():
        return BROKEN, f"the Python that it was made of is gone: {AGAIN}"
    if not (kernels / note.order.kernel / "kernel.json").is_file():
        return BROKEN, f"its kernel is gone: {AGAIN}"
    return note.state, ""


def is_being_made(note: EnvironmentNote, folder: Path) -> bool:
    """Whether its process is there; of one on another node, whether its log was written a short while ago."""
    if note.state is not MakingState.MAKING:
        return False
    maker = note.maker
    if maker.host == socket.gethostname():
        return bool(maker.ticks) and started_ticks(maker.pid) == maker.ticks
    return _seconds_ago(folder, note.order.name) < SILENT_S


def _seconds_ago(folder: Path, name: str) -> float:
    """How long ago the making of an environment has written something."""
    times = [0.0]
    for file in (notes.log_of(folder, name), folder / f"{name}.json"):
        with contextlib.suppress(OSError):
            times.append(file.stat().st_mtime)
    return time.time() - max(times)


def end(note: EnvironmentNote, folder: Path) -> None:
    """End the process that makes it, and all that it has started.

    Raises:
        EnvironmentRefused: it runs on another node, or does not end.
    """
    if note.maker.host != socket.gethostname():
        raise EnvironmentRefused(f"It is being made on {note.maker.host}: remove it there, or wait until it is over.")
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(note.maker.pid, number)
        deadline_s = time.monotonic() + ENDS_WITHIN_S
        while is_being_made(note, folder) and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
        if not is_being_made(note, folder):
            return
    raise EnvironmentRefused(f"{note.order.name} cannot be stopped (process {note.maker.pid}).")
