"""A person's own script that runs before the session ends, to keep what a training has reached.

Slurm can send a signal before the end (sbatch(1), ``--signal``), but to the batch script or to all processes of the
job's steps at once, and what a kernel makes of it is the kernel's choice. A script does what the person wants, and what
became of it can be shown.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from portal.homes.held_place import NEW, held, is_own_all_the_way
from portal.homes.own_folder import make_own
from portal.kernels.modules import clean
from portal.session_usage.end_time import EndTime

SCRIPT = ".config/dsportal/before-end"
LOG = ".local/share/dsportal/before-end.log"
SHOWN = f"~/{SCRIPT}"
BEFORE_S = 300
STOPPED_BEFORE_S = 15  # the end of the session
KILLED_AFTER_S = 5
LOOK_EVERY_S = 5
LINES = 3
READ_BYTES = 4096  # of the end of what it wrote
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class ScriptRun:
    """What became of the script: ``state`` is running, done, failed, stopped or refused; ``words`` for the person."""

    state: str
    words: str

    def to_json(self) -> dict[str, str]:
        """As the page reads it."""
        return asdict(self)


class BeforeEnd:
    """Runs the script once before the session ends; again where the end was moved, and comes near once more.

    Arguments:
        environ: of the server; the script gets it as a kernel does, without what is secret, and ``DSPORTAL_ENDS_AT``.
    """

    def __init__(
        self, home: Path, environ: Mapping[str, str], end: EndTime, clock: Callable[[], float] = time.time
    ) -> None:
        self.run: ScriptRun | None = None
        self._home = home
        self._environ = environ
        self._end = end
        self._clock = clock
        self._is_done = False

    async def look(self) -> None:
        """Run the script if it is time; returns when it has ended."""
        left_s = self._left_s()
        if left_s > BEFORE_S:
            self._is_done = False
        elif left_s > STOPPED_BEFORE_S and not self._is_done:
            fault = await asyncio.to_thread(fault_of, self._home / SCRIPT)
            self._is_done = fault != ""  # one that is written in the last minutes still runs
            if fault is None:
                await self._run()
            elif fault:
                self.run = ScriptRun("refused", f"{SHOWN} was not run: {fault}")

    def _left_s(self) -> float:
        return float("inf") if self._end.at is None else self._end.at - self._clock()

    async def _run(self) -> None:
        self.run = ScriptRun("running", f"{SHOWN} is running, because this session ends soon.")
        output, fault = await asyncio.to_thread(_output, self._home / LOG)
        with output:
            try:
                process = await self._started(output)
            except OSError as error:
                advice = "Does its first line name a shell?"
                self.run = ScriptRun("refused", f"{SHOWN} was not run: {error.strerror}. {advice}")
                return
            was_stopped = await self._wait(process)
            lines = await asyncio.to_thread(_last_lines, output.fileno())
        self.run = _result(was_stopped, process.returncode or 0, lines, fault)

    async def _started(self, output: IO[bytes]) -> Process:
        return await asyncio.create_subprocess_exec(
            str(self._home / SCRIPT),
            env={**clean(self._environ), "DSPORTAL_ENDS_AT": str(self._end.at)},
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    async def _wait(self, process: Process) -> bool:
        """Wait for its end, but not longer than the session has; true where it was stopped."""
        ended = asyncio.ensure_future(process.wait())
        while not ended.done() and self._left_s() > STOPPED_BEFORE_S:
            await asyncio.wait([ended], timeout=1)
        if ended.done():
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            await asyncio.wait([ended], timeout=KILLED_AFTER_S)
        return True


def fault_of(script: Path) -> str | None:
    """Why a script is not run: ``""`` where there is none, None where nothing is wrong with it."""
    try:
        found = script.stat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{error.strerror}."
    if not stat.S_ISREG(found.st_mode):
        return "it is no file."
    is_own = found.st_uid == os.getuid() and not found.st_mode & OTHERS_MAY_WRITE
    if not (is_own and is_own_all_the_way(script.parent) and _stays(script)):
        return f"it, or a folder on the way to it, is not yours alone. Run chmod go-w {SHOWN}, and look at its folders."
    if not found.st_mode & stat.S_IXUSR:
        return f"it may not be executed. Run chmod u+x {SHOWN}."
    return None


def _stays(script: Path) -> bool:
    """Whether others can exchange neither the script nor one of the links that lead to it."""
    try:
        with held(script) as place:
            return place.is_private
    except OSError:
        return False


def _output(log: Path) -> tuple[IO[bytes], str]:
    """What the script writes into, and why that is not the log in the home; ``""`` where it is.

    The log is made anew, whatever lies there: others may have put a link or a pipe into a folder that they can change.
    """
    try:
        make_own(log.parent)
        with held(log, follow=False) as place:
            with suppress(FileNotFoundError):
                os.unlink(place.name, dir_fd=place.folder)
            return os.fdopen(os.open(place.name, NEW, 0o600, dir_fd=place.folder), "w+b"), ""
    except OSError as error:
        return tempfile.TemporaryFile(), f"{error.filename or log.name}: {error.strerror}"


def _result(was_stopped: bool, status: int, lines: str, fault: str) -> ScriptRun:
    said = f" It said: {lines}" if lines else ""
    if was_stopped:
        return ScriptRun("stopped", f"{SHOWN} was stopped, because the session ends now.{said}")
    if status:
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        where = f"its log could not be made ({fault})" if fault else f"all that it wrote is in ~/{LOG}"
        return ScriptRun("failed", f"{SHOWN} failed {how}; {where}.{said}")
    return ScriptRun("done", f"{SHOWN} has finished.{said}")


def _last_lines(log: int) -> str:
    size = os.fstat(log).st_size
    text = os.pread(log, READ_BYTES, max(0, size - READ_BYTES)).decode(errors="replace")
    return "\n".join(text.splitlines()[-LINES:])[-500:]
