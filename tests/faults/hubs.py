"""The hubs that the fault suite harms: one with real sessions, one with stub sessions, of which many fit."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import jupyterhub

from deploy import run_module
from tests.faults.squeue import LyingSqueue
from tests.hub.conftest import FOLDER, PORT, Hub
from tests.inside import VENV_BIN, sh

CHECKOUT = Path(__file__).parents[2]
STUB = CHECKOUT / "tests" / "bench" / "stub"
ANSWER_PORT = 7999  # as in the stub's own programs
SMALL = {"cores_without_gpu": 1, "memory_gb_without_gpu": 1}
SCOPES = ["admin:users", "admin:servers", "admin:server_state"]
PROGRAMS = Path("/cluster/test-faults-bin")


def small(settings: str) -> str:
    """The same settings, with small sessions."""
    if "[session]" not in settings:
        settings += "\n[session]\n"
    lines = [f"{key} = {value}\n" for key, value in SMALL.items()]
    new = "".join(line for line in lines if line not in settings)
    return settings.replace("[session]\n", f"[session]\n{new}")


class FaultHub(Hub):
    """A hub whose squeue may lie, with small sessions."""

    squeue = LyingSqueue(PROGRAMS)

    def prepare(self) -> None:
        """As every test's hub; the sessions are small."""
        super().prepare()
        self.squeue.install()
        self.site_file.write_text(small(self.site_file.read_text()))

    def start(self) -> None:
        """Start it with our squeue and wait until its login page answers."""
        with first_in_path(self.squeue.folder):
            super().start()

    def run(self, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
        """Start it where it cannot start: its exit status and its words."""
        command = ["runuser", "-u", "portal", "--", str(VENV_BIN / "portal"), "up", "--site", str(self.site_file)]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd="/")
        except subprocess.TimeoutExpired as error:
            sh("pkill", "-KILL", "-f", f"portal up --site {self.site_file}", check=False)
            raise AssertionError(f"it did not end by itself: {(error.stdout or b'')[-2000:]!r}") from error

    def kill(self) -> None:
        """kill -9 of the hub wherever it is in its life; its proxy lives on."""
        sh("pkill", "-KILL", "-f", f"portal up --site {self.site_file}", check=False)
        assert self._process is not None
        self._process.wait(timeout=10)

    def begin(self) -> None:
        """Start it and wait for nothing."""
        with first_in_path(self.squeue.folder), self.log_file.open("ab") as log:
            command = ["runuser", "-u", "portal", "--", str(VENV_BIN / "portal"), "up", "--site", str(self.site_file)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True)

    @property
    def state(self) -> Path:
        """Its state folder."""
        return self.folder / "state"

    @property
    def number(self) -> str:
        """The six digits that the keys of its sessions begin with."""
        return (self.state / "hub_id").read_text().strip()


class StubHub(FaultHub):
    """A hub whose sessions are jobs that sleep; several for one person, and a token that sees all of them."""

    def __init__(self) -> None:
        super().__init__(FOLDER.with_name("test-stubs"), PORT + 200)
        self.token = secrets.token_hex(16)
        self._answers_process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """As every test's hub, with the stub's launcher."""
        super().prepare()
        text = self.site_file.read_text()
        text = re.sub("^launcher = .*$", f'launcher = "{STUB / "launch"}"', text, flags=re.MULTILINE)
        plain = "internal_ssl = false"  # one server answers for all of them: no certificate of a person's own
        self.site_file.write_text(text.replace("[portal]\n", f"[portal]\n{plain}\n"))
        (self.folder / "extra" / "stubs.py").write_text(
            "c.JupyterHub.allow_named_servers = True\n"
            f'c.JupyterHub.services.append({{"name": "faults", "api_token": "{self.token}"}})\n'
            'c.JupyterHub.load_roles.append({"name": "faults", "services": ["faults"], '
            f'"scopes": {SCOPES!r}}})\n'
        )
        allow(STUB / "launch")

    def start_answering(self) -> None:
        """The one server that answers for every stub session."""
        command = [str(VENV_BIN / "python"), str(STUB / "stub_server.py"), str(ANSWER_PORT), jupyterhub.__version__]
        self._answers_process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)

    def stop_answering(self) -> None:
        """End it."""
        assert self._answers_process is not None
        self._answers_process.kill()
        self._answers_process.wait()

    def client(self) -> httpx.Client:
        """A new connection with the token."""
        headers = {"Authorization": f"token {self.token}"}
        return httpx.Client(base_url=f"{self.url}/hub/api", headers=headers, timeout=30, trust_env=False)


def allow(launcher: Path) -> None:
    """One line more in the namespaces' own sudoers."""
    sudoers = Path("/etc/sudoers")
    line = f"portal ALL=(%hpcusers, !root, !#0) NOPASSWD: {launcher}\n"
    if line not in sudoers.read_text():
        sudoers.chmod(0o640)
        sudoers.write_text(sudoers.read_text() + line)
        sudoers.chmod(0o440)


@contextmanager
def first_in_path(folder: Path) -> Iterator[None]:
    """Meanwhile programs are looked for in ``folder`` first."""
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def daemon(action: str, name: str) -> None:
    """``start``, ``stop`` or ``restart`` one daemon of the cluster."""
    sh(*run_module.command("deploy.demo.service_control"), action, name, timeout_s=150)
