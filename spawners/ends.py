"""How a session's end is noticed, and why it ended: by Slurm's word, never by its silence."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

from portal import messages
from portal.hub.config import SERVING
from portal.slurm.cluster import QueueSnapshot
from portal.slurm.jobs import Job, Phase
from spawners.requeue import FollowsRequeue
from spawners.sees import SeesCluster

POLL_MAX_AGE_S = 30.0  # the hub watches all sessions together; one session's own poll takes what is there
ENDING_LOOKS, ENDING_EVERY_S = 10, 1.0  # after the session itself has said that it ends


class NoticesEnd(SeesCluster, FollowsRequeue):
    """What a spawner does about the end of a job that runs."""

    poll_and_notify: Any
    user: Any
    _check_pending: Any
    ready: Any  # JupyterHub's word for a session that runs, and is not being started, checked or stopped
    job_id: str
    last_end = ""  # why the last session ended, for the server page, until the next start
    _job: Job | None = None
    _was_seen = False  # Slurm has shown us our job, so it would show it again
    _submitting: asyncio.Future[str] | None = None
    _submitted_at = float("-inf")  # on the cluster's clock; a hub that restarted knows only that it was before
    _ending: asyncio.Future[None] | None = None

    async def poll(self) -> int | None:
        """``None`` while the session lives or nothing is known; a number once Slurm says that it ended."""
        if self._check_pending and (serving := self.user.settings.get(SERVING)):
            await serving.wait()  # a hub that starts looks at a thousand sessions after it shows its first page
        if not self.job_id:
            return None if self._submitting else 0
        snapshot = await self.cluster.queue(POLL_MAX_AGE_S)
        self._job = job = snapshot.jobs.get(self.job_id)
        self._was_seen = self._was_seen or job is not None
        if job and self.has_moved(job):
            self.requeued(job)
        alive = job is not None and job.phase is not Phase.ENDED
        if alive or snapshot.error or snapshot.taken_at <= self._submitted_at:
            return None
        end = await self.cluster.ended(self.job_id, self._was_seen)
        if end is None:
            return None
        self.last_end = messages.ended(end)
        self.log.info("The session %s ended: %s", self._log_name, self.last_end)
        await self._finish()  # its secrets go with it: JupyterHub does not call stop() for what has ended
        return 0 if end.state == "COMPLETED" else 1

    def needs_a_look(self, snapshot: QueueSnapshot) -> bool:
        """True when a picture of the queue does not show our job where it was."""
        job = snapshot.jobs.get(self.job_id)
        return job is None or job.phase is Phase.ENDED or self.has_moved(job)

    def notices(self, snapshot: QueueSnapshot) -> None:
        """A job that is just ending is looked at again soon, not only at the next watch."""
        job = snapshot.jobs.get(self.job_id)
        if job and job.state == "COMPLETING":
            self.ends_soon()

    def ends_soon(self) -> None:
        """The session has said that it ends: Slurm is asked every second for a moment; the watch comes later."""
        if self._ending is None or self._ending.done():
            self._ending = asyncio.ensure_future(self._see_end())

    async def _see_end(self) -> None:
        for _ in range(ENDING_LOOKS):
            await asyncio.sleep(ENDING_EVERY_S)
            if self.ready and self._listens_at and self.needs_a_look(await self.cluster.queue(ENDING_EVERY_S / 2)):
                await self.poll_and_notify()
                return

    @abstractmethod
    async def _finish(self) -> str:
        """Cancel and clean up."""
