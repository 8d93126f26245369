"""Become a machine: in fresh namespaces, the root file system is put together and systemd becomes process 1.

``boot.py ROOT FOLDER NAME`` with ROOT the unpacked Debian (only read) and FOLDER what this machine changes.
Standard library only: whichever Python there is runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SYSTEMD = "/lib/systemd/systemd"


def mount(kind: str, target: Path, options: str = "rw", source: str = "") -> None:
    """Mount a file system of a kind."""
    subprocess.run(["mount", "-t", kind, "-o", options, source or kind, str(target)], check=True)


def make_root(root: Path, folder: Path) -> Path:
    """The Debian with a layer of this machine's own over it."""
    new = folder / "root"
    for name in ("root", "changes", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    mount("overlay", new, f"lowerdir={root},upperdir={folder / 'changes'},workdir={folder / 'work'}")
    mount("proc", new / "proc")
    mount("sysfs", new / "sys", "ro")
    mount("cgroup2", new / "sys/fs/cgroup")
    mount("tmpfs", new / "run", "mode=755")
    mount("tmpfs", new / "tmp", "mode=1777")
    make_dev(new / "dev")
    return new


def make_dev(dev: Path) -> None:
    """The few devices that programs need."""
    mount("tmpfs", dev, "mode=755")
    for name in DEVICES:
        (dev / name).touch()
        subprocess.run(["mount", "--bind", f"/dev/{name}", str(dev / name)], check=True)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (dev / name).symlink_to(target)
    (dev / "pts").mkdir()
    mount("devpts", dev / "pts", "newinstance,ptmxmode=0666,mode=620,gid=5")
    (dev / "ptmx").symlink_to("pts/ptmx")
    (dev / "shm").mkdir()
    mount("tmpfs", dev / "shm", "mode=1777")


def pivot(new: Path) -> None:
    """Make ``new`` the root; what was the root before is out of reach."""
    os.chdir(new)
    subprocess.run(["pivot_root", ".", "mnt"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "-l", "/mnt"], check=True)


def main(arguments: list[str]) -> None:
    """Build the root and become systemd."""
    root, folder, name = arguments
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    new = make_root(Path(root), Path(folder))
    (new / "etc/hostname").write_text(f"{name}\n")
    short = new / "etc/systemd/system.conf.d/short.conf"  # slurmstepd waits for its job when the host goes down
    short.parent.mkdir(exist_ok=True)
    short.write_text("[Manager]\nDefaultTimeoutStopSec=10s\n")
    pivot(new)
    # "container" tells systemd that there is no hardware to look after.
    os.execve(SYSTEMD, [SYSTEMD, "--system"], {"container": "dsportal", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
