"""One start: from a job in the queue to a server that has answered; a job that ends instead is noticed at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from portal.errors import SessionEnded
from portal.site import Site
from portal.slurm.accounting import JobEnd
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Job, Phase
from portal.slurm.watched_job import WatchedJob
from spawners import messages, timings

FirstAnswer = Callable[[str, int], Awaitable[None]]  # waits for the answer of the server at this node and port


class AnnouncedPort:
    """The port that a server announces itself: the first one counts, and only while one is expected."""

    def __init__(self) -> None:
        self.number = 0  # 0 = none so far
        self._expected = False
        self._announced = asyncio.Event()

    def expect(self) -> None:
        """From now on a port is expected, and none has been announced."""
        self._clear(expected=True)

    def forget(self) -> None:
        """From now on no port is accepted."""
        self._clear(expected=False)

    def _clear(self, *, expected: bool) -> None:
        self.number = 0
        self._expected = expected
        self._announced.clear()

    def accept(self, port: int, current: int = 0) -> bool:
        """Take the port; ``False`` when another one counts. The same port again is the same answer again.

        Arguments:
            current: where the server listens already, for the time in which no port is expected.
        """
        if not self._expected:
            return port == current
        if not self.number:
            self.number = port
            self._announced.set()
        return self.number == port

    async def announced(self) -> None:
        """Wait until there is a port."""
        await self._announced.wait()


class StartingSession(Protocol):
    """What a start needs of its session, :class:`~spawners.session.Session`."""

    cluster: Cluster
    site: Site
    watched: WatchedJob
    port: AnnouncedPort

    async def query(self, max_age_s: float) -> Job | None:
        """Our job in the shared snapshot."""

    async def end(self) -> JobEnd | None:
        """How our job ended; ``None`` while Slurm does not say that it has."""

    async def finish(self) -> str:
        """Cancel and clean up; answers the last lines of the log."""

    def recall_port(self, job: Job) -> None:
        """Take a port that was announced before the hub was restarted."""

    def keep_place(self, job: Job) -> None:
        """The server has answered on this run of the job."""


class Startup:
    """The waiting loop of one start, as a state machine. What it knows follows from these four::

        the job        port announced   first answer    state
        waiting        -                -               in the queue, for as long as Slurm and the site let it
        running        no               -               the server starts; the site's start_timeout_min runs
        running        yes              pending         the hub's question waits in the server's socket
        running        yes              given           ready

    The server may announce its port before Slurm's snapshot shows that the job runs: then the node is asked for at
    once. A job that waits although its server was heard of has been taken back by Slurm (requeued): its port and its
    answer count no more. A job that has ended, by Slurm's own word, ends the start. Times are on the cluster's clock.
    """

    def __init__(self, session: StartingSession, first_answer: FirstAnswer) -> None:
        self._session = session
        self._first_answer = first_answer
        self._running_since: float | None = None
        self._announced_at: float | None = None  # when we learned of the port
        self._answer: asyncio.Future[None] | None = None  # pending once node and port are known

    async def wait(self) -> Job:
        """Wait until the server has answered; answers its job.

        Raises:
            SessionEnded: the job ended, waited too long for this site, or did not answer in time on its node.
        """
        try:
            while True:
                job = await self._session.query(self._max_age_s)
                if end := await self._session.end():
                    log = await self._session.finish()
                    raise SessionEnded(messages.ended(end, log), log=log)
                if job and job.phase is Phase.RUNNING:
                    self._runs(job)
                elif job and job.phase is Phase.WAITING:
                    await self._waits(job)
                await self._news()
                if self._has_port and self._announced_at is None:
                    self._announced_at = self._now()
                if job and self._answer and self._answer.done():
                    self._answer.result()  # raises what the question raised
                    self._session.keep_place(job)
                    return job
        finally:
            self._forget()

    def _runs(self, job: Job) -> None:
        """The server has the site's time to announce its port and to answer, counted from its start on the node."""
        if self._running_since is None:
            self._running_since = self._now()
        limit_min = self._session.site.session.start_timeout_min
        if self._now() - self._running_since > limit_min * 60:
            raise SessionEnded(messages.never_answered(job.node, limit_min))
        if not self._has_port:
            self._session.recall_port(job)
        if self._has_port and job.node and not self._answer:
            self._answer = asyncio.ensure_future(self._first_answer(job.node, self._session.port.number))

    async def _waits(self, job: Job) -> None:
        """Waiting has no limit but the site's. A job that waits after its server was heard of runs anew, later.

        Should Slurm's snapshot only be late, the announcement is found again when it shows the job (``recall_port``).
        """
        is_newer_than_its_port = self._announced_at is not None and self._session.watched.read_at > self._announced_at
        if is_newer_than_its_port:  # the snapshot
            self._forget()
            self._session.port.expect()
        if messages.waits_too_long(job, self._session.site, datetime.now()):
            raise SessionEnded(messages.gave_up(self._session.site), log=await self._session.finish())

    async def _news(self) -> None:
        """Wait for the server's port, then for its node, then for its answer; not longer than until the next query."""
        if self._is_node_missing:
            await self._session.cluster.pause(timings.NODE_EVERY_S)
            return
        pause = asyncio.ensure_future(self._session.cluster.pause(self._pace_s))
        news = self._answer or asyncio.ensure_future(self._session.port.announced())
        await asyncio.wait([news, pause], return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()
        if news is not self._answer:
            news.cancel()

    def _forget(self) -> None:
        """Nothing is known of the server any more."""
        if self._answer:
            self._answer.cancel()
        self._answer = None
        self._running_since = None
        self._announced_at = None

    def _now(self) -> float:
        return self._session.cluster.now()

    @property
    def _has_port(self) -> bool:
        return bool(self._session.port.number)

    @property
    def _is_node_missing(self) -> bool:
        return self._has_port and self._answer is None

    @property
    def _max_age_s(self) -> float:
        return timings.NODE_MAX_AGE_S if self._is_node_missing else self._pace_s

    @property
    def _pace_s(self) -> float:
        """How often Slurm is asked: every second after something has happened, seldom while we only wait."""
        is_lively = self._now() - self._session.watched.changed_at < timings.LIVELY_FOR_S
        return timings.LIVELY_EVERY_S if is_lively else timings.WAITING_EVERY_S
