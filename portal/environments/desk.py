"""List, make, follow and remove the environments of the person who asks; nothing here keeps an event loop waiting.

What is on the disk is the truth: notes, folders and kernelspecs. So a terminal, this session and the next see the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from portal.environments import kernel, look, notes, place
from portal.environments.maker import Task
from portal.environments.notes import EnvironmentNote, MakingState
from portal.environments.order import OF_CONDA, EnvironmentOrder, Tool, checked_name
from portal.environments.place import EnvironmentRefused
from portal.errors import RequestError
from portal.homes.log_part import LogPart, read_part
from portal.kernels.modules import clean
from portal.modules import session_system

MOST_AT_ONCE = 3  # makings of one person on a node


@dataclass(frozen=True)
class EnvironmentView:
    """An environment as it is shown.

    Attributes:
        state: ``making``, ``ready``, ``failed``, or ``broken`` for one that cannot be used any more.
        words: what is to say of it in a line.
        size_bytes: how much room it takes; 0 while it is not known.
    """

    order: EnvironmentOrder
    path: str
    state: str
    words: str
    made_at: int
    size_bytes: int

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        order = self.order
        return {
            "name": order.name,
            "title": order.title,
            "tool": str(order.tool),
            "modules": list(order.modules),
            "packages": list(order.packages),
            "python": order.python,
            "kernel": order.kernel,
            "path": self.path,
            "state": self.state,
            "words": self.words,
            "made_at": self.made_at,
            "size_bytes": self.size_bytes,
        }


class EnvironmentDesk:
    """The environments of one person.

    Arguments:
        environ: her environment, as a session has it.
        form: ``environments.folder`` of the site; "" is the usual one below the home.
    """

    def __init__(self, environ: Mapping[str, str], form: str = "") -> None:
        self._environ = dict(environ)
        self._home = Path(environ.get("HOME") or Path.home())
        self._form = form
        self._notes = notes.folder_of(environ)
        self._modules = session_system.of(environ)

    @property
    def folder(self) -> str:
        """Where new ones are made."""
        return str(place.path_of(self._form, self._home))

    def tools(self) -> list[str]:
        """What is found here to make environments with, without any module."""
        path = clean(self._environ).get("PATH", os.defpath)
        return [Tool.VENV, *(tool for tool in (Tool.UV, *OF_CONDA) if shutil.which(tool, path=path)), Tool.MODULES]

    async def all(self) -> list[EnvironmentView]:
        """All of them, by name."""
        return await asyncio.to_thread(self._all)

    async def one(self, name: str) -> EnvironmentView:
        """One of them.

        Raises:
            RequestError: there is none of this name.
        """
        return await asyncio.to_thread(lambda: self._view(self._note(name)))

    async def make(self, order: EnvironmentOrder) -> EnvironmentView:
        """Begin to make one, and its kernel; a process of its own goes on with it.

        A kernel out of modules alone is made at once: they are loaded, and their Python is tried.

        Raises:
            EnvironmentRefused: its name is taken, there is no room, or too many are being made.
            KernelError: of a kernel out of modules alone, that one cannot be loaded, or their Python has no kernel.
        """
        return await asyncio.to_thread(self._make_kernel if order.tool is Tool.MODULES else self._make, order)

    async def log(self, name: str, start: int = 0) -> LogPart:
        """What its making has said, from the byte ``start`` on.

        Raises:
            RequestError: there is none of this name.
        """
        return await asyncio.to_thread(self._log, name, start)

    async def remove(self, name: str) -> None:
        """Take one away with its kernel; one that is being made is stopped.

        Raises:
            RequestError: there is none of this name.
            EnvironmentRefused: it is being made on another node, or cannot be removed.
        """
        await asyncio.to_thread(self._remove, name)

    def _all(self) -> list[EnvironmentView]:
        return [self._view(note) for note in notes.read_all(self._notes)]

    def _note(self, name: str) -> EnvironmentNote:
        note = notes.read(self._notes, checked_name(name))
        if note is None:
            known = ", ".join(one.order.name for one in notes.read_all(self._notes))
            raise RequestError("environment", name, f"your own environments: {known or 'none, you have made none'}")
        return note

    def _make(self, order: EnvironmentOrder) -> EnvironmentView:
        self._check(order)
        folder = place.prepared(self._form, self._home)
        place.remove_leftovers(folder)
        path = folder / order.name
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            raise EnvironmentRefused(f"{path} is there already: choose another name, or remove it first.") from None
        except OSError as error:
            raise EnvironmentRefused(f"{path} cannot be made: {error.strerror}.") from error
        note = EnvironmentNote(order, str(path), MakingState.MAKING, int(time.time()))
        try:
            notes.write(self._notes, note)
            note = self._started(note)
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                notes.remove(self._notes, order.name)
            raise EnvironmentRefused(f"{error.filename or self._notes}: {error.strerror}.") from error
        return self._view(note)

    def _make_kernel(self, order: EnvironmentOrder) -> EnvironmentView:
        self._check(order)
        files = kernel.files(order, "", self._modules)
        note = EnvironmentNote(order, "", MakingState.READY, int(time.time()))
        try:
            notes.write(self._notes, note)
            kernel.write(order, files, self._environ)
        except OSError as error:
            raise EnvironmentRefused(f"{error.filename or self._notes}: {error.strerror}.") from error
        return self._view(note)

    def _check(self, order: EnvironmentOrder) -> None:
        before = notes.read(self._notes, order.name)
        if before and self._view(before).state != MakingState.FAILED:
            raise EnvironmentRefused(
                f"You have an environment {order.name} already: remove it first, or choose a name."
            )
        if order.tool in (Tool.UV, *OF_CONDA) and not order.modules and order.tool not in self.tools():
            raise EnvironmentRefused(
                f"There is no {order.tool} on this node: name a module that brings it, or take venv."
            )
        kernel.check_free(order, self._environ)
        busy = [one.order.name for one in notes.read_all(self._notes) if look.is_being_made(one, self._notes)]
        if len(busy) >= MOST_AT_ONCE:
            raise EnvironmentRefused(f"{', '.join(busy)} are being made: wait for one of them.")

    def _started(self, note: EnvironmentNote) -> EnvironmentNote:
        """Start the maker; the environment of a package's own programs has no secret of the portal's."""
        with notes.open_log(self._notes, note.order.name) as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", "portal.environments.maker"],
                env=clean(self._environ),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,  # so that it and what it starts can be ended as one
            )
        threading.Thread(target=process.wait, daemon=True).start()  # no server waits for it, and no zombie is left
        note = replace(note, maker=look.this_process(process.pid))
        notes.write(self._notes, note)  # it begins when it is told what, and finds itself there
        if process.stdin:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(Task(note.order, str(self._notes), self._modules).to_text())
        return note

    def _log(self, name: str, start: int) -> LogPart:
        note = self._note(name)
        is_over = self._view(note).state != MakingState.MAKING
        return read_part(str(notes.log_of(self._notes, name)), start, is_over)

    def _view(self, note: EnvironmentNote) -> EnvironmentView:
        kernels = kernel.own_kernels(self._environ)
        state, words = look.told(note, self._notes, kernels)
        if state == look.BROKEN and note.state is MakingState.MAKING:  # since it was read its maker may have ended
            note = notes.read(self._notes, note.order.name) or note
            state, words = look.told(note, self._notes, kernels)
        if state == MakingState.READY and note.path:
            note = self._measured(note)
        path = "" if state == MakingState.FAILED else note.path
        return EnvironmentView(note.order, path, state, words, note.made_at, note.size_bytes)

    def _measured(self, note: EnvironmentNote) -> EnvironmentNote:
        """With its size anew where something was installed since: a walk through all its files."""
        path = Path(note.path)
        with contextlib.suppress(OSError):
            now = place.packages_time(path)
            if now != note.measured_ns:
                note = replace(note, size_bytes=place.size_bytes(path), measured_ns=now)
                notes.write(self._notes, note)
        return note

    def _remove(self, name: str) -> None:
        note = self._note(name)
        if look.is_being_made(note, self._notes):
            look.end(note, self._notes)
        try:
            kernel.remove(note.order, self._environ)
            if note.path:
                with contextlib.suppress(FileNotFoundError):
                    place.remove(Path(note.path))
                place.remove_leftovers(Path(note.path).parent)
            notes.remove(self._notes, name)
        except OSError as error:
            raise EnvironmentRefused(f"{error.filename}: {error.strerror}.") from error
