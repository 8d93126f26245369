"""What to tell the person about a session: pure words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from portal.request import SessionRequest
from portal.site import Site
from portal.slurm import Job, JobEnd, Phase

# squeue(1), JOB REASON CODES, in words; others are shown as Slurm calls them.
_REASONS = {
    "Resources": "all fitting GPUs, cores or memory are in use",
    "Priority": "other jobs are ahead in the queue",
    "QOSMaxGRESPerUser": "you already use as many GPUs as one person may",
    "QOSMaxJobsPerUserLimit": "you already run as many jobs as one person may",
    "AssocGrpGRES": "your group already uses as many GPUs as it may",
    "ReqNodeNotAvail": "the nodes that would fit are down or reserved",
    "PartitionDown": "the partition is closed at the moment",
    "PartitionTimeLimit": "the hours asked for are more than the partition allows",
    "JobHeldAdmin": "an administrator holds the job",
    "BeginTime": "Slurm starts it again shortly",
    "Licenses": "a licence it needs is in use",
    "Reservation": "it waits for a reservation",
}

_ENDS = {
    "COMPLETED": "The session ended by itself.",
    "CANCELLED": "The session was cancelled.",
    "TIMEOUT": "The session used up its hours.",
    "OUT_OF_MEMORY": "The session used more memory than it had; ask for one GPU more, or load less at a time.",
    "NODE_FAIL": "The node of this session failed. Nothing you did; start again.",
    "PREEMPTED": "A job with a higher priority took the place of this session.",
    "FAILED": "The session's job failed",
    "BOOT_FAIL": "The node of this session did not start. Nothing you did; start again.",
    "DEADLINE": "The session could not start before its deadline.",
}


@dataclass(frozen=True)
class View:
    """One line of progress: how far (percent) and in words."""

    percent: int
    words: str


def submitted(request: SessionRequest, site: Site) -> str:
    """What was asked for, in one line."""
    gpus = {0: "no GPU", 1: "1 GPU"}.get(request.gpus, f"{request.gpus} GPUs")
    memory_gb = site.memory_mib(request.gpus) // 1024
    return (
        f"{gpus}, {site.cores(request.gpus)} cores, {memory_gb} GB for {request.hours} h"
        f" in the partition {request.partition}"
    )


def view(job: Job | None, stale_s: float = 0.0) -> View:
    """What happens now to a session that is starting."""
    if stale_s > 0:
        return View(20, f"Slurm has not answered for {stale_s:.0f} s; the session keeps its place.")
    if job is None:
        return View(10, "The job is handed to Slurm.")
    if job.phase is Phase.WAITING and job.state != "CONFIGURING":
        return View(20, _waiting(job))
    if job.phase is Phase.ENDED:
        return View(90, "The job has ended; its last words are being read.")
    return View(60, f"Job {job.id} runs on {job.node or 'its node'}; JupyterLab starts.")


def _waiting(job: Job) -> str:
    reason, _, details = job.reason.partition(",")
    words = _REASONS.get(reason, f"Slurm's reason: {job.reason}" if job.reason else "Slurm is looking for a place")
    named = f" ({details.strip()})" if details else ""
    start = f" Expected start: {job.starts_at:%H:%M}, at the earliest." if _later(job) else ""
    return f"Job {job.id} waits: {words}{named}.{start}"


def _later(job: Job) -> bool:
    return bool(job.starts_at and job.submitted_at and job.starts_at > job.submitted_at)


def ended(end: JobEnd, log_tail: str = "") -> str:
    """Why a session ended, in one sentence; for a failure with the exit code."""
    words = _ENDS.get(end.state, f"The session ended with Slurm's state {end.state}.")
    if end.state != "FAILED":
        return words
    code, _, signal = end.exit_code.partition(":")
    how = f"by signal {signal}" if signal not in ("", "0") else f"with exit code {code or 'unknown'}"
    advice = " Its last lines are below." if log_tail else " It wrote no log: is your home full?"
    return f"{words} {how}.{advice}"


def time_limit(job: Job) -> datetime | None:
    """When a running session ends at the latest."""
    return job.ends_at if job.phase is Phase.RUNNING else None
