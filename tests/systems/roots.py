"""Bare Debian roots for machines to start from: today's packages with their own scripts, as a site installs them.

mmdebstrap makes them, and apt looks at every signature. It is pinned (deploy/demo/debs.lock), what it installs is not.
A root that is there is used again until the list below changes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from deploy.demo import fetch_debs, unpack_debs
from deploy.demo.state_folder import State

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What the guide asks for on the hub's host, and what the site around it is made of.
HOST = ("systemd-sysv", "dbus", "python3", "sudo", "munge", "slurm-wlm")
SITE = (
    "slapd",
    "environment-modules",
    "python3-ipykernel",
    "dnsmasq",
    "openssl",
    "ca-certificates",
    "iproute2",
    "procps",
)
# They wait for their settings, which a site writes; a bare host does not run them.
OFF = ("slapd", "slurmctld", "slurmd", "munge", "dnsmasq")
SUITES = {"bookworm": "3.11", "trixie": "3.13"}  # with the Python of each
STAMP = ".made-of"


def stamp() -> str:
    """What a root was made of; another list makes another one."""
    return hashlib.sha256(repr((HOST, SITE, OFF)).encode()).hexdigest()


def archive() -> str:
    """The address of Debian's archive that this machine's apt uses.

    Raises:
        AssertionError: it knows none.
    """
    argv = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.split()[-1] for line in lines if line.startswith("Debian Debian ")]
    assert found, "this machine's apt knows no archive of Debian: apt-get update, then see apt-cache policy"
    return found[0]


def tool(folder: Path) -> Path:
    """mmdebstrap, fetched and unpacked as the demo's packages are."""
    state = State(folder / "packages")
    state.folder.mkdir(parents=True, exist_ok=True)
    tree = folder / "tools"
    if not unpack_debs.is_unpacked(tree, "once"):
        unpack_debs.unpack(fetch_debs.fetch(state, "systems"), tree, "once")
    return tree / "usr/bin/mmdebstrap"


def root(folder: Path, suite: str) -> Path:
    """The root file system of a release of Debian, made where it is not there: two minutes."""
    place = folder / suite
    debian = place / "root"
    if (place / STAMP).is_file() and (place / STAMP).read_text() == stamp():
        return debian
    shutil.rmtree(debian, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    argv = [str(tool(folder)), "--mode=root", "--variant=minbase", f"--keyring={KEYRING}", "--quiet"]
    argv += ['--aptopt=Acquire::Check-Valid-Until "false"', f"--include={','.join([*HOST, *SITE])}"]
    argv += [f'--customize-hook=systemctl --root="$1" disable {" ".join(OFF)}']
    done = subprocess.run(
        [*argv, suite, str(debian), f"deb {archive()} {suite} main"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"mmdebstrap made no {suite}: {done.stderr[-2000:]}"
    (place / STAMP).write_text(stamp())
    return debian
