"""What to tell the person about a session: pure texts and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from portal.jobs.reasons import waiting
from portal.request import SessionRequest
from portal.session_state import Visit
from portal.site import Site
from portal.slurm.accounting import JobEnd
from portal.slurm.jobs import Job, Phase
from portal.slurm.outlook import NOTHING_KNOWN, Outlook

_WILL_NOT_START = "This does not end by itself: stop the session and choose otherwise, or ask your administrator."

_IN_LINE = {"", "Resources", "Priority"}  # the reasons for which a place in the queue means something

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
    "FORGOTTEN": "Slurm has lost its record of this session's job. Nothing you did; start again.",
}


@dataclass(frozen=True)
class View:
    """One line of progress: how far (percent), and what happens.

    ``is_last`` is what a page is told that gives way to newer ones: it looks again later. ``heard`` is the text
    without what changes all the time (seconds, free GPUs, forecasts): what a screen reader says when it changes.
    """

    percent: int
    text: str
    is_last: bool = False
    heard: str = ""

    @property
    def event(self) -> dict[str, object]:
        """What JupyterHub hands on to the page."""
        said: dict[str, object] = {"progress": self.percent, "message": self.text, "heard": self.heard or self.text}
        return said | ({"later": True} if self.is_last else {})


def submitted(request: SessionRequest, site: Site) -> str:
    """What was asked for, in one line."""
    gpus = {0: "no GPU", 1: "1 GPU"}.get(request.gpus, f"{request.gpus} GPUs")
    cores, memory_mib = request.share(site)
    wait_h = site.session.wait_max_hours
    return (
        f"{gpus}, {cores} cores, {memory_mib // 1024} GB for {request.hours} h"
        f" in the partition {request.partition}" + (f"; here a session waits up to {wait_h} h" if wait_h else "")
    )


HANDED_OVER_WITHIN_S = 10.0  # a job is there after one; the launcher needs the account and its home
_HANDED_OVER_SLOWLY = (
    "The job is still being handed to Slurm: your home, or the cluster's list of accounts, is slow to answer. "
    "You need not do anything; the portal says so if it fails."
)


def view(
    job: Job | None,
    stale_s: float = 0.0,
    outlook: Outlook = NOTHING_KNOWN,
    unresolved: str = "",
    *,
    watched_for_s: float = 0.0,
) -> View:
    """What happens now to a session that is starting; ``watched_for_s`` is how long somebody has looked on."""
    if stale_s > 0:
        how_long = f" for {stale_s:.0f} s" if math.isfinite(stale_s) else ""
        text = f"Slurm has not answered{how_long}; the session keeps its place."
        return View(20, text, heard="Slurm does not answer; the session keeps its place.")
    if job is None:
        is_slow = watched_for_s > HANDED_OVER_WITHIN_S
        return View(10, _HANDED_OVER_SLOWLY if is_slow else "The job is handed to Slurm.")
    if job.phase is Phase.WAITING and job.state != "CONFIGURING":
        return _waiting(job, outlook)
    if job.phase is Phase.ENDED:
        return View(90, "The job has ended; its last words are being read.")
    if job.state in _PAUSED:
        return View(60, f"Job {job.id} is suspended on {job.node}: {_SUSPENDED}")
    if unresolved:
        return View(60, f"Job {job.id} runs, but the portal cannot resolve the name of its node {unresolved}. {_TELL}")
    return View(60, f"Job {job.id} runs on {job.node or 'its node'}; JupyterLab starts.")


def gives_way(shown: View, most: int) -> View:
    """What the oldest page of a start is told when more than ``most`` follow it; what happens stays as it was shown."""
    return View(shown.percent, f"This start is followed in more than {most} windows; this one {_LATER}", is_last=True)


_LATER = "looks again by itself in half a minute. The session is not concerned."
_TELL = "Tell your administrator; the command “portal doctor” names all such nodes."
_PAUSED = ("SUSPENDED", "STOPPED")
_REQUEUED = "Slurm has put the session's job back into the queue; it continues by itself, with new kernels."
_SILENT = "Its node or your home may hang. The session is kept for as long as its job lives; you can stop it."
_SUSPENDED = "an administrator or Slurm has paused it. Nothing is lost; it continues when it is resumed."
_EARLIER = "earlier if other jobs end before their limit."  # Slurm reckons with time limits


def _waiting(job: Job, outlook: Outlook) -> View:
    why = waiting(job.reason)
    waits = f"Job {job.id} waits: {why.text}."
    if why.is_lasting:
        return View(20, f"{waits} {_WILL_NOT_START}")
    start = (
        f"Slurm expects it to start at {_when(job.starts_at, job)}, {_EARLIER}" if job.starts_at and _later(job) else ""
    )
    reason = job.reason.partition(",")[0]
    place = _place(reason, outlook)
    words = filter(None, [waits, start, place, *_outlook(job, reason, outlook)])
    return View(20, " ".join(words), heard=f"{waits} {place}".strip())


def _place(reason: str, outlook: Outlook) -> str:
    if not outlook.position or reason not in _IN_LINE:
        return ""
    ahead = outlook.position - 1
    few = {0: "It is the next in its partition.", 1: "1 job is ahead of it."}
    return few.get(ahead, f"{ahead} jobs are ahead of it.")


def _outlook(job: Job, reason: str, outlook: Outlook) -> Iterator[str]:
    if outlook.gpus_free is not None and reason in _IN_LINE:
        free = f"Free GPUs now: {outlook.gpus_free}, at most {outlook.gpus_on_one_node} on one node."
        yield free if outlook.gpus_free else "No GPU is free now."
    if outlook.maintenance_at and reason in ("ReqNodeNotAvail", "Reservation", "Resources"):
        begins = _when(outlook.maintenance_at, job)
        yield f"A maintenance begins {begins}: a session that is over before it can start earlier."


def _when(moment: datetime, job: Job) -> str:
    """``14:05 CET`` on the day of the submission, else with the day; in the zone of the portal's host."""
    local = moment.astimezone()
    same_day = job.submitted_at and local.date() == job.submitted_at.astimezone().date()
    return f"{local:%H:%M %Z}" if same_day else f"{local:%A %d %B, %H:%M %Z}"


def _later(job: Job) -> bool:
    is_held = job.reason in ("JobHeldUser", "JobHeldAdmin")
    return bool(job.starts_at and job.submitted_at and job.starts_at > job.submitted_at and not is_held)


def waits_too_long(job: Job, site: Site, now: datetime) -> bool:
    """True for a job that waits longer than this site lets one."""
    limit = timedelta(hours=site.session.wait_max_hours)
    return bool(limit and job.submitted_at and job.phase is Phase.WAITING and now - job.submitted_at > limit)


def gave_up(site: Site) -> str:
    """Why a session that waited was ended."""
    hours = site.session.wait_max_hours
    return f"The session waited {hours} h in the queue, the longest that this site lets one wait. Try again later."


def never_answered(node: str, limit_min: int) -> str:
    """Why a session was ended whose job runs."""
    return (
        f"JupyterLab did not answer within {limit_min} minutes of its start on {node}. "
        "Try again; if it stays so, tell your administrator."
    )


def ended(end: JobEnd, log_tail: str | None = None) -> str:
    """Why a session ended, in one sentence; a failure with its exit code, and with advice if a log was looked for."""
    text = _ENDS.get(end.state, f"The session ended with Slurm's state {end.state}.")
    if end.cancelled_by:
        text = f"The session was cancelled by {end.cancelled_by}."
    if end.state != "FAILED":
        return text
    code, _, signal = end.exit_code.partition(":")
    how = f"by signal {signal}" if signal not in ("", "0") else f"with exit code {code or 'unknown'}"
    if log_tail is None:
        return f"{text} {how}."
    advice = " Its last lines are below." if log_tail else " It wrote no log: is your home full?"
    return f"{text} {how}.{advice}"


def stopped(who: str = "", person: str = "") -> str:
    """Why a session ended that somebody stopped in the portal, or, by nobody's name, the portal itself."""
    if not who:
        return "The portal stopped the session."
    return "You stopped the session." if who == person else f"The session was stopped by {who}."


def _hours(time: timedelta) -> float:
    """Whole hours where it is as good as whole, else to a tenth."""
    hours = round(time.total_seconds() / 3600, 1)
    return int(hours) if hours == int(hours) else hours


def time_limit(job: Job) -> datetime | None:
    """When a running session ends at the latest."""
    return job.ends_at if job.phase is Phase.RUNNING else None


@dataclass(frozen=True)
class Condition:
    """What keeps a session that was ready from being used: a title for the server page, and what it means.

    ``silent_since`` is ISO 8601 with its zone; the page writes it in the reader's own, as its other times.
    """

    title: str
    text: str
    silent_since: str = ""
    can_be_opened: bool = True


def condition(job: Job | None, silent_s: float, now: datetime) -> Condition | None:
    """What is unusual about a session that was ready; ``None`` while it is as it should be."""
    if job and job.phase is Phase.WAITING:
        return Condition("Waiting again", f"{_REQUEUED} {view(job).text}", can_be_opened=False)
    if job and job.state in _PAUSED:
        return Condition("Suspended", view(job).text, can_be_opened=False)
    if silent_s:
        since = now - timedelta(seconds=silent_s)
        return Condition("Not answering", _SILENT, since.astimezone().isoformat(timespec="seconds"))
    return None


def entries(known: Sequence[Visit]) -> list[str]:
    """What a person reads of the administrators who entered the session, the last one first."""
    return [_entry(entry.who, datetime.fromtimestamp(entry.at).astimezone(), entry.reason) for entry in reversed(known)]


def _entry(who: str, at: datetime, reason: str) -> str:
    day = "" if at.date() == datetime.now(UTC).astimezone().date() else f"on {at:%Y-%m-%d} "
    return f"{who}, an administrator, entered your session {day}at {at:%H:%M %Z}: {reason}"


def facts(request: SessionRequest, site: Site, job_id: str, job: Job | None) -> dict[str, object]:
    """What the server page shows of a session; only what is known. Times are ISO 8601 with their zone."""
    cores, memory_mib = request.share(site)
    known: dict[str, object] = {**request.as_options(), "cores": cores, "memory_mib": memory_mib}
    if job_id:
        known["job_id"] = int(job_id)
    if job:
        is_running = job.phase is Phase.RUNNING  # of a job that waits, Slurm's start is a forecast
        times = {"started_at": job.starts_at if is_running else None, "ends_at": time_limit(job)}
        shown = {name: time.astimezone().isoformat() for name, time in times.items() if time}
        known |= {"node": job.node, "state": view(job).text, "waits": job.phase is Phase.WAITING, **shown}
        if is_running and job.starts_at and job.ends_at:  # an administrator may have changed it
            known["hours"] = _hours(job.ends_at - job.starts_at)
    return known
