"""One job in the shared snapshot of the queue: what it shows now, and what may be concluded from it."""

from __future__ import annotations

from portal.session_state import Announcement, Place
from portal.slurm.accounting import JobEnd
from portal.slurm.cluster import Cluster, QueueSnapshot
from portal.slurm.jobs import Job, Phase
from portal.slurm.snapshot import NEVER

CLOCKS_DIFFER_S = 30.0  # the hub's and slurmctld's; between two runs of a job Slurm waits two minutes


def place_of(job: Job) -> Place:
    """The run of a running job; it is another one when Slurm starts the job again."""
    return Place(job.node, job.starts_at.isoformat() if job.starts_at else "")


def is_of_this_run(announcement: Announcement, job: Job) -> bool:
    """True for a job that runs, and has not been started again since its server announced its port."""
    if job.phase is not Phase.RUNNING or not job.node:
        return False
    return not job.starts_at or job.starts_at.timestamp() <= announcement.at + CLOCKS_DIFFER_S


class WatchedJob:
    """A session's job, as its session sees it. Times are on the cluster's clock.

    Attributes:
        job: as the last snapshot showed it; ``None`` while it is not known there.
        stale_s: how long Slurm has been silent; 0 while it answers.
        read_at: when the last good snapshot was taken.
        changed_at: when something last happened to the job.
        may_have_ended: a good snapshot from after the submission shows the job as ended, or does not show it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.job: Job | None = None
        self.stale_s = 0.0
        self.read_at = NEVER
        self.changed_at = NEVER
        self.may_have_ended = False
        self._cluster = cluster
        self._was_seen = False  # Slurm has shown us our job, so it would show it again
        self._submitted_at = NEVER  # a hub that restarted knows only that it was before

    def submitted(self) -> None:
        """The job was submitted in this moment: no snapshot of before can show it."""
        self._submitted_at = self._cluster.now()
        self.changed_at = self._cluster.now()

    async def query(self, job_id: str, max_age_s: float) -> Job | None:
        """The job in a snapshot that is not older than ``max_age_s``."""
        queue = await self._cluster.queue(max_age_s)
        self.stale_s = queue.age_s(self._cluster.now()) if queue.error else 0.0
        self.read_at = NEVER if queue.error else queue.taken_at
        phase_before = self.job and self.job.phase
        self.see(job_id, queue)
        if phase_before != (self.job and self.job.phase):
            self.changed_at = self._cluster.now()
        return self.job

    def see(self, job_id: str, queue: QueueSnapshot) -> Job | None:
        """The job in a snapshot."""
        self.job = queue.jobs.get(job_id)
        self._was_seen = self._was_seen or self.job is not None
        is_alive = self.job is not None and self.job.phase is not Phase.ENDED
        is_newer = queue.taken_at > self._submitted_at
        self.may_have_ended = not is_alive and not queue.error and is_newer
        return self.job

    async def end(self, job_id: str) -> JobEnd | None:
        """How the job ended: asked of Slurm for this very job; ``None`` while Slurm does not say that it has."""
        if not self.may_have_ended:
            return None
        return await self._cluster.ended(job_id, self._was_seen)
