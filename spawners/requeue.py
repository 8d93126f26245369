"""A job that Slurm starts again: the same session at another node and port."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

from portal.slurm import Job, Phase
from spawners.ready import AwaitsPort

LOOK_EVERY_S = 1.0  # while a session starts


class FollowsRequeue(AwaitsPort):
    """What a spawner does when its running job goes back into the queue."""

    log: Any
    server: Any
    _log_name: Any
    following: asyncio.Future[None] | None = None

    def requeued(self, job: Job) -> None:
        """Slurm starts our job again (a node failed, an administrator said so): wait for its new address."""
        self.log.warning("Job %s of %s was requeued: %s", job.id, self._log_name, job.reason)
        self._listens_at = 0
        self._save()
        self.following = asyncio.ensure_future(self._follow(self.expect_port()))

    async def _follow(self, port: asyncio.Future[int]) -> None:
        self._listens_at = await port
        self.forget_port()
        while not ((job := await self._look(LOOK_EVERY_S)) and job.phase is Phase.RUNNING and job.node):  # noqa: ASYNC110  the picture is shared
            await asyncio.sleep(LOOK_EVERY_S)
        if self.server:
            self.server.ip, self.server.port = job.node, self._listens_at
        self._save()
        self.log.info("The session %s goes on at %s:%s", self._log_name, job.node, self._listens_at)

    @abstractmethod
    async def _look(self, max_age_s: float) -> Job | None:
        """Our job in the shared picture."""

    @abstractmethod
    def _save(self) -> None:
        """Write the state now."""
