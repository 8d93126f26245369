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
from portal.slurm.scontrol import Record, readable, records

# scontrol(1), NODE STATES. A state that is not here, such as one of a later Slurm, makes a node not usable.
_USABLE = {"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM"}
_OF_A_RESERVATION = {"RESERVED", "MAINTENANCE", "MAINT"}
# sinfo(1), NODE STATE CODES: some versions write these signs behind a state instead of a state of its own.
_SIGNS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


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
    def is_only_reserved(self) -> bool:
        """Nothing but a reservation keeps jobs from starting here now."""
        return not self.is_usable and self.states - _OF_A_RESERVATION <= _USABLE

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
    """The nodes by name. One that cannot be read is an unknown node; the others are what they are.

    Raises:
        SlurmUnavailable: no node can be read, or something stands there that is no node.
    """
    return {node.name: node for node in readable(records(stdout, "NodeName"), _node, _unknown)}


def _unknown(record: Record) -> Node:
    """A node that cannot be read; its partitions are kept: a session may run there, and its name is needed."""
    partitions = _list(record.fields.get("Partitions") or "")
    return Node(record.name, frozenset({"UNKNOWN"}), partitions, 0, 0, 0, 0, {}, {})


def _node(record: Record) -> Node:
    gpus = record.read("Gres", _gpus)
    return Node(
        name=record.name,
        states=record.read("State", _states),
        partitions=record.read("Partitions", _list) if "Partitions" in record else (),
        cores=record.number("CPUEfctv"),
        cores_used=record.number("CPUAlloc"),
        memory_mib=record.number("RealMemory") - (record.number("MemSpecLimit") if "MemSpecLimit" in record else 0),
        memory_used_mib=record.number("AllocMem"),
        gpus=gpus,
        gpus_used=_gpus_used(record, gpus),
        reason=record.reason(),
    )


def _states(text: str) -> frozenset[str]:
    """``IDLE+DRAIN``, or with signs behind them: ``DOWN*+DRAIN`` is ``DOWN``, ``NOT_RESPONDING`` and ``DRAIN``."""
    states = set()
    for part in text.split("+"):
        found = re.fullmatch(r"([A-Z_]+)([-*~#!%$@^]*)", part)
        if not found:
            raise ValueError(f"a node's state is written as {part!r}")
        states |= {found[1], *(_SIGNS[sign] for sign in found[2])}
    return frozenset(states)


def _gpus_used(record: Record, gpus: Mapping[str, int]) -> dict[str, int]:
    used = record.read("GresUsed", _gpus) if gpus else {}
    if unknown := {kind for kind, count in used.items() if count} - set(gpus):
        raise record.unreadable(f"GPUs in use of kinds that it does not have: {sorted(unknown)}")
    return used


def _list(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _gpus(gres: str) -> dict[str, int]:
    """``gpu:v100:4(S:0-1),gpu:a100:no_consume:2,nvme:1`` or ``gpu:v100:1(IDX:0,2)`` as GPUs by kind."""
    counts: dict[str, int] = {}
    for part in re.sub(r"\((?!null\))[^()]*\)", "", gres).split(","):
        found = re.fullmatch(r"gpu(?::(?!no_consume:)([^:]+))?(?::no_consume)?:(\d+)", part)
        if found:
            kind = "" if found[1] in (None, "(null)") else found[1]
            counts[kind] = counts.get(kind, 0) + int(found[2])
        elif re.match(r"gpu\b", part):
            raise ValueError(f"GPUs are written as {part!r}")
    return counts


@dataclass(frozen=True)
class Partition:
    """One partition; ``state`` in lower case ("up", "down", "drain", "inactive"); no limit is ``None``.

    ``allow_groups`` and ``allow_accounts`` are the only ones that may use it (``None`` = all), ``deny_accounts`` those
    that may not, ``allow_qos`` and ``deny_qos`` likewise: slurm.conf(5), AllowGroups and those below it.
    """

    name: str
    state: str
    nodes: int
    time_limit_min: int | None
    is_hidden: bool
    is_default: bool
    allow_groups: frozenset[str] | None = None
    allow_accounts: frozenset[str] | None = None
    deny_accounts: frozenset[str] = frozenset()
    allow_qos: frozenset[str] | None = None
    deny_qos: frozenset[str] = frozenset()

    @property
    def is_up(self) -> bool:
        """Jobs can start in it."""
        return self.state == "up"


def partitions_command() -> tuple[str, ...]:
    """List every partition, hidden ones too."""
    return ("scontrol", "--oneliner", "--all", "show", "partition")


def parse_partitions(stdout: str) -> Mapping[str, Partition]:
    """The partitions by name, without those that cannot be read.

    Raises:
        SlurmUnavailable: none can be read, or something stands there that is no partition.
    """
    return {one.name: one for one in readable(records(stdout, "PartitionName"), _partition)}


def _partition(record: Record) -> Partition:
    return Partition(
        name=record.name,
        state=record.matching("State", "[A-Z]+").lower(),
        nodes=record.number("TotalNodes"),
        time_limit_min=record.read("MaxTime", _minutes),
        is_hidden=record.matching("Hidden", "YES|NO") == "YES",
        is_default=record.matching("Default", "YES|NO") == "YES",
        allow_groups=_only(record, "AllowGroups"),
        allow_accounts=_only(record, "AllowAccounts"),
        deny_accounts=_only(record, "DenyAccounts") or frozenset(),
        allow_qos=_only(record, "AllowQos"),
        deny_qos=_only(record, "DenyQos") or frozenset(),
    )


def _only(record: Record, key: str) -> frozenset[str] | None:
    """The names of a list that limits who may come in; ``None`` for ``ALL``, or where there is no such list."""
    text = record.text(key) if key in record else "ALL"
    return None if text.upper() in ("ALL", "", "(NULL)") else frozenset(_list(text))


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
    """The reservations by name, without those that cannot be read; where there are none scontrol says so.

    Raises:
        SlurmUnavailable: none can be read, or something stands there that is no reservation.
    """
    if stdout.strip() == "No reservations in the system":
        return {}
    return {one.name: one for one in readable(records(stdout, "ReservationName"), _reservation)}


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
