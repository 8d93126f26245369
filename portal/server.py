"""The job side of a session: the person's JupyterLab, started by the batch script on the node.

Order of events: read the environment file, bind a port and keep it, prepare the home, start the single-user
server on that very socket, and tell the hub the port when the server really listens. Runs as the person, in
the portal's own environment; no module is loaded here.
"""

from __future__ import annotations

import asyncio
import atexit
import http.client
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from portal.home import prepare_home
from portal.launcher import ENVIRONMENT_FILE

ANNOUNCE_WAIT_S = 2
REFUSALS = 60  # two minutes of them, one after the other or not


def main() -> None:
    """Run the session whose folder is the first argument (none: the environment is the process's own)."""
    for folder in sys.argv[1:]:
        os.environ.update(json.loads((Path(folder) / ENVIRONMENT_FILE).read_text()))
    listener = listen(urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"]).hostname or "127.0.0.1")
    os.environ["JUPYTERHUB_SERVICE_URL"] = with_port(os.environ["JUPYTERHUB_SERVICE_URL"], port_of(listener))
    runtime = tempfile.mkdtemp(prefix="dsp-")  # 0700, and short: socket paths end here
    atexit.register(shutil.rmtree, runtime, ignore_errors=True)
    os.environ["JUPYTER_RUNTIME_DIR"] = runtime
    settings = json.loads(os.environ.get("DSPORTAL_SESSION", "{}"))
    for note in prepare_home(files_of(settings), settings["notebooks"], settings.get("storage", [])):
        print(f"[portal] {note}", flush=True)
    serve(listener, settings)


def files_of(settings: Mapping[str, Any]) -> Path:
    """The folder that the file browser shows: the person's home, unless the local mode was given another."""
    return Path(settings.get("files") or Path.home())


def listen(host: str) -> socket.socket:
    """A listening socket on a free port of ``host`` ("0.0.0.0": all of them); it is never closed and bound again."""
    listener = socket.create_server((host, 0), backlog=128)
    listener.setblocking(False)
    return listener


def port_of(listener: socket.socket) -> int:
    """The port that a socket is bound to."""
    return int(listener.getsockname()[1])


def with_port(url: str, port: int) -> str:
    """The same URL with another port."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.hostname}:{port}"))


def announce(port: int) -> None:
    """Tell the hub the port. A hub that is away is waited for; one that comes back needs a moment to know us.

    Raises:
        PermissionError: the hub does not want this session (any more).
    """
    refused = 0
    while True:
        try:
            return _post(port)
        except urllib.error.HTTPError as error:
            refused += error.code < 500
            if refused >= REFUSALS:
                raise PermissionError(f"the hub refused this session: {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            print(f"[portal] the hub does not answer ({error}); asked again in {ANNOUNCE_WAIT_S} s", flush=True)
        _wait(ANNOUNCE_WAIT_S)


def _post(port: int) -> None:
    request = urllib.request.Request(  # noqa: S310  the URL is the hub's own, out of the private file
        os.environ["JUPYTERHUB_API_URL"].rstrip("/") + "/dsportal/ready",
        data=json.dumps({"port": port}).encode(),
        headers={
            "Authorization": f"token {os.environ['JUPYTERHUB_API_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the hub is never behind a web proxy
    opener.open(request, timeout=10).close()


def _wait(seconds: float) -> None:
    signal.sigtimedwait([], seconds)


# jupyter_server_proxy's own extension stays off: its /proxy/<port> would open other people's ports of this node;
# only its handler classes are used.
EXTENSIONS = {
    "jupyterlab": True,
    "notebook": True,
    "jupyter_server_terminals": True,
    "portal.extension": True,
    "jupyter_server_proxy": False,
}


def configuration(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The Jupyter configuration of a session, as strong as a command line."""
    return {
        "ServerApp": {
            "root_dir": str(files_of(settings)),
            "kernel_manager_class": "portal.kernel_manager.PortalKernelManager",
            "kernel_spec_manager_class": "portal.kernel_manager.PortalKernelSpecManager",
            "allow_remote_access": True,
            "allow_root": os.geteuid() == 0,  # only where root itself asked for it: in the local mode
        },
        # With TCP another person of the node can read a kernel's output.
        "KernelManager": {"transport": "ipc"},
        "KernelSpecManager": {"ensure_native_kernel": False},
        "LabApp": {
            "extension_manager": "readonly",
            "news_url": None,  # a compute node has no way out, and the question covers the page
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        },
        "ContentsManager": {"allow_hidden": False},
        "TerminalManager": {"cull_inactive_timeout": 0},
    }


def serve(listener: socket.socket, settings: Mapping[str, Any]) -> None:
    """Run the JupyterHub single-user server on ``listener`` until it is told to stop."""
    from jupyter_server.serverapp import ServerApp
    from jupyterhub.singleuser.extension import JupyterHubSingleUser
    from traitlets.config import Config

    class SessionServerApp(ServerApp):
        """A server with the portal's settings, on a socket that is bound already."""

        def parse_command_line(self, argv: list[str] | None = None) -> None:
            super().parse_command_line(argv)
            self.update_config(Config(configuration(settings)))

        def _find_http_port(self) -> None:
            self.port = port_of(listener)

        def _bind_http_server_tcp(self) -> bool:
            self.http_server.add_socket(listener)
            self._announced = asyncio.ensure_future(self._announce())
            return True

        async def _announce(self) -> None:
            try:
                await asyncio.to_thread(announce, port_of(listener))
            except OSError as error:
                self.log.critical("This session ends: %s", error)
                self.stop(from_signal=True)

    JupyterHubSingleUser.serverapp_class = SessionServerApp
    JupyterHubSingleUser.serverapp_config = {"jpserver_extensions": dict(EXTENSIONS)}
    JupyterHubSingleUser.launch_instance(argv=[])


if __name__ == "__main__":
    main()
