"""The cgroup of the session's own job, as Slurm's task/cgroup makes it: its memory, its limit and its CPU time.

Slurm makes ``…/job_ID/step_…/task_…`` below a folder of its own (cgroup.conf(5)); a limit and a kill are the job's, so
the job's group is read and not the task's. Version 1 has a hierarchy for each controller, version 2 one for all
(cgroups(7)).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

OF_JOB = re.compile(r"(.*/job_\d+)(?=/|\Z)")
NO_LIMIT_V1 = 1 << 60  # version 1 writes a number near 2**63 where there is no limit
NS_PER_S = 1_000_000_000
US_PER_S = 1_000_000

Read = Callable[[Path], str]


@dataclass(frozen=True)
class JobGroup:
    """Where the files of the job's group are; None where no controller counts it."""

    version: int
    memory: Path | None
    cpu: Path | None


@dataclass(frozen=True)
class GroupUse:
    """What the processes of a group have used.

    Attributes:
        memory_bytes: without the pages of files that the kernel can drop at once; None where it is not counted.
        limit_bytes: above which the kernel kills; None without a limit.
        cpu_s: CPU time so far, of all cores together.
    """

    memory_bytes: int | None = None
    limit_bytes: int | None = None
    cpu_s: float | None = None


def job_group(cgroup: str, mountinfo: str) -> JobGroup | None:
    """The group of the job; None outside of one, or where Slurm does without cgroups.

    Arguments:
        cgroup: the text of /proc/self/cgroup.
        mountinfo: the text of /proc/self/mountinfo.
    """
    paths = _paths(cgroup)
    mounts = _mounts(mountinfo)
    found = {name: _folder(paths[name], mounts[name]) for name in paths.keys() & mounts.keys()}
    memory = found.get("memory")
    cpu = found.get("cpuacct")
    if memory or cpu:
        return JobGroup(1, memory, cpu)
    unified = found.get("")
    return JobGroup(2, unified, unified) if unified else None


def use(group: JobGroup, read: Read = Path.read_text) -> GroupUse:
    """What the group has used. A file that is not there, or cannot be read, is what is not known."""
    texts = {file: _read(folder, file, read) for folder, file in _files(group) if folder}
    return parse_v1(texts) if group.version == 1 else parse_v2(texts)


def parse_v1(texts: Mapping[str, str]) -> GroupUse:
    """The files of version 1, by their names; an empty text is a file that could not be read."""
    used = _number(texts.get("memory.usage_in_bytes", ""))
    limit = _number(texts.get("memory.limit_in_bytes", ""))
    cpu_ns = _number(texts.get("cpuacct.usage", ""))
    return GroupUse(
        _without_files(used, texts.get("memory.stat", ""), "total_inactive_file"),
        limit if limit and limit < NO_LIMIT_V1 else None,
        None if cpu_ns is None else cpu_ns / NS_PER_S,
    )


def parse_v2(texts: Mapping[str, str]) -> GroupUse:
    """The files of version 2, by their names."""
    used = _number(texts.get("memory.current", ""))
    cpu_us = _of_table(texts.get("cpu.stat", ""), "usage_usec")
    return GroupUse(
        _without_files(used, texts.get("memory.stat", ""), "inactive_file"),
        _number(texts.get("memory.max", "")),
        None if cpu_us is None else cpu_us / US_PER_S,
    )


def _files(group: JobGroup) -> list[tuple[Path | None, str]]:
    if group.version == 1:
        of_memory = ("memory.usage_in_bytes", "memory.limit_in_bytes", "memory.stat")
        of_cpu = "cpuacct.usage"
    else:
        of_memory = ("memory.current", "memory.max", "memory.stat")
        of_cpu = "cpu.stat"
    return [*((group.memory, name) for name in of_memory), (group.cpu, of_cpu)]


def _read(folder: Path, file: str, read: Read) -> str:
    try:
        return read(folder / file)
    except OSError:
        return ""


def _paths(cgroup: str) -> dict[str, str]:
    """The path of the job's group by controller; ``""`` is version 2."""
    found: dict[str, str] = {}
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        if match := OF_JOB.match(path):
            found |= dict.fromkeys(controllers.split(","), match[1])
    return found


def _mounts(mountinfo: str) -> dict[str, tuple[str, str]]:
    """The root and the place of each hierarchy by controller (proc(5), /proc/pid/mountinfo)."""
    found: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, place = before.split(" ")[3:5]
        if kind == "cgroup2":
            found[""] = (root, place)
        elif kind == "cgroup":
            found |= dict.fromkeys(options.split(","), (root, place))
    return found


def _folder(path: str, mount: tuple[str, str]) -> Path:
    """The folder of a group; of a container the mount shows a part of the hierarchy only."""
    root, place = mount
    inside = PurePosixPath(path)
    below = inside.relative_to(root) if root != "/" and inside.is_relative_to(root) else inside.relative_to("/")
    return Path(place) / below


def _without_files(used: int | None, stat: str, name: str) -> int | None:
    return None if used is None else max(0, used - (_of_table(stat, name) or 0))


def _of_table(text: str, name: str) -> int | None:
    """A value out of lines of a name and a number."""
    lines = (line.split() for line in text.splitlines())
    return next((_number(parts[1]) for parts in lines if len(parts) == 2 and parts[0] == name), None)


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None
