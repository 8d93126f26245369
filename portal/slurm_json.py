"""Single jobs out of ``squeue --json``: what the plain listing of :mod:`portal.slurm` leaves out, such as names.

The shapes of Slurm 22.05 to 25.11 (tests/fixtures/slurm): a number is ``3``, ``null``, ``{"set", "infinite",
"number"}`` or ``"Infinity"``; a state is a word or a list; an exit code has three forms. 22.05 lists the whole queue
whatever is asked for (5,000 jobs are 17 MB), so this is for single questions, never for the shared picture.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from portal.slurm import Phase, phase_of, unreadable

# job_state_string() of Slurm: of several states, this is the one that squeue(1) prints.
_SHOWN_FIRST = (
    "COMPLETING",
    "STAGE_OUT",
    "CONFIGURING",
    "RESIZING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STOPPED",
    "REVOKED",
    "RESV_DEL_HOLD",
    "SIGNALING",
)


@dataclass(frozen=True)
class JsonJob:
    """One job. Times are local and without zone, ``exit_code`` is "code:signal", as the plain commands print them.

    ``gpus`` counts those of the whole job, asked for or given, as far as the site's accounting counts GPUs.
    ``name`` and ``comment`` are texts of the job's owner.
    """

    id: str
    states: tuple[str, ...]
    name: str
    user: str
    partition: str
    node: str
    gpus: int
    exit_code: str
    reason: str
    comment: str
    submitted_at: datetime | None
    starts_at: datetime | None
    ends_at: datetime | None

    @property
    def state(self) -> str:
        """The state in one word, as squeue(1) prints it."""
        return next((state for state in _SHOWN_FIRST if state in self.states), self.states[0])

    @property
    def phase(self) -> Phase:
        """What the states mean for a session; unknown when one of them is."""
        is_known = all(phase_of(state) is not Phase.UNKNOWN for state in self.states)
        return phase_of(self.state) if is_known else Phase.UNKNOWN


def job_json_command(job_id: str) -> tuple[str, ...]:
    """Ask for one job, whether it has ended or not."""
    return ("squeue", "--json", "--all", "--states=all", f"--jobs={job_id}")


def queue_json_command() -> tuple[str, ...]:
    """Ask for all jobs: the only way to find one by a name that is not its owner's only."""
    return ("squeue", "--json", "--all", "--states=all")


def job_of_json(stdout: str, job_id: str) -> JsonJob | None:
    """One job out of an answer; ``None`` when a whole answer does not have it.

    Raises:
        SlurmUnavailable: see :func:`jobs_of_json`.
    """
    return jobs_of_json(stdout).get(job_id)


def jobs_of_json(stdout: str) -> Mapping[str, JsonJob]:
    """All jobs of an answer by id. A task of an array that has begun has an id of its own here, a number.

    Raises:
        SlurmUnavailable: it cannot be read, or it is not whole. The exit status does not tell: squeue ends with 0 and
            an empty list where slurmctld is down (22.05), and with 0 and the first job where slurmdbd is (23.02).
    """
    try:
        answer = json.loads(stdout)
        _check_whole(answer)
        jobs = [_job(entry) for entry in answer["jobs"]]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, OSError) as error:
        raise unreadable(f"squeue --json: {type(error).__name__}: {error}; it begins with {stdout[:100]!r}") from error
    if len({job.id for job in jobs}) != len(jobs):
        raise unreadable("squeue --json: a job is there twice")
    return {job.id: job for job in jobs}


def _check_whole(answer: Mapping[str, Any]) -> None:
    """Errors make an answer worthless, but for one: from 23.11 on all jobs are there without the names of their QOS."""
    errors = answer["errors"]
    is_harmless = {error.get("source") for error in errors} == {"slurmdb_qos_get"} and _version(answer) >= (23, 11)
    if errors and not is_harmless:
        raise unreadable(f"squeue --json: errors {json.dumps(errors):.500}")


def _version(answer: Mapping[str, Any]) -> tuple[int, int]:
    """22.05 and 23.02 say ``Slurm`` and numbers, later ones ``slurm`` and words; the release reads alike in all."""
    meta = answer["meta"]
    major, minor = (meta.get("slurm") or meta["Slurm"])["release"].split(".")[:2]
    return int(major), int(minor)


def _job(entry: Mapping[str, Any]) -> JsonJob:
    job = JsonJob(
        id=str(_whole(entry["job_id"])),
        states=_states(entry["job_state"]),
        name=_text(entry["name"]),
        user=_text(entry["user_name"]),
        partition=_text(entry["partition"]),
        node=_text(entry["nodes"]),
        gpus=_gpus(_text(entry["tres_alloc_str"]) or _text(entry["tres_req_str"])),
        exit_code=_exit_code(entry["exit_code"]),
        reason=_reason(entry),
        comment=_text(entry["comment"]),
        submitted_at=_time(entry["submit_time"]),
        starts_at=_time(entry["start_time"]),
        ends_at=_time(entry["end_time"]),
    )
    has_no_limit = number(entry["time_limit"]) in (None, math.inf)  # then Slurm makes up an end in a year
    return replace(job, ends_at=None) if has_no_limit and job.phase is not Phase.ENDED else job


def _states(value: object) -> tuple[str, ...]:
    states = tuple(value) if isinstance(value, list) else (value,)
    if not states or not all(isinstance(state, str) and state for state in states):
        raise ValueError(f"a state is written as {value!r}")
    return states


def number(value: object) -> float | None:
    """A number in each of Slurm's shapes; ``None`` is one that is not set, infinity is no limit."""
    if isinstance(value, Mapping):
        return math.inf if value["infinite"] else number(value["number"]) if value["set"] else None
    if value == "Infinity":
        return math.inf
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ValueError(f"a number is written as {value!r}")


def _whole(value: object) -> int:
    found = number(value)
    if found is None:
        raise ValueError("a number is not set")
    return int(found)


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise ValueError(f"a text is written as {value!r}")


def _time(value: object) -> datetime | None:
    """Seconds since 1970; 0 is a time that is not known."""
    seconds = number(value)
    return datetime.fromtimestamp(seconds) if seconds and seconds != math.inf else None


def _reason(entry: Mapping[str, Any]) -> str:
    """The long words where there are any: ``state_reason`` is a short word in every version."""
    short = _text(entry["state_reason"])
    return _text(entry["state_description"]) or ("" if short == "None" else short)


def _gpus(tres: str) -> int:
    found = re.search(r"(?:^|,)gres/gpu=(\d+)(?:,|$)", tres)
    return int(found[1]) if found else 0


def _exit_code(value: object) -> str:
    """The status of wait(2) up to 23.02; then the code and the signal, one of which is set."""
    if isinstance(value, Mapping) and "return_code" in value:
        return f"{int(number(value['return_code']) or 0)}:{int(number(value['signal']['id']) or 0)}"
    status = _whole(value)
    signal = status & 0x7F
    return f"0:{signal}" if signal else f"{status >> 8 & 0xFF}:0"
