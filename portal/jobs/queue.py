"""The jobs of one person: Slurm's commands for them beside their parsers.

A person's own jobs may have any name, in several lines too. A name stands last on its line, and what is no job's line
belongs to a name: the most that it can do is to make up a job in its owner's own list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from portal.errors import RequestError, SlurmUnavailable
from portal.slurm.jobs import COLUMNS, Job, Phase, parse_squeue, phase_of, squeue_command
from portal.slurm.submission import JOB_NAME_PREFIX

JOB_ID = re.compile(r"\d{1,12}(_\d{1,9})?\Z", re.ASCII)
_SESSION = re.compile(rf"{JOB_NAME_PREFIX}[0-9a-f]{{16}}\Z")
_ENDED = re.compile(r"(\d+(?:_\d+)?)\|([A-Z_]+)(?: by \S+)?\|(\d+):(\d+)\Z", re.ASCII)
_NO_TASK = "4294967294"  # NO_VAL of slurm.h
_STATUS = re.compile(r"^   JobState=([A-Z_]+) .*?^   .*?ExitCode=(\d+):(\d+)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Listed:
    """A job of the queue, and what its owner calls it."""

    job: Job
    name: str


@dataclass(frozen=True)
class OwnJobEnd:
    """How a job ended: Slurm's state, exit status and signal."""

    state: str
    status: int = 0
    signal: int = 0


def checked_id(text: str) -> str:
    """The id of a job, or of one task of an array.

    Raises:
        RequestError: it is none.
    """
    if not JOB_ID.match(text):
        raise RequestError("job", text, "the number of a job, such as 4711, or 4711_2 for a task of an array")
    return text


def own_jobs_command(uid: int) -> tuple[str, ...]:
    """List the jobs of one person, ended ones included as long as slurmctld keeps them."""
    return (*squeue_command()[:-1], f"--user={uid}", f"--format={COLUMNS}%j")


def parse_own_jobs(stdout: str) -> dict[str, Listed]:
    """A person's jobs by id, without her sessions.

    Raises:
        SlurmUnavailable: the first line is not as asked for.
    """
    found: dict[str, Listed] = {}
    for number, line in enumerate(stdout.splitlines()):
        head, mark, name = line.strip().partition("|=")
        try:
            jobs = parse_squeue(head + mark)
        except SlurmUnavailable:
            if not number:
                raise
            continue
        found |= {job_id: Listed(job, name) for job_id, job in jobs.items() if not _SESSION.match(name)}
    return found


def ended_command(job_ids: Iterable[str]) -> tuple[str, ...]:
    """Ask accounting how jobs ended that slurmctld has forgotten."""
    options = ("--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode")
    return ("sacct", *options, f"--jobs={','.join(job_ids)}")


def parse_ended(stdout: str) -> dict[str, OwnJobEnd]:
    """The jobs that have ended, by id; the tasks of an array each by its own."""
    rows = (_ENDED.match(line.strip()) for line in stdout.splitlines())
    found = {row[1]: OwnJobEnd(row[2], int(row[3]), int(row[4])) for row in rows if row}
    return {job_id: end for job_id, end in found.items() if phase_of(end.state) is Phase.ENDED}


def show_command(job_id: str) -> tuple[str, ...]:
    """Ask slurmctld for one job, in lines."""
    return ("scontrol", "show", "job", job_id)


def parse_log(stdout: str, uid: int) -> str:
    """The path of a job's log; "" when it is not this person's, or has none.

    For an array that has not begun Slurm 22.05 shows the largest number, which stands for none, as the task's.
    """
    if not re.search(rf"^   UserId=[^(]*\({uid}\) ", stdout, re.MULTILINE):
        return ""
    found = re.search(r"^   StdOut=(/.*)$", stdout, re.MULTILINE)
    return found[1].replace(_NO_TASK, "%a") if found else ""


def parse_status(stdout: str) -> OwnJobEnd | None:
    """How a job ended, as slurmctld knows it for some minutes; None while it has not."""
    found = _STATUS.search(stdout)
    if not found or phase_of(found[1]) is not Phase.ENDED:
        return None
    return OwnJobEnd(found[1], int(found[2]), int(found[3]))


def cancel_command(job_id: str) -> tuple[str, ...]:
    """Cancel a job; Slurm lets a person cancel only her own."""
    return ("scancel", job_id)
