"""What a session used, as Slurm's accounting has it: figures, and the words for them. Pure.

What was not measured is ``None``, and is said to be so: it is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from portal.language import amounts
from portal.language.texts import N_, _

HOUR_S = 3600
KWH_J = 3_600_000
NOT_MEASURED = N_("not measured")


@dataclass(frozen=True)
class Receipt:
    """What one session used, in all runs of its job.

    Attributes:
        seconds: how long it had its node.
        cores: what it had there, with ``memory_mib`` and ``gpus``; of memory 0 is not known.
        cpu_s: the CPU time of all its processes.
        memory_peak_mib: the most memory that was seen at once.
        gpu_busy_percent: the most that was seen of all its GPUs together: 100 is one GPU that is busy.
        gpu_memory_peak_mib: the most memory of its GPUs that was seen at once, all together.
        energy_j: by Slurm's count, which is that of the whole node.
        has_steps: it has started steps of its own (``srun``): the three peaks are those of the largest task alone.
    """

    seconds: int = 0
    cores: int = 0
    gpus: int = 0
    memory_mib: int = 0
    cpu_s: float | None = None
    memory_peak_mib: int | None = None
    gpu_busy_percent: int | None = None
    gpu_memory_peak_mib: int | None = None
    energy_j: int | None = None
    has_steps: bool = False

    @classmethod
    def from_json(cls, saved: object) -> Receipt | None:
        """What :func:`dataclasses.asdict` made, in this version, one before it or one after it."""
        if not isinstance(saved, Mapping):
            return None
        return cls(**{one.name: saved[one.name] for one in fields(cls) if one.name in saved})

    @property
    def gpu_hours(self) -> float:
        """The hours of each GPU that it had, used or not."""
        return self.gpus * self.seconds / HOUR_S

    @property
    def core_hours(self) -> float:
        """The same of cores."""
        return self.cores * self.seconds / HOUR_S

    @property
    def cores_busy(self) -> float | None:
        """How many of its cores were busy on average."""
        return self.cpu_s / self.seconds if self.cpu_s is not None and self.seconds else None

    def as_json(self) -> dict[str, Any]:
        """What the REST API says of it."""
        hours = {"gpu_hours": round(self.gpu_hours, 3), "core_hours": round(self.core_hours, 3)}
        busy = None if self.cores_busy is None else round(self.cores_busy, 3)
        return {**asdict(self), **hours, "cores_busy": busy}


def words(receipt: Receipt) -> Iterator[tuple[str, str]]:
    """The receipt as a page has it: what each figure is called, and the figure."""
    if receipt.gpus:
        yield _("GPU-hours"), hours(receipt.gpu_hours)
        yield _("GPUs busy"), _gpus_busy(receipt)
        if receipt.gpu_memory_peak_mib:
            yield _("GPU memory"), _("at most {most}").format(most=gb(receipt.gpu_memory_peak_mib)) + _in_task(receipt)
    yield _("Core-hours"), hours(receipt.core_hours)
    yield _("Cores busy"), _cores_busy(receipt)
    yield _("Memory"), _memory(receipt)
    if receipt.energy_j:
        yield _("Energy of the node"), energy(receipt.energy_j)


def hours(count: float) -> str:
    """``0.05``, ``3.2``, ``1,240``."""
    return amounts.figure(f"{count:.2f}" if count < 1 else f"{count:.1f}" if count < 100 else f"{count:,.0f}")


def gb(memory_mib: float) -> str:
    """``0.4 GB``, ``12 GB``."""
    return amounts.figure(f"{memory_mib / 1024:.1f} GB" if memory_mib < 10 * 1024 else f"{memory_mib / 1024:.0f} GB")


def energy(joules: float) -> str:
    """``350 Wh``, ``1.2 kWh``."""
    return amounts.figure(f"{joules / KWH_J:.1f} kWh") if joules >= KWH_J else f"{joules * 1000 / KWH_J:.0f} Wh"


def _gpus_busy(receipt: Receipt) -> str:
    percent = receipt.gpu_busy_percent
    if percent is None:
        return _(NOT_MEASURED)
    if percent == 0:
        return _("no work was seen")
    whole = _("at most {percent} % of {all} %").format(percent=percent, all=receipt.gpus * 100)
    return (whole if receipt.gpus > 1 else _("at most {most}").format(most=f"{percent} %")) + _in_task(receipt)


def _cores_busy(receipt: Receipt) -> str:
    busy = receipt.cores_busy
    if busy is None or not receipt.cores:
        return _(NOT_MEASURED)
    percent = 100 * busy / receipt.cores
    words = _("{percent} % on average").format(percent=math.floor(percent + 0.5))
    return _("less than 1 % on average") if percent < 1 else words


def _memory(receipt: Receipt) -> str:
    if receipt.memory_peak_mib is None:
        return _(NOT_MEASURED)
    peak = gb(receipt.memory_peak_mib)
    whole = _("at most {most} of {all}").format(most=peak, all=gb(receipt.memory_mib))
    return (whole if receipt.memory_mib else _("at most {most}").format(most=peak)) + _in_task(receipt)


def _in_task(receipt: Receipt) -> str:
    return _(" in one task") if receipt.has_steps else ""
