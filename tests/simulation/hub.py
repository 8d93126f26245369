"""A hub of the simulation: the portal's own sessions, watch and settling, called in JupyterHub's order.

What JupyterHub 6.1.1 does is written down in :class:`PersonsServer`, method by method, each with JupyterHub's own name.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.errors import PortalError, SessionEnded
from portal.hub.app import RESUME_AT_ONCE
from portal.hub.config import HTTP_TIMEOUT_S, POLL_EVERY_S
from portal.hub.watch import SessionWatch
from portal.request import SessionRequest
from portal.session_state import Announcement, SessionState
from portal.site import Site
from portal.slurm.cluster import Cluster
from portal.slurm.runner import Result
from portal.slurm.snapshot import QueueSnapshot
from portal.slurm.submission import KEY_LENGTH, submission
from spawners import timings
from spawners.session import Session
from tests.simulation.world import GROUP, HUB_ID, Tasks, World

WATCH_EVERY_S = 12
SETTLE_EVERY_S = 60


@dataclass
class Row:
    """What the database has of one person's server: the state as JSON, and whether there is a server."""

    state: dict[str, Any] = field(default_factory=dict)
    has_server: bool = False
    hours: int = 1
    address: tuple[str, int] = ("", 0)


Rows = dict[str, Row]


class PersonsServer:
    """One person's server: JupyterHub's User and Spawner, as far as they matter here."""

    def __init__(self, hub: SimulatedHub, person: str, row: Row) -> None:
        self.hub = hub
        self.world = hub.world
        self.person = person
        self.row = row
        self.session = Session(
            hub.cluster,
            hub.site,
            person,
            self._save,
            hub.log,
            moved=self._moved,
        )
        self.api_token = ""
        self.spawning: asyncio.Task[None] | None = None
        self.is_stopping = False
        self.is_checked = False  # JupyterHub's _check_pending
        self.told: list[str] = []  # why sessions ended, in the person's order
        self._callbacks = False  # whether the hub wants to be notified of the end
        self._ending: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None
        if row.state:
            self.session.load(SessionState.from_json(row.state))
            self.api_token = self.session.state.token

    # -- what JupyterHub knows --------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Something is being done to it."""
        return bool(self.spawning) or self.is_stopping or self.is_checked

    @property
    def ready(self) -> bool:
        """It runs."""
        return not self.pending and self.row.has_server

    @property
    def active(self) -> bool:
        """It runs, or something is being done to it."""
        return self.pending or self.ready

    def _save(self, state: SessionState) -> None:
        if not self.hub.is_dead:
            self.row.state = state.to_json()

    def _moved(self, node: str, port: int) -> None:
        self.address = (node, port)

    @property
    def address(self) -> tuple[str, int]:
        """Where JupyterHub and its proxy believe that the server is."""
        return self.row.address

    @address.setter
    def address(self, address: tuple[str, int]) -> None:
        if not self.hub.is_dead:
            self.row.address = address

    # -- the start: handlers.base.spawn_single_user, User.spawn -----------------------------------------

    def click_start(self, hours: int) -> None:
        """Start, where nothing runs and nothing is pending."""
        if self.active or self.hub.is_dead:
            return
        self.row.hours = hours
        self.row.has_server = True
        self.session.clear()
        self.api_token = f"token-{self.hub.number()}"
        self.spawning = self.hub.task(self._spawn())

    async def _spawn(self) -> None:
        try:
            await self._start()
            await self._wait_up()
            self._callbacks = True
            self.hub.ready(self.session.state.key)
        except PortalError as error:
            self.told.append(error.message)
            await self._user_stop()
        finally:
            self.spawning = None
        if self.row.has_server:
            self._start_polling()

    async def _start(self) -> None:
        """SlurmSessionSpawner.start, and what User.spawn keeps of its answer."""
        if await self.session.resume():
            self.api_token = self.session.state.token
        else:
            request = SessionRequest(partition="sxm2", gpus=1, hours=self.row.hours)
            key = f"{HUB_ID}{self.hub.number():0{KEY_LENGTH - len(HUB_ID)}x}"
            job = submission(request, self.hub.site, key, {"JUPYTERHUB_API_TOKEN": self.api_token})
            await self.session.submit(job, self.api_token)
        self.address = await self.session.wait_until_ready(self._first_answer)
        self._save(self.session.state)

    async def _first_answer(self, node: str, port: int) -> None:
        while not self.world.listens(node, port):  # noqa: ASYNC110  it is asked again and again
            await asyncio.sleep(1)

    async def _wait_up(self) -> None:
        """JupyterHub asks the server itself, for http_timeout."""
        deadline = self.world.now() + HTTP_TIMEOUT_S
        while not self.world.listens(*self.address):
            if self.world.now() > deadline:
                raise SessionEnded("JupyterHub: the server never showed up")
            await asyncio.sleep(1)

    # -- the end: User.stop, Spawner.poll_and_notify, the API's DELETE ----------------------------------

    async def _user_stop(self) -> None:
        self._stop_polling()
        self.is_stopping = True
        try:
            if await self.session.poll() is None:
                await self.session.stop()
        finally:
            self.session.clear()
            if not self.hub.is_dead:
                self.row.has_server = False
                self.row.state = self.session.state.to_json()
            self.api_token = ""
            self._callbacks = False
            self.is_stopping = False

    async def poll_and_notify(self) -> None:
        """See an end, and stop then: JupyterHub's user_stopped."""
        if await self.session.poll() is None:
            return
        self._stop_polling()
        wanted = self._callbacks
        self._callbacks = False
        if wanted:
            await self.session.poll()
            await self._user_stop()
            self.hub.ended(self, self.session.state)

    async def click_stop(self) -> None:
        """The page's Stop: a start that is pending is cancelled."""
        if self.is_stopping or self.is_checked or self.hub.is_dead:
            return
        self.world.tell(f"{self.person} stops {self.session.state.key}")
        if self.spawning:
            self.spawning.cancel()
            await asyncio.sleep(1)
            if self.pending:
                return
            await self._user_stop()
        elif self.row.has_server:
            await self.poll_and_notify()
            if self.ready:
                await self._user_stop()

    def _start_polling(self) -> None:
        self._stop_polling()
        self._polling = self.hub.task(self._poll_for_ever())

    def _stop_polling(self) -> None:
        if self._polling and self._polling is not asyncio.current_task():
            self._polling.cancel()
        self._polling = None

    async def _poll_for_ever(self) -> None:
        me = asyncio.current_task()
        while self._polling is me:
            await asyncio.sleep(POLL_EVERY_S * self.world.chance.uniform(0.9, 1.1))
            await self.poll_and_notify()

    # -- after a restart of the hub ---------------------------------------------------------------------

    async def check(self) -> None:
        """Look whether the session of before is there: Slurm says so, and nobody else is asked."""
        if await self.session.poll() is None:
            place = self.session.state.place
            if place and self.session.state.port:
                self.address = (place.node, self.session.state.port)
            self._callbacks = True
            self.hub.ready(self.session.state.key)
            self._start_polling()
        else:
            await self._user_stop()
            self.hub.ended(self, self.session.state)
        self.is_checked = False

    # -- what the portal's own watch and callback ask ---------------------------------------------------

    def needs_poll(self, queue: QueueSnapshot) -> bool:
        """As SlurmSessionSpawner."""
        return self.session.needs_poll(queue)

    def notice(self, queue: QueueSnapshot) -> None:
        """As SlurmSessionSpawner."""
        if self.session.is_completing(queue) and (self._ending is None or self._ending.done()):
            self._ending = self.hub.task(self._see_end())

    async def _see_end(self) -> None:
        for _ in range(timings.ENDING_QUERIES):
            await asyncio.sleep(timings.ENDING_EVERY_S)
            queue = await self.hub.cluster.queue(timings.ENDING_EVERY_S / 2)
            if self.ready and self.session.state.port and self.session.needs_poll(queue):
                await self.poll_and_notify()
                return

    async def announce(self, announcement: Announcement) -> int:
        """ReadyHandler.post."""
        if not await self.session.address.announce(announcement):
            return 409
        if following := self.session.address.following:
            await asyncio.wait([following])
            if following.cancelled():
                return 409
        return 204


class SimulatedHub:
    """One life of a hub, from its start until it is killed."""

    def __init__(self, world: World, site: Site, rows: Rows, log: logging.Logger, ready: Callable[[str], None]) -> None:
        self.world = world
        self.site = site
        self.rows = rows
        self.log = log
        self.ready = ready  # is told the key of each session that is ready
        self.is_dead = False
        self.cluster = Cluster("/opt/portal-launch", run=self._run, clock=world.now)
        self.servers = {person: PersonsServer(self, person, row) for person, row in rows.items()}
        self.tasks: Tasks = {}
        self._inside = contextvars.copy_context()
        self._inside.run(GROUP.set, self.tasks)

    async def _run(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        if self.is_dead:
            raise asyncio.CancelledError
        return await self.world.run(argv, stdin, env, timeout_s)

    def number(self) -> int:
        """A number that nobody had before."""
        return self.world.chance.getrandbits(40)

    def task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work of this hub, which ends with it."""
        return self.world.loop.create_task(work, context=self._inside.copy())

    def start(self) -> None:
        """JupyterHub's init_spawners, and PortalHub.start."""
        waiting = [server for server in self.servers.values() if server.session.state.is_waiting]
        for server in self.servers.values():
            if server in waiting:
                server.row.has_server = False
            elif server.row.has_server:
                server.is_checked = True
                self.task(server.check())
        few_at_once = asyncio.Semaphore(RESUME_AT_ONCE)
        for server in waiting:
            self.task(self._resume(server, few_at_once))
        sessions = SessionWatch(self.cluster, HUB_ID, self.servers.values, self._held_keys, self.log)
        self.task(sessions.for_ever(WATCH_EVERY_S, "watch", lambda: sessions.watch(WATCH_EVERY_S / 2)))
        self.task(sessions.for_ever(SETTLE_EVERY_S, "settle", sessions.settle))
        self.world.announce = self.announce

    async def _resume(self, server: PersonsServer, few_at_once: asyncio.Semaphore) -> None:
        async with few_at_once:
            await asyncio.sleep(self.world.chance.uniform(0.05, 1))
            server.click_start(server.row.hours)

    def _held_keys(self) -> set[str]:
        return {SessionState.from_json(row.state).key for row in self.rows.values()}

    async def announce(self, token: str, announcement: Announcement) -> int:
        """A session says where it listens; 0 when the hub is killed meanwhile."""
        await asyncio.sleep(self.world.chance.uniform(0.01, 0.1))
        if self.is_dead:
            return 0
        server = next((one for one in self.servers.values() if one.api_token == token), None)
        if server is None:
            return 403
        status: list[int] = []

        async def handle() -> None:
            status.append(await server.announce(announcement))

        handler = self.task(handle())
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([handler])
        return status[0] if status else 0

    def ended(self, server: PersonsServer, state: SessionState) -> None:
        """A session that ran has ended."""
        server.told.append(state.last_end)
        self.world.tell(f"{server.person} is told of {state.key}, job {state.job_id}: {state.last_end!r}")

    async def kill(self) -> None:
        """As ``kill -9``: nothing more is done, and nothing more is saved."""
        self.is_dead = True
        while tasks := [task for task in self.tasks if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
