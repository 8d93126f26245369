"""The queue: Slurm's commands for jobs and their answers, as values. Each command builder stands beside its parser.

Parsers raise :class:`~portal.errors.SlurmUnavailable` on anything they do not understand: a guess about a
job can cost somebody's session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from portal.errors import SlurmUnavailable
from portal.language.texts import N_
from portal.slurm import times
from portal.slurm.submission import JOB_NAME_PREFIX, KEY_LENGTH, job_name


class Phase(StrEnum):
    """What a job state means for a session."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"  # a state that is not in squeue(1) as we know it: never taken for an end


# squeue(1), JOB STATE CODES; the same in 22.05 and 25.11.
_PHASES = {
    Phase.WAITING: "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD",
    Phase.RUNNING: "RUNNING COMPLETING SUSPENDED STOPPED RESIZING SIGNALING STAGE_OUT POWER_UP_NODE UPDATE_DB",
    Phase.ENDED: (
        "COMPLETED CANCELLED FAILED TIMEOUT OUT_OF_MEMORY NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE REVOKED"
        " LAUNCH_FAILED RECONFIG_FAIL"
    ),
}
_PHASE_OF = {state: phase for phase, states in _PHASES.items() for state in states.split()}


def phase_of(state: str) -> Phase:
    """What a state means for a session."""
    return _PHASE_OF.get(state, Phase.UNKNOWN)


@dataclass(frozen=True)
class Job:
    """One job as the queue shows it. Times have their zone.

    While a job waits, ``starts_at`` is when Slurm plans to start it. Priority 0 is a job that is held.
    """

    id: str
    state: str
    partition: str
    user: str
    node: str = ""
    reason: str = ""
    submitted_at: datetime | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    priority: int = 0

    @property
    def partitions(self) -> tuple[str, ...]:
        """A waiting job may name several partitions and starts in one of them."""
        return tuple(self.partition.split(","))

    @property
    def phase(self) -> Phase:
        """What the job's state means for a session."""
        return phase_of(self.state)


# None of these columns can hold the separator or a newline: ids, states, names of partitions, users, nodes, times and
# numbers. The reason may hold blanks and commas. The sign at the end tells a whole line from one that was cut off.
# Names, comments and GPUs asked for (%b) are texts of the job's owner, and Slurm 22.05 was seen to print newlines in
# each of them: they are never listed.
COLUMNS = "%i|%T|%P|%u|%N|%V|%S|%e|%Q|%r|="
_TIME = f"({times.PATTERN})"
_LINE = re.compile(
    r"(\d+(?:_\S+|\+\d+)?)\|([A-Z_]+)\|([^|\s]+)\|([^|]+)\|([^|\s]*)"
    rf"\|{_TIME}\|{_TIME}\|{_TIME}\|(\d+)\|([^|]*)\|="
)


def squeue_command() -> tuple[str, ...]:
    """List the whole queue, ended jobs included as long as Slurm keeps them (``MinJobAge``)."""
    return ("squeue", "--noheader", "--all", "--states=all", f"--format={COLUMNS}")


def parse_squeue(stdout: str) -> Mapping[str, Job]:
    """The jobs of a queue listing by id.

    Raises:
        SlurmUnavailable: a line that is not as asked for.
    """
    jobs: dict[str, Job] = {}
    for printed in stdout.split("\n"):
        line = printed.strip()
        if not line:
            continue
        job = _job(line)
        if job.id in jobs:
            raise unreadable(f"squeue printed {line[:200]!r}, a job that it had printed before")
        jobs[job.id] = job
    return jobs


def _job(line: str) -> Job:
    fields = _LINE.fullmatch(line)
    if not fields:
        raise unreadable(f"squeue printed {line[:200]!r}")
    job_id, state, partition, user, node, submitted, starts, ends, priority, reason = fields.groups()
    try:
        return Job(
            id=job_id,
            state=state,
            partition=partition,
            user=user,
            node=node,
            reason="" if reason == "None" else reason,
            submitted_at=times.read_if_any(submitted),
            starts_at=times.read_if_any(starts),
            ends_at=times.read_if_any(ends),
            priority=int(priority),
        )
    except ValueError as error:
        raise unreadable(f"squeue printed {line[:200]!r}") from error


def unreadable(detail: str) -> SlurmUnavailable:
    """The error for an answer that cannot be read, which ``detail`` shows."""
    return SlurmUnavailable(N_("Slurm's answer cannot be read just now; nothing is lost."), detail=detail)


def find_command(key: str) -> tuple[str, ...]:
    """Ask for the jobs that carry a session's key."""
    return ("squeue", "--noheader", "--all", f"--name={job_name(key)}", "--format=%i|%u")


def parse_find(stdout: str, person: str) -> str:
    """The id of the person's job, or ``""`` when none of hers carries the key: anybody may call a job like that.

    Raises:
        SlurmUnavailable: it cannot be read, or several jobs are hers.
    """
    rows = [line.strip().rpartition("|") for line in stdout.splitlines() if line.strip()]
    # A number stands for an account that the host of squeue does not know any more.
    hers = [job_id for job_id, _, user in rows if user == person or user.isdecimal()]
    is_whole = all(job_id and user for job_id, _, user in rows) and all(job_id.isdecimal() for job_id in hers)
    if not is_whole or len(hers) > 1:
        raise unreadable(f"squeue printed {stdout[:200]!r}")
    return "".join(hers)


@dataclass(frozen=True)
class SessionJob:
    """A job that carries a session's key."""

    id: str
    user: str
    key: str


def sessions_command() -> tuple[str, ...]:
    """List waiting and running jobs with their names, each cut to what a session's has (squeue(1), ``%.25j``).

    So no name has room for a line that looks like another job's session.
    """
    width = len(JOB_NAME_PREFIX) + KEY_LENGTH
    return ("squeue", "--noheader", "--all", f"--format=%i|%u|%.{width}j")


def parse_sessions(stdout: str, key_prefix: str) -> list[SessionJob]:
    """What looks like sessions whose key begins with ``key_prefix``.

    A job's name is its owner's text, may hold newlines, and may go on where it was cut off. So a line here is only a
    hint: ask :func:`show_job_command` before anything is done to the job.
    """
    if not re.fullmatch(r"[0-9a-f]{6}", key_prefix):
        raise ValueError(f"a hub's number is six hexadecimal digits, not {key_prefix!r}")
    pattern = re.compile(rf"(\d+)\|([^|\s]+)\|{JOB_NAME_PREFIX}({key_prefix}[0-9a-f]+)")
    found = (pattern.fullmatch(line.strip()) for line in stdout.splitlines())
    return [SessionJob(*match.groups()) for match in found if match and len(match[3]) == KEY_LENGTH]


def count_sessions(stdout: str) -> int:
    """How many lines of :func:`sessions_command` look like a session, of whatever hub."""
    return len(re.findall(rf"^\s*\d+\|[^|\s]+\|{JOB_NAME_PREFIX}[0-9a-f]{{{KEY_LENGTH}}}\s*$", stdout, re.MULTILINE))


SLUID = r"(?:SLUID=\w+ )?"  # 25.11 with --details has one more name here


def is_session(stdout: str, job: SessionJob) -> bool:
    """True when slurmctld itself says that this job has this name and this owner (``scontrol --oneliner show job``)."""
    start = rf"JobId={job.id} JobName={job_name(job.key)} {SLUID}UserId={re.escape(job.user)}\("
    return re.match(start, stdout) is not None and not _names_owner(stdout)


def _names_owner(stdout: str) -> bool:
    """True when a job's name may hold an owner: then the first one that is shown may be a text of the real one's."""
    return len(re.findall(r"\sUserId=", stdout)) > 1


def identify(stdout: str, job: SessionJob) -> bool | None:
    """Whether slurmctld's job of this number is this session's: by its name and owner; ``None`` = cannot be told.

    A right name with another owner is no answer: see :func:`owner`.
    """
    shown = re.match(rf"JobId={job.id} (?:\w+=\S* )*?JobName=(\S*)\s", stdout)
    if not shown:
        return None
    return True if is_session(stdout, job) else (None if shown[1] == job_name(job.key) else False)


def owner(stdout: str, job: SessionJob) -> int | None:
    """The number of the owner of a job with the session's name; ``None`` when the name is another one.

    The owner's name may be spelled otherwise than the portal's (``DOMAIN\\alice``), or be a number itself where the
    name service is silent.
    """
    named = rf"JobId={job.id} (?:\w+=\S* )*?JobName={job_name(job.key)} {SLUID}UserId=[^(]*\((\d+)\) "
    found = re.match(named, stdout)
    return int(found[1]) if found and not _names_owner(stdout) else None


def parse_restarts(stdout: str, job: SessionJob) -> int | None:
    """How often slurmctld has started this job anew; ``None`` when it is another job, or that cannot be read."""
    found = re.match(r"(?:.*? )??Requeue=\d Restarts=(\d+) ", stdout) if owner(stdout, job) is not None else None
    return int(found[1]) if found else None


def show_job_command(job_id: str) -> tuple[str, ...]:
    """Ask slurmctld for one job (it knows it until ``MinJobAge`` after its end)."""
    return ("scontrol", "--oneliner", "show", "job", job_id)


def ping_command() -> tuple[str, ...]:
    """Ask whether slurmctld is up: an empty queue is believed only with this answer."""
    return ("scontrol", "ping")


def parse_ping(stdout: str) -> bool:
    """True when a slurmctld is up: ``Slurmctld(primary) at head is UP``."""
    return re.search(r"\bis UP\b", stdout) is not None
