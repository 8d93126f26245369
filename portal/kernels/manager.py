"""The kernels of a session: where they are found, and a failed start that does not keep the server from stopping."""

from __future__ import annotations

from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets import default


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

    @default("kernel_dirs")
    def _kernel_dirs_with_own(self) -> list[str]:
        own = str(Path.home() / ".local" / "share" / "jupyter" / "kernels")
        found: list[str] = self._kernel_dirs_default()
        return found if own in found else [*found, own]
