"""Starts the kernels of a session: module kernels without their wrapper, and none with the portal's secrets.

The single-user server names it as its default provisioner (``KernelProvisionerFactory``). It is not named in
the kernelspecs: a Jupyter client that does not have it would hide them (jupyter_client 8.10, ``kernelspec.py``).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from tornado.web import HTTPError
from traitlets import Bool

from portal.errors import KernelError
from portal.homes import cache_folders
from portal.homes.held_place import is_own_all_the_way
from portal.kernels import other_starts, python_start
from portal.kernels.delta import Environment
from portal.kernels.modules import clean
from portal.kernels.run_kernel import Launch


class KernelNotStarted(HTTPError):
    """Why a kernel cannot start, in a message that Jupyter shows to the person instead of "Unhandled error"."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message, reason="Kernel not started")
        self.message = message

    def __str__(self) -> str:
        return self.message  # the sessions API shows this, the kernels API the log message


class ModuleProvisioner(LocalProvisioner):
    """Loads a kernel's modules itself, so that a fault is shown at once and the server waits for nothing."""

    debugger = Bool(False, config=True, help="Whether kernels may open the port of their debugger.")

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare the start: the kernel's own command, in the environment of its modules."""
        prepared: dict[str, Any] = await super().pre_launch(**kwargs)
        launch = Launch.from_argv(prepared["cmd"])
        if launch is None:
            return prepared | self._private(prepared["cmd"], clean(prepared["env"]), prepared.get("cwd"))
        try:
            command, env = await asyncio.to_thread(launch.ready, prepared["env"], prepared.get("cwd") or "")
        except KernelError as error:
            message = f"The kernel {launch.name} cannot start: {error.message}"
            self.log.warning("%s\n%s", message, error.detail)
            raise KernelNotStarted(message) from error
        return prepared | self._private(command, env, prepared.get("cwd"))

    def _private(self, command: list[str], env: Environment, folder: str | None) -> dict[str, Any]:
        """Command and environment of a kernel that opens no port (those that are no Python programs open none).

        Nothing that somebody else left in the notebook's folder comes before it, or under a known name in /tmp.
        """
        env = cache_folders.with_own(env)
        language = self.kernel_spec.language.lower()
        place = folder or str(Path.cwd())
        is_elsewhere = not is_own_all_the_way(place)
        if is_elsewhere:
            env = python_start.without_folder(env)
        prepare = other_starts.PREPARED.get(language)
        if prepare:
            command, env = prepare(command, env, place)
        # Elsewhere a kernel of any other language may be a Python behind words that nobody knows (sage --python -m).
        # R, Julia and Ruby are none, and would hand the folder on to Pythons that a cell starts.
        may_be_python = is_elsewhere and not prepare
        if language != "python" and not may_be_python and not python_start.is_by_name(command):
            return {"cmd": command, "env": env}
        manager: Any = self.parent
        runtime = Path(manager.connection_file).parent
        started = python_start.by_file(command, runtime)
        return {"cmd": started, "env": python_start.prepared(env, runtime, debugger=self.debugger)}
