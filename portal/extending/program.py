"""portal-extend: the one command that sudo lets the portal run as an operator of Slurm: more time for a session.

Slurm lets the owner of a job take time away, and only an operator give some (scontrol(1), ``TimeLimit``). So this
runs as the account that root's settings file names (``extend.account``), and does one thing: it sets the time limit of
a job that runs in a partition of that file, has the name of a session of the portal, and belongs to the person for whom
it is asked, as far as root's rule, the partition and the reservations of its node let it. How often that was done
stands in the job's ``AdminComment``, which only an operator can change, and which Slurm's accounting keeps. The
system's log has a line of each.

One JSON object on standard input: ``verb`` (``look`` or ``extend``), ``person``, ``key`` of the session, ``job_id``,
and ``minutes``. One on standard output: ``ok``, ``minutes`` (what may still be given), ``bound``, ``times_left``,
``limit_min``, ``ends_at``, ``taken_at``; of what was refused also ``refused``, a word for why. It takes no command,
option or path. Two that come at once both set the limit that the first one sets: the new limit is a number, not a step.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import subprocess
import sys
import syslog
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from portal import launch_rules, launcher
from portal.errors import PortalError
from portal.extending import rules
from portal.homes import session_logs
from portal.slurm import nodes

NAME = "portal-extend"
TIMEOUT_S = 15  # of each command; there are at most seven
LIFETIME_S = 58
_JOB_ID = re.compile(r"[1-9]\d{0,11}\Z", re.ASCII)
_KEYS = {"verb", "person", "key", "job_id", "minutes"}

Answer = dict[str, object]


class Done(NamedTuple):
    """How a command of Slurm ended."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[[Sequence[str]], Done]


class ExtendingRefused(Exception):
    """Nothing was done; ``why`` is a word of :mod:`portal.extending.words`."""

    def __init__(self, why: str, message: str, **facts: object) -> None:
        super().__init__(message)
        self.answer: Answer = {"ok": False, "refused": why, "message": message, **facts}


class Request(NamedTuple):
    """A checked request; 0 ``minutes`` is a look."""

    person: str
    key: str
    job_id: str
    minutes: int


def main() -> int:
    """Read one request, do it, print one answer."""
    os.umask(0o077)
    signal.alarm(LIFETIME_S)
    syslog.openlog(NAME, 0, syslog.LOG_AUTHPRIV)
    try:
        answer = answer_to(json.loads(sys.stdin.buffer.read(65536).decode()), launch_rules.read(), own_name(), ask)
    except (ValueError, RecursionError, OSError, PortalError, subprocess.SubprocessError) as error:
        answer = {"ok": False, "message": f"{NAME}: {error}"}
    json.dump(answer, sys.stdout)
    return 0


def own_name() -> str:
    """The account that this runs as."""
    return pwd.getpwuid(os.getuid()).pw_name


def ask(argv: Sequence[str]) -> Done:
    """Run a command of Slurm, by root's settings file alone."""
    environment = launcher.clean((launch_rules.read().tables or {}).get("cluster", {}))
    done = subprocess.run(
        argv, env={**environment, "SLURM_TIME_FORMAT": "%s"}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=TIMEOUT_S, errors="replace", check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def parse_request(given: Any) -> Request:
    """Check every part of a request.

    Raises:
        ValueError: a part of it is not allowed.
    """
    if not isinstance(given, dict) or given.get("verb") not in ("look", "extend") or set(given) - _KEYS:
        raise ValueError("the verbs are look and extend")
    person = given.get("person")
    if not isinstance(person, str) or not 0 < len(person) <= 256 or not person.isprintable():
        raise ValueError("person is the name of an account")
    key = given.get("key")
    job_id = given.get("job_id")
    minutes = given.get("minutes", 0)
    if not isinstance(key, str) or not session_logs.KEY.match(key):
        raise ValueError("key is that of a session")
    if not isinstance(job_id, str) or not _JOB_ID.match(job_id):
        raise ValueError("job_id is the number of a job")
    lowest = 1 if given["verb"] == "extend" else 0
    if type(minutes) is not int or not lowest <= minutes <= rules.MOST_HOURS * 60 * lowest:
        raise ValueError("minutes is a whole number from 1 on, for extend alone")
    return Request(person, key, job_id, minutes)


def answer_to(given: Any, settings: launch_rules.Settings, account: str, run: Run) -> Answer:
    """Do one request.

    Arguments:
        account: as whom this runs.

    Raises:
        ValueError: it is none, or Slurm or the settings file cannot be understood; nothing was done.
        PortalError: Slurm's answer cannot be read; nothing was done.
    """
    request = parse_request(given)
    try:
        return _done(request, _rule(request, settings, account), run)
    except ExtendingRefused as refused:
        _note(f"refused {request.minutes} min for job {request.job_id} of {request.person}: {refused}")
        return refused.answer


def _rule(request: Request, settings: launch_rules.Settings, account: str) -> rules.Rule:
    if settings.tables is None:
        raise ValueError(f"it needs the settings file: {settings.why_not}")
    rule = rules.rule_of(settings.tables)
    if rule is None:
        raise ExtendingRefused("off", "extend.times of the settings file is 0")
    if account != rule.account:
        raise ValueError(f"this runs as {account}, and extend.account of the settings file is {rule.account}")
    if not rule.may_be_for(request.person):
        raise ExtendingRefused("person", "[extend] of the settings file is not for this person")
    return rule


def _done(request: Request, rule: rules.Rule, run: Run) -> Answer:
    job = _job(request, run)
    if job.partition not in rule.partitions:  # people may give a job of their own the name of a session
        raise ExtendingRefused("other", f"{job.partition} is no partition of the settings file")
    comment = _comment(request, run)
    count = rules.count_of(comment)
    bounds = _bounds(job, run)
    may = rules.offer(rule, job, bounds, count)
    facts = _facts(may, job, bounds)
    if not request.minutes:
        return {"ok": True, **facts}
    if not may.minutes:
        raise ExtendingRefused(may.bound, f"no more time: {may.bound}", **facts)
    if request.minutes > may.minutes:
        raise ExtendingRefused("asked", f"{request.minutes} min are more than {may.minutes}, by {may.bound}", **facts)
    limit_min = job.limit_min + request.minutes
    done = run(update_command(request.job_id, limit_min, rules.counted(comment, count + 1)))
    if done.returncode:
        raise ValueError(f"scontrol: {done.stderr.strip()[:300]}")
    now = _job(request, run)
    if now.limit_min != limit_min:
        raise ValueError(f"Slurm shows a limit of {now.limit_min} min, and not {limit_min}")
    said = f"job {request.job_id} ({job.name}) of {request.person}: {job.limit_min} min, now {limit_min}"
    _note(f"extended {said}; {count + 1} of {rule.times}")
    return {"ok": True, **_facts(rules.offer(rule, now, bounds, count + 1), now, bounds)}


def _facts(may: rules.Allowance, job: rules.RunningJob, bounds: rules.Bounds) -> dict[str, object]:
    return {**may._asdict(), "limit_min": job.limit_min, "ends_at": job.ends_at, "taken_at": bounds.taken_at}


def show_command(job_id: str) -> list[str]:
    """Ask for one job, in :data:`portal.extending.rules.COLUMNS`."""
    return ["squeue", "--noheader", "--all", f"--jobs={job_id}", f"--format={rules.COLUMNS}"]


def comment_command(job_id: str) -> list[str]:
    """Ask for its AdminComment alone: no text of its owner's can stand for it."""
    return ["squeue", "--noheader", "--all", f"--jobs={job_id}", f"--Format=admin_comment:{rules.COMMENT_MAX}"]


def update_command(job_id: str, limit_min: int, comment: str) -> list[str]:
    """Set the time limit, and the count in the same step."""
    return ["scontrol", "update", f"JobId={job_id}", f"TimeLimit={limit_min}", f"AdminComment={comment}"]


def _answer(run: Run, command: Sequence[str]) -> str:
    done = run(command)
    if done.returncode or ": error:" in done.stderr:  # squeue ends well, and with an empty line, on a column it lacks
        raise ValueError(f"{command[0]}: {done.stderr.strip()[:300] or 'it failed'}")
    return done.stdout


def _job(request: Request, run: Run) -> rules.RunningJob:
    """The job, which runs, and is this person's session.

    Raises:
        ExtendingRefused: it is not.
    """
    done = run(show_command(request.job_id))
    if done.returncode and "Invalid job id" not in done.stderr:
        raise ValueError(f"squeue: {done.stderr.strip()[:300] or 'it failed'}")
    job = rules.parse_job(done.stdout)
    if job is None:
        raise ExtendingRefused("ended", "there is no such job that runs with a time limit")
    try:
        uid = pwd.getpwnam(request.person).pw_uid
    except KeyError as error:
        raise ValueError("this host knows no such account") from error
    if job.uid != uid or job.name != f"dsportal-{request.key}":
        raise ExtendingRefused("other", "the job is not that session of this person")
    return job


def _comment(request: Request, run: Run) -> str:
    comment = _answer(run, comment_command(request.job_id)).rstrip("\n")
    if len(comment) > rules.COMMENT_MAX:
        raise ValueError("the job's AdminComment cannot be read")
    text = comment.rstrip(" ")
    return "" if text in ("(null)", "N/A") else text


def _bounds(job: rules.RunningJob, run: Run) -> rules.Bounds:
    """The partition's limit, and when the node is somebody else's: a reservation that covers it and begins later.

    A job in a reservation of its own has to end with that (slurm.conf(5), ``ResvOverRun``).
    """
    partitions = nodes.parse_partitions(_answer(run, nodes.partitions_command()))
    if job.partition not in partitions:
        raise ValueError(f"Slurm shows no partition {job.partition}")
    listing = _answer(run, nodes.reservations_command())
    reserved = nodes.parse_reservations(listing)
    if len(reserved) != len(re.findall(r"^ReservationName=", listing, re.MULTILINE)):
        raise ValueError("Slurm shows a reservation that cannot be read")  # it may be the maintenance of this node
    now = time.time()
    taken = [
        int(one.ends_at.timestamp() if one.name == job.reservation else one.starts_at.timestamp())
        for one in reserved.values()
        if job.node in one.nodes and one.ends_at.timestamp() > now
    ]
    return rules.Bounds(partitions[job.partition].time_limit_min, min(taken, default=None))


def _note(words: str) -> None:
    """A line in the system's log, which ``journalctl -t portal-extend`` shows."""
    syslog.syslog(syslog.LOG_NOTICE, words)


if __name__ == "__main__":
    sys.exit(main())
