"""One person's session: from the submission of its job to its end, whatever becomes of hub, Slurm and nodes meanwhile.

::

    new ── submit ──> waiting ── Slurm starts the job ──> running ── port announced, first answer ──> ready
                        ^  ^                                 │                                         │
                        │  └──── Slurm takes it back ────────┘                                         │
                        └────────────────────── requeued: followed to its new node and port ───────────┘

    a hub that was restarted:  waiting ── resume ──> waiting        ready ── poll ──> ready
    in every state:            Slurm says that the job has ended ──> ended         a person stops it ──> ended

What a killed hub must know afterwards is one frozen :class:`~portal.session_state.SessionState`, saved at each change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace

from portal.errors import PortalError, SlurmUnavailable
from portal.history.record import in_short
from portal.session_state import SessionState, word_of
from portal.site import Site
from portal.slurm.accounting import FORGOTTEN, JobEnd
from portal.slurm.cluster import LOST_ANSWER_S, Cluster
from portal.slurm.jobs import Job, Phase, SessionJob
from portal.slurm.snapshot import QueueSnapshot
from portal.slurm.submission import Submission
from portal.slurm.watched_job import WatchedJob
from spawners import messages, timings
from spawners.announcements import ServerAddress
from spawners.choosing.plans import with_plan
from spawners.ends.ending import SessionEnding, Tell
from spawners.startup import FirstAnswer, Pages, Startup


class Session:
    """One session of one person.

    Args:
        cluster: the hub's one view of Slurm.
        site: the site's settings.
        person: the user name.
        save: keeps the state; called before anything depends on its being kept.
        log: the hub's log.
        log_name: what the log calls it; the person's name when it is empty.
        moved: is told the new node and port of a session whose job Slurm has started again.
        ended: is told how each session ended, and again with its log.
    """

    def __init__(
        self,
        cluster: Cluster,
        site: Site,
        person: str,
        save: Callable[[SessionState], None],
        log: logging.Logger,
        *,
        log_name: str = "",
        moved: Callable[[str, int], None] = lambda node, port: None,
        ended: Tell = lambda ended: None,
    ) -> None:
        self.cluster = cluster
        self.site = site
        self.person = person
        self.log_name = log_name or person
        self.log = log
        self.state = SessionState()
        self.watched = WatchedJob(cluster)
        self.pages = Pages(cluster)
        self.address = ServerAddress(self, moved)
        self._save = save
        self.ending = SessionEnding(self, ended)
        self._resumable: SessionState | None = None
        self._submission: asyncio.Future[str] | None = None
        self._exit_status: int | None = None  # of a job that has ended: JupyterHub asks three times
        self._clean_up: asyncio.Future[str] | None = None
        self.is_resumed = False

    # -- state ------------------------------------------------------------------------------------------

    def load(self, state: SessionState) -> None:
        """Continue with a state that was saved; one that waits is resumed by the next start.

        JupyterHub clears a spawner before each start, so what is to be resumed is kept apart.
        """
        self.state = state = replace(state, next_key="")
        self.watched = WatchedJob(self.cluster, state.submitted)
        self._resumable = state if state.is_waiting else None

    def clear(self) -> None:
        """Forget the job, but not why it ended, nor who entered it: who may do both would enter in secret."""
        self.address.stop_following()
        self.state = SessionState(last_end=self.state.last_end, entries=self.state.entries)
        self.watched = WatchedJob(self.cluster)
        self.ending = self.ending.of_next()
        self._submission = None
        self._exit_status = None

    @property
    def ours(self) -> SessionJob:
        """Our job, by its number, person and key: never by its number alone."""
        return SessionJob(self.state.job_id, self.person, self.state.key)

    def keep(self, **changes: object) -> None:
        """Change the state and save it. What a hub that was killed finds out again by itself is not saved."""
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        self._save(self.state)

    @property
    def can_resume(self) -> bool:
        """True when the job of the next start is there already, from before the hub was restarted."""
        return self._resumable is not None

    # -- start ------------------------------------------------------------------------------------------

    async def submit(self, submission: Submission, token: str, *, tls: bool = False) -> None:
        """Submit the job; its id is kept at once. A start that is cancelled meanwhile still learns of its job.

        Raises:
            SubmitRefused: with sbatch's own words.
            SlurmUnavailable: no answer, and no job with the session's key within a minute.
        """
        self.address.port.expect()
        self.is_resumed = False
        self.state = SessionState(submission.key, token=token, tls=tls, entries=self.state.entered_lately)
        self.keep(word=word_of(token) if tls else "")
        self._submission = asyncio.ensure_future(self.cluster.submit_or_find(self.person, submission))
        while not self._submission.done():  # asyncio.wait does not cancel what it waits for
            await asyncio.wait([self._submission], timeout=timings.LIVELY_EVERY_S)
            if not self._submission.done():
                await self.query(timings.LIVELY_EVERY_S)  # the page shows a Slurm that is silent
        try:
            self.keep(job_id=self._submission.result())
        except PortalError as error:
            self.note_end(error.message)
            raise
        self.watched.accepted()
        self.log.info("Job %s submitted for %s, key %s", self.state.job_id, self.log_name, self.state.key)

    async def resume(self) -> bool:
        """Continue with the job from before the hub was restarted; ``False`` when it was never submitted."""
        before = self._resumable
        self._resumable = None
        if before is None:
            return False
        self.address.port.expect(before.restarts)
        self.is_resumed = True
        had_tls = self.site.portal.had_internal_ssl
        self.state = replace(before, last_end="", tls=had_tls if before.tls is None else before.tls)
        self.watched = WatchedJob(self.cluster, before.submitted)
        deadline = self.cluster.now() + LOST_ANSWER_S
        while not await self._knows_job(deadline):
            await self.query(timings.LIVELY_EVERY_S)
            await self.cluster.pause(timings.LIVELY_EVERY_S)
        if not self.state.job_id:
            await self.finish()  # the launcher may have written its secrets
            return False
        self._save(self.state)
        self.log.info("Job %s of %s is resumed", self.state.job_id, self.log_name)
        return True

    async def _knows_job(self, deadline: float) -> bool:
        """True once Slurm has shown the job with our key, or has not known one for a while."""
        if not self.state.job_id:
            try:
                self.state = replace(self.state, job_id=await self.cluster.find(self.person, self.state.key))
            except SlurmUnavailable:
                return False
        return bool(self.state.job_id) or self.cluster.now() > deadline

    async def wait_until_ready(self, first_answer: FirstAnswer) -> tuple[str, int]:
        """Wait for the job's node, the server's port and its first answer; answers node and port.

        Raises:
            SessionEnded: the job ended (with the end of its log), or did not answer in the site's time on its node.
        """
        try:
            job = await Startup(self, first_answer).wait()
        finally:
            self.address.port.forget()
        return job.node, self.state.port

    async def query(self, max_age_s: float) -> Job | None:
        """Our job in the shared snapshot; ``None`` while it is not known there."""
        ours = self.ours
        job = await self.watched.query(ours, max_age_s)
        is_ours = self.ours == ours  # another job may have taken its place
        if is_ours and (foretold := with_plan(self.state.foretold, job)):
            self.keep(foretold=foretold)
        return job if is_ours else None

    async def end(self) -> JobEnd | None:
        """How our job ended; ``None`` while Slurm does not say that it has.

        A number that is another job's, from an sbatch that was wrong, is not the end: our key says which is ours.
        """
        ours = self.ours
        end = await self.watched.end(ours)
        is_theirs = end == FORGOTTEN and self.ours == ours and await self._has_other_number(ours)
        return None if is_theirs or self.ours != ours else end

    def note_end(self, reason: str) -> None:
        """Keep why it ended, in short: for the server page, and with the sessions that have ended."""
        self.state = replace(self.state, last_end=in_short(reason))
        self.ending.is_over(reason)

    # -- the end ----------------------------------------------------------------------------------------

    async def poll(self) -> int | None:
        """``None`` while the session lives or nothing is known; an exit status once Slurm says that it ended."""
        if not self.state.job_id:
            return None if self._submission else 0
        if self._exit_status is not None:
            return self._exit_status
        watched = self.watched
        ours = self.ours
        queue = await self.cluster.queue(timings.POLL_MAX_AGE_S)
        job = await watched.see(ours, queue)
        if job and self.state.key == ours.key and self.address.has_moved(job):
            self.address.requeued(job)
        end = await watched.end(ours)
        if self.state.key != ours.key:
            return None  # it was stopped meanwhile: nothing is said of it, and nothing of the next one
        is_theirs = end == FORGOTTEN and await self._has_other_number(ours)
        if end is None or is_theirs or self._exit_status is not None:
            return self._exit_status
        self._exit_status = 0 if end.state == "COMPLETED" else 1
        self.address.stop_following()
        self.note_end(messages.ended(end))
        self.log.info("The session %s ended: %s", self.log_name, self.state.last_end)
        # Its secrets are removed, once and few at a time: JupyterHub does not call stop() for what has ended.
        self._clean_up = asyncio.ensure_future(self.ending.cleaned_up(self.state.key))
        return self._exit_status

    async def _has_other_number(self, ours: SessionJob) -> bool:
        """True when our number is another job's, and ours has, or may have, another one: its key says which."""
        try:
            found = await self.cluster.find(self.person, ours.key)
        except SlurmUnavailable:
            return True  # nothing is known; it is asked again
        if self.ours != ours:
            return True  # it was stopped meanwhile
        if found in ("", self.state.job_id):
            return False
        self.log.warning("The session %s is job %s, not %s", self.log_name, found, self.state.job_id)
        self.keep(job_id=found, submitted=0)
        return True

    def look(self, queue: QueueSnapshot) -> None:
        """See what pages show of our job: suspended, with another time limit."""
        job = queue.jobs.get(self.state.job_id)
        if job and self.watched.is_confirmed(self.ours, job):
            self.watched.job = job

    def is_completing(self, queue: QueueSnapshot) -> bool:
        """True when a snapshot shows that our job is just ending."""
        job = queue.jobs.get(self.state.job_id)
        return job is not None and job.state == "COMPLETING"

    def needs_poll(self, queue: QueueSnapshot) -> bool:
        """True when a snapshot of the queue does not show our job where it was."""
        job = queue.jobs.get(self.state.job_id)
        if job is None or job.phase is Phase.ENDED or self.address.has_moved(job):
            return True
        return not self.watched.is_confirmed(self.ours, job)

    async def stop(self, now: bool = False) -> None:
        """Cancel the job, remove its secrets, and (unless ``now``) wait until Slurm says that it is gone."""
        self.address.stop_following()
        if not self.state.key:
            return
        ending = self.ending
        ending.stops(messages.stopped())
        if self._submission and not self.state.job_id:
            with contextlib.suppress(PortalError):
                self.state = replace(self.state, job_id=await self._submission)
        asked_at = self.cluster.now()
        await self.finish()
        ending.is_over()
        while self.state.job_id and not now and self.cluster.now() - asked_at < timings.STOP_WITHIN_S:
            queue = await self.cluster.queue(timings.LIVELY_EVERY_S / 2)
            job = queue.jobs.get(self.state.job_id)
            is_over = job is None or job.phase is Phase.ENDED
            if is_over and not queue.error and queue.taken_at > asked_at:
                return
            await self.cluster.pause(timings.LIVELY_EVERY_S / 2)

    async def finish(self) -> str:
        """Cancel and clean up; answers the log's last lines. A silent Slurm is only logged: the job has its limit."""
        ours = self.ours
        try:
            return await self.ending.wrote(self.cluster.finish(ours.user, ours.key, ours.id, self.watched.submitted))
        except SlurmUnavailable as error:
            self.log.error("The job %s of %s could not be cancelled: %s", ours.id, self.log_name, error.detail)
            return ""
