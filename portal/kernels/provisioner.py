"""Starts the kernels of a session: module kernels without their wrapper, and none with the portal's secrets.

The single-user server names it as its default provisioner (``KernelProvisionerFactory``). It is not named in
the kernelspecs: a Jupyter client that does not have it would hide them (jupyter_client 8.10, ``kernelspec.py``).
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from tornado.web import HTTPError
from traitlets import Bool

from portal.errors import KernelError
from portal.homes import cache_folders, temporary
from portal.homes.held_place import is_own_all_the_way
from portal.homes.own_folder import of_others_in
from portal.kernels import other_starts, python_start
from portal.kernels.delta import Environment
from portal.kernels.modules import clean
from portal.kernels.run_kernel import Launch
from portal.kernels.watched.stderr import StartStderr
from portal.kernels.watched.words import reason

WATCHED_S = 10.0  # a start that takes longer is answered as one that goes on
LOOKS_EVERY_S = 0.01


class KernelNotStarted(HTTPError):
    """Why a kernel cannot start, in a message that Jupyter shows to the person instead of "Unhandled error"."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message, reason="Kernel not started")
        self.message = message

    def __str__(self) -> str:
        return self.message  # the sessions API shows this, the kernels API the log message


class ModuleProvisioner(LocalProvisioner):
    """Loads a kernel's modules itself and watches its first seconds: what is wrong is said at once."""

    debugger = Bool(False, config=True, help="Whether kernels may open the port of their debugger.")
    was_there = False  # whether the kernel that runs has had its sockets

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare the start: the kernel's own command, in the environment of its modules."""
        try:
            temporary.check(self._runtime())
        except OSError as error:
            raise self._not_started(str(error.strerror)) from error
        prepared: dict[str, Any] = await super().pre_launch(**kwargs)
        launch = Launch.from_argv(prepared["cmd"])
        if launch is None:
            return prepared | await self._private(prepared["cmd"], clean(prepared["env"]), prepared.get("cwd"))
        try:
            command, env = await asyncio.to_thread(launch.ready, prepared["env"], prepared.get("cwd") or "")
        except KernelError as error:
            message = f"The kernel {launch.name} cannot start: {error.message}"
            self.log.warning("%s\n%s", message, error.detail)
            raise KernelNotStarted(message) from error
        return prepared | await self._private(command, env, prepared.get("cwd"))

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the kernel, and wait until it is there: one that ends before has not been started."""
        self.was_there = False
        if kwargs.get("stderr") is not None:  # whoever gives one reads it
            return await super().launch_kernel(cmd, **kwargs)
        said = StartStderr()
        try:
            started = await self._launched(cmd, said, **kwargs)
            await self._watch(said)
        finally:
            said.leave()
        return started

    async def _launched(self, cmd: list[str], said: StartStderr, **kwargs: Any) -> KernelConnectionInfo:
        try:
            return await super().launch_kernel(cmd, **kwargs | {"stderr": said.for_kernel})
        except OSError as error:
            raise self._not_started(f"{error.strerror}: {error.filename or cmd[0]}") from error
        finally:
            said.close_kernels_end()

    async def _watch(self, said: StartStderr) -> None:
        """Wait until the kernel has its sockets, or for the first seconds.

        Raises:
            KernelNotStarted: it has ended.
        """
        until_s = time.monotonic() + WATCHED_S
        while time.monotonic() < until_s:
            status = await self.poll()
            said.pass_on()
            if status is not None:
                self.process = None
                raise self._not_started(reason(said.text, status))
            if self.was_there:
                return
            await asyncio.sleep(LOOKS_EVERY_S)

    async def poll(self) -> int | None:
        """The exit status of the kernel's process; None while it runs."""
        status = await super().poll()
        self.was_there = self.was_there or (status is None and self._has_sockets())
        return status

    def _has_sockets(self) -> bool:
        """Whether the kernel can be asked, and heard; of a network's ports that cannot be seen."""
        info = self.connection_info
        ports = (info.get("shell_port"), info.get("iopub_port"))
        return info.get("transport") != "ipc" or all(Path(f"{info.get('ip')}-{port}").exists() for port in ports)

    def _not_started(self, why: str) -> KernelNotStarted:
        manager: Any = self.parent
        name = manager.kernel_name
        folder = Path(self.kernel_spec.resource_dir)
        is_own = folder.is_relative_to(Path.home())
        more = f"its kernelspec in {folder}" if is_own else f"portal kernels explain {name}"
        message = f"The kernel {name} cannot start: {why}. More: {more}"
        self.log.warning("%s", message)
        return KernelNotStarted(message)

    async def _private(self, command: list[str], env: Environment, folder: str | None) -> dict[str, Any]:
        """Command and environment of a kernel that opens no port (those that are no Python programs open none).

        Nothing that somebody else left in the notebook's folder comes before it, or under a known name in /tmp. The
        looks into that folder are made in threads: the session goes on while a file server is slow to answer them.
        """
        env = {name: text for name, text in cache_folders.with_own(env).items() if name not in python_start.IN_THEIRS}
        told = self.kernel_spec.language.lower()
        languages = other_starts.languages_of(command, told)
        place = folder or str(Path.cwd())
        left = await asyncio.to_thread(_left_in, place)
        is_elsewhere = bool(left)
        if is_elsewhere:
            self.log.info("This kernel starts without what is in %s: %s may be of others", place, left)
            env = python_start.without_folder(env) | python_start.IN_THEIRS
            env = await asyncio.to_thread(other_starts.with_files_of_home, env, place)
        prepares = [other_starts.PREPARED[language] for language in languages if language in other_starts.PREPARED]
        for prepare in prepares:
            command, env = await asyncio.to_thread(prepare, command, env, place)
        if "ruby" in languages and not await asyncio.to_thread(other_starts.is_own_for_irb, place):
            env = await asyncio.to_thread(other_starts.without_irbrc, command, env, self._runtime())
        # Elsewhere a kernel of any other language may be a Python behind words that nobody knows (sage --python -m).
        # R, Julia and Ruby are none, and would hand the folder on to Pythons that a cell starts.
        may_be_python = "python" in languages or (is_elsewhere and not prepares)
        if not may_be_python and not python_start.is_by_name(command):
            return {"cmd": command, "env": env}
        is_safe = is_elsewhere and languages == ["python"]
        return await asyncio.to_thread(self._python, command, env, is_safe=is_safe)

    def _python(self, command: list[str], env: Environment, *, is_safe: bool) -> dict[str, Any]:
        """Command and environment of what is a Python, or may be one; it looks for none there itself, if it can."""
        runtime = self._runtime()
        started = python_start.by_file(command, runtime)
        env = python_start.safe(started, env) if is_safe else env
        return {"cmd": started, "env": python_start.prepared(started, env, runtime, debugger=self.debugger)}

    def _runtime(self) -> Path:
        """The folder of the session's sockets."""
        manager: Any = self.parent
        return Path(manager.connection_file).parent


def _left_in(folder: str) -> str:
    """What others may have left in a folder: all of it, where they can change it; "" where there is nothing."""
    return of_others_in(folder) if is_own_all_the_way(folder) else folder
