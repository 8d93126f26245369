"""How a job ended: what slurmctld says of it, then what accounting (slurmdbd) does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from portal.slurm import times
from portal.slurm.jobs import SLUID, Phase, SessionJob, identify, owner, phase_of
from portal.slurm.runner import name_of, uid_of


@dataclass(frozen=True)
class JobTimes:
    """Where a job ran, and when: in seconds since 1970 on slurmctld's clock, 0 where it does not say."""

    node: str = ""
    submitted: int = 0
    started: int = 0
    ended: int = 0


@dataclass(frozen=True)
class JobEnd:
    """How a job ended: its final state, and exit code and signal as Slurm gives them ("1:0").

    ``cancelled_by`` is the number of the account that cancelled it (only accounting knows it), ``reason`` is Slurm's
    own ("OutOfMemory", "RaisedSignal:11(Segmentation fault)"; only slurmctld knows it). ``times`` say when, not how:
    two ends that differ in nothing else are the same.
    """

    state: str
    exit_code: str = ""
    cancelled_by: str = ""
    reason: str = ""
    times: JobTimes = field(default=JobTimes(), compare=False)


FORGOTTEN = JobEnd("FORGOTTEN")  # no state of Slurm's: it has given the job's number to another job


# Up to the exit code only the name is a text of the owner; here it must be one word, as the names of our jobs are.
_SHOWN = re.compile(
    rf"JobId=\d+ (?:\w+=\S* )*?JobName=\S* {SLUID}UserId=\S+ "
    r"(?:.*? )??JobState=([A-Z_]+) Reason=(\S*) (?:.*? )??ExitCode=(\d+:\d+)"
)
_T = f"({times.PATTERN})"
_TIMES = re.compile(rf".*? SubmitTime={_T} (?:.*? )??StartTime={_T} EndTime={_T} ")
_NODE = re.compile(r" NodeList=(\S+)")
_ACCOUNTED = re.compile(r"([A-Z_]+)(?: by (\S+))?\|(\d+:\d+)(?:\|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|([^|\n]*))?")


def parse_show_job(stdout: str) -> JobEnd | None:
    """How the job ended; ``None`` while it has not, or when that cannot be read. Only for our own jobs."""
    shown = _SHOWN.match(stdout)
    if not shown or phase_of(shown[1]) is not Phase.ENDED:
        return None
    reason = "" if shown[2] == "None" else shown[2].replace("_", " ")
    rest = stdout[shown.end() :]
    moments = _TIMES.match(rest)
    node = _NODE.search(rest)
    return JobEnd(
        shown[1], shown[3], reason=reason, times=_times(moments.groups() if moments else (), node and node[1])
    )


def _times(moments: Sequence[str | None], node: str | None) -> JobTimes:
    """Submission, start and end; of a job that got no node Slurm calls the end its start, too."""
    submitted, started, ended = (_seconds(moment or "") for moment in moments or ("", "", ""))
    if not node or " " in node or node == "(null)":
        return JobTimes("", submitted, 0, ended)
    return JobTimes(node, submitted, started, ended)


def _seconds(moment: str) -> int:
    try:
        found = times.read_if_any(moment)
    except ValueError:
        return 0
    return int(found.timestamp()) if found else 0


def sacct_command(job_id: str) -> tuple[str, ...]:
    """Ask accounting how a job ended; it also knows jobs that slurmctld has forgotten."""
    return (
        "sacct",
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--jobs={job_id}",
        "--format=State,ExitCode,Submit,Start,End,NodeList",
    )


def parse_sacct(stdout: str) -> JobEnd | None:
    """How the job ended; ``None`` when accounting does not know an end, or its answer cannot be read."""
    found = _ACCOUNTED.fullmatch(stdout.strip())
    if not found or phase_of(found[1]) is not Phase.ENDED:
        return None
    return JobEnd(found[1], found[3], found[2] or "", times=_times(found.groups()[3:6], found[7]))


async def with_name(end: JobEnd) -> JobEnd:
    """``end`` with the name of who cancelled the job: accounting knows a number."""
    if not end.cancelled_by.isdigit():
        return end
    return replace(end, cancelled_by=await name_of(int(end.cancelled_by)) or end.cancelled_by)


async def is_ours(shown: str, job: SessionJob) -> bool | None:
    """Whether slurmctld shows this session's job, by name and owner: :func:`portal.slurm.jobs.identify`.

    Where Slurm spells the owner otherwise than the portal, the number of the account decides.
    """
    is_ours = identify(shown, job)
    number = owner(shown, job) if is_ours is None else None
    if number is None:
        return is_ours
    known = await uid_of(job.user)
    return None if known is None else known == number
