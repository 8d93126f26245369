"""The proxy of the local mode: it ends with its hub, or where that was killed, at the next start."""

from __future__ import annotations

from pathlib import Path

from jupyterhub.proxy import ConfigurableHTTPProxy
from traitlets import Unicode

from portal.proxy import proxy_process
from portal.proxy.proxy_process import RunningProxy


class LocalProxy(ConfigurableHTTPProxy):  # type: ignore[misc]
    """configurable-http-proxy as a child of the hub, known by its number and the moment it started.

    JupyterHub's own goes by the number alone, which is that of some other process after a while.
    """

    state_folder = Unicode(help="The portal's state folder.").tag(config=True)

    def _check_previous_process(self) -> None:
        """End the proxy that a killed hub has left, and no other process."""
        if left := proxy_process.running_in(Path(self.state_folder)):
            self.log.warning("The proxy of a hub that was killed is ended (process %s)", left.pid)
            proxy_process.end(left.pid)
        self._remove_process_files()

    def _write_pid_file(self) -> None:
        """Note which process it is."""
        state = Path(self.state_folder)
        pid = self.proxy_process.pid
        proxy_process.note(state, RunningProxy(pid, proxy_process.began(pid), str(state.resolve()), {}))
