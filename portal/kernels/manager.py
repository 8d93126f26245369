"""The kernels of a session: where they are found, and a failed start that does not keep the server from stopping."""

from __future__ import annotations

from pathlib import Path

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets import Bool, default

LOCAL = "local-provisioner"  # jupyter_client's own: ours does the same, and more


class PortalKernelManager(AsyncMappingKernelManager):
    """Forgets the kernels that never started before it shuts down the others.

    jupyter_client 8.10 keeps a failed start in ``_pending_kernels``; ``shutdown_all`` then asks for a kernel
    that does not exist, answers 404, and neither SIGTERM nor ``/api/shutdown`` ends the server: in Slurm the
    job would stay until it is killed.
    """

    async def shutdown_all(self, now: bool = False) -> None:  # type: ignore[override]
        """Shut down every kernel that runs."""
        for kernel_id, start in list(self._pending_kernels.items()):
            if start.done() and kernel_id not in self._kernels:
                del self._pending_kernels[kernel_id]
        await super().shutdown_all(now=now)


class PortalKernelSpecManager(KernelSpecManager):
    """The site's kernels, and the person's own.

    The server reads nothing else from the person's home (``disable_user_config``), but a kernel runs as the
    person anyway, and people make their own environments.
    """

    debugger = Bool(False, config=True, help="Whether JupyterLab offers the debuggers that kernels have.")

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """A kernelspec, without a debugger that the site does not want, to be started by the session's own means."""
        spec: KernelSpec = super().get_kernel_spec(kernel_name)
        if not self.debugger:
            spec.metadata["debugger"] = False
        if spec.metadata.get("kernel_provisioner", {}).get("provisioner_name") == LOCAL:
            del spec.metadata["kernel_provisioner"]
        return spec

    @default("kernel_dirs")
    def _kernel_dirs_with_own(self) -> list[str]:
        own = str(Path.home() / ".local" / "share" / "jupyter" / "kernels")
        found: list[str] = self._kernel_dirs_default()
        return found if own in found else [*found, own]
