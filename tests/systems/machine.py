"""A machine of its own without a machine: a Debian in namespaces of its own, with systemd as its process 1."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from deploy.demo import cgroups
from tests.inside import eventually

BOOT = Path(__file__).with_name("boot.py")
SPACES = ["--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LONGEST_S = 1200  # an installation on a machine that has much else to do
BOOTS_WITHIN_S = 60
HALTS_WITHIN_S = 90


def cgroup2() -> Path | None:
    """Where this machine has cgroup version 2: systemd needs a tree of it, with or without controllers."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((Path(fields[1]) for fields in lines if fields[2] == "cgroup2"), None)


def why_not() -> str:
    """Why no such machine can run here; '' when it can."""
    if os.geteuid() != 0:
        return "a machine with systemd needs root: namespaces, mounts and a cgroup of its own"
    tree = cgroup2()
    if tree is None:
        return "a machine with systemd needs cgroup version 2, and none is mounted here"
    probe = tree / f"dsportal-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"a machine with systemd needs a cgroup of its own, and {tree} refuses one: {error.strerror}"
    done = subprocess.run(["unshare", *SPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    return f"no namespaces can be made here: {done.stderr.strip()}" if done.returncode else ""


@dataclass
class Machine:
    """One Debian that runs. What it changes is in a folder of its own and goes with it."""

    debian: Path
    name: str
    folder: Path = field(init=False)
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.debian.parent.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="live-", dir=self.debian.parent))
        self.folder.chmod(0o755)

    def start(self) -> None:
        """Boot it."""
        self.group.mkdir(exist_ok=True)
        argv = ["setpriv", "--pdeathsig", "KILL", "unshare", *SPACES, "--fork", "--kill-child", "--"]
        with (self.folder / "console").open("wb") as console:
            self._process = subprocess.Popen(
                [*argv, sys.executable, "-I", str(BOOT), str(self.debian), str(self.folder), self.name],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                cwd="/",
                preexec_fn=self._enter_group,
            )
        eventually(self._has_booted, "systemd has booted", within_s=BOOTS_WITHIN_S)

    def _enter_group(self) -> None:
        (self.group / "cgroup.procs").write_text("0")

    def _has_booted(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "console").read_text(errors="replace")[-2000:]
        done = self.call("systemctl", "is-system-running") if self.pid else None
        return done is not None and done.stdout.strip() in ("running", "degraded")

    @property
    def group(self) -> Path:
        """The cgroup that is the root of the machine's own tree."""
        return (cgroup2() or Path("/sys/fs/cgroup")) / f"dsportal-{self.folder.parent.name}-{self.folder.name}"

    @property
    def pid(self) -> int:
        """The machine's process 1, as this machine counts; 0 = not yet."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def entering(self, *argv: str) -> list[str]:
        """The command line that runs a command inside as its root, with the environment of a login there."""
        enter = ["nsenter", "--target", str(self.pid), *SPACES, "--root", "--wd", "--", "/usr/bin/env", "-i"]
        return [*enter, "HOME=/root", "USER=root", "LANG=C.UTF-8", f"PATH={PATH}", *argv]

    def call(self, *argv: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command inside; what it printed and its status."""
        return subprocess.run(
            self.entering(*argv), input=stdin, capture_output=True, text=True, check=False, timeout=LONGEST_S
        )

    def sh(self, script: str, user: str = "") -> str:
        """What a shell script prints there (both streams); it must succeed."""
        become = ["runuser", "-u", user, "--"] if user else []
        done = self.call(*become, "bash", "-ec", script)
        assert done.returncode == 0, f"{script}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def write(self, file: str, text: str, mode: int = 0o644) -> None:
        """Write a file of root's, with the folders above it."""
        done = self.call("bash", "-ec", 'install -D -m "$1" /dev/stdin "$2"', "write", f"{mode:o}", file, stdin=text)
        assert done.returncode == 0, done.stderr

    def copy(self, file: Path, target: str) -> None:
        """Copy a file of this machine into it."""
        shutil.copyfile(file, Path(f"/proc/{self.pid}/root") / target.lstrip("/"))

    def halt(self) -> None:
        """Shut it down in order; what it has changed stays, and it can start again."""
        if self._process is None:
            return
        if self._process.poll() is None and self.pid:
            os.kill(self.pid, signal.SIGRTMIN + 3)  # systemd: halt
        try:
            self._process.wait(timeout=HALTS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        for folder, _, _ in os.walk(self.group, topdown=False):
            cgroups.remove_one(Path(folder))

    def remove(self) -> None:
        """Shut it down and take away what it has changed."""
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)
