"""Starts a real Jupyter server with JupyterLab and Notebook 7 as a local process, and talks to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import portal
from portal.site import Site

TOKEN = "token-of-this-test"
HUB_SECRET = "secret-of-the-hub"
CHECKOUT = Path(portal.__file__).parent.parent
ARTEFACTS = CHECKOUT / ".test-artefacts" / "session"
DEADLINE_S = 60
# A list of jobs is a second old at most, and not ten: who waits for a job's end waits less.
PROGRAM = """
from jupyter_server.serverapp import main
from portal.jobs import desk
desk.SHARED_S = desk.FOLLOWED_S = 1.0
main()
"""
T = TypeVar("T")


def wait_for(what: str, condition: Callable[[], T], deadline_s: float = DEADLINE_S) -> T:
    """The first true answer of ``condition``; a failure names what was waited for."""
    end_s = time.monotonic() + deadline_s
    while time.monotonic() < end_s:
        if answer := condition():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"no {what} within {deadline_s} s")


@dataclass
class Server:
    """A running Jupyter server of this test."""

    process: subprocess.Popen[bytes]
    home: Path
    runtime: Path
    log: Path
    url: str = ""

    def ask(
        self, path: str, method: str = "GET", body: object = None, token: str = TOKEN, **more: str
    ) -> tuple[int, str]:
        """The status and the text that the server answers; redirects are not followed.

        Arguments:
            more: headers, ``_`` for each ``-``.
        """
        headers = {"Authorization": f"token {token}"} if token else {}
        headers |= {name.replace("_", "-"): text for name, text in more.items()}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  the server of this test
            f"{self.url}{path}", data=data, headers=headers, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
        try:
            with opener.open(request, timeout=DEADLINE_S) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers.get("Location", "") or error.read().decode(errors="replace")

    def json(self, path: str, method: str = "GET", body: object = None) -> Any:
        """The JSON that the server answers."""
        return json.loads(self.ask(path, method, body)[1])

    def board(self, folder: str) -> str:
        """The address of the TensorBoard of ``folder``, beginning after the server's own."""
        status, location = self.ask(f"tensorboard/open?path={folder}")
        assert status == 302, location
        return location.removeprefix("/session/")

    def stop(self) -> int:
        """Ask the server to stop as Slurm does, and wait for its end."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=DEADLINE_S)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def write_module(file: Path, *lines: str) -> None:
    """Write one Tcl modulefile."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["#%Module1.0", *lines]) + "\n")


def launch(folder: Path, site: Site, **more: str) -> Server:
    """Start a Jupyter server as a session does, but with a token instead of a hub; ``more`` is of its environment.

    The home below ``folder`` may be there before.
    """
    home, labextensions, log = folder / "home", folder / "labextensions", folder / "server.log"
    home.mkdir(exist_ok=True)
    labextensions.mkdir()
    (labextensions / "dsportal-lab").symlink_to(CHECKOUT / "portal" / "labextension")
    config = folder / "config.json"
    config.write_text(json.dumps(configuration(home, labextensions)))
    runtime = Path(tempfile.mkdtemp(prefix="dsp-"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, f"--config={config}"],
            env=environment(home, runtime, site) | more,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    return Server(process, home, runtime, log)


def configuration(home: Path, labextensions: Path) -> dict[str, dict[str, object]]:
    """The settings of a session's server that matter here, with the extension of this checkout."""
    extensions = {
        "jupyterlab": True,
        "notebook": True,
        "portal.singleuser.extension": True,
        "jupyter_server_proxy": False,
    }
    return {
        "ServerApp": {
            "root_dir": str(home),
            "ip": "127.0.0.1",
            "port": 0,
            "open_browser": False,
            "base_url": "/session/",
            "allow_root": True,
            "contents_manager_class": "portal.singleuser.own_files.OwnFiles",
            "kernel_manager_class": "portal.kernels.manager.PortalKernelManager",
            "jpserver_extensions": extensions,
        },
        "IdentityProvider": {"token": TOKEN},
        "KernelManager": {"transport": "ipc"},
        "LabApp": {"extra_labextensions_path": [str(labextensions)]},
        "JupyterNotebookApp": {"extra_labextensions_path": [str(labextensions)]},
    }


def environment(home: Path, runtime: Path, site: Site) -> dict[str, str]:
    """The environment of a session's server, with a secret that nothing may pass on."""
    return {
        "HOME": str(home),
        "USER": "person",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "JUPYTER_CONFIG_DIR": str(home.parent / "no-config"),
        "JUPYTER_PATH": site.kernels.folder,
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTERHUB_API_TOKEN": HUB_SECRET,
        "DSPORTAL_SESSION": json.dumps({"title": "Test Portal", "notebooks": str(home.parent / "catalogue")}),
    }


def answers(server: Server) -> bool:
    """Whether the server answers at the address that it wrote into its runtime folder."""
    assert server.process.poll() is None, server.log.read_text()
    for file in server.runtime.glob("jpserver-*.json"):
        server.url = json.loads(file.read_text() or "{}").get("url", "")
    try:
        return bool(server.url) and server.ask("api")[0] == 200
    except OSError:  # the file is there a moment before the port is
        return False


def write_scalars(folder: Path, tag: str = "test_accuracy") -> None:
    """A small event file, as a training writes it."""
    folder.mkdir(parents=True)
    writer = EventFileWriter(str(folder))
    for step, value in enumerate((0.81, 0.93, 0.97), start=1):
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(Event(step=step, wall_time=1_700_000_000 + step, summary=summary))
    writer.close()
