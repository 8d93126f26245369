"""The cluster as the hub sees it: one snapshot for all sessions, and the two things that change it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import PurePosixPath

from portal.errors import AccountGone, ActingRefused, SlurmUnavailable
from portal.language.texts import N_
from portal.slurm import accounting, jobs, nodes, times
from portal.slurm.accounting import FORGOTTEN, JobEnd
from portal.slurm.jobs import SessionJob
from portal.slurm.runner import Result, RunError, Runner, run
from portal.slurm.snapshot import NodesSnapshot, PartitionsSnapshot, QueueSnapshot, Silence, SnapshotCache, in_thread
from portal.slurm.submission import EXTENDER, LauncherAsPerson, Submission, Turns, job_name, remember, submitted_job

log = logging.getLogger(__name__)

QUERY_TIMEOUT_S = 15
JOB_QUERIES_AT_ONCE = CLEAN_UPS_AT_ONCE = 4  # a thousand sessions that end together are queried a few at a time
ACCOUNTING_TRIES = 3  # accounting hears of an end a moment after slurmctld
ACCOUNTING_WAIT_S = 1
PARTITIONS_MAX_AGE_S = 300  # partitions and reservations seldom change
LOST_ANSWER_S = 60.0  # a job whose sbatch gave no answer is looked for; sbatch itself retries for 45 s
LOST_ANSWER_EVERY_S = 1.0


class Cluster:
    """Slurm as one hub sees it. Whatever the number of sessions, one query at a time answers all of them.

    Args:
        launcher: the absolute path of portal-launch, run through sudo as the person.
        run: how a process is started; a seam for tests.
        clock: seconds, never going back.
        pause: how time is waited for, in seconds; a seam for tests.

    Attributes:
        unfinished: the person of each session whose secrets may lie in a home still, by its key.
        silence: since when Slurm does not answer.
        clean_ups: the turns of the people whose sessions are finished while nobody waits for it.
    """

    def __init__(
        self,
        launcher: str,
        run: Runner = run,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.pause = pause
        self.launcher = LauncherAsPerson(launcher, run)
        self.extender = LauncherAsPerson(str(PurePosixPath(launcher).with_name(EXTENDER)), run)
        self._run = run
        self._clock = clock
        self.silence = Silence(clock)
        self._queue = SnapshotCache(self._query_queue, QueueSnapshot(), clock, "Slurm")
        self._nodes = SnapshotCache(self._query_nodes, NodesSnapshot(), clock, "Slurm (nodes)")
        self._partitions = SnapshotCache(self._query_partitions, PartitionsSnapshot(), clock, "Slurm (partitions)")
        self._job_queries = asyncio.Semaphore(JOB_QUERIES_AT_ONCE)
        self.unfinished: dict[str, str] = {}
        self.clean_ups = Turns(CLEAN_UPS_AT_ONCE)

    def now(self) -> float:
        """The time on the clock of the snapshots."""
        return self._clock()

    @property
    def last_queue(self) -> QueueSnapshot:
        """The last snapshot of the queue, without a new query."""
        return self._queue.last

    async def queue(self, max_age_s: float = 5.0) -> QueueSnapshot:
        """The queue, with a new query when the last one is older than ``max_age_s`` (single flight); never raises."""
        return await self._queue.get(max_age_s)

    async def nodes(self, max_age_s: float = 20.0) -> NodesSnapshot:
        """The nodes with their free GPUs, cores and memory; never raises."""
        return await self._nodes.get(max_age_s)

    async def partitions(self, max_age_s: float = PARTITIONS_MAX_AGE_S) -> PartitionsSnapshot:
        """Partitions with their limits, and reservations; never raises."""
        return await self._partitions.get(max_age_s)

    @property
    def last_partitions(self) -> PartitionsSnapshot:
        """The last snapshot of the partitions, without a new query."""
        return self._partitions.last

    async def _query_queue(self) -> QueueSnapshot:
        return await self.silence.noted(self._read_queue())

    async def _read_queue(self) -> QueueSnapshot:
        listing = await self.answer(jobs.squeue_command())
        found = await in_thread(jobs.parse_squeue, listing)  # 10,000 jobs are 50 ms of work
        if not found:
            await self._check_controller()
        return QueueSnapshot(jobs=found)

    async def _check_controller(self) -> None:
        if not jobs.parse_ping(await self.answer(jobs.ping_command())):
            raise SlurmUnavailable(N_("Slurm shows an empty queue, but its controller is not up."))

    async def _query_nodes(self) -> NodesSnapshot:
        listing = await self.answer(nodes.nodes_command())
        return NodesSnapshot(nodes=await in_thread(nodes.parse_nodes, listing))

    async def _query_partitions(self) -> PartitionsSnapshot:
        partitions = nodes.parse_partitions(await self.answer(nodes.partitions_command()))
        reservations = nodes.parse_reservations(await self.answer(nodes.reservations_command()))
        return PartitionsSnapshot(partitions=partitions, reservations=reservations)

    async def submit(self, username: str, submission: Submission) -> str:
        """Submit a job as ``username`` and answer its id.

        Raises:
            SubmitRefused: with sbatch's own message.
            SlurmUnavailable: no answer; the job may have been accepted (see :meth:`find`).
        """
        environment = dict(submission.environment)
        request = {"verb": "submit", "key": submission.key, "options": list(submission.options)}
        return submitted_job(await self.launcher.call(username, {**request, "environment": environment}))

    async def submit_or_find(self, username: str, submission: Submission) -> str:
        """Submit a job and answer its id; when the answer of ``sbatch`` is lost, look for the job by its key.

        Raises:
            SubmitRefused: with sbatch's own words.
            AccountGone, ActingRefused: nobody can act as this person; at once.
            SlurmUnavailable: no answer, and no such job within :data:`LOST_ANSWER_S`.
        """
        try:
            return await self.submit(username, submission)
        except (AccountGone, ActingRefused):
            raise  # sudo has started nothing: no job can have come of it
        except SlurmUnavailable as error:
            log.warning("sbatch gave no answer for %s: %s", username, error.detail)
            deadline = self.now() + LOST_ANSWER_S
            while self.now() < deadline:
                with contextlib.suppress(SlurmUnavailable):
                    if job_id := await self.find(username, submission.key):
                        return job_id
                await self.pause(LOST_ANSWER_EVERY_S)
            raise

    async def finish(self, username: str, key: str, job_id: str = "", submitted: int = 0) -> str:
        """End a session's job, remove its secrets, and answer the last lines of its log.

        ``submitted``, in seconds since 1970, tells the job where its owner has given it another name.

        Raises:
            SlurmUnavailable: it is not known whether the job was cancelled.
        """
        remember(self.unfinished, key, username)
        try:
            request = {"verb": "finish", "key": key, "job_id": job_id, "submitted": submitted}
            answer = await self.launcher.call(username, request)
        except (AccountGone, ActingRefused) as error:
            if isinstance(error, AccountGone):  # sudo's refusal may be taken back
                self.unfinished.pop(key, None)
            return await self._cancel_as_hub(username, key, job_id, error) if job_id else ""
        if not answer.get("ok"):
            raise SlurmUnavailable(N_("The session's job could not be cancelled."), detail=str(answer.get("message")))
        self.unfinished.pop(key, None)
        return str(answer.get("log", ""))

    async def _cancel_as_hub(self, username: str, key: str, job_id: str, error: AccountGone | ActingRefused) -> str:
        """End the job of somebody as whom nobody can act any more: without an account, or out of sudo's group.

        Slurm lets the hub's account do it where that is an operator (``sacctmgr … adminlevel=operator``).

        Raises:
            SlurmUnavailable: it is not, or Slurm does not answer.
        """
        try:
            done = await self._ask(("scancel", f"--name={job_name(key)}", job_id))
        except RunError as failed:
            raise SlurmUnavailable(N_("Slurm does not answer."), detail=str(failed)) from failed
        if done.returncode and "Invalid job id" not in done.stderr:
            why = f"{error.why.format(username)}, and as this account: {done.stderr.strip()[:300]}"
            raise SlurmUnavailable(N_("The session's job could not be cancelled."), detail=why)
        log.warning("%s; its job %s was cancelled as this account", error.why.format(username), job_id)
        self.unfinished.pop(key, None)
        return ""

    async def clean_up(self, username: str, key: str) -> str:
        """After a session's end remove its secrets, in the person's turn; answers the last lines of its log."""
        async with self.clean_ups.of(username):
            try:
                return await self.finish(username, key)
            except SlurmUnavailable as error:
                log.error("The session %s of %s could not be cleaned up: %s", key, username, error.detail)
        return ""

    async def find(self, person: str, key: str) -> str:
        """The id of the person's job that carries ``key``, or ``""``: after a lost answer of sbatch.

        Raises:
            SlurmUnavailable: it is not known; "no such job" is believed only of a controller that is up.
        """
        found = jobs.parse_find(await self.answer(jobs.find_command(key)), person)
        if not found:
            await self._check_controller()
        return found

    async def sessions(self, key_prefix: str) -> list[SessionJob]:
        """What looks like waiting and running sessions of one hub; confirm each before anything is done to it."""
        return jobs.parse_sessions(await self.silence.noted(self.answer(jobs.sessions_command())), key_prefix)

    async def confirmed(self, job: SessionJob) -> bool:
        """True when slurmctld itself says that this is a session's job of this person."""
        return jobs.is_session(await self.answer(jobs.show_job_command(job.id)), job)

    async def identify(self, job: SessionJob) -> bool | None:
        """Whether the job of this number is this session's, by slurmctld's word; ``None`` = it does not say."""
        return await accounting.is_ours(await self._show(job.id), job)

    async def restarts(self, job: SessionJob) -> int | None:
        """How often Slurm has started a session's job anew, by its own count; ``None`` = it does not say."""
        return jobs.parse_restarts(await self._show(job.id), job)

    async def _show(self, job_id: str) -> str:
        """What slurmctld says of one job; ``""`` when it does not answer, or knows no such job."""
        try:
            async with self._job_queries:
                return await self.answer(jobs.show_job_command(job_id))
        except SlurmUnavailable:
            return ""

    async def ended(self, job_id: str, was_seen: bool = False, ours: SessionJob | None = None) -> JobEnd | None:
        """How a job ended, or ``None`` while nobody says that it has: slurmctld first, then accounting.

        A job that neither knows has ended only if it ``was_seen`` in the queue before: where Slurm hides jobs
        from the hub's account (``PrivateData``), a job that runs looks just the same.

        Arguments:
            ours: the session whose job it must be; where its number is another job's now, it is gone.
        """
        try:
            async with self._job_queries:
                return await self._ended(job_id, was_seen, ours)
        except RunError:
            return None

    async def _ended(self, job_id: str, was_seen: bool, ours: SessionJob | None) -> JobEnd | None:
        shown = await self._ask(jobs.show_job_command(job_id))
        if shown.returncode == 0 and ours and await accounting.is_ours(shown.stdout, ours) is False:
            return FORGOTTEN
        if shown.returncode == 0:
            end = accounting.parse_show_job(shown.stdout)
            return await self._with_canceller(job_id, end) if end else None
        if "Invalid job id" not in shown.stderr:
            return None  # after a node failed, accounting alone says NODE_FAIL of a job that is requeued
        answer = await self._ask(accounting.sacct_command(job_id))
        if answer.returncode == 0 and answer.stdout.strip():
            end = accounting.parse_sacct(answer.stdout)
            return await accounting.with_name(end) if end else None
        return JobEnd("COMPLETED") if was_seen else None

    async def _with_canceller(self, job_id: str, end: JobEnd) -> JobEnd:
        """Only accounting knows who cancelled a job; where there is none, nobody does."""
        if end.state != "CANCELLED":
            return end
        with contextlib.suppress(RunError, SlurmUnavailable):
            for _ in range(ACCOUNTING_TRIES):
                answer = await self._ask(accounting.sacct_command(job_id))
                if answer.returncode != 0:
                    return end
                if accounted := accounting.parse_sacct(answer.stdout):
                    named = replace(end, cancelled_by=accounted.cancelled_by)
                    return await accounting.with_name(named)
                await self.pause(ACCOUNTING_WAIT_S)
        return end

    async def answer(self, command: tuple[str, ...]) -> str:
        """The output of a query; anything but a clean answer is no answer, and raises ``SlurmUnavailable``."""
        try:
            done = await self._ask(command)
        except RunError as error:
            raise SlurmUnavailable(N_("Slurm does not answer."), detail=str(error)) from error
        if done.returncode != 0:
            raise SlurmUnavailable(N_("Slurm does not answer."), detail=f"{command[0]}: {done.stderr.strip()[:500]}")
        return done.stdout

    async def _ask(self, command: tuple[str, ...]) -> Result:
        """Run a query; its times are seconds since 1970."""
        return await self._run(command, env={**os.environ, **times.EPOCHS}, timeout_s=QUERY_TIMEOUT_S)
