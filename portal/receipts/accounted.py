"""What accounting (slurmdbd) says that jobs used: the command for many of them, and its answer as receipts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from portal.history.receipt import Receipt

# None of them is a text of the job's owner, which could hold a separator or a newline. JobIDRaw has 22.05 as well as
# 25.11; TRESUsageInMax is from 18.08 on, and what a version does not know is left out (:func:`unknown_column`).
COLUMNS = (
    "JobIDRaw",
    "End",
    "ElapsedRaw",
    "AllocTRES",
    "TotalCPU",
    "NTasks",
    "MaxRSS",
    "TRESUsageInMax",
    "ConsumedEnergyRaw",
)
NEEDED = frozenset(COLUMNS[:4])
_OWN_STEPS = ("batch", "extern")  # those that Slurm makes of each session
_ID = re.compile(r"(\d{1,12})(?:\.(\w+))?\Z")
_TIME = re.compile(r"(?:(?:(\d{1,6})-)?(\d{1,6}):)?(\d{1,6}):(\d\d)(?:\.(\d{1,9}))?\Z")
_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,9})?)([KMGTPE]?)\Z")
_UNKNOWN = re.compile(r'Invalid field requested: "(\w+)"')
_MOST_J = 10**15  # more is no count: Slurm prints what is not known as a number near 2 to the 64th


@dataclass(frozen=True)
class Accounted:
    """One job in accounting.

    Attributes:
        receipt: what it used so far.
        counts_gpus: whether accounting counts GPUs here (``AccountingStorageTRES``, slurm.conf(5)).
        is_over: all its runs have ended.
        is_settled: so have all their steps: nothing more will come.
    """

    receipt: Receipt
    counts_gpus: bool
    is_over: bool
    is_settled: bool


@dataclass
class _Lines:
    """The lines of one job: its runs, and their steps."""

    runs: list[Mapping[str, str]] = field(default_factory=list)
    steps: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)


def command(jobs: Mapping[str, str], columns: Sequence[str], *, is_bare: bool = False) -> tuple[str, ...]:
    """Ask what jobs used, with all their runs and steps. Source: sacct(1); the same from 22.05 to 25.11.

    Arguments:
        jobs: the name of each job by its number: a number that is another job's by now is not told.
        is_bare: without steps, and with the last run alone: one line of each job, however many it has.
    """
    return (
        "sacct",
        "--noheader",
        "--parsable2",
        "--allocations" if is_bare else "--duplicates",
        f"--jobs={','.join(jobs)}",
        f"--name={','.join(jobs.values())}",
        f"--format={','.join(columns)}",
    )


def unknown_column(said: str, columns: Sequence[str]) -> str:
    """The column that this version of Slurm does not know, by its refusal; ``""`` where that is not why."""
    found = _UNKNOWN.search(said)
    named = found[1].lower() if found else ""
    return next((column for column in columns if column.lower() == named and column not in NEEDED), "")


def parse(stdout: str, columns: Sequence[str]) -> dict[str, Accounted]:
    """What each job used, by number. A line that is not as asked for is passed over: it is nobody's receipt."""
    jobs: dict[str, _Lines] = {}
    for line in stdout.split("\n"):
        values = line.split("|")
        found = _ID.match(values[0])
        if len(values) != len(columns) or not found:
            continue
        lines = jobs.setdefault(found[1], _Lines())
        row = dict(zip(columns, values, strict=True))
        if found[2]:
            lines.steps.append((found[2], row))
        else:
            lines.runs.append(row)
    return {number: _accounted(lines) for number, lines in jobs.items() if lines.runs}


def _accounted(lines: _Lines) -> Accounted:
    granted = next((tres for run in reversed(lines.runs) if (tres := _tres(run["AllocTRES"]))), {})
    steps = [row for _, row in lines.steps]
    usage = [_tres(row.get("TRESUsageInMax", "")) for row in steps]
    receipt = Receipt(
        seconds=sum(_whole(run["ElapsedRaw"]) for run in lines.runs),
        cores=_whole(granted.get("cpu", "")),
        gpus=_gpus(granted),
        memory_mib=_mib(granted.get("mem", "")) or 0,
        cpu_s=sum(seconds(row.get("TotalCPU", "")) for row in steps) or None,
        # the first look at a job comes after half a minute, and one that is over before has a 0 that nobody measured
        memory_peak_mib=max((_mib(row.get("MaxRSS", "")) or 0 for row in steps), default=0) or None,
        gpu_busy_percent=max((_whole(one["gres/gpuutil"]) for one in usage if "gres/gpuutil" in one), default=None),
        gpu_memory_peak_mib=max((_mib(one["gres/gpumem"]) or 0 for one in usage if "gres/gpumem" in one), default=None),
        energy_j=_energy(lines),
        has_steps=any(name not in _OWN_STEPS or _whole(row.get("NTasks", "")) > 1 for name, row in lines.steps),
    )
    is_over = all(_is_moment(run["End"]) for run in lines.runs)
    is_settled = is_over and all(_is_moment(row["End"]) for row in steps)
    return Accounted(receipt, any(name.startswith("gres/") for name in granted), is_over, is_settled)


def with_gpus(found: Accounted, asked: int) -> Receipt:
    """The receipt; where accounting counts no GPUs, with those that were asked for: a session gets exactly those."""
    return found.receipt if found.counts_gpus else replace(found.receipt, gpus=asked)


def seconds(time: str) -> float:
    """``[DD-[HH:]]MM:SS[.mmm]`` in seconds; 0 of anything else."""
    found = _TIME.match(time)
    if not found:
        return 0.0
    days, hours, minutes, rest = (int(part or 0) for part in found.groups()[:4])
    return days * 86_400 + hours * 3600 + minutes * 60 + rest + float(f"0.{found[5] or 0}")


def _tres(text: str) -> dict[str, str]:
    """``cpu=4,gres/gpu=2,mem=96G`` by name."""
    return {name: value for name, _, value in (part.partition("=") for part in text.split(",")) if value}


def _gpus(granted: Mapping[str, str]) -> int:
    if "gres/gpu" in granted:
        return _whole(granted["gres/gpu"])
    return sum(_whole(value) for name, value in granted.items() if name.startswith("gres/gpu:"))


def _energy(lines: _Lines) -> int | None:
    """That of the job where it is told, which is that of its steps together; 0 is what nobody has counted."""
    rows: Iterable[Mapping[str, str]] = lines.runs
    found = sum(_joules(row) for row in rows) or sum(_joules(row) for _, row in lines.steps)
    return found or None


def _joules(row: Mapping[str, str]) -> int:
    count = _whole(row.get("ConsumedEnergyRaw", ""))
    return count if count < _MOST_J else 0


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= 20 else 0


def _mib(size: str) -> int | None:
    """``388K`` in MiB, rounded up; Slurm's K is 1024. A number alone is bytes."""
    found = _SIZE.match(size)
    if not found:
        return None
    count = float(found[1]) * 1024 ** (" KMGTPE".index(found[2]) if found[2] else 0)
    return int(-(-count // 1024**2))


def _is_moment(text: str) -> bool:
    return text[:1].isdigit()
