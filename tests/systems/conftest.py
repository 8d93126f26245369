"""Machines of each Debian, with the portal installed by the guide; a run that cannot have them ends with one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systems import guide, roots, surroundings
from tests.systems.machine import Machine, why_not

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("DSPORTAL_SYSTEMS") or ROOT / ".demo-systems")


@pytest.fixture(scope="session", autouse=True)
def possible() -> None:
    """Nothing is skipped: where no machine can run, the run says why and has failed."""
    if words := why_not():
        pytest.exit(words, returncode=1)


@pytest.fixture(scope="session")
def release() -> Path:
    """The tarball of `make dist`, for the Pythons of the machines."""
    to = FOLDER / "dist"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    make = [sys.executable, str(ROOT / "deploy/run_module.py"), "deploy.release.make_dist", "--to", str(to)]
    usual = {name: value for name, value in os.environ.items() if name != "DSPORTAL_DEMO"}  # the usual store of wheels
    done = subprocess.run([*make, "--pythons", *roots.SUITES.values()], env=usual, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(to.glob("*.tar.gz"))


@pytest.fixture(scope="module", params=roots.SUITES)
def host(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A machine with everything that the page's table "Before you start" asks for, and no portal."""
    machine = Machine(roots.root(FOLDER, request.param), "portal")
    try:
        machine.start()
        surroundings.prepare(machine)
        yield machine
    finally:
        machine.remove()


def go_on(machine: Machine) -> str:
    """The page after the release or the role: settings, kernels, doctor, units. What the doctor said."""
    (settings,) = guide.blocks("4. The settings", "toml")
    machine.write("/etc/dsportal/site.toml", settings)
    copy, check = guide.blocks("4. The settings")
    machine.sh(f"cd /root/ca\n{copy}")
    machine.sh(check)
    machine.sh(guide.commands("5. The kernels", 0))
    doctor = machine.sh(guide.commands("6. Ask the doctor", 0))
    machine.sh(guide.blocks("7. Two systemd units")[-1])
    return doctor


def serves(host: Machine) -> bool:
    """Whether the hub answers through its proxy."""
    asked = "import urllib.request as u; u.urlopen('https://portal.example.org:8000/hub/health', timeout=5)"
    return host.call("python3", "-c", asked).returncode == 0
