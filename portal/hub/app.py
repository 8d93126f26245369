"""JupyterHub as the portal runs it: a hub that comes back resumes what waited, and ends what nobody holds."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.metrics import RUNNING_SERVERS
from sqlalchemy import text
from tornado.escape import json_encode, url_escape
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from traitlets import Bool, Float, Unicode, default

from portal import journal
from portal.administration import again, enter, others, role
from portal.assets.static import PackedStaticHandler
from portal.databases import connections, old_logins, token_notes
from portal.errors import SiteError
from portal.guard import intake, pages
from portal.hub import certificates, logins, needed
from portal.hub.context import RESUMER, SETTING, HubContext, has_key, state_of
from portal.hub.listener import either_protocol
from portal.hub.restart import KnownPeople, RunningSessions, bring_back, plain_rows
from portal.hub.watch import SessionWatch, WatchedSpawner
from portal.internal_tls import contexts
from portal.receipts.book import EVERY_S as RECEIPTS_EVERY_S
from portal.session_state import SessionState, TokenSeal
from portal.sessions.ending import end_together
from portal.sessions.requests import is_held
from portal.slurm.cluster import Cluster

RESUME_TRIES = 10
RESUME_AT_ONCE = 8


class PortalHub(JupyterHub):  # type: ignore[misc]
    """JupyterHub itself knows sessions that run or do not; here a session may also wait while the hub is away."""

    name = "jupyterhub"  # the same command line and the same settings file
    hub_id = Unicode(help="Six hexadecimal digits that this hub's session keys begin with.").tag(config=True)
    launcher = Unicode(help="The path of portal-launch; '' in the local mode, which has no Slurm.").tag(config=True)
    session_key_file = Unicode(help="The file with the key that closes the sessions' tokens.").tag(config=True)
    strict_transport = Bool(False, help="Whether browsers shall use this host by HTTPS alone.").tag(config=True)
    settle_every_s = Float(60, help="Seconds between two looks for jobs that no session holds.").tag(config=True)
    people_every_s = Float(5, help="Seconds between two looks for people who may not use the portal any more.").tag(
        config=True
    )
    end_sessions_of_leavers = Bool(True, help="What becomes of their sessions: they end, or go on.").tag(config=True)
    logins_end_at_start = Bool(False, help="Whether a login is good for one start of the hub.").tag(config=True)
    said_when_ready = Unicode(help="What is printed when the hub and its proxy listen.").tag(config=True)
    watch_every_s = Float(12, help="Seconds between two looks at the jobs of all running sessions.").tag(config=True)

    _looked: asyncio.Future[int] | None = None  # JupyterHub's own look at the sessions of a site's own spawner

    async def initialize(self, argv: Sequence[str] | None = None) -> None:
        """Make the hub ready to start; settings that it refuses end it with their faults, not with a traceback."""
        try:
            await super().initialize(argv)
        except SiteError as error:
            self.log.critical("The portal does not start. %s", error.message)
            self.exit(1)

    def init_logging(self) -> None:
        """What the portal's own modules say goes where JupyterHub's words go; the journal is told their levels."""
        super().init_logging()
        journal.mark(self.log)
        journal.bound(self.log)
        journal.be_plain(self.log)  # of what is written: tracebacks are made into texts for it
        logging.getLogger("portal").parent = self.log

    @cached_property
    def context(self) -> HubContext:
        """What all spawners share: among it the one :class:`Cluster` of this hub."""
        cluster = Cluster(self.launcher) if self.launcher else None
        seal = TokenSeal(Path(self.session_key_file).read_bytes()) if self.session_key_file else TokenSeal()
        return HubContext(self.hub_id, cluster, seal)

    def init_tornado_settings(self) -> None:
        """Hand it to them, and to who reads their rows."""
        self.tornado_settings[SETTING] = self.db.info[SETTING] = self.context
        pages.look_after_pages(self, PackedStaticHandler)
        super().init_tornado_settings()

    def init_db(self) -> None:
        """Open the database; it has the portal's own table, too, and a server's connection may break at any time."""
        super().init_db()
        self.db = connections.opened(self.session_factory)

    def init_internal_ssl(self) -> None:
        """Keys and certificates between hub, proxy and sessions: none that names another host, or ends soon."""
        if self.internal_ssl:
            contexts.trust_own_authorities(*contexts.OF_HUB)
            location = Path(self.internal_certs_location)
            if words := certificates.prepare(location, self.trusted_alt_names):
                self.log.warning("%s", words)
        with certificates.made_earlier():
            super().init_internal_ssl()

    def init_tornado_application(self) -> None:
        """The application, whose answers all have the portal's headers."""
        super().init_tornado_application()
        self.tornado_application.add_transform(partial(pages.Headers, strict_transport=self.strict_transport))

    def init_secrets(self) -> None:
        """The first step with all settings known, those of the command line too: what the portal needs is there."""
        if self.launcher:
            needed.check(self.services, self.load_roles)
        super().init_secrets()

    def init_handlers(self) -> None:
        """The addresses at which sessions announce themselves belong to the spawner, as the login page to the login."""
        if hasattr(self.spawner_class, "check_settings"):  # a site may have set another spawner
            self.spawner_class.check_settings(self.config)
        if hasattr(self.spawner_class, "add_handlers"):
            self.spawner_class.add_handlers()
        if hasattr(self.authenticator_class, "check_settings"):
            self.authenticator_class.check_settings(self.config)
        super().init_handlers()
        logins.install(self)
        pages.stand_before(self)
        before = others.asking if self._gives_own_role else again.noting
        self.handlers: list[Any] = before(self.handlers)

    @property
    def _gives_own_role(self) -> bool:
        """Whether administrators have the portal's own role; not with a login that a site has set itself."""
        return hasattr(self.authenticator_class, "admins_by_role")

    async def init_role_assignment(self) -> None:
        """Give the roles of the settings; the flag of an administrator of before is no right any more."""
        if self._gives_own_role:
            kept = role.named_admins(self.authenticator.admin_users, self.load_roles)
            role.take_back_flags(self.db, kept, self.log)
        await super().init_role_assignment()

    async def init_users(self) -> None:
        """Look at everybody's name, without everybody's roles, groups and shares: nothing here asks for those."""
        with plain_rows(self.db):
            await super().init_users()

    @default("users")
    def _users(self) -> KnownPeople:
        return KnownPeople(db_factory=lambda: self.db, settings=self.tornado_settings)

    async def init_spawners(self) -> int:
        """Note which sessions ran: they are made and looked at when pages are served already (:meth:`start`).

        JupyterHub would look for servers that are not there yet, too: those sessions are started again below.
        """
        if self.logins_end_at_start:
            logins.end_all(self.db)
        states = self._states()
        if self.token_expires_in_max_seconds and hasattr(self.spawner_class, "add_handlers"):
            held = {state.token for state in states.values()}
            logins.limit_tokens(self.db, self.token_expires_in_max_seconds, held)
        token_notes.cut(self.db, self.log)
        waiting = [number for number, state in states.items() if state.is_waiting]
        self._waiting = [_detach(row) for row in self.db.query(orm.Spawner).filter(orm.Spawner.id.in_(waiting))]
        self.db.commit()
        ran = [number for (number,) in self.db.query(orm.Spawner.id).filter(orm.Spawner.server != None)]  # noqa: E711
        if hasattr(self.spawner_class, "add_handlers"):
            self.users.ran(ran)
        else:  # a site has set another spawner: JupyterHub's own look
            await self._begin_stock_look()
        self.log.info("%s sessions ran when the hub ended", len(ran))
        return len(ran)

    async def _begin_stock_look(self) -> None:
        running = self.db.query(orm.Spawner.user_id).filter(orm.Spawner.server != None)  # noqa: E711
        held = self.db.query(orm.User).filter(orm.User.id.in_(running)).all()  # JupyterHub asks for each once more
        self._looked = asyncio.ensure_future(super().init_spawners())
        await asyncio.sleep(0)  # its first part: from now on each of them is there, and its check is pending
        del held

    def _states(self) -> dict[int, SessionState]:
        """The states of all sessions, by their rows. Most rows are people without one: those are not read."""
        with_key = text("SELECT id, state FROM spawners WHERE state LIKE '%\"key\"%'")
        rows = self.db.execute(with_key)
        return {number: self.context.state(json.loads(state)) for number, state in rows}

    async def _look_at_running(self) -> int:
        """Make every session that ran, a few at a time, and look at each; answers their number."""
        running = RunningSessions(self.db.commit, self._user_stopped, self._is_blocked, self.log)
        looks = []
        async for spawner in self.users.made(self.db):
            looks.append(asyncio.ensure_future(running.look(spawner)))
        self.cleanup_oauth_clients()
        await asyncio.gather(*looks)
        self.db.commit()
        RUNNING_SERVERS.set(self.users.count_active_users()["active"])
        return len(looks)

    def cleanup_oauth_clients(self) -> None:
        """Remove what sessions of before have left, once every session that ran is known; JupyterHub asks earlier."""
        if not self.users.unmade:
            super().cleanup_oauth_clients()

    async def _user_stopped(self, user: Any, server_name: str) -> None:
        """A session that ran before the hub was restarted has ended."""
        await self.proxy.delete_user(user, server_name)
        await user.stop(server_name)

    def _is_blocked(self, name: str) -> bool:
        return name in self.authenticator.blocked_users

    async def start(self) -> None:
        """Start the hub, look at the sessions that ran, then resume those that waited."""
        with either_protocol(self.internal_proxy_certs):
            await super().start()
        print(self.said_when_ready, end="", flush=True)
        intake.limit(self.http_server)
        self.context.serving.set()
        looked = self._looked or asyncio.ensure_future(self._look_at_running())
        self._routing = asyncio.ensure_future(bring_back(self.check_routes, looked, self.log))
        self._few_at_once = asyncio.Semaphore(RESUME_AT_ONCE)
        self._background = [asyncio.ensure_future(self._resume(*session)) for session in self._waiting]
        if cluster := self.context.cluster:
            sessions = SessionWatch(cluster, self.hub_id, self._all_spawners, self._held_keys, self.log)
            works: list[tuple[float, str, Callable[[], Awaitable[None]]]] = [
                (self.watch_every_s, "watch", lambda: sessions.watch(self.watch_every_s / 2)),
                (self.settle_every_s, "settle", sessions.settle),
                (enter.TAKEN_BACK_EVERY_S, "entries", self._take_back_entries),
                (self.settle_every_s, "logins", lambda: old_logins.look(self.db)),
                (RECEIPTS_EVERY_S, "receipts", lambda: self.context.receipts.look(self.db)),
            ]
            if hasattr(self.authenticator, "standings"):  # a site may have set another authenticator
                works.append((self.people_every_s, "people", logins.leavers_of(self, self._end_sessions).look))
            self._background += [asyncio.ensure_future(sessions.for_ever(*work)) for work in works]

    async def check_routes(self) -> None:
        """Repair the routes of the proxy."""
        await self.proxy.check_routes(self.users, self._service_map)

    async def _take_back_entries(self) -> None:
        if hasattr(self.authenticator, "standings"):  # a site may have set another authenticator
            await enter.follow_groups(self.db, self.users, self.authenticator.standings)
        for said in enter.take_back_over(self.db, self.tornado_settings.get(enter.SETTING, False)):
            self.log.info("The access of an administrator was taken back: %s", said)

    async def _end_sessions(self, person: Any) -> None:
        """End what a person has in Slurm: sessions that run or wait, and jobs that no start has taken up again."""
        user = self.users[person]
        held = [user.spawners[row.name] for row in person._orm_spawners if is_held(row)]
        await end_together(held, lambda spawner: self._user_stopped(user, spawner.name))

    async def _resume(self, username: str, server_name: str, options: dict[str, object], key: str) -> None:
        """Start a session the ordinary way, as long as it waits; its spawner finds the job that is there already."""
        path = f"/users/{url_escape(username, plus=False)}/servers/{url_escape(server_name, plus=False)}"
        headers = {"Authorization": f"token {self.services_api_token(RESUMER)}", "Content-Type": "application/json"}
        url = self.hub.api_url.rstrip("/") + (path if server_name else path.replace("/servers/", "/server"))
        request = HTTPRequest(
            url,
            method="POST",
            headers=headers,
            body=json_encode(options),
            request_timeout=60,
            ssl_options=await certificates.own_context(self.tornado_settings),
        )
        for attempt in range(1, RESUME_TRIES + 1):
            if not has_key(self.db, username, server_name, key):  # whose person left has had it ended
                return
            try:
                async with self._few_at_once:
                    await AsyncHTTPClient().fetch(request)
                self.log.info("Resumed: the session of %s", username)
                return
            except (HTTPClientError, OSError) as error:
                if getattr(error, "code", 0) == 409:  # its person has stopped it meanwhile
                    return
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
        return set().union(*(SessionState.from_json(json.loads(state)).keys for (state,) in rows))


def _detach(row: Any) -> tuple[str, str, dict[str, object], str]:
    """Name of the person, of the server, options and key of a session that waits; JupyterHub finds no server of it."""
    row.server = None
    return row.user.name, row.name, dict(row.user_options or {}), state_of(row).key
