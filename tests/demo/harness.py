"""What the demo's tests share: a demo to drive, the machine's state before and after, waiting for conditions."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
DEMO = CHECKOUT / "deploy" / "demo"
IS_ROOT = os.geteuid() == 0


@dataclass
class Demo:
    """One state folder and the demo in it."""

    folder: Path
    program: Path = DEMO / "demo"
    env: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every verb."""
        return {**os.environ, "DSPORTAL_DEMO": str(self.folder), **self.env}

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a verb; what it printed, both ways, and its status."""
        command = [str(self.program), *arguments]
        return subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )

    def up(self, *arguments: str) -> str:
        """Start it in the background."""
        done = self.call("up", *arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def down(self) -> str:
        """End it."""
        return self.call("down").stdout

    def inside(self, *command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run a command inside."""
        return self.call("exec", "--user", user, "--", *command)

    def sh(self, script: str, user: str = "root") -> str:
        """What a shell script prints inside; it must succeed."""
        done = self.inside("bash", "-c", f"cd; {script}", user=user)
        assert done.returncode == 0, done.stdout
        return done.stdout.strip()

    def run(self) -> dict[str, object]:
        """What the demo notes about itself."""
        return dict(json.loads((self.folder / "run.json").read_text()))

    def processes(self) -> list[str]:
        """Every process of this machine that belongs to the demo: its PID namespace, or its folder in its argv."""
        return [p.name for p in Path("/proc").glob("[0-9]*") if self._is_ours(p)]

    def _is_ours(self, process: Path) -> bool:
        try:
            argv = (process / "cmdline").read_bytes()
        except OSError:
            return False
        return f'"state": "{self.folder}"'.encode() in argv or pid_namespace(process) in self.namespaces

    @property
    def namespaces(self) -> set[str]:
        """The PID namespaces that this demo has had."""
        with suppress(FileNotFoundError):  # it has not begun, or has ended just now
            self._namespaces.add(pid_namespace(Path("/proc", str(self.run()["init_pid"]))))
        return self._namespaces - {""}

    _namespaces: set[str] = field(default_factory=set)


def pid_namespace(process: Path) -> str:
    """The PID namespace of a process, '' when it cannot be seen."""
    try:
        return str((process / "ns" / "pid").readlink())
    except OSError:
        return ""


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def etc_sum() -> str:
    """One sum over everything that can be read below /etc: names, modes, owners, contents."""
    total = hashlib.sha256()
    for path in sorted(Path("/etc").rglob("*")):
        seen = path.lstat()
        total.update(f"{path} {seen.st_mode} {seen.st_uid} {seen.st_gid}".encode())
        if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
            total.update(path.read_bytes())
    return total.hexdigest()


def mounts() -> set[str]:
    """The mount points of this machine."""
    return {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()}


def cgroups() -> set[str]:
    """The groups of demos in the version 1 hierarchies."""
    return {group.name for group in Path("/sys/fs/cgroup").glob("*/dsportal-*")}
