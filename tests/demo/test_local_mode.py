"""The local mode for real: a password printed once, a session as a process of this very person."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

PORTAL = Path(__file__).resolve().parents[2] / ".venv" / "bin" / "portal"


def eventually(found: Callable[[], object], what: str, within_s: float = 60) -> object:
    """The first true answer, or an error that names what was waited for."""
    deadline = time.monotonic() + within_s
    while not (answer := found()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.2)
    return answer


def templates_of_the_site(folder: Path) -> Path:
    """A folder with one template, as a site has it for its own people."""
    card = {
        "framework": "Genomes",
        "kernel": "python3",
        "gpus": 0,
        "minutes_cpu": 1,
        "dataset": "none",
        "summary": "It.",
    }
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Align genomes\n"}
    place = folder / "genomes" / "align.ipynb"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"cells": [title], "metadata": {"dsportal": card}, "nbformat": 4, "nbformat_minor": 5}))
    return folder


class Local:
    """A portal in its local mode, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self.files = folder / "files"
        self.log = folder / "log"
        self.files.mkdir()
        site = folder / "site.toml"
        site.write_text(f"[notebooks]\nfolders = ['{templates_of_the_site(folder / 'own')}']\n")
        options = [
            "--site",
            str(site),
            "--port",
            str(self.port),
            "--state",
            str(folder / "state"),
            "--files",
            str(self.files),
        ]
        with self.log.open("wb") as log:
            command = [str(PORTAL), "up", "--local", *options]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", follow_redirects=True, trust_env=False)
        eventually(self._answers, "the login page answers")

    def _answers(self) -> bool:
        try:
            return self.http.get("/hub/login").status_code == 200 and "Password:" in self.log.read_text(
                errors="replace"
            )
        except httpx.HTTPError:
            return False

    def said(self, name: str) -> str:
        """A line of the box: ``User`` or ``Password``."""
        found = re.search(rf"^  {name}: +(\S+)", self.log.read_text(errors="replace"), re.MULTILINE)
        assert found
        return found[1]

    @property
    def xsrf(self) -> str:
        """The hub's token against cross-site requests."""
        return next(c.value or "" for c in self.http.cookies.jar if c.name == "_xsrf" and "hub" in c.path)

    def login(self, password: str) -> httpx.Response:
        """Send the login form as the person who runs it."""
        self.http.get("/hub/login")
        form = {"username": self.said("User"), "password": password}
        return self.http.post("/hub/login", params={"_xsrf": self.xsrf}, data=form)

    def end(self) -> None:
        """Ctrl-C."""
        self.http.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """One portal for the tests of this file."""
    portal = Local(tmp_path_factory.mktemp("local"))
    yield portal
    portal.end()


def test_only_this_machine_reaches_it_and_only_with_the_printed_password(local: Local) -> None:
    listening = subprocess.run(["ss", "-Hltn", f"sport = :{local.port}"], capture_output=True, text=True, check=True)
    assert {line.split()[3] for line in listening.stdout.splitlines()} == {f"127.0.0.1:{local.port}"}

    assert local.login("wrong-password").status_code == 403
    assert local.login(local.said("Password")).status_code == 200


def test_a_session_starts_shows_the_templates_and_ends(local: Local) -> None:
    local.login(local.said("Password"))
    name = local.said("User")
    local.http.get("/hub/spawn")
    assert local.http.post("/hub/spawn", params={"_xsrf": local.xsrf}, data={}).status_code == 200

    def contents(folder: str = "") -> list[str]:
        local.http.get(f"/user/{name}/lab")
        answer = local.http.get(f"/user/{name}/api/contents{folder}")
        return [item["name"] for item in answer.json()["content"]] if answer.status_code == 200 else []

    assert eventually(contents, "the session is ready") == ["templates"]
    assert "cluster" in contents("/templates")
    assert contents("/templates/genomes") == ["align.ipynb"]
    page = local.http.get("/hub/templates?q=genomes").text
    assert "Align genomes" in page
    assert f"/user/{name}/lab/tree/templates/genomes/align.ipynb" in page
    assert "TensorFlow" not in local.http.get("/hub/templates").text, "this machine has no such kernel"
    headers = {"X-XSRFToken": local.xsrf}
    local.http.request("DELETE", f"/hub/api/users/{name}/server", headers=headers)
    eventually(lambda: not local.http.get(f"/hub/api/users/{name}", headers=headers).json()["servers"], "it is stopped")


def test_options_that_nobody_offers_are_refused_by_rest_too(local: Local) -> None:
    local.login(local.said("Password"))
    headers = {"X-XSRFToken": local.xsrf}

    answer = local.http.post(f"/hub/api/users/{local.said('User')}/server", json={"profile": "x"}, headers=headers)

    assert answer.status_code == 400
    assert "a local session has no options" in answer.json()["message"]


def test_ctrl_c_leaves_no_process(local: Local) -> None:
    local.end()

    left = subprocess.run(["pgrep", "-f", f"--port {local.port}"], capture_output=True, text=True, check=False)
    assert not left.stdout
