"""A job in the words of the portal. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from portal.jobs.notes import Note
from portal.jobs.queue import Listed, OwnJobEnd
from portal.jobs.reasons import waiting
from portal.jobs.submit import filled_in
from portal.slurm.jobs import Phase

_ENDS = {
    "COMPLETED": "done",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
    "TIMEOUT": "its hours were used up before it was done: give it more with --hours",
    "OUT_OF_MEMORY": "it used more memory than it had: give it more with --memory-gb",
    "NODE_FAIL": "its node failed: submit it again",
    "PREEMPTED": "a job with a higher priority took its place: submit it again",
    "BOOT_FAIL": "its node did not start: submit it again",
    "DEADLINE": "it could not start before its deadline",
}
_OWN = {"BeginTime": "it was put off until then"}  # a session's job never is
_RUNNING = {"COMPLETING": "is ending", "SUSPENDED": "is paused", "STOPPED": "is paused"}
LASTING = "This does not end by itself: cancel it and choose otherwise, or ask your administrator."


@dataclass(frozen=True)
class JobView:
    """One job as a person sees it.

    Attributes:
        state: Slurm's word; "" where Slurm has forgotten the job and no accounting knows it.
        phase: waiting, running, ended or unknown.
        words: state and reason in one line.
        starts_at: when Slurm plans to start a job that waits, or has started one that runs.
        file, output, log: whole paths; "" = there is none, or it is not known here.
    """

    id: str
    name: str
    state: str
    phase: Phase
    words: str
    partition: str = ""
    reason: str = ""
    submitted_at: datetime | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    file: str = ""
    output: str = ""
    log: str = ""

    def as_json(self) -> dict[str, object]:
        """The same, times as ISO 8601 or null."""
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in vars(self).items()}


def view_of(listed: Listed, note: Note | None, end: OwnJobEnd | None = None) -> JobView:
    """A job that the queue shows, with what is remembered of it."""
    job = listed.job
    return JobView(
        id=job.id,
        name=listed.name,
        state=job.state,
        phase=job.phase,
        words=_words(listed, end),
        partition=job.partition,
        reason=job.reason,
        submitted_at=job.submitted_at,
        starts_at=job.starts_at,
        ends_at=None if job.phase is Phase.WAITING else job.ends_at,
        **_files(job.id, note),
    )


def remembered(job_id: str, note: Note, end: OwnJobEnd | None) -> JobView:
    """A job that only notes and accounting know."""
    return JobView(
        id=job_id,
        name=note.name,
        state=end.state if end else "",
        phase=Phase.ENDED,
        words=ended(end) if end else "ended; Slurm has forgotten how",
        submitted_at=datetime.fromtimestamp(note.submitted_at, UTC),
        **_files(job_id, note),
    )


def ended(end: OwnJobEnd) -> str:
    """How a job ended."""
    words = _ENDS.get(end.state, f"ended ({end.state})")
    if end.signal:
        return f"{words} by signal {end.signal}" if end.state == "FAILED" else words
    return f"{words} with exit status {end.status}" if end.state == "FAILED" and end.status else words


def _words(listed: Listed, end: OwnJobEnd | None) -> str:
    job = listed.job
    if job.phase is Phase.RUNNING:
        return f"{_RUNNING.get(job.state, 'runs')} on {job.node}" if job.node else _RUNNING.get(job.state, "runs")
    if job.phase is Phase.ENDED:
        return ended(end or OwnJobEnd(job.state))
    if job.phase is Phase.UNKNOWN:
        return f"Slurm's state: {job.state}"
    why = waiting(job.reason)
    text = _OWN.get(job.reason, why.text)
    return f"waits: {text}. {LASTING}" if why.is_lasting else f"waits: {text}"


def _files(job_id: str, note: Note | None) -> dict[str, Any]:
    """Of a whole array, several of whose tasks one line of squeue shows, no file is the one."""
    if note is None:
        return {}
    task = job_id.partition("_")[2]
    is_one = task.isdecimal() or "%a" not in note.log
    patterns = {"output": note.output, "log": note.log}
    return {"file": note.file} | {name: filled_in(text, job_id) for name, text in patterns.items() if text and is_one}
