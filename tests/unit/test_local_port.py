"""The local mode listens at its port itself, or does not start: who listens there is told the password."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.inside import eventually


@contextmanager
def up(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "portal.cli", "up", "--local", f"--state={folder / 'state'}", f"--port={port}"]
    env = os.environ.copy()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as portal:
        try:
            yield portal
        finally:
            portal.kill()


def test_it_does_not_start_where_somebody_else_listens_and_prints_no_password(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:  # who takes connections, as far as JupyterHub looks
        port = other.getsockname()[1]
        with up(tmp_path, port) as portal:
            said, _ = portal.communicate(timeout=90)

    assert portal.returncode != 0
    assert f"127.0.0.1:{port}. Take another --port." in said
    assert "Password:" not in said


def test_it_says_its_password_when_it_listens_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with up(tmp_path, port) as portal:
        said = portal.stdout
        assert said
        eventually(lambda: re.search(r"Password: +\S+", said.readline()), "the password", within_s=60)
        socket.create_connection(("127.0.0.1", port)).close()
        portal.terminate()
        portal.communicate(timeout=60)
