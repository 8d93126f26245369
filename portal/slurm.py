"""Slurm's commands and their answers, as values. Each command builder stands beside its reader.

Readers raise :class:`~portal.errors.SlurmUnavailable` on anything they do not understand: a guess about a
job can cost somebody's session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from portal.errors import SlurmUnavailable
from portal.script import JOB_NAME_PREFIX, KEY_LENGTH, job_name


class Phase(StrEnum):
    """What a job state means for a session."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"  # a state that is not in squeue(1) as we know it: never taken for an end


# squeue(1), JOB STATE CODES; the same words in 22.05 and 25.11.
_PHASES = {
    Phase.WAITING: "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD",
    Phase.RUNNING: "RUNNING COMPLETING SUSPENDED STOPPED RESIZING SIGNALING STAGE_OUT POWER_UP_NODE UPDATE_DB",
    Phase.ENDED: (
        "COMPLETED CANCELLED FAILED TIMEOUT OUT_OF_MEMORY NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE REVOKED"
        " LAUNCH_FAILED RECONFIG_FAIL"
    ),
}
_PHASE_OF = {state: phase for phase, states in _PHASES.items() for state in states.split()}


@dataclass(frozen=True)
class Job:
    """One job as the queue shows it. Times are local and without zone, as Slurm prints them."""

    id: str
    state: str
    partition: str
    user: str
    node: str = ""
    reason: str = ""
    submitted_at: datetime | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    @property
    def phase(self) -> Phase:
        """What the job's state means for a session."""
        return _PHASE_OF.get(self.state, Phase.UNKNOWN)


@dataclass(frozen=True)
class JobEnd:
    """How a job ended: its final state, and exit code and signal as Slurm gives them ("1:0")."""

    state: str
    exit_code: str = ""


# None of these columns can hold the separator: ids, states, names of partitions, users, nodes, and times.
# The reason may hold blanks and commas, so it comes last.
_COLUMNS = "%i|%T|%P|%u|%N|%V|%S|%e|%r"


def squeue_command() -> tuple[str, ...]:
    """List the whole queue, ended jobs included as long as Slurm keeps them (``MinJobAge``)."""
    return ("squeue", "--noheader", "--all", "--states=all", f"--format={_COLUMNS}")


def parse_squeue(stdout: str) -> Mapping[str, Job]:
    """The jobs of a queue listing by id.

    Raises:
        SlurmUnavailable: a line that is not as asked for.
    """
    jobs = (_job(line) for line in stdout.splitlines() if line.strip())
    return {job.id: job for job in jobs}


def _job(line: str) -> Job:
    fields = line.strip().split("|", 8)
    if len(fields) != 9 or not re.match(r"\d+(_\S+|\+\d+)?\Z", fields[0]) or not re.match(r"[A-Z_]+\Z", fields[1]):
        raise SlurmUnavailable(
            "Slurm's answer cannot be read just now; nothing is lost.",
            detail=f"squeue printed {line[:200]!r}",
        )
    job_id, state, partition, user, node, submitted, starts, ends, reason = fields
    times = (_time(submitted), _time(starts), _time(ends))
    return Job(job_id, state, partition, user, node, "" if reason == "None" else reason, *times)


def _time(text: str) -> datetime | None:
    """A time as Slurm prints it; ``N/A``, ``NONE`` and ``Unknown`` are no time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def find_command(key: str) -> tuple[str, ...]:
    """Ask for the job that carries a session's key."""
    return ("squeue", "--noheader", "--all", f"--name={job_name(key)}", "--format=%i")


def parse_find(stdout: str) -> str:
    """The job's id, or ``""`` when no job carries the key."""
    return next((line.strip() for line in stdout.splitlines() if line.strip().isdigit()), "")


@dataclass(frozen=True)
class SessionJob:
    """A job that carries a session's key."""

    id: str
    user: str
    key: str


def sessions_command() -> tuple[str, ...]:
    """List waiting and running jobs with their names."""
    return ("squeue", "--noheader", "--all", "--format=%i|%u|%j")


def parse_sessions(stdout: str, key_prefix: str) -> list[SessionJob]:
    """What looks like sessions whose key begins with ``key_prefix``.

    A job's name is its owner's text and may hold newlines, so a line here is only a hint: ask
    :func:`show_job_command` before anything is done to the job.
    """
    if not re.fullmatch(r"[0-9a-f]{6}", key_prefix):
        raise ValueError(f"a hub's number is six hexadecimal digits, not {key_prefix!r}")
    pattern = re.compile(rf"(\d+)\|([^|\s]+)\|{JOB_NAME_PREFIX}({key_prefix}[0-9a-f]+)")
    found = (pattern.fullmatch(line.strip()) for line in stdout.splitlines())
    return [SessionJob(*match.groups()) for match in found if match and len(match[3]) == KEY_LENGTH]


def is_session(stdout: str, job: SessionJob) -> bool:
    """True when slurmctld itself says that this job has this name and this owner (``scontrol --oneliner show job``)."""
    start = f"JobId={job.id} JobName={job_name(job.key)} UserId={job.user}("
    return stdout.startswith(start)


def show_job_command(job_id: str) -> tuple[str, ...]:
    """Ask slurmctld for one job (it knows it until ``MinJobAge`` after its end)."""
    return ("scontrol", "--oneliner", "show", "job", job_id)


def parse_show_job(stdout: str) -> JobEnd | None:
    """How the job ended; ``None`` while it has not. Only for our own jobs, whose names hold no blanks."""
    state = _field("JobState", stdout)
    if _PHASE_OF.get(state) is not Phase.ENDED:
        return None
    return JobEnd(state, _field("ExitCode", stdout))


def _field(name: str, text: str) -> str:
    found = re.search(rf"\b{name}=(\S*)", text)
    return found.group(1) if found else ""


def sacct_command(job_id: str) -> tuple[str, ...]:
    """Ask accounting how a job ended; it also knows jobs that slurmctld has forgotten."""
    return (
        "sacct",
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--jobs={job_id}",
        "--format=State,ExitCode",
    )


def parse_sacct(stdout: str) -> JobEnd | None:
    """How the job ended; ``None`` when accounting does not know an end. ``CANCELLED by 1000`` is CANCELLED."""
    line = next(iter(stdout.strip().splitlines()), "")
    state, _, exit_code = line.partition("|")
    state = state.split()[0] if state.split() else ""
    return JobEnd(state, exit_code) if _PHASE_OF.get(state) is Phase.ENDED else None


def ping_command() -> tuple[str, ...]:
    """Ask whether slurmctld is up: an empty queue is believed only with this answer."""
    return ("scontrol", "ping")


def parse_ping(stdout: str) -> bool:
    """True when a slurmctld is up: ``Slurmctld(primary) at head is UP``."""
    return re.search(r"\bis UP\b", stdout) is not None
