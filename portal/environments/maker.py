"""Makes one environment: a process of its own, which a session's server and a terminal only start and look at.

So that neither waits for it, and nothing of an environment is ever imported by a server. The folder has its own name
from the beginning: programs in it begin with the whole path of its Python (venv, uv and conda alike), so that it cannot
be renamed. What says that it is whole is its note; its kernel comes last. Its output is the log.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from portal.environments import kernel, notes, place, steps
from portal.environments.notes import EnvironmentNote, MakingState
from portal.environments.order import OF_CONDA, EnvironmentOrder, Tool, order_of
from portal.environments.place import EnvironmentRefused
from portal.errors import PortalError, printable
from portal.homes.regular_file import tail
from portal.kernels.delta import Environment
from portal.kernels.modules import ModuleSystem, clean, environment
from portal.kernels.run_kernel import program
from portal.modules.session_system import SessionModules

STOPPED = "it was stopped"


@dataclass(frozen=True)
class Task:
    """What a maker is told on its standard input."""

    order: EnvironmentOrder
    notes: str
    modules: SessionModules

    def to_text(self) -> str:
        """One JSON object."""
        system = self.modules.system
        told = {"order": asdict(self.order), "notes": self.notes, "variables": dict(self.modules.variables)}
        return json.dumps({**told, "command": system.command, "path": system.path, "of_site": self.modules.of_site})

    @classmethod
    def from_text(cls, text: str) -> Task:
        """Read :meth:`to_text`."""
        told: dict[str, Any] = json.loads(text)
        system = ModuleSystem(told["command"], tuple(told["path"]))
        order = order_of(told["order"])
        return cls(order, told["notes"], SessionModules(system, told["variables"], tuple(told["of_site"])))


class _Stopped(BaseException):
    """Somebody does not want it any more."""


def main() -> int:
    """Make what standard input says; the note says how it went."""
    signal.signal(signal.SIGTERM, _stop)
    task = Task.from_text(sys.stdin.read())
    folder = Path(task.notes)
    note = notes.read(folder, task.order.name)
    if note is None or note.state is not MakingState.MAKING:
        print(f"{task.order.name} was removed meanwhile.")
        return 1
    path = Path(note.path)
    try:
        Making(task, path, notes.log_of(folder, task.order.name)).all()
        installed_ns = place.packages_time(path)
        size = place.size_bytes(path)
        print("It is ready.", flush=True)
        notes.write(folder, replace(note, state=MakingState.READY, size_bytes=size, measured_ns=installed_ns))
    except (PortalError, OSError, _Stopped) as error:
        _give_up(folder, note, _words(error))
        return 1
    return 0


def _stop(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Stopped


def _words(error: BaseException) -> str:
    if isinstance(error, PortalError):
        return printable(" ".join(error.message.split()))
    if isinstance(error, OSError):
        return printable(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
    return STOPPED


def _give_up(folder: Path, note: EnvironmentNote, words: str) -> None:
    """Leave nothing half made: the folder goes, and the note says why."""
    if note.path:
        shutil.rmtree(note.path, ignore_errors=True)
    with contextlib.suppress(OSError):
        kernel.remove(note.order, os.environ)
    with contextlib.suppress(OSError):  # before the note: who follows the log reads on until that says that it is over
        print(f"It failed: {words}", flush=True)
    with contextlib.suppress(OSError):  # a full home: then the note still says "making", and its process is gone
        notes.write(folder, replace(note, state=MakingState.FAILED, words=words))


class Making:
    """The steps of one making.

    Arguments:
        path: the folder of the environment, which is there and empty.
        log: the file that standard output goes to, for the words of what fails.
    """

    def __init__(self, task: Task, path: Path, log: Path) -> None:
        self._order = task.order
        self._modules = task.modules
        self._path = path
        self._log = log
        self._tool = ""
        self._environ: Environment = {}

    def all(self) -> None:
        """Make it, and its kernel last.

        Raises:
            EnvironmentRefused: a command failed, with its words.
            KernelError: the modules cannot be loaded, or its Python has no kernel.
            OSError: a file cannot be written.
        """
        loaded = self._loaded()
        self._environ = steps.environ_for(loaded)
        if steps.needs_tool(self._order):
            self._tool = self._found(self._order.tool, loaded)
        python = "" if self._order.tool in OF_CONDA else program("python3", loaded)
        self._create(python)
        self._path.chmod(0o700)
        if self._order.modules and python:
            self._show_packages(python)
        needed = [] if self._answers(f"{self._path}/bin/python", steps.HAS_KERNEL) else ["ipykernel"]
        if packages := [*needed, *self._order.packages]:
            self._run(steps.pip_command(self._order, str(self._path), self._tool, packages))
        print("The kernel is tried …", flush=True)
        kernel.write(self._order, kernel.files(self._order, str(self._path), self._modules), os.environ)

    def _loaded(self) -> Environment:
        if self._order.modules:
            print(f"module load {' '.join(self._order.modules)}", flush=True)
        return environment(self._order.modules, self._modules.system, {**self._modules.variables, **clean(os.environ)})

    def _found(self, tool: str, loaded: Environment) -> str:
        path = shutil.which(tool, path=loaded.get("PATH", os.defpath))
        if path is None:
            where = f"with the modules {', '.join(self._order.modules)}" if self._order.modules else "on this node"
            raise EnvironmentRefused(f"There is no {tool} {where}: name a module with it, or take venv.")
        return path

    def _create(self, python: str) -> None:
        """An empty environment with pip in it."""
        if steps.needs_tool(self._order):
            self._path.rmdir()  # mamba refuses a folder that is there
        if self._order.tool is not Tool.VENV or self._answers(python, steps.HAS_ENSUREPIP):
            self._run(steps.create_command(self._order, str(self._path), self._tool, python))
            return
        if not self._answers(python, steps.HAS_PIP):
            raise EnvironmentRefused(
                f"{python} can make no environment: it has neither ensurepip nor pip. Take a module that brings a "
                "whole Python, or ask your administrator for python3-venv."
            )
        self._run(steps.create_command(self._order, str(self._path), self._tool, python, with_pip=False))
        self._run(steps.pip_from_outside(python, str(self._path)))

    def _show_packages(self, python: str) -> None:
        """Let it see the packages of its modules' Python."""
        asked = steps.ask_command(python, steps.SITE_OF_BASE)
        done = subprocess.run(asked, env=self._environ, cwd="/", capture_output=True, text=True, check=False)
        if done.returncode:
            raise EnvironmentRefused(steps.fault_words("Python", done.stderr))
        folders = [folder for folder in json.loads(done.stdout) if Path(folder).is_dir()]
        for own in self._path.glob("lib/python3*/site-packages"):
            (own / steps.SEEN).write_text(steps.seen_packages(folders))

    def _answers(self, python: str, text: str) -> bool:
        """Whether a Python runs a line without a fault."""
        asked = steps.ask_command(python, text)
        done = subprocess.run(
            asked, env=self._environ, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return done.returncode == 0

    def _run(self, command: Sequence[str]) -> None:
        """Run a command, its output in the log.

        Raises:
            EnvironmentRefused: it failed.
        """
        print(f"$ {' '.join(command)}", flush=True)
        begin = os.fstat(sys.stdout.fileno()).st_size
        try:
            done = subprocess.run(command, env=self._environ, cwd="/", stdin=subprocess.DEVNULL, check=False)
        except OSError as error:
            raise EnvironmentRefused(f"{command[0]} cannot be run: {error.strerror}.") from error
        if done.returncode:
            said = self._said_since(begin)
            raise EnvironmentRefused(steps.fault_words(program_name(command), said) or f"{command[0]} failed.")

    def _said_since(self, begin: int) -> str:
        size = os.fstat(sys.stdout.fileno()).st_size
        return tail(self._log, min(steps.LOG_READ_BYTES, max(0, size - begin)))


def program_name(command: Sequence[str]) -> str:
    """What a person calls the program of a command: that which Python runs."""
    return command[3] if command[1:3] == ["-I", "-m"] else Path(command[0]).name


if __name__ == "__main__":
    sys.exit(main())
