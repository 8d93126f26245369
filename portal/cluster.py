"""The cluster as the hub sees it: one picture for all sessions, and the two things that change it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from portal import slurm
from portal.errors import SlurmUnavailable, SubmitRefused
from portal.runner import Result, Run, RunError, run
from portal.script import Submission
from portal.slurm import Job, JobEnd, SessionJob

log = logging.getLogger(__name__)
QUERY_TIMEOUT_S = 15
LAUNCH_TIMEOUT_S = 60


@dataclass(frozen=True)
class Snapshot:
    """The queue at one moment: ``jobs`` by id, ``taken_at`` in seconds, and the error of the last try, if any.

    With an error, ``jobs`` and ``taken_at`` are those of the last good answer.
    """

    jobs: Mapping[str, Job] = field(default_factory=dict)
    taken_at: float = 0.0
    error: SlurmUnavailable | None = None

    def age_s(self, now: float) -> float:
        """How old the picture is, in seconds."""
        return now - self.taken_at


class Cluster:
    """One per hub. Whatever the number of sessions, one query at a time answers all of them.

    Args:
        launcher: the absolute path of portal-launch, run through sudo as the person.
        run: how a process is started; a seam for tests.
        clock: seconds, never going back.
    """

    def __init__(self, launcher: str, run: Run = run, clock: Callable[[], float] = time.monotonic) -> None:
        self._launcher, self._run, self._clock = launcher, run, clock
        self._snapshot = Snapshot(taken_at=float("-inf"))
        self._tried_at = float("-inf")
        self._query: asyncio.Task[None] | None = None

    def now(self) -> float:
        """The time on the clock of :class:`Snapshot`."""
        return self._clock()

    async def snapshot(self, max_age_s: float = 5.0) -> Snapshot:
        """The queue, asked anew when the last try is older than ``max_age_s`` (single flight)."""
        if self._clock() - self._tried_at > max_age_s:
            if self._query is None or self._query.done():
                self._query = asyncio.create_task(self._refresh())
            await asyncio.shield(self._query)
        return self._snapshot

    async def _refresh(self) -> None:
        started = self._clock()
        try:
            jobs = await self._queue()
        except SlurmUnavailable as error:
            if self._snapshot.error is None:
                log.warning("Slurm does not answer; every session is kept as it was: %s", error.detail)
            self._snapshot = Snapshot(self._snapshot.jobs, self._snapshot.taken_at, error)
        else:
            if self._snapshot.error is not None:
                log.warning("Slurm answers again")
            self._snapshot = Snapshot(jobs, started)
        self._tried_at = self._clock()

    async def _queue(self) -> Mapping[str, Job]:
        listing = await self._ask(slurm.squeue_command())
        jobs = await asyncio.to_thread(slurm.parse_squeue, listing)  # 10,000 jobs are 30 ms of work
        if not jobs and not slurm.parse_ping(await self._ask(slurm.ping_command())):
            raise SlurmUnavailable("Slurm shows an empty queue, but its controller is not up.")
        return jobs

    async def submit(self, username: str, submission: Submission) -> str:
        """Submit a job as ``username`` and answer its id.

        Raises:
            SubmitRefused: with sbatch's own words.
            SlurmUnavailable: no answer; the job may have been accepted (see :meth:`find`).
        """
        request = {
            "verb": "submit",
            "key": submission.key,
            "options": list(submission.options),
            "environment": dict(submission.environment),
        }
        answer = await self._launch(username, request)
        words = str(answer.get("message") or "no reason was given")
        if answer.get("ok"):
            if re.fullmatch(r"[0-9]{1,12}", str(answer.get("job_id"))):
                return str(answer["job_id"])
            raise SlurmUnavailable("Slurm's answer cannot be read.", detail=f"sbatch: {answer.get('job_id')!r:.200}")
        if answer.get("unknown"):
            raise SlurmUnavailable("Slurm does not answer; try again in a minute.", detail=words)
        raise SubmitRefused(f"Slurm did not accept the session:\n{words}")

    async def finish(self, username: str, key: str, job_id: str = "") -> str:
        """End a session's job, remove its secrets, and answer the last lines of its log.

        Raises:
            SlurmUnavailable: it is not known whether the job was cancelled.
        """
        answer = await self._launch(username, {"verb": "finish", "key": key, "job_id": job_id})
        if not answer.get("ok"):
            raise SlurmUnavailable("The session's job could not be cancelled.", detail=str(answer.get("message")))
        return str(answer.get("log", ""))

    async def find(self, key: str) -> str:
        """The id of the job that carries ``key``, or ``""``: after a lost answer of sbatch."""
        return slurm.parse_find(await self._ask(slurm.find_command(key)))

    async def sessions(self, key_prefix: str) -> list[SessionJob]:
        """What looks like waiting and running sessions of one hub; confirm each before anything is done to it."""
        return slurm.parse_sessions(await self._ask(slurm.sessions_command()), key_prefix)

    async def confirmed(self, job: SessionJob) -> bool:
        """True when slurmctld itself says that this is a session's job of this person."""
        return slurm.is_session(await self._ask(slurm.show_job_command(job.id)), job)

    async def ended(self, job_id: str, was_seen: bool = False) -> JobEnd | None:
        """How a job ended, or ``None`` while nobody says that it has: slurmctld first, then accounting.

        A job that neither knows has ended only if it ``was_seen`` in the queue before: where Slurm hides jobs
        from the hub's account (``PrivateData``), a job that runs looks just the same.
        """
        try:
            shown = await self._run(slurm.show_job_command(job_id), timeout_s=QUERY_TIMEOUT_S)
            if shown.returncode == 0:
                return slurm.parse_show_job(shown.stdout)
            told = await self._run(slurm.sacct_command(job_id), timeout_s=QUERY_TIMEOUT_S)
        except RunError:
            return None
        if told.returncode == 0 and told.stdout.strip():
            return slurm.parse_sacct(told.stdout)
        return JobEnd("COMPLETED") if was_seen and "Invalid job id" in shown.stderr else None

    async def _ask(self, command: tuple[str, ...]) -> str:
        """The output of a query; anything but a clean answer is no answer."""
        try:
            done = await self._run(command, timeout_s=QUERY_TIMEOUT_S)
        except RunError as error:
            raise SlurmUnavailable("Slurm does not answer.", detail=str(error)) from error
        if done.returncode != 0:
            raise SlurmUnavailable("Slurm does not answer.", detail=f"{command[0]}: {done.stderr.strip()[:500]}")
        return done.stdout

    async def _launch(self, username: str, request: Mapping[str, object]) -> dict[str, object]:
        argv = ("sudo", "--non-interactive", "--set-home", "--user", username, "--", self._launcher)
        try:
            done = await self._run(argv, stdin=json.dumps(request), timeout_s=LAUNCH_TIMEOUT_S)
        except RunError as error:
            raise SlurmUnavailable("The session could not be handed to Slurm.", detail=str(error)) from error
        return _answer(done)


def _answer(done: Result) -> dict[str, object]:
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        words = done.stderr.strip()[:500] or "no answer"
        raise SlurmUnavailable(
            "The portal could not act for you on this cluster; tell your administrator (portal doctor).",
            detail=f"portal-launch, exit status {done.returncode}: {words}",
        )
    return answer
