"""How a :class:`~portal.testing.fake_slurm.FakeSlurm` prints what accounting has of a job, and of its step: as sacct
22.05.8 does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from portal.testing import output
from portal.testing.behaviours import Status
from portal.testing.cluster_parts import FakeJob

COLUMNS = (
    "JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "NodeList", "ElapsedRaw", "AllocTRES", "TotalCPU",
    "NTasks", "MaxRSS", "TRESUsageInMax", "ConsumedEnergyRaw",
)  # fmt: skip


def job_line(job: FakeJob, status: Status, columns: Sequence[str], now: datetime) -> str:
    """One line of ``sacct --parsable2``: it has who cancelled, and no signal of Slurm's own (recorded: sacct-PX)."""
    state = _state(status)
    by = f" by {status.cancelled_by}" if status.cancelled_by else ""
    told = _told(job, status, now)
    code = "0:0" if state in ("CANCELLED", "TIMEOUT", "PREEMPTED") else status.exit_code
    of_job = {"JobIDRaw": job.id, "State": f"{state}{by}", "ExitCode": code}
    return _line({**told, **of_job}, columns) if state else ""


def step_line(job: FakeJob, status: Status, columns: Sequence[str], now: datetime) -> str:
    """The line of its batch step (recorded: sacct-P); a job that never ran has none, one that vanished no usage."""
    state = _state(status)
    if not state or not status.run:
        return ""
    used = job.usage
    usage = [f"cpu={_time(used.cpu_s)}", "energy=0", "fs/disk=5292"]
    usage += [f"gres/gpumem={used.gpu_memory_mib}M"] if used.gpu_memory_mib is not None else []
    usage += [f"gres/gpuutil={used.gpu_percent}"] if used.gpu_percent is not None else []
    usage += [f"mem={used.memory_kib}K", "pages=0", f"vmem={used.memory_kib}K"]
    of_step = {
        "JobIDRaw": f"{job.id}.batch",
        "State": "CANCELLED" if state in ("CANCELLED", "TIMEOUT", "PREEMPTED") else state,
        "ExitCode": status.exit_code,
        "TotalCPU": _time(used.cpu_s),
        "NTasks": "1",
        "MaxRSS": f"{used.memory_kib}K" if used.memory_kib else "0",
        "TRESUsageInMax": ",".join(usage),
    }
    return _line({**_told(job, status, now), **of_step}, columns)


def _state(status: Status) -> str:
    return status.state if status.accounted is None else status.accounted


def _told(job: FakeJob, status: Status, now: datetime) -> dict[str, str]:
    """What a job and its steps have in common."""
    starts, _ = output.times(job, status)
    ends = job.when(status.ended_s)
    ran = bool(status.run and starts)
    elapsed = max(0, int(((ends or now) - starts).total_seconds())) if ran and starts else 0
    return {
        "Submit": output.moment(job.when(status.submitted_s), "Unknown"),
        "Start": output.moment(starts, "Unknown"),
        "End": output.moment(ends, "Unknown"),
        "NodeList": job.node(status) or "None assigned",
        "ElapsedRaw": str(elapsed),
        "AllocTRES": output.tres([job], node=1) if ran else "",
        "TotalCPU": _time(job.usage.cpu_s) if ran else "00:00:00",
        "ConsumedEnergyRaw": str(job.usage.energy_j) if job.usage.energy_j else "",
    }


def _line(texts: Mapping[str, str], columns: Sequence[str]) -> str:
    return "|".join(texts.get(column, "") for column in columns) + "\n"


def _time(seconds: float) -> str:
    """``00:00.002``, ``01:02:03``, ``1-02:03:04``."""
    if seconds < 3600:
        return f"{int(seconds) // 60:02}:{seconds % 60:06.3f}"
    days, rest = divmod(int(seconds), 86_400)
    return f"{f'{days}-' if days else ''}{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
