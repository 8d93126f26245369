"""The kernels of a session: where they are found, and what a failed start does not do.

It does not keep the server from stopping, and it is not tried again and again in silence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jupyter_client.ioloop.restarter import AsyncIOLoopKernelRestarter
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager, ServerKernelManager
from traitlets import Bool, default

from portal.homes import temporary
from portal.homes.regular_file import without_waiting
from portal.kernels.provisioner import KernelNotStarted, ModuleProvisioner

# jupyter_client's, as which ours does the same and more; and ours, whose settings are the session's to choose.
PROVISIONERS = ("local-provisioner", "dsportal-module")


class PortalRestarter(AsyncIOLoopKernelRestarter):
    """Starts a kernel again that ended while it was used, and gives one up that has never been there.

    jupyter_client 8.10 starts both again: the person sees "starting" and no word why, for as long as the kernel's end
    comes later than 10 s after its start without an end.
    """

    async def poll(self) -> None:  # type: ignore[override]
        """Look whether the kernel runs."""
        manager: Any = self.kernel_manager
        if manager.shutting_down:
            return
        started = manager.provisioner
        if not await manager.is_alive() and isinstance(started, ModuleProvisioner) and not started.was_there:
            name = manager.kernel_name
            self._give_up(f"The kernel {name} ended before it was there; what it said is above in this log")
            return
        try:
            await super().poll()
        except KernelNotStarted as error:
            self._give_up(error.message)

    def _give_up(self, message: str) -> None:
        self.log.warning("%s", message)
        self._restarting = False
        self._restart_count = 0
        self.stop()
        self._fire_callbacks("dead")


class PortalKernel(ServerKernelManager):
    """One kernel of a session."""

    @default("restarter_class")
    def _restarter_of_the_portal(self) -> type[PortalRestarter]:
        return PortalRestarter

    def _create_connected_socket(self, channel: str, identity: bytes | None = None) -> Any:
        """Lead to what the kernel has bound, and to no socket of its name in the place of the session's folder."""
        try:
            temporary.check(Path(self.connection_file))
        except OSError as error:
            raise KernelNotStarted(f"The kernel {self.kernel_name} cannot be asked: {error.strerror}") from error
        return super()._create_connected_socket(channel, identity)


class PortalKernelManager(AsyncMappingKernelManager):
    """Forgets the kernels that never started before it shuts down the others.

    jupyter_client 8.10 keeps a failed start in ``_pending_kernels``; ``shutdown_all`` then asks for a kernel
    that does not exist, answers 404, and neither SIGTERM nor ``/api/shutdown`` ends the server: in Slurm the
    job would stay until it is killed.
    """

    @default("kernel_manager_class")
    def _kernel_manager_of_the_portal(self) -> str:
        return f"{PortalKernel.__module__}.{PortalKernel.__name__}"

    async def shutdown_all(self, now: bool = False) -> None:  # type: ignore[override]
        """Shut down every kernel that runs."""
        for kernel_id, start in list(self._pending_kernels.items()):
            if start.done() and kernel_id not in self._kernels:
                del self._pending_kernels[kernel_id]
        await super().shutdown_all(now=now)


class PortalKernelSpec(KernelSpec):
    """Read where others may have put anything, or keep it from being opened (fcntl(2), ``F_SETLEASE``)."""

    @classmethod
    def from_resource_dir(cls, resource_dir: str) -> PortalKernelSpec:
        """As jupyter_client (8.10) does it, but nobody waits for it."""
        with open(Path(resource_dir, "kernel.json"), encoding="utf-8", opener=without_waiting) as file:
            return cls(resource_dir=resource_dir, **json.load(file))


class PortalKernelSpecManager(KernelSpecManager):
    """The site's kernels, and the person's own.

    The server reads nothing else from the person's home (``disable_user_config``), but a kernel runs as the
    person anyway, and people make their own environments.
    """

    debugger = Bool(False, config=True, help="Whether JupyterLab offers the debuggers that kernels have.")

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """A kernelspec, without a debugger that the site does not want, to be started by the session's own means.

        Raises:
            NoSuchKernel: there is none of this name, or it cannot be read now.
        """
        try:
            spec: KernelSpec = super().get_kernel_spec(kernel_name)
        except OSError as error:
            self.log.warning("The kernel %s cannot be read: %s", kernel_name, error)
            raise NoSuchKernel(kernel_name) from error
        if not self.debugger:
            spec.metadata["debugger"] = False
        if spec.metadata.get("kernel_provisioner", {}).get("provisioner_name") in PROVISIONERS:
            del spec.metadata["kernel_provisioner"]
        return spec

    @default("kernel_spec_class")
    def _kernel_spec_of_the_portal(self) -> type[KernelSpec]:
        return PortalKernelSpec

    @default("kernel_dirs")
    def _kernel_dirs_with_own(self) -> list[str]:
        own = str(Path.home() / ".local" / "share" / "jupyter" / "kernels")
        found: list[str] = self._kernel_dirs_default()
        return found if own in found else [*found, own]
