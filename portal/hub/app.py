"""JupyterHub as the portal runs it: a hub that comes back resumes what waited, and ends what nobody holds."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.metrics import RUNNING_SERVERS
from sqlalchemy import event, text
from sqlalchemy.orm import ORMExecuteState, Session, lazyload, selectinload
from tornado.escape import json_encode, url_escape
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from traitlets import Bool, Float, Unicode

from portal.errors import SiteError
from portal.guard import intake, pages
from portal.hub.certificates import own_context
from portal.hub.context import RESUMER, SETTING, HubContext
from portal.hub.restart import RunningSessions, bring_back
from portal.hub.watch import SessionWatch, WatchedSpawner
from portal.session_state import SessionState
from portal.slurm.cluster import Cluster

RESUME_TRIES = 10
RESUME_AT_ONCE = 8


class PortalHub(JupyterHub):  # type: ignore[misc]
    """JupyterHub itself knows sessions that run or do not; here a session may also wait while the hub is away."""

    name = "jupyterhub"  # the same command line and the same settings file
    hub_id = Unicode(help="Six hexadecimal digits that this hub's session keys begin with.").tag(config=True)
    launcher = Unicode(help="The path of portal-launch; '' in the local mode, which has no Slurm.").tag(config=True)
    strict_transport = Bool(False, help="Whether browsers shall use this host by HTTPS alone.").tag(config=True)
    settle_every_s = Float(60, help="Seconds between two looks for jobs that no session holds.").tag(config=True)
    watch_every_s = Float(12, help="Seconds between two looks at the jobs of all running sessions.").tag(config=True)

    async def initialize(self, argv: Sequence[str] | None = None) -> None:
        """Make the hub ready to start; settings that it refuses end it with their faults, not with a traceback."""
        try:
            await super().initialize(argv)
        except SiteError as error:
            self.log.critical("The portal does not start. %s", error.message)
            self.exit(1)

    def init_logging(self) -> None:
        """What the portal's own modules say goes where JupyterHub's words go."""
        super().init_logging()
        logging.getLogger("portal").parent = self.log

    def init_tornado_settings(self) -> None:
        """Make what all spawners share: among it the one :class:`Cluster` of this hub."""
        cluster = Cluster(self.launcher) if self.launcher else None
        self.context = HubContext(self.hub_id, cluster)
        self.tornado_settings[SETTING] = self.context
        pages.mark_scripts(self)
        super().init_tornado_settings()

    def init_tornado_application(self) -> None:
        """The application, whose answers all have the portal's headers."""
        super().init_tornado_application()
        self.tornado_application.add_transform(partial(pages.Headers, strict_transport=self.strict_transport))

    def init_handlers(self) -> None:
        """The addresses at which sessions announce themselves belong to the spawner, as the login page to the login."""
        if hasattr(self.spawner_class, "check_settings"):  # a site may have set another spawner
            self.spawner_class.check_settings(self.config)
        if hasattr(self.spawner_class, "add_handlers"):
            self.spawner_class.add_handlers()
        super().init_handlers()
        pages.stand_before(self)

    async def init_users(self) -> None:
        """Look at everybody's name, without everybody's roles, groups and shares: nothing here asks for those."""
        with plain_rows(self.db):
            await super().init_users()

    async def init_spawners(self) -> int:
        """Make every session known; it is looked at when pages are served already (:attr:`HubContext.serving`).

        JupyterHub would look for servers that are not there yet, too: those sessions are started again below.
        """
        waiting = [row for row in self.db.query(orm.Spawner).all() if _state_of(row).is_waiting]
        self._waiting = [_detach(row) for row in waiting]
        self.db.commit()
        ran = self._people_with_sessions()  # held: JupyterHub's query loads them together, then asks for each once more
        self._looked = asyncio.ensure_future(self._look_at_running())
        await asyncio.sleep(0)  # its first part: from now on each of them is there, and its check is pending
        self.log.info("%s people had sessions when the hub ended", len(ran))
        return int(self.db.query(orm.Spawner).filter(orm.Spawner.server != None).count())  # noqa: E711

    def _people_with_sessions(self) -> list[Any]:
        running = self.db.query(orm.Spawner.user_id).filter(orm.Spawner.server != None)  # noqa: E711
        return list(self.db.query(orm.User).filter(orm.User.id.in_(running)))

    async def _look_at_running(self) -> int:
        """Look at every session that ran; answers their number."""
        if not hasattr(self.spawner_class, "add_handlers"):  # a site has set another spawner: JupyterHub's own look
            return int(await super().init_spawners())
        rows = self.db.query(orm.Spawner).filter(orm.Spawner.server != None)  # noqa: E711
        loaded = rows.options(selectinload(orm.Spawner.user), selectinload(orm.Spawner.user, orm.User._orm_spawners))
        spawners = [self.users[row.user].spawners[row.name] for row in loaded.populate_existing()]
        for spawner in spawners:
            spawner._check_pending = True
        running = RunningSessions(self.db.commit, self._user_stopped, self._is_blocked, self.log)
        await asyncio.gather(*map(running.look, spawners))
        self.db.commit()
        RUNNING_SERVERS.set(self.users.count_active_users()["active"])
        return len(spawners)

    async def _user_stopped(self, user: Any, server_name: str) -> None:
        """A session that ran before the hub was restarted has ended."""
        await self.proxy.delete_user(user, server_name)
        await user.stop(server_name)

    def _is_blocked(self, name: str) -> bool:
        return name in self.authenticator.blocked_users

    async def start(self) -> None:
        """Start the hub, look at the sessions that ran, then resume those that waited."""
        await super().start()
        intake.limit(self.http_server)
        self.context.serving.set()
        self._routing = asyncio.ensure_future(bring_back(self._check_routes, self._looked, self.log))
        self._few_at_once = asyncio.Semaphore(RESUME_AT_ONCE)
        self._background = [asyncio.ensure_future(self._resume(*session)) for session in self._waiting]
        if cluster := self.context.cluster:
            sessions = SessionWatch(cluster, self.hub_id, self._all_spawners, self._held_keys, self.log)
            watch = sessions.for_ever(self.watch_every_s, "watch", lambda: sessions.watch(self.watch_every_s / 2))
            settle = sessions.for_ever(self.settle_every_s, "settle", sessions.settle)
            self._background += [asyncio.ensure_future(work) for work in (watch, settle)]

    async def _check_routes(self) -> None:
        await self.proxy.check_routes(self.users, self._service_map)

    async def _resume(self, username: str, server_name: str, options: dict[str, object]) -> None:
        """Start a session the ordinary way; its spawner finds the job that is there already."""
        path = f"/users/{url_escape(username, plus=False)}/servers/{url_escape(server_name, plus=False)}"
        headers = {"Authorization": f"token {self.services_api_token(RESUMER)}", "Content-Type": "application/json"}
        url = self.hub.api_url.rstrip("/") + (path if server_name else path.replace("/servers/", "/server"))
        request = HTTPRequest(
            url,
            method="POST",
            headers=headers,
            body=json_encode(options),
            request_timeout=60,
            ssl_options=await own_context(self.tornado_settings),
        )
        for attempt in range(1, RESUME_TRIES + 1):
            try:
                async with self._few_at_once:
                    await AsyncHTTPClient().fetch(request)
                self.log.info("Resumed: the session of %s", username)
                return
            except (HTTPClientError, OSError) as error:
                self.log.warning("The session of %s that waited: try %s: %s", username, attempt, error)
                await asyncio.sleep(min(attempt * 2, 30))

    def services_api_token(self, name: str) -> str:
        """The token of one of our own services."""
        return str(self._service_map[name].api_token)

    def _all_spawners(self) -> Iterator[WatchedSpawner]:
        for user in list(self.users.values()):
            yield from list(user.spawners.values())

    def _held_keys(self) -> set[str]:
        """The keys of all sessions. Most rows are people without one: only ours are read, and only their state."""
        self.db.flush()
        ours = text("SELECT state FROM spawners WHERE state LIKE :ours")
        rows = self.db.execute(ours, {"ours": f"%{self.hub_id}%"})
        return {SessionState.from_json(json.loads(state)).key for (state,) in rows}


@contextmanager
def plain_rows(db: Session) -> Iterator[None]:
    """Meanwhile a row brings its relations when they are asked for, not at once."""

    def lazily(execution: ORMExecuteState) -> None:
        if execution.is_select:
            execution.statement = execution.statement.options(lazyload("*"))

    event.listen(db, "do_orm_execute", lazily)
    try:
        yield
    finally:
        event.remove(db, "do_orm_execute", lazily)


def _state_of(row: Any) -> SessionState:
    return SessionState.from_json(row.state or {})


def _detach(row: Any) -> tuple[str, str, dict[str, object]]:
    """Name of the person, of the server, and options of a session that waits; JupyterHub finds no server of it."""
    row.server = None
    return row.user.name, row.name, dict(row.user_options or {})
