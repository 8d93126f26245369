"""What is read from Slurm and the kernel: queries by sdiag, processes by accounting, CPU and memory by /proc."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# sdiag(1), "Remote Procedure Call statistics by message type". What asks for something is called …_INFO or is a ping;
# the daemons' own traffic (registrations, completions) is not, and REQUEST_STATS_INFO is sdiag itself.
_COUNTED = re.compile(r"\s+(REQUEST_\w+)\s+\(\s*\d+\)\s+count:(\d+)")
_QUERY = re.compile(r"REQUEST_(?!STATS_)(\w+_INFO(_SINGLE)?|PING|JOB_STATE\w*)\Z")
# acct(5), version 3: flag, version, tty, exit code, uid, gid, pid, ppid, begin, elapsed, eight counters, name.
_RECORD = struct.Struct("<BBHIIIIIIf8H16s")
ACCOUNTS = Path("/tmp/bench.acct")


def queries(text: str) -> Counter[str]:
    """The queries in a text of sdiag, by message type."""
    return Counter({name: int(count) for name, count in _COUNTED.findall(text) if _QUERY.match(name)})


def sdiag() -> Counter[str]:
    """The queries that slurmctld has answered so far."""
    return queries(subprocess.run(["sdiag"], capture_output=True, text=True, check=True).stdout)


@dataclass(frozen=True)
class Ended:
    """A process that ended."""

    pid: int
    parent: int
    name: str


def records(data: bytes) -> list[Ended]:
    """The processes in a file of acct(2); a half-written record at the end is left out."""
    whole = data[: len(data) // _RECORD.size * _RECORD.size]
    fields = _RECORD.iter_unpack(whole)
    return [Ended(f[6], f[7], f[-1].split(b"\0")[0].decode(errors="replace")) for f in fields]


def below(pid: int, ended: list[Ended]) -> Counter[str]:
    """The names of those that descend from ``pid``."""
    parents = {process.pid: process.parent for process in ended}
    return Counter(process.name for process in ended if pid in ancestors(process.parent, parents))


def ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """A process and those above it, as far as they are known; a number used twice does not make a circle."""
    seen: set[int] = set()
    while pid not in seen:
        yield pid
        seen.add(pid)
        pid = parents.get(pid, pid)


@contextmanager
def accounting() -> Iterator[list[Ended]]:
    """Every process of these namespaces that ends meanwhile; the list is filled at the end.

    Raises:
        OSError: the kernel has no process accounting, or this is not really root.
    """
    ACCOUNTS.write_bytes(b"")
    found: list[Ended] = []
    acct(os.fsencode(ACCOUNTS))
    try:
        yield found
    finally:
        acct(None)
        found += records(ACCOUNTS.read_bytes())
        ACCOUNTS.unlink()


def acct(path: bytes | None) -> None:
    """acct(2): it counts for this PID namespace alone."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.acct(path):
        raise OSError(ctypes.get_errno(), f"process accounting: {os.strerror(ctypes.get_errno())}")


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and of its children that ended, user and system (proc(5), fields 14 to 17)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


@dataclass(frozen=True)
class Load:
    """What a hub cost while nothing happened but the sessions being there."""

    queries_per_min: float
    processes_per_min: float
    hub_cpu_percent: float  # of one core; with its children
    hub_rss_mib: float
    queries: Mapping[str, float]  # a minute, by message type
    processes: Mapping[str, float]  # a minute, by name


def watch(pid: int, seconds: float) -> Load:
    """Watch the hub ``pid`` for so many seconds."""
    with accounting() as ended:
        before = sdiag()
        used = cpu_s(pid)
        started = time.monotonic()
        time.sleep(seconds)
        window_s = time.monotonic() - started
        asked = sdiag() - before
        used = cpu_s(pid) - used
    minutes = window_s / 60
    processes = below(pid, ended)
    return Load(
        queries_per_min=round(asked.total() / minutes, 1),
        processes_per_min=round(processes.total() / minutes, 1),
        hub_cpu_percent=round(100 * used / window_s, 2),
        hub_rss_mib=round(rss_mib(pid), 1),
        queries={name: round(count / minutes, 1) for name, count in asked.most_common()},
        processes={name: round(count / minutes, 1) for name, count in processes.most_common()},
    )
