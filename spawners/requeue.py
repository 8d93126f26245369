"""A job that Slurm starts again: the same session at another node and port."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import Any

from portal.slurm import Job, Phase
from spawners.ready import AwaitsPort

LOOK_EVERY_S = 1.0  # while a session starts
CLOCKS_DIFFER_S = 1.0  # Slurm's times are whole seconds


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
        self.following = asyncio.ensure_future(self._follow(self.expect_port()))

    async def _follow(self, port: asyncio.Future[int]) -> None:
        self._listens_at = await port
        self.forget_port()
        while not ((job := await self._look(LOOK_EVERY_S)) and job.phase is Phase.RUNNING and job.node):  # noqa: ASYNC110  the picture is shared
            await asyncio.sleep(LOOK_EVERY_S)
        self._place = place_of(job)
        if self.server:
            self.server.ip, self.server.port = job.node, self._listens_at
        self._save()
        self.log.info("The session %s goes on at %s:%s", self._log_name, job.node, self._listens_at)

    async def take_port(self, port: int) -> bool:
        """Take the port of a session that starts, or that Slurm has started again before we saw it."""
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
        if self._told and job.starts_at and job.starts_at.timestamp() <= self._told[1] + CLOCKS_DIFFER_S:
            self.accept_port(int(self._told[0]))

    @abstractmethod
    async def _look(self, max_age_s: float) -> Job | None:
        """Our job in the shared picture."""

    @abstractmethod
    def _save(self) -> None:
        """Write the state now."""
