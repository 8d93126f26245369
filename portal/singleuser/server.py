"""The job side of a session: the person's JupyterLab, started by the batch script on the node.

Order of events: read the environment file, bind a port and keep it, tell the hub that port, prepare the home while
the single-user server is imported, and serve on that very socket. A request that comes before (the hub's own check)
waits in the socket and gets the first answer. Runs as the person, in the portal's own environment; no module is
loaded here.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import Future, wait
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from portal import data
from portal.forwarding import ports
from portal.homes import cache_folders, temporary
from portal.internal_tls.session_files import TLS_FILES, connect, use_tls
from portal.session_settings import ANNOUNCE_EVERY, SessionSettings
from portal.session_usage import told
from portal.singleuser import environment_file, quick_start, spare_home
from portal.singleuser.handshakes import Handshakes
from portal.singleuser.home import notes_of, preparing
from portal.singleuser.hub_token import believed_s, token
from portal.singleuser.runtime import remove_leftovers, runtime_folder
from portal.singleuser.shutdown import Ending, wake_on_signals

ANNOUNCE_WAIT_S = 2
ANNOUNCE_TIMEOUT_S = 10
REPEAT_EVERY_S = 120.0  # a thousand sessions are eight short requests in a second
REPEAT_SOON_S = 10.0  # after the hub was away, and for the first time: then Slurm has told it when the session ends
FAREWELL_TIMEOUT_S = 2
HOME_WAIT_S = 10
REFUSALS = 60  # two minutes of them, one after the other or not


def main() -> None:
    """Run the session whose folder is the first argument (none: the environment is the process's own)."""
    started_with = dict(os.environ)
    for folder in sys.argv[1:]:
        os.environ.update(environment_file.read(Path(folder)))
    token.take(os.environ)
    hostname = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"]).hostname
    handed_on = quick_start.handed_on(os.environ)
    listener = handed_on or ports.listen(hostname or "127.0.0.1")
    os.environ["JUPYTERHUB_SERVICE_URL"] = with_port(os.environ["JUPYTERHUB_SERVICE_URL"], port_of(listener))
    runtime = runtime_folder()
    use_tls(temporary.held(runtime))  # what is there is read with each call of the hub
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{data.folder('deploy') / 'bin'}"
    settings = place(SessionSettings.from_environment(os.environ), os.environ)
    spare_home.enter(files_of(settings))
    ending = Ending(str(runtime), farewell, settings.start_timeout_s)
    ending.watch()
    threading.Thread(target=announce_or_end, args=(port_of(listener), ending), daemon=True).start()
    home = preparing(settings, files_of(settings))
    threading.Thread(target=remove_leftovers, daemon=True).start()
    quick = handed_on is None and quick_start.is_wanted(os.environ)
    try:
        serve(listener, settings, home, ending, quick=quick)
    except (Exception, SystemExit) as error:
        if not quick or ending.has_served or not ending.let_go():
            raise
        wait([home], HOME_WAIT_S)
        temporary.remove(runtime)
        quick_start.start_again(listener, started_with, error)
    finally:
        ending.over()


def place(settings: SessionSettings, environ: MutableMapping[str, str]) -> SessionSettings:
    """Have the places of the person's files in the variables of the session, and of what it starts."""
    settings = spare_home.take(settings, environ)
    environ.update(cache_folders.with_own(environ))
    return settings


def files_of(settings: SessionSettings) -> Path:
    """The folder that the file browser shows: the person's home, unless the local mode was given another."""
    return Path(settings.files or Path.home())


def port_of(listener: socket.socket) -> int:
    """The port that a socket is bound to."""
    return int(listener.getsockname()[1])


def with_port(url: str, port: int) -> str:
    """The same URL with another port."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.hostname}:{port}"))


def announce_or_end(port: int, ending: Ending) -> None:
    """Tell the hub the port; a session that the hub does not want ends."""
    announcement = {"port": port, "restarts": int(os.environ.get("SLURM_RESTART_COUNT") or 0)}
    try:
        announce(announcement)
    except PermissionError as error:
        ending.ask(str(error))
        return
    repeat(announcement, ending.answers)


def repeat(announcement: Mapping[str, int], answers: Callable[[], bool]) -> None:
    """Tell the hub again, for ever: one that lost its state, or was restored from a backup, learns where we listen.

    Arguments:
        answers: whether the server can answer; one that hangs says nothing.
    """
    every_s = float(os.environ.get(ANNOUNCE_EVERY) or REPEAT_EVERY_S)
    pause_s = min(every_s, REPEAT_SOON_S)
    while True:
        time.sleep(pause_s * random.uniform(0.8, 1.2))  # noqa: S311  so that a thousand sessions do not come together
        try:
            is_heard = not answers() or post("ready", announcement, ANNOUNCE_TIMEOUT_S) < 300
        except (OSError, HTTPException):
            is_heard = False
        pause_s = every_s if is_heard else min(every_s, REPEAT_SOON_S)


def announce(announcement: Mapping[str, int]) -> None:
    """Tell the hub the port. A hub that is away is waited for; one that comes back needs a moment to know us.

    Raises:
        PermissionError: the hub does not want this session (any more).
    """
    refused = 0
    while True:
        try:
            status = post("ready", announcement, ANNOUNCE_TIMEOUT_S)
        except (OSError, HTTPException) as error:
            print(f"[portal] the hub does not answer ({error}); asked again in {ANNOUNCE_WAIT_S} s", flush=True)
        else:
            if status < 300:
                return
            refused += status < 500
            if refused >= REFUSALS:
                raise PermissionError(f"the hub refused this session: {status}")
        time.sleep(ANNOUNCE_WAIT_S)


def farewell() -> None:
    """Tell the hub that this session ends; one that does not listen finds out by Slurm."""
    with suppress(OSError, HTTPException):
        post("ending", {}, FAREWELL_TIMEOUT_S)


def post(name: str, body: Mapping[str, object], timeout_s: float) -> int:
    """The status that the hub answers to ``POST dsportal/NAME``, asked directly: it is never behind a web proxy."""
    hub = urlsplit(os.environ["JUPYTERHUB_API_URL"])
    headers = {"Authorization": f"token {token.text}", "Content-Type": "application/json"}
    connection = connect(hub.scheme, hub.netloc, timeout_s)
    try:
        connection.request("POST", f"{hub.path.rstrip('/')}/dsportal/{name}", json.dumps(body), headers)
        answer = connection.getresponse()
        told.take(answer.headers)
        return int(answer.status)
    finally:
        connection.close()


# jupyter_server_proxy's own extension stays off: its /proxy/<port> would open other people's ports of this node;
# only its handler classes are used.
EXTENSIONS = {
    "jupyterlab": True,
    "notebook": True,
    "jupyter_server_terminals": True,
    "portal.singleuser.extension": True,
    "jupyter_server_proxy": False,
}
DEBUGGER_CLASSES = ("PortalKernelSpecManager", "PortalKernelConnection", "ModuleProvisioner")


def configuration(settings: SessionSettings) -> dict[str, dict[str, Any]]:
    """The Jupyter configuration of a session, as strong as a command line."""
    return {
        "ServerApp": {
            "root_dir": str(files_of(settings)),
            "contents_manager_class": "portal.singleuser.own_files.OwnFiles",
            "kernel_manager_class": "portal.kernels.manager.PortalKernelManager",
            "kernel_spec_manager_class": "portal.kernels.manager.PortalKernelSpecManager",
            "kernel_websocket_connection_class": "portal.kernels.connection.PortalKernelConnection",
            "allow_remote_access": True,
            "allow_root": os.geteuid() == 0,  # only where root itself asked for it: in the local mode
        },
        "HubAuth": {"cache_max_age": believed_s(os.environ)},
        # With TCP another person of the node can read a kernel's output.
        "KernelManager": {"transport": "ipc"},
        "KernelSpecManager": {"ensure_native_kernel": False},
        # A debugger listens on the node for whoever comes first.
        **{name: {"debugger": settings.debugger} for name in DEBUGGER_CLASSES},
        "LabApp": {
            "extension_manager": "readonly",
            "news_url": None,  # a compute node has no way out, and the question covers the page
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        },
        "ContentsManager": {
            "allow_hidden": False,
            "checkpoints_class": "portal.downloads.own_checkpoints.OwnCheckpoints",
        },
        "TerminalManager": {"cull_inactive_timeout": 0},
    }


def complete(app: Any, settings: SessionSettings) -> None:
    """The last touches to a server that is about to listen: what strangers may send, what browsers load and keep."""
    from tornado.ioloop import PeriodicCallback

    from portal.assets import lab_page
    from portal.session_pages import strangers
    from portal.session_pages.open_answers import LOOK_EVERY_S
    from portal.session_pages.pages_kept import NotKept
    from portal.singleuser.logins import guard_bodies

    apps = (one for those in app.extension_manager.extension_apps.values() for one in those)
    strangers.bound_logs([app.log, *(one.log for one in apps)])  # each of those has a logger of its own
    strangers.bound_others(app.log)
    scripts = data.folder("templates") / "hub" / "static" / "js"
    first = "".join((scripts / name).read_text() for name in ("without_cookies.js", "too_big.js"))
    lab_page.install(app.web_app, os.environ, first=first, debugger=settings.debugger)
    app.web_app.add_transform(NotKept)
    Handshakes().watch(app.http_server)
    if answers := guard_bodies(app.http_server, app.web_app, getattr(app.identity_provider, "hub_auth", None)):
        app.dsportal_answers = PeriodicCallback(answers.look, LOOK_EVERY_S * 1000)
        app.dsportal_answers.start()


def serve(
    listener: socket.socket, settings: SessionSettings, home: Future[list[str]], ending: Ending, *, quick: bool
) -> None:
    """Run the JupyterHub single-user server on ``listener`` until it is told to stop."""
    if quick:
        quick_start.load()
    import asyncio

    from jupyter_server.serverapp import ServerApp
    from traitlets.config import Config

    class SessionServerApp(ServerApp):
        """A server with the portal's settings, on a socket that is bound already."""

        def parse_command_line(self, argv: list[str] | None = None) -> None:
            super().parse_command_line(argv)
            self.update_config(Config(configuration(settings)))
            self.reraise_server_extension_failures = quick  # what fails here is tried again the stock way

        def init_signal(self) -> None:
            """The stop signals are our own; the other is answered outside its handler."""
            asked = self._signal_info
            signal.signal(signal.SIGUSR1, lambda *_: self.io_loop.add_callback_from_signal(asked, None, None))

        def _find_http_port(self) -> None:
            self.port = port_of(listener)
            for note in notes_of(home, HOME_WAIT_S):
                print(f"[portal] {note}", flush=True)

        def _bind_http_server_tcp(self) -> bool:
            complete(self, settings)
            self.http_server.add_socket(listener)
            if quick:
                quick_start.settle()
            wake_on_signals(asyncio.get_running_loop())
            ending.serving(lambda: self.io_loop.add_callback(self.stop), asyncio.get_running_loop())
            return True

    launch(SessionServerApp)


def launch(server: type) -> None:
    """Run the JupyterHub single-user server with a server of this class."""
    from jupyterhub.singleuser.extension import JupyterHubSingleUser

    from portal.internal_tls import contexts

    contexts.trust_own_authorities(*contexts.OF_SESSIONS)
    if os.environ.get(TLS_FILES["certfile"]):
        contexts.read_public_list_meanwhile()
    token.give_to_server()
    JupyterHubSingleUser.serverapp_class = server
    JupyterHubSingleUser.serverapp_config = {"jpserver_extensions": dict(EXTENSIONS)}
    JupyterHubSingleUser.launch_instance(argv=[])


if __name__ == "__main__":
    main()
