"""The pip that installs: the machine's where it is new enough for this Python, else one of our own, pinned.

pip 22.3 brought ``--python``; later Pythons need later ones, because they took away what the older ones import.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.demo.apt import Apt
from deploy.demo.console import DemoError
from deploy.environments.wheels import BuildError, keep, missing, pins, pip_command

OLDEST = {11: (22, 3), 12: (23, 2), 13: (24, 1), 14: (25, 1)}  # by the minor version of Python
NO_PIP = (
    "no pip that fits is on this machine, and none could be had: install one (Debian, Ubuntu: apt install python3-pip; "
    "RHEL and its like: dnf install python3.12-pip), or check the network and pip's settings, then run it again"
)


def find(lock: Path, store: Path, state: Path) -> tuple[str, ...]:
    """The start of the command line of a pip that fits this Python.

    Arguments:
        lock: pins the pip that is fetched where the machine has none that fits.
        store: where fetched wheels are kept.
        state: the state folder, for what apt brings.

    Raises:
        BuildError: there is none, and none could be had.
    """
    ways = (_installed, lambda: _fetched(lock, store), _shipped, lambda: _debian(state))
    for way in ways:
        command = way()
        if command and version(command) >= oldest():
            return command
    raise BuildError(NO_PIP)


def oldest() -> tuple[int, int]:
    """The oldest pip for the Python that this runs on."""
    return OLDEST.get(sys.version_info.minor, OLDEST[max(OLDEST)])


def version(command: tuple[str, ...]) -> tuple[int, int]:
    """The version of a pip; (0, 0) when it does not run."""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"pip (\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found and not done.returncode else (0, 0)


def _installed() -> tuple[str, ...]:
    """That of this interpreter, however old."""
    try:
        return pip_command(sys.executable)
    except BuildError:
        return ()


def _fetched(lock: Path, store: Path) -> tuple[str, ...]:
    """The pinned one: fetched before, or brought by the pip that is here."""
    text = lock.read_text()
    if missing(text, store) and (old := _installed()):
        store.mkdir(parents=True, exist_ok=True)
        quiet = ("--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes")
        with TemporaryDirectory() as fetched:
            subprocess.run([*old, "download", *quiet, "-d", fetched, "-r", str(lock)], capture_output=True, check=False)
            for wheel in Path(fetched).glob("*.whl"):
                keep(wheel, store)
    if not store.is_dir() or missing(text, store):
        return ()
    (pin,) = pins(text)
    return pip_command(str(next(store.glob(f"{pin.wheel_prefix}*.whl"))))


def _shipped() -> tuple[str, ...]:
    """The wheel that a distribution puts beside its Python (RHEL, Fedora), or the one inside Python."""
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR") or "", str(Path(sysconfig.get_path("stdlib"), "ensurepip"))]
    return _newest(file for folder in filter(None, folders) for file in Path(folder).rglob("pip-*.whl"))


def _debian(state: Path) -> tuple[str, ...]:
    """The one in Debian's package python3-pip-whl, fetched and unpacked, not installed."""
    folder = state / "cache" / "pip"
    if not any(folder.rglob("pip-*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _unpack(Apt(state / "apt"), folder)
        except (DemoError, OSError, subprocess.CalledProcessError):
            return ()
    return _newest(folder.rglob("pip-*.whl"))


def _unpack(apt: Apt, folder: Path) -> None:
    apt.update()
    subprocess.run(apt.command("apt-get", "download", "python3-pip-whl"), cwd=folder, check=True, capture_output=True)
    for package in folder.glob("python3-pip-whl_*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True, capture_output=True)


def _newest(wheels: Iterator[Path]) -> tuple[str, ...]:
    commands = [pip_command(str(wheel)) for wheel in wheels]
    return max(commands, key=version, default=())
