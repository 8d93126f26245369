"""`portal tools test` in a job: a web tool is started as in a session by a person's own job, and ended with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inside import SITE_FILE, VENV_BIN, home, sh

FOLDER = Path("/cluster/test-tools")
PERSON = "alice"
SERVES = """
import http.server, socketserver, sys
class Page(http.server.BaseHTTPRequestHandler):
    def address_string(self): return "socket"
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"here")
socketserver.UnixStreamServer(sys.argv[1], Page).serve_forever()
"""
TOOLS = """
[[tool]]
name = "answers"
title = "Answers"
command = ["/usr/bin/python3", "-I", "{folder}/serves.py", "{{socket}}"]
environment = {{ LICENCE = "of-the-site" }}

[[tool]]
name = "silent"
title = "Silent"
groups = ["hipri"]
command = ["/bin/sh", "-c", "echo no licence for $LICENCE$0; exit 3", "{{socket}}"]
"""


@pytest.fixture
def site() -> Iterator[Path]:
    """The demo's settings with a tool that answers, and one that does not."""
    FOLDER.mkdir(mode=0o755)
    (FOLDER / "serves.py").write_text(SERVES)
    file = FOLDER / "site.toml"
    file.write_text(SITE_FILE.read_text() + TOOLS.format(folder=FOLDER))
    yield file
    shutil.rmtree(FOLDER)


def portal(site: Path, *words: str, user: str = "root") -> tuple[int, str]:
    """A command of `portal tools`; its exit status and what it printed."""
    argv = [str(VENV_BIN / "portal"), "tools", *words, "--site", str(site)]
    done = subprocess.run(
        ["runuser", "-u", user, "--", "env", f"HOME={home(user) if user != 'root' else '/root'}", *argv],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd="/",
    )
    return done.returncode, done.stdout + done.stderr


def test_root_has_tools_tried_in_a_job_of_a_person(site: Path) -> None:
    status, said = portal(site, "test", "answers", "silent", "--partition", "sxm2", "--user", PERSON)

    assert status == 1, said
    assert re.search(r"^answers: it answers after \d+\.\d s$", said, re.MULTILINE), said
    assert "silent: It ended before it was ready (exit status 3). Its last lines:\nsilent:   no licence for /" in said
    assert sh("find", str(home(PERSON)), "-maxdepth", "1", "-name", ".dsportal-tools-test-*") == ""
    assert sh("pgrep", "-u", PERSON, "-f", "serves.py", check=False) == ""


def test_a_person_tries_one_in_a_job_of_their_own(site: Path) -> None:
    status, said = portal(site, "test", "answers", "--partition", "sxm2", user=PERSON)

    assert (status, "answers: it answers after" in said) == (0, True), said


def test_root_tries_none_itself(site: Path) -> None:
    for words in (["test"], ["test", "--partition", "sxm2"], ["test", "--partition", "sxm2", "--user", "root"]):
        status, said = portal(site, *words)
        assert (status, "root starts no" in said) == (1, True), said
