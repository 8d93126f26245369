"""From a job in the queue to a server that has answered, noticing within seconds when the job ends instead."""

from __future__ import annotations

import asyncio
from datetime import datetime

from portal import messages
from portal.errors import SessionEnded
from portal.slurm.accounting import JobEnd
from portal.slurm.jobs import Job, Phase
from spawners.ends import NoticesEnd
from spawners.reach import ReachesServer
from spawners.requeue import LOOK_EVERY_S, place_of

WAIT_EVERY_S = 12.0  # while it waits; the server itself says when it runs
LIVELY_S = 20.0  # after something has happened, Slurm is asked every second


class AwaitsServer(NoticesEnd, ReachesServer):
    """What a spawner does between the submission and the first answer of its server."""

    _stale_s = 0.0
    _read_at = float("-inf")  # when the last good picture was taken
    _changed_at = float("-inf")  # when something happened to the job
    _running_since: float | None = None
    _told_at: float | None = None  # when we learned of the server's port
    _answer: asyncio.Future[None] | None = None  # the server's first one, once its node and port are known

    async def _started(self) -> tuple[str, int]:
        """Wait for the job's node, the server's port and its first answer; answers node and port."""
        self._running_since = self._told_at = None
        try:
            while True:
                job = await self._look(0.2 if self.announced and not self._answer else self._pace_s)
                if end := await self._end_of(job):
                    raise await self._dead(end)
                if job and job.phase is Phase.RUNNING:
                    self._runs(job)
                elif job and job.phase is Phase.WAITING:
                    await self._waits(job)
                await self._something_happens()
                self._told_at = self._told_at or (self.cluster.now() if self.announced else None)
                if job and self._answer and self._answer.done():
                    self._answer.result()
                    return self._is_there(job)
        finally:
            self._forget_answer()

    def _runs(self, job: Job) -> None:
        self._running_since = self._running_since or self.cluster.now()
        limit_s = self.site.session.start_timeout_min * 60
        if self.cluster.now() - self._running_since > limit_s:
            raise SessionEnded(
                f"JupyterLab did not answer within {limit_s // 60} minutes of its start on {job.node}. "
                "Try again; if it stays so, tell your administrator.",
            )
        if not self.announced:
            self.recall_port(job)
        if self.announced and job.node and not self._answer:
            self._answer = asyncio.ensure_future(self.first_answer(job.node, self.announced))

    async def _waits(self, job: Job) -> None:
        if self._told_at and self._read_at > self._told_at:  # it ran, and Slurm has taken it back since
            self._forget_answer()
            self._running_since = self._told_at = None
            self.expect_port()
        if messages.waits_too_long(job, self.site, datetime.now()):
            raise SessionEnded(messages.gave_up(self.site), log=await self._finish())

    async def _something_happens(self) -> None:
        """Wait for the server's port, then for its node, then for its answer; not for long."""
        if self.announced and not self._answer:
            await asyncio.sleep(0.25)
        elif awaited := self._answer or self._port:
            await asyncio.wait([awaited], timeout=self._pace_s)

    def _is_there(self, job: Job) -> tuple[str, int]:
        self._listens_at, self._place = self.announced, place_of(job)
        self._save()
        return job.node, self._listens_at

    def _forget_answer(self) -> None:
        if self._answer:
            self._answer.cancel()
        self._answer = None

    @property
    def _pace_s(self) -> float:
        """How often Slurm is asked: every second after something has happened, seldom while we only wait."""
        return LOOK_EVERY_S if self.cluster.now() - self._changed_at < LIVELY_S else WAIT_EVERY_S

    async def _look(self, max_age_s: float) -> Job | None:
        """Our job in the shared picture; ``None`` while it is not known there."""
        snapshot = await self.cluster.queue(max_age_s)
        self._stale_s = snapshot.age_s(self.cluster.now()) if snapshot.error else 0.0
        self._read_at = float("-inf") if snapshot.error else snapshot.taken_at
        before, self._job = self._job, snapshot.jobs.get(self.job_id)
        self._was_seen = self._was_seen or self._job is not None
        if (before and before.phase) != (self._job and self._job.phase):
            self._changed_at = self.cluster.now()
        return self._job

    async def _end_of(self, job: Job | None) -> JobEnd | None:
        """How our job ended: asked when the queue shows it as ended, or was read after the submission without it."""
        if job.phase is not Phase.ENDED if job else self._read_at <= self._submitted_at:
            return None
        return await self.cluster.ended(self.job_id, self._was_seen)

    async def _dead(self, end: JobEnd) -> SessionEnded:
        log = await self._finish()
        return SessionEnded(messages.ended(end, log), log=log)
