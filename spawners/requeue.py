"""A job that Slurm starts again: the same session at another node and port."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import Any

from portal.slurm.jobs import Job, Phase
from spawners.ready import AwaitsPort

LOOK_EVERY_S = 1.0  # while a session starts
CLOCKS_DIFFER_S = 30.0  # the hub's and slurmctld's; between two runs of a job Slurm waits two minutes


def place_of(job: Job) -> list[str]:
    """Where and since when a job runs; it changes when Slurm starts the job again."""
    return [job.node, job.starts_at.isoformat() if job.starts_at else ""]


class FollowsRequeue(AwaitsPort):
    """What a spawner does when its running job goes back into the queue."""

    log: Any
    server: Any
    _log_name: Any
    following: asyncio.Future[None] | None = None
    _told: list[float] | None = None  # the port that the server told, and when: it tells it once
    _place: list[str] | None = None

    def has_moved(self, job: Job) -> bool:
        """True when a job whose server listened waits again, or runs elsewhere or anew."""
        if not self._listens_at:
            return False
        moved = bool(self._place) and place_of(job) != self._place
        return job.phase is Phase.WAITING or (job.phase is Phase.RUNNING and moved)

    def requeued(self, job: Job) -> None:
        """Slurm starts our job again (a node failed, an administrator said so): wait for its new address."""
        self.log.warning("Job %s of %s was requeued: %s", job.id, self._log_name, job.reason or "it runs again")
        self._listens_at, self._told = 0, None
        self._save()
        self.expect_port()
        self.following = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        """Until the end of it ``_listens_at`` is 0: a session without an address does not move."""
        while not ((job := await self._told_job()) and self._is_told_by(job)):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY_S)  # the picture is shared
        self._listens_at, self._place = self.announced, place_of(job)
        self.forget_port()
        self.following = None
        if self.server:
            self.server.ip, self.server.port = job.node, self._listens_at
        self._save()
        self.log.info("The session %s goes on at %s:%s", self._log_name, job.node, self._listens_at)

    async def _told_job(self) -> Job | None:
        """Our job in the picture, once its server has told a port."""
        if self._port:
            await asyncio.wait([self._port])
        return await self._look(LOOK_EVERY_S)

    def _is_told_by(self, job: Job) -> bool:
        """True for a running job that has not been started again since the port was told."""
        if not self._told or job.phase is not Phase.RUNNING or not job.node:
            return False
        return not job.starts_at or job.starts_at.timestamp() <= self._told[1] + CLOCKS_DIFFER_S

    def stop_following(self) -> None:
        """Nobody waits for a new address any more."""
        if self.following:
            self.following.cancel()
        self.following = None

    async def take_port(self, port: int) -> bool:
        """Take the port of a session that starts, or that Slurm has started again before we saw it."""
        if self.following and self.announced:
            self.expect_port()  # started once more before we saw it run: its last word counts
        if self.accept_port(port):
            self._told = [port, time.time()]
            self._save()  # before the server hears that we know: it will not tell us again
            return True
        job = await self._look(0) if self._listens_at else None
        if not (job and self.has_moved(job)):
            return False
        self.requeued(job)
        return await self.take_port(port)

    def recall_port(self, job: Job) -> None:
        """Take the port that was told to a hub that went away, if the job has not been started again since."""
        if self._told and job.starts_at and self._is_told_by(job):
            self.accept_port(int(self._told[0]))

    @abstractmethod
    async def _look(self, max_age_s: float) -> Job | None:
        """Our job in the shared picture."""

    @abstractmethod
    def _save(self) -> None:
        """Write the state now."""
