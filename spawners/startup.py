"""One start: from a job in the queue to a server that has answered; a job that ends instead is noticed at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol
from urllib.parse import urlsplit

from jupyterhub.utils import wait_for_http_server
from tornado import web

from portal.errors import SessionEnded
from portal.hub.certificates import own_context
from portal.site import Site
from portal.slurm.accounting import JobEnd
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Job, Phase
from portal.slurm.outlook import NOTHING_KNOWN, QueueOutlook
from portal.slurm.watched_job import WatchedJob
from spawners import messages, timings
from spawners.announcements import ServerAddress

FirstAnswer = Callable[[str, int], Awaitable[None]]  # waits for the answer of the server at this node and port


async def first_answer(
    url: str, settings: Mapping[str, Any], unresolved: Callable[[str], None] = lambda host: None
) -> None:
    """Wait until the server has answered: the question waits in its socket, and gets the first answer it gives.

    Arguments:
        url: the server's own address, with a slash at its end.
        settings: JupyterHub's, with the hub's certificate where the site has internal TLS.
        unresolved: is told the name of a host that cannot be resolved here, and ``""`` when it can.
    """
    host = urlsplit(url).hostname or ""
    while not await resolves(host):
        unresolved(host)
        await asyncio.sleep(timings.NAME_EVERY_S)
    unresolved("")
    context = await own_context(settings)
    await wait_for_http_server(f"{url}api", timeout=timings.FIRST_ANSWER_S, ssl_context=context)


async def resolves(host: str) -> bool:
    """True when this host knows the address of a name; a name service that hangs holds up nobody else."""
    try:
        await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError:
        return False
    return True


async def progress(session: WatchedSession, unresolved: Callable[[], str]) -> AsyncIterator[messages.View]:
    """What a start waits for, in words, whenever it changes.

    Arguments:
        session: that starts.
        unresolved: the name of its node, while this host cannot resolve it.

    Raises:
        web.Finish: newer pages follow the start. (Were there only no more words, JupyterHub would keep the request open
            until the start is over: apihandlers/users.py, 6.1.)
    """
    began = session.cluster.now()
    last = None
    with session.pages.followed() as gives_way:
        while True:
            watched = session.watched
            known = NOTHING_KNOWN if watched.stale_s else await session.pages.outlook.of(watched.job)
            for_s = session.cluster.now() - began
            shown = messages.view(watched.job, watched.stale_s, known, unresolved(), watched_for_s=for_s)
            if gives_way.done():
                yield messages.gives_way(shown, timings.FOLLOWED_AT_ONCE)
                raise web.Finish
            if shown != last:
                yield shown
            last = shown
            await asyncio.wait([gives_way], timeout=timings.LIVELY_EVERY_S)


class Pages:
    """The pages that follow one session's start: they share their looks at the queue, and are so many at a time.

    A page that was closed may count until its words change, for JupyterHub notices it only then. So a new page is never
    refused: the oldest gives way.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.outlook = QueueOutlook(cluster, timings.MAINTENANCE_WITHIN)
        self._followed: list[asyncio.Future[None]] = []

    @contextlib.contextmanager
    def followed(self) -> Iterator[asyncio.Future[None]]:
        """One page more; what it is given is done when it has to give way."""
        gives_way: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._followed.append(gives_way)
        if len(self._followed) > timings.FOLLOWED_AT_ONCE:
            self._followed.pop(0).set_result(None)
        try:
            yield gives_way
        finally:
            if gives_way in self._followed:
                self._followed.remove(gives_way)


class WatchedSession(Protocol):
    """What the words about a start need of its session."""

    cluster: Cluster
    watched: WatchedJob
    pages: Pages


class StartingSession(Protocol):
    """What a start needs of its session, :class:`~spawners.session.Session`."""

    cluster: Cluster
    site: Site
    watched: WatchedJob
    address: ServerAddress

    @property
    def is_resumed(self) -> bool:
        """True for a job that was there before this hub: its server may have been ready for hours."""

    async def query(self, max_age_s: float) -> Job | None:
        """Our job in the shared snapshot."""

    async def end(self) -> JobEnd | None:
        """How our job ended; ``None`` while Slurm does not say that it has."""

    async def finish(self) -> str:
        """Cancel and clean up; answers the last lines of the log."""

    def note_end(self, reason: str) -> None:
        """Keep why it ended, for the server page."""


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
        self._asked: tuple[str, int] = ("", 0)  # where

    async def wait(self) -> Job:
        """Wait until the server has answered; answers its job.

        Raises:
            SessionEnded: the job ended, waited too long for this site, or did not answer in time on its node.
        """
        try:
            while True:
                job = await self._session.query(self._max_age_s)
                if end := await self._session.end():
                    await self._give_up(messages.ended(end), lambda log: messages.ended(end, log))
                if job and job.phase is Phase.RUNNING:
                    await self._runs(job)
                elif job and job.phase is Phase.WAITING:
                    await self._waits(job)
                await self._news()
                if self._has_port and self._announced_at is None:
                    self._announced_at = self._now()
                if job and self._answer and self._answer.done():
                    self._answer.result()  # raises what the question raised
                    self._session.address.keep(job)
                    return job
        finally:
            self._forget()

    async def _runs(self, job: Job) -> None:
        """The server has the site's time to announce its port and to answer, counted from its start on the node.

        One that was there before this hub is waited for as long as Slurm says that its job lives: it announces its
        port again and again.
        """
        if self._running_since is None:
            self._running_since = self._now()
        limit_min = self._session.site.session.start_timeout_min
        if self._now() - self._running_since > limit_min * 60 and not self._session.is_resumed:
            await self._give_up(messages.never_answered(job.node, limit_min))
        if not self._has_port:
            self._session.address.recall()
        where = (job.node, self._session.address.port.number)
        if all(where) and where != self._asked and self._is_of_its_run:
            self._forget_answer()
            self._asked = where
            self._answer = asyncio.ensure_future(self._first_answer(*where))

    async def _waits(self, job: Job) -> None:
        """Waiting has no limit but the site's. A job that waits after its server was heard of runs anew, later."""
        is_newer_than_its_port = self._announced_at is not None and self._session.watched.read_at > self._announced_at
        if is_newer_than_its_port:  # the snapshot
            self._announced_at = self._now()
            if await self._session.address.is_taken_back():
                self._forget()
        if messages.waits_too_long(job, self._session.site, datetime.now(UTC)):
            await self._give_up(messages.gave_up(self._session.site))

    async def _give_up(self, reason: str, with_log: Callable[[str], str] | None = None) -> NoReturn:
        """End the start, and the job; the reason stays on the server page."""
        self._session.note_end(reason)
        log = await self._session.finish()
        raise SessionEnded(with_log(log) if with_log else reason, log=log)

    async def _news(self) -> None:
        """Wait for the server's port, then for its node, then for its answer; not longer than until the next query."""
        if self._is_node_missing:
            await self._session.cluster.pause(timings.NODE_EVERY_S if self._is_lively else timings.LIVELY_EVERY_S)
            return
        pause = asyncio.ensure_future(self._session.cluster.pause(self._pace_s))
        news = self._answer or asyncio.ensure_future(self._session.address.port.announced())
        await asyncio.wait([news, pause], return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()
        if news is not self._answer:
            news.cancel()

    def _forget(self) -> None:
        """Nothing is known of the server any more."""
        self._forget_answer()
        self._running_since = None
        self._announced_at = None

    def _forget_answer(self) -> None:
        if self._answer:
            self._answer.cancel()
        self._answer = None
        self._asked = ("", 0)

    def _now(self) -> float:
        return self._session.cluster.now()

    @property
    def _has_port(self) -> bool:
        return bool(self._session.address.port.number)

    @property
    def _is_node_missing(self) -> bool:
        return self._has_port and self._answer is None

    @property
    def _is_of_its_run(self) -> bool:
        """The snapshot shows the run of the job whose server announced the port."""
        port = self._session.address.port
        return port.is_of_first_run or self._session.watched.read_at > port.heard_at

    @property
    def _max_age_s(self) -> float:
        if not self._is_node_missing:
            return self._pace_s
        return min(timings.NODE_MAX_AGE_S, max(0.0, self._now() - self._session.address.port.heard_at))

    @property
    def _pace_s(self) -> float:
        """How often Slurm is asked: every second after something has happened, seldom while we only wait."""
        return timings.LIVELY_EVERY_S if self._is_lively else timings.WAITING_EVERY_S

    @property
    def _is_lively(self) -> bool:
        last_event_at = max(self._session.watched.changed_at, self._session.address.port.heard_at)
        return self._now() - last_event_at < timings.LIVELY_FOR_S
