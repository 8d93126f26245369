"""A real hub of its own, beside the demo's, on the same real Slurm and LDAP."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.launcher import SESSIONS
from tests import loop_watch
from tests.inside import SITE_FILE, VENV_BIN, eventually, has_no_job, home, jobs_of, sh

PORT = 18000
URL = f"http://127.0.0.1:{PORT}"
LOOP_NOTES = "loop.jsonl"
FOLDER = Path("/cluster/test-hub")
QUICK = """\
import spawners.messages
c.PortalHub.settle_every_s = 2
c.JupyterHub.services = []  # the ordinary lines of a site's file: the portal's own stay
c.JupyterHub.load_roles = []
c.JupyterHub.template_vars = {"announcement": ""}
c.JupyterHub.tornado_settings = {"headers": {}}
spawners.messages.HANDED_OVER_WITHIN_S = 2
"""


class Hub:
    """A hub that the tests may kill, with its own folder and ports; ``settings`` are lines of ``[portal]``."""

    def __init__(self, folder: Path = FOLDER, port: int = PORT, **settings: str) -> None:
        self.folder, self.port, self.settings = folder, port, settings
        self.site_file = folder / "site.toml"
        self.log_file = folder / "hub.log"
        below = settings.get("base_url", "/").rstrip("/")
        self.url = f"{'https' if 'certificate' in settings else 'http'}://127.0.0.1:{port}{below}"
        self.command = VENV_BIN / "portal"
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """An empty state folder and the demo's settings with other ports."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        ports = {"port": self.port, "hub_port": self.port + 81, "proxy_port": self.port + 1}
        texts = {"state_folder": f"{self.folder}/state", "extra_config": f"{self.folder}/extra", "domain": ""}
        texts |= self.settings
        (self.folder / "extra").mkdir()
        (self.folder / "extra" / "quick.py").write_text(QUICK)
        values = {**ports, **{key: f'"{text}"' for key, text in texts.items()}}
        text = SITE_FILE.read_text()
        for key, value in values.items():
            text = re.sub(rf"^{key}\s*=.*\n", "", text, flags=re.MULTILINE)
            text = text.replace("[portal]\n", f"[portal]\n{key} = {value}\n")
        self.site_file.write_text(text)
        shutil.chown(self.folder, "portal", "portal")

    def watch_loop(self) -> None:
        """From its next start on it notices what its event loop waits for."""
        loop_watch.put_into(self.folder / "extra", self.folder / LOOP_NOTES, [str(home("alice").parent)])

    def waited_for(self) -> list[dict[str, Any]]:
        """What its event loop has waited for since it was prepared, while it served."""
        return [note for note in loop_watch.read(self.folder / LOOP_NOTES) if loop_watch.waits(note)]

    def start(self) -> None:
        """Start it and wait until it answers."""
        argv = ["runuser", "-u", "portal", "--", str(self.command), "up", "--site", str(self.site_file)]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, cwd="/", start_new_session=True)
        eventually(self._answers, "the hub answers", within_s=60)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log_file.read_text()[-3000:]
        try:
            return httpx.get(f"{self.url}/hub/health", trust_env=False, verify=False).status_code == 200  # noqa: S501
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """kill -9 of the hub itself, as a crash would; its proxy lives on."""
        pid = (self.folder / "state" / "hub.pid").read_text().strip()
        sh("kill", "-KILL", pid)
        assert self._process is not None
        self._process.wait(timeout=10)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The hub itself does nothing meanwhile; its proxy does."""
        pid = int((self.folder / "state" / "hub.pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            assert self._process is not None
            for stopped in (self._process.pid, pid):  # runuser stops with its child
                os.kill(stopped, signal.SIGCONT)

    def end(self) -> None:
        """Stop the hub as ``systemctl restart`` does; its proxy lives on."""
        if self._process and self._process.poll() is None:
            sh("pkill", "-TERM", "-f", f"portal up --site {self.site_file}", check=False)
            self._process.wait(timeout=30)

    def stop(self) -> None:
        """Stop all of it as an administrator does."""
        self.end()
        sh(str(VENV_BIN / "portal"), "down", "--site", str(self.site_file), user="portal")

    def log(self) -> str:
        """Everything the hub has logged."""
        return self.log_file.read_text(errors="replace")


def self_signed(folder: Path, *names: str) -> dict[str, str]:
    """A certificate for these names (``DNS:localhost``), signed by itself, as the lines of [portal]."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    files = {"key": str(folder / "key.pem"), "certificate": str(folder / "certificate.pem")}
    given = ["-subj", "/CN=portal", "-addext", f"subjectAltName={','.join(names)}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *given]
    sh(*command, "-keyout", files["key"], "-out", files["certificate"])
    shutil.chown(files["key"], "portal")
    return files


class Person:
    """Somebody with a browser, as far as HTTP goes."""

    def __init__(self, name: str, url: str = URL) -> None:
        self.name = name
        self.http = httpx.Client(base_url=url, follow_redirects=True, timeout=30, trust_env=False)

    @property
    def xsrf(self) -> str:
        """The token against cross-site requests, for the hub's own paths."""
        return next(
            cookie.value or "" for cookie in self.http.cookies.jar if cookie.name == "_xsrf" and "hub" in cookie.path
        )

    def login(self, password: str | None = None) -> httpx.Response:
        """Send the login form."""
        self.http.get("/hub/login")
        form = {"username": self.name, "password": f"{self.name}-demo" if password is None else password}
        return self.http.post("/hub/login", params={"_xsrf": self.xsrf}, data=form)

    def spawn(self, **options: str) -> httpx.Response:
        """Send the instance options."""
        self.http.get("/hub/spawn")
        return self.http.post("/hub/spawn", params={"_xsrf": self.xsrf}, data=options)

    def api(self, method: str, path: str, json: object = None) -> httpx.Response:
        """Call the hub's REST API with the browser's cookie."""
        return self.http.request(method, f"/hub/api{path}", json=json, headers={"X-XSRFToken": self.xsrf})

    def progress(self) -> Iterator[str]:
        """What the waiting page tells, line by line, until the start is over."""
        path = f"/hub/api/users/{self.name}/server/progress"
        with self.http.stream("GET", path, headers={"X-XSRFToken": self.xsrf}) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield str(json.loads(line.removeprefix("data: "))["message"])

    def server(self) -> dict[str, object]:
        """The hub's own word on this person's session."""
        model = self.api("GET", f"/users/{self.name}").json()
        return dict(model.get("servers", {}).get("", {}))

    def is_ready(self) -> bool:
        """True when the session's server answers through the proxy, as this person."""
        if not self.server().get("ready"):
            return False
        self.http.get(f"/user/{self.name}/lab")  # logs this browser in at the session's own server
        return self.http.get(f"/user/{self.name}/api/contents").status_code == 200

    def start(self, **options: str) -> str:
        """Start a session, wait until it is ready, and answer the id of its job."""
        answer = self.spawn(**options)
        assert answer.status_code == 200, answer.text
        eventually(self.is_ready, f"the session of {self.name} is ready", within_s=90)
        (job_id,) = jobs_of(self.name)
        return job_id

    def stop(self) -> None:
        """Stop My Server."""
        assert self.api("DELETE", f"/users/{self.name}/server").status_code in (202, 204, 404)
        eventually(lambda: not self.server(), f"the session of {self.name} is stopped", within_s=40)


@pytest.fixture(scope="session")
def hub() -> Iterator[Hub]:
    """One hub for the ring."""
    ours = Hub()
    ours.prepare()
    (ours.folder / "extra" / "attentive.py").write_text("c.PortalHub.watch_every_s = 2\n")
    ours.watch_loop()
    ours.start()
    yield ours
    ours.stop()
    waited_for = [note for note in ours.waited_for() if note["kind"] not in ("slow", "database")]
    assert not waited_for, loop_watch.shown(waited_for)  # in no test of the ring


@pytest.fixture
def people(hub: Hub) -> Iterator[dict[str, Person]]:
    """Alice and Bob, logged in; their sessions and jobs are gone afterwards."""
    both = {name: Person(name) for name in ("alice", "bob")}
    for name in both:
        shutil.rmtree(home(name) / SESSIONS, ignore_errors=True)
    for person in both.values():
        assert person.login().status_code == 200
    yield both
    for person in both.values():
        person.stop()
        person.http.close()
        sh("scancel", f"--user={person.name}")
        eventually(partial(has_no_job, person.name), "no job is left")


@pytest.fixture
def alice(people: dict[str, Person]) -> Person:
    """Alice, logged in."""
    return people["alice"]
