"""Where a session's server listens: the port that it announces, and its job's node, which Slurm may change.

A server says with its port how often Slurm had restarted its job when it was started, by Slurm's own count. So order
is not a matter of clocks: of two servers the one of the later run counts, and one of an earlier run, on a node that
Slurm has given up, is not believed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from portal.session_state import Announcement, SessionState
from portal.slurm.accounting import JobEnd
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Job, Phase, SessionJob
from portal.slurm.snapshot import NEVER
from portal.slurm.watched_job import WatchedJob, place_of
from spawners import timings


class AnnouncedPort:
    """The port of a server that starts: only while one is expected.

    Attributes:
        number: the port; 0 = none so far.
        heard_at: when the announcement came, on the cluster's clock.
    """

    def __init__(self) -> None:
        self.number = 0
        self.heard_at = NEVER
        self._restarts: int | None = None  # as its server said
        self._least = 0
        self._expected = False
        self._announced = asyncio.Event()

    def expect(self, restarts: int = 0) -> None:
        """From now on a port is expected, and none has been announced.

        Arguments:
            restarts: how often Slurm has restarted the job at least.
        """
        self._clear(expected=True)
        self._least = restarts

    def forget(self) -> None:
        """From now on no port is accepted."""
        self._clear(expected=False)

    def _clear(self, *, expected: bool) -> None:
        self.number = 0
        self.heard_at = NEVER
        self._restarts = None
        self._expected = expected
        self._announced.clear()

    def accept(self, announcement: Announcement, now: float) -> bool:
        """Take the port; ``False`` when another one counts. The same port again is the same answer again."""
        if not self._expected or (announcement.restarts is not None and announcement.restarts < self._least):
            return False
        if not self.number or self._is_later(announcement):
            self.number = announcement.port
            self.heard_at = now
            self._restarts = announcement.restarts
            self._announced.set()
        return self.number == announcement.port

    def _is_later(self, announcement: Announcement) -> bool:
        return announcement.restarts is not None and announcement.restarts > (self._restarts or 0)

    def is_of_earlier_run(self, restarts: int) -> bool:
        """True for the port of a server from before Slurm's last restart of the job."""
        return (self._restarts or 0) < restarts

    @property
    def is_of_first_run(self) -> bool:
        """True for the port of a job that was never restarted: each snapshot that shows it running is of that run."""
        return self._restarts == 0

    async def announced(self) -> None:
        """Wait until there is a port."""
        await self._announced.wait()


class AnnouncedSession(Protocol):
    """What an address needs of its session, :class:`~spawners.session.Session`."""

    cluster: Cluster
    state: SessionState
    watched: WatchedJob
    log: logging.Logger
    log_name: str

    @property
    def ours(self) -> SessionJob:
        """Our job."""

    def keep(self, **changes: object) -> None:
        """Change the state and save it."""

    async def query(self, max_age_s: float) -> Job | None:
        """Our job in the shared snapshot."""

    async def end(self) -> JobEnd | None:
        """How our job ended; ``None`` while Slurm does not say that it has."""


class ServerAddress:
    """The address of one session's server, from its first announcement to the last run of its job.

    Args:
        session: whose state keeps it.
        moved: is told the new node and port of a session whose job Slurm has started again.

    Attributes:
        port: the announcement that counts, while one is expected.
        following: a requeued job, until its new address is known.
        heard_at: when its server was heard of last, on the cluster's clock.
    """

    def __init__(self, session: AnnouncedSession, moved: Callable[[str, int], None]) -> None:
        self.port = AnnouncedPort()
        self.following: asyncio.Future[None] | None = None
        self.heard_at = session.cluster.now()
        self._session = session
        self._moved = moved
        self._checked_at = NEVER

    @property
    def silent_s(self) -> float:
        """How long a server has been silent that said again and again where it listens; 0 while it does."""
        announcement = self._session.state.announcement
        silent_s = self._session.cluster.now() - self.heard_at
        repeats = announcement is not None and announcement.restarts is not None
        return silent_s if repeats and self._session.state.port and silent_s > timings.SILENT_AFTER_S else 0.0

    # -- a server that starts ---------------------------------------------------------------------------

    async def announce(self, announcement: Announcement) -> bool:
        """Take the port of a server that starts, or whose job Slurm has started again before we saw it.

        ``False`` when none is expected, and Slurm itself does not say that this server is of a later run. The port is
        saved before the server gets its answer.
        """
        state = self._session.state
        if self.port.accept(announcement, self._session.cluster.now()):
            self.heard_at = self._session.cluster.now()
            self._session.keep(announcement=announcement, restarts=announcement.restarts or state.restarts)
            return True
        if state.port == announcement.port and announcement.restarts in (None, state.restarts):
            self.heard_at = self._session.cluster.now()
            return True  # the same again: a server says it for ever, so that it cannot be lost
        if not await self._is_of_later_run(announcement):
            return False
        if self._session.state.port and (job := self._session.watched.job):
            self.requeued(job)
        self.port.expect(announcement.restarts or 0)
        return await self.announce(announcement)

    async def _is_of_later_run(self, announcement: Announcement) -> bool:
        """True when Slurm says that its job was started as often as this server does, and later than we knew.

        Slurm is asked once in a moment, however often somebody announces what is not so: a server says it again.
        """
        now = self._session.cluster.now()
        if not self._session.state.job_id or now - self._checked_at < timings.LIVELY_EVERY_S:
            return False
        self._checked_at = now
        ours = self._session.ours
        job = await self._session.query(0)
        if self._session.ours != ours:
            return False  # it was stopped meanwhile
        if announcement.restarts is None:  # a server of before 0.2.0
            return job is not None and self.has_moved(job)
        state = self._session.state
        is_later = announcement.restarts > state.restarts or not state.port
        return is_later and await self._session.cluster.restarts(ours) == announcement.restarts

    def recall(self) -> None:
        """Take the port that was announced to a hub that went away.

        Should Slurm have started the job again since, its new server announces another one.
        """
        if announcement := self._session.state.announcement:
            self.port.accept(announcement, NEVER)

    def keep(self, job: Job) -> None:
        """The server has answered at its port on this run of the job: this is where the session is now."""
        submitted = self._session.watched.submitted
        self._session.keep(port=self.port.number, place=place_of(job), submitted=submitted)

    async def is_taken_back(self) -> bool:
        """True when Slurm starts a job again whose server had not answered yet: what it announced counts no more.

        A snapshot that shows the job in the queue may only be late; Slurm's own count of restarts is not.
        """
        restarts = await self._session.cluster.restarts(self._session.ours)
        if restarts is None or not self.port.is_of_earlier_run(restarts):
            return False
        self._expect_run(restarts)
        return True

    def _expect_run(self, restarts: int) -> None:
        self._session.keep(port=0, announcement=None, restarts=restarts)
        self.port.expect(restarts)

    # -- a job that Slurm starts again ------------------------------------------------------------------

    def has_moved(self, job: Job) -> bool:
        """True when a job whose server listened waits again, or runs elsewhere or anew."""
        state = self._session.state
        if not state.port:
            return False
        runs_elsewhere = bool(state.place) and place_of(job) != state.place
        return job.phase is Phase.WAITING or (job.phase is Phase.RUNNING and runs_elsewhere)

    def requeued(self, job: Job) -> None:
        """Slurm starts our job again (a node failed, an administrator said so): wait for its new address."""
        reason = job.reason or "it runs again"
        self._session.log.warning("Job %s of %s was requeued: %s", job.id, self._session.log_name, reason)
        self._expect_run(self._session.state.restarts + 1)
        self.following = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        """Wait for the port of the job's new run, tell the spawner, and save where the session is now.

        Until then the state has no port, so that the session is not found to have moved once more.
        """
        job = await self._new_run()
        port = self.port.number
        self.keep(job)
        self.port.forget()
        self.following = None
        self._moved(job.node, port)
        self._session.log.info("The session %s continues at %s:%s", self._session.log_name, job.node, port)

    async def _new_run(self) -> Job:
        """The job on the run whose server has announced its port."""
        while True:
            await self.port.announced()
            job = await self._session.query(timings.LIVELY_EVERY_S)
            is_newer = self._session.watched.read_at > self.port.heard_at
            if job and job.phase is Phase.RUNNING and job.node and is_newer:
                return job
            if await self._session.end():
                self.stop_following()  # cancels this very task; the hub's watch tells the end
            await self._session.cluster.pause(timings.LIVELY_EVERY_S)

    def stop_following(self) -> None:
        """Nobody waits for a new address any more."""
        if self.following:
            self.following.cancel()
        self.following = None
