"""The demo's own cgroups (version 1, as root): a group of each hierarchy, seen inside as its root.

The group's name comes from the state folder, so two demos on one machine have different ones although the nodes in
them have the same names.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
NEEDED = {"freezer", "memory", "devices", "cpuset", "cpuacct"}


def hierarchies(mounts: str) -> tuple[str, ...]:
    """The mounted version 1 hierarchies with a controller that Slurm uses, from the text of /proc/mounts.

    Empty when one of them is missing: Slurm would then start no job.
    """
    lines = [line.split() for line in mounts.splitlines()]
    points = [Path(fields[1]) for fields in lines if fields[2] == "cgroup"]
    names = [point.name for point in points if point.parent == ROOT and NEEDED & set(point.name.split(","))]
    found = {part for name in names for part in name.split(",")}
    return tuple(dict.fromkeys(names)) if found >= NEEDED else ()


def usable() -> tuple[str, ...]:
    """The hierarchies that this process may make groups in; empty when it may not."""
    names = hierarchies(Path("/proc/mounts").read_text())
    probe = f"dsportal-probe-{os.getpid()}"
    try:
        for name in names:
            (ROOT / name / probe).mkdir()
            (ROOT / name / probe).rmdir()
    except OSError:
        return ()
    return names


def group_name(state: Path) -> str:
    """The name of the groups of one state folder."""
    return "dsportal-" + hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:12]


def make(state: Path, names: tuple[str, ...]) -> None:
    """Make the groups; a cpuset may hold processes only once it has CPUs and memory."""
    for name in names:
        group = ROOT / name / group_name(state)
        group.mkdir(exist_ok=True)
        if "cpuset" in name.split(","):
            (group / "cgroup.clone_children").write_text("1")
            for file in ("cpuset.cpus", "cpuset.mems"):
                (group / file).write_text((group.parent / file).read_text())


def enter(state: Path, names: tuple[str, ...]) -> None:
    """Move this process into the groups."""
    for name in names:
        (ROOT / name / group_name(state) / "cgroup.procs").write_text("0")


def remove(state: Path) -> None:
    """Take the groups away once their last process has gone; groups that are still in use stay."""
    for top in ROOT.glob(f"*/{group_name(state)}"):
        groups = sorted((Path(folder) for folder, _, _ in os.walk(top)), key=lambda path: -len(path.parts))
        for group in groups:
            remove_one(group)


def remove_one(group: Path) -> None:
    """Remove one group; its last processes may need a moment to be gone."""
    deadline = time.monotonic() + 3
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
