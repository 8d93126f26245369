"""Demos for the tests: packages are unpacked once, every test that starts one gets a state folder of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.demo.harness import CHECKOUT, Demo

PORTAL = """#!/usr/bin/python3
import http.server, os, sys
if "kernels" in sys.argv:
    sys.exit(0)
print("portal", *sys.argv[1:], flush=True)
if "--local" in sys.argv or os.path.exists("/cluster/hub/broken"):
    sys.exit("the settings are wrong" if "--local" not in sys.argv else 0)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = f"{os.getuid()} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""
LAUNCHER = '#!/bin/sh\nexec /usr/bin/sbatch --parsable --output=/dev/null "$@"\n'


@pytest.fixture(scope="session", autouse=True)
def package_cache() -> None:
    """Packages that a demo of this checkout has downloaded are not downloaded again."""
    os.environ.setdefault("DSPORTAL_DEB_CACHE", str(CHECKOUT / ".demo" / "debs"))


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A place for state folders that other accounts can pass."""
    with tempfile.TemporaryDirectory(prefix="demo-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def stand_in(folder: Path) -> Path:
    """An environment with a stand-in for the portal and for its launcher: the demo's own rings test the real ones."""
    venv = folder / "stand-in"
    (venv / "bin").mkdir(parents=True)
    for name, text in {"portal": PORTAL, "portal-launch": LAUNCHER}.items():
        (venv / "bin" / name).write_text(text)
        (venv / "bin" / name).chmod(0o755)
    return venv


@pytest.fixture(scope="session")
def cluster(folder: Path, stand_in: Path) -> Iterator[Demo]:
    """One running cluster without the portal, for tests that only look."""
    demo = Demo(folder / "shared", env={"DSPORTAL_VENV": str(stand_in)})
    demo.up("--no-hub")
    yield demo
    demo.down()
    demo.call("clean")


@pytest.fixture(scope="session")
def new_demo(folder: Path, cluster: Demo, stand_in: Path) -> Callable[[], Demo]:
    """Make state folders with nothing in them but the unpacked packages."""

    def make() -> Demo:
        state = Path(tempfile.mkdtemp(prefix="state-", dir=folder)) / "demo"
        state.mkdir()
        (state / "root").symlink_to(cluster.folder / "root")
        return Demo(state, env={"DSPORTAL_VENV": str(stand_in)})

    return make


@pytest.fixture
def make_demo(new_demo: Callable[[], Demo]) -> Iterator[Callable[[], Demo]]:
    """Make such folders whose demos end with the test."""
    made: list[Demo] = []

    def make() -> Demo:
        made.append(new_demo())
        return made[-1]

    yield make
    for demo in made:
        demo.down()
        demo.call("clean")
