"""Nodes, partitions and reservations. Each command builder stands beside its reader.

Plain text, which is the same from 22.05 to 25.11 (tests/fixtures/slurm), where ``--json`` is not there before 23.02.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import product

from portal.slurm import times
from portal.slurm.scontrol import Record, records

# scontrol(1), NODE STATES. A state that is not here, such as one of a later Slurm, makes a node not usable.
_USABLE = {"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM"}


@dataclass(frozen=True)
class Node:
    """One node. GPUs are counted by kind, as Slurm calls it in ``gpu:KIND:2``; ``""`` is a GPU without a kind."""

    name: str
    states: frozenset[str]
    partitions: tuple[str, ...]
    cores: int
    cores_used: int
    memory_mib: int
    memory_used_mib: int
    gpus: Mapping[str, int]
    gpus_used: Mapping[str, int]
    reason: str = ""

    @property
    def is_usable(self) -> bool:
        """Jobs can start here now: not down, draining, failing, reserved, in maintenance, silent or without power."""
        return self.states <= _USABLE

    @property
    def cores_free(self) -> int:
        """Cores without a job."""
        return max(0, self.cores - self.cores_used)

    @property
    def memory_free_mib(self) -> int:
        """Memory that no job has asked for."""
        return max(0, self.memory_mib - self.memory_used_mib)

    @property
    def gpus_free(self) -> Mapping[str, int]:
        """GPUs without a job, by kind."""
        return {kind: max(0, count - self.gpus_used.get(kind, 0)) for kind, count in self.gpus.items()}


def nodes_command() -> tuple[str, ...]:
    """List every node; ``--details`` for the GPUs in use, whether accounting counts them or not."""
    return ("scontrol", "--oneliner", "--all", "--details", "show", "node")


def parse_nodes(stdout: str) -> Mapping[str, Node]:
    """The nodes by name.

    Raises:
        SlurmUnavailable: something is not as asked for.
    """
    return {record.name: _node(record) for record in records(stdout, "NodeName")}


def _node(record: Record) -> Node:
    gpus = record.read("Gres", _gpus)
    return Node(
        name=record.name,
        states=frozenset(record.matching("State", r"[A-Z_]+(?:\+[A-Z_]+)*").split("+")),
        partitions=record.read("Partitions", _list) if "Partitions" in record else (),
        cores=record.number("CPUEfctv"),
        cores_used=record.number("CPUAlloc"),
        memory_mib=record.number("RealMemory") - (record.number("MemSpecLimit") if "MemSpecLimit" in record else 0),
        memory_used_mib=record.number("AllocMem"),
        gpus=gpus,
        gpus_used=_gpus_used(record, gpus),
        reason=record.reason(),
    )


def _gpus_used(record: Record, gpus: Mapping[str, int]) -> dict[str, int]:
    used = record.read("GresUsed", _gpus) if gpus else {}
    if unknown := {kind for kind, count in used.items() if count} - set(gpus):
        raise record.unreadable(f"GPUs in use of kinds that it does not have: {sorted(unknown)}")
    return used


def _list(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _gpus(gres: str) -> dict[str, int]:
    """``gpu:v100:4(S:0-1),gpu:a100:2,nvme:1`` or ``gpu:v100:1(IDX:0,2)`` as GPUs by kind."""
    counts: dict[str, int] = {}
    for part in re.sub(r"\((?!null\))[^()]*\)", "", gres).split(","):
        found = re.fullmatch(r"gpu(?::([^:]+))?:(\d+)", part)
        if found:
            kind = "" if found[1] in (None, "(null)") else found[1]
            counts[kind] = counts.get(kind, 0) + int(found[2])
        elif re.match(r"gpu\b", part):
            raise ValueError(f"GPUs are written as {part!r}")
    return counts


@dataclass(frozen=True)
class Partition:
    """One partition; ``state`` in lower case ("up", "down", "drain", "inactive"); no limit is ``None``."""

    name: str
    state: str
    nodes: int
    time_limit_min: int | None
    is_hidden: bool
    is_default: bool

    @property
    def is_up(self) -> bool:
        """Jobs can start in it."""
        return self.state == "up"


def partitions_command() -> tuple[str, ...]:
    """List every partition, hidden ones too."""
    return ("scontrol", "--oneliner", "--all", "show", "partition")


def parse_partitions(stdout: str) -> Mapping[str, Partition]:
    """The partitions by name.

    Raises:
        SlurmUnavailable: something is not as asked for.
    """
    return {record.name: _partition(record) for record in records(stdout, "PartitionName")}


def _partition(record: Record) -> Partition:
    return Partition(
        name=record.name,
        state=record.matching("State", "[A-Z]+").lower(),
        nodes=record.number("TotalNodes"),
        time_limit_min=record.read("MaxTime", _minutes),
        is_hidden=record.matching("Hidden", "YES|NO") == "YES",
        is_default=record.matching("Default", "YES|NO") == "YES",
    )


def _minutes(limit: str) -> int | None:
    """``1-12:30:00`` and ``12:30:00`` in minutes; ``UNLIMITED`` is no limit."""
    if limit == "UNLIMITED":
        return None
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", limit)
    if not found:
        raise ValueError(f"a time limit is written as {limit!r}")
    days, hours, minutes, _ = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes


@dataclass(frozen=True)
class Reservation:
    """One reservation: from when to when, of which nodes. Times have their zone."""

    name: str
    starts_at: datetime
    ends_at: datetime
    nodes: frozenset[str]
    is_maintenance: bool


def reservations_command() -> tuple[str, ...]:
    """List every reservation."""
    return ("scontrol", "--oneliner", "--all", "show", "reservation")


def parse_reservations(stdout: str) -> Mapping[str, Reservation]:
    """The reservations by name; where there are none scontrol says so.

    Raises:
        SlurmUnavailable: something is not as asked for.
    """
    if stdout.strip() == "No reservations in the system":
        return {}
    return {record.name: _reservation(record) for record in records(stdout, "ReservationName")}


def _reservation(record: Record) -> Reservation:
    return Reservation(
        name=record.name,
        starts_at=record.read("StartTime", times.read),
        ends_at=record.read("EndTime", times.read),
        nodes=frozenset(record.read("Nodes", expand)),
        is_maintenance="MAINT" in record.text("Flags").split(","),
    )


def expand(hostlist: str) -> tuple[str, ...]:
    """The names in ``gn[01-03,08],login1``; none in ``(null)``. Raises ``ValueError`` for what is no such list."""
    if hostlist in ("", "(null)"):
        return ()
    if not re.fullmatch(r"(?:[\w.,-]|\[\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\])+", hostlist):
        raise ValueError(f"a list of nodes is written as {hostlist!r}")
    return tuple(name for part in re.split(r",(?![^\[]*\])", hostlist) for name in _names(part))


def _names(part: str) -> Iterator[str]:
    pieces = re.split(r"\[([\d,-]+)\]", part)  # every second one stood in brackets
    choices = [list(_numbers(piece)) if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return ("".join(chosen) for chosen in product(*choices))


def _numbers(ranges: str) -> Iterator[str]:
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{number:0{len(first)}}"
