"""One job in the shared snapshot of the queue: what it shows now, and what may be concluded from it."""

from __future__ import annotations

from datetime import datetime

from portal.session_state import Place
from portal.slurm.accounting import FORGOTTEN, JobEnd
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Job, Phase, SessionJob
from portal.slurm.snapshot import NEVER, QueueSnapshot


def place_of(job: Job) -> Place:
    """The run of a running job; it is another one when Slurm starts the job again."""
    return Place(job.node, _seconds(job.starts_at))


class WatchedJob:
    """A session's job, as its session sees it. Times are on the cluster's clock.

    Attributes:
        job: as the last snapshot showed it; ``None`` while it is not known there.
        submitted: when the job was submitted that was confirmed to be ours, in seconds since 1970; 0 = none.
        stale_s: how long Slurm has been silent; 0 while it answers.
        read_at: when the last good snapshot was taken.
        changed_at: when something last happened to the job.
        ended: how it ended, as soon as Slurm says so.
        may_have_ended: a good snapshot from after the submission shows the job as ended, or does not show it.
    """

    def __init__(self, cluster: Cluster, submitted: int = 0) -> None:
        self.job: Job | None = None
        self.ended: JobEnd | None = None
        self.submitted = submitted
        self.stale_s = 0.0
        self.read_at = NEVER
        self.changed_at = NEVER
        self.may_have_ended = False
        self._cluster = cluster
        self._shown_owner = ""  # as Slurm spells the person
        self._was_seen = False  # Slurm has shown us our job, so it would show it again
        self._accepted_at = NEVER  # a hub that restarted knows only that it was before

    def accepted(self) -> None:
        """The job was submitted in this moment: no snapshot of before can show it."""
        self._accepted_at = self._cluster.now()
        self.changed_at = self._cluster.now()

    async def query(self, ours: SessionJob, max_age_s: float) -> Job | None:
        """The job in a snapshot that is not older than ``max_age_s``."""
        queue = await self._cluster.queue(max_age_s)
        self.stale_s = queue.age_s(self._cluster.now()) if queue.error else 0.0
        self.read_at = NEVER if queue.error else queue.taken_at
        phase_before = self.job and self.job.phase
        await self.see(ours, queue)
        if phase_before != (self.job and self.job.phase):
            self.changed_at = self._cluster.now()
        return self.job

    async def see(self, ours: SessionJob, queue: QueueSnapshot) -> Job | None:
        """The job in a snapshot. A number alone is not believed: slurmctld may have given it to another job."""
        found = queue.jobs.get(ours.id)
        if found and not self.is_confirmed(ours, found):
            is_ours = await self._cluster.identify(ours)
            if is_ours is None:
                return self.job  # nothing is known just now
            if is_ours:
                self.submitted = _seconds(found.submitted_at)
                self._shown_owner = found.user
            else:
                found = None
        self.job = found
        self._was_seen = self._was_seen or self.job is not None
        is_alive = self.job is not None and self.job.phase is not Phase.ENDED
        is_newer = queue.taken_at > self._accepted_at
        self.may_have_ended = not is_alive and not queue.error and is_newer
        return self.job

    def is_confirmed(self, ours: SessionJob, found: Job) -> bool:
        """True for the very submission that slurmctld said to be ours; a requeue counts as another one."""
        submitted = _seconds(found.submitted_at)
        return bool(submitted) and submitted == self.submitted and found.user in (ours.user, self._shown_owner)

    async def end(self, ours: SessionJob) -> JobEnd | None:
        """How the job ended: asked of Slurm for this very job; ``None`` while Slurm does not say that it has."""
        if not self.may_have_ended:
            return None
        found = await self._cluster.ended(ours.id, self._was_seen, ours)
        self.ended = None if found == FORGOTTEN else found
        return found


def _seconds(moment: datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0
