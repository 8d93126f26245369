"""JupyterHub as the portal runs it: a hub that comes back takes up what waited, and settles what nobody holds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.utils import make_ssl_context
from tornado.escape import json_encode, url_escape
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from traitlets import Float

from portal.errors import SlurmUnavailable
from portal.hub.config import RESUMER, SERVING, cluster_of

PROXY = b"configurable-http-proxy"
RESUME_TRIES = 10
RESUME_AT_ONCE = 8
ROUTES_EVERY_S, ROUTES_EVERY_MAX_S = 2.0, 30.0  # while a restarted hub looks at its sessions


class PortalHub(JupyterHub):  # type: ignore[misc]
    """JupyterHub itself knows sessions that run or do not; here a session may also wait while the hub is away."""

    name = "jupyterhub"  # the same command line and the same settings file
    settle_every_s = Float(60, help="Seconds between two looks for jobs that no session holds.").tag(config=True)
    watch_every_s = Float(12, help="Seconds between two looks at the jobs of all running sessions.").tag(config=True)

    def init_logging(self) -> None:
        """What the portal's own modules say goes where JupyterHub's words go."""
        super().init_logging()
        logging.getLogger("portal").parent = self.log

    async def init_spawners(self) -> int:
        """Make every session known; it is looked at when pages are served already (:data:`SERVING`).

        JupyterHub would look for servers that are not there yet, too: those sessions are started again below.
        """
        self._waiting = [_detach(row) for row in self.db.query(orm.Spawner).all() if _waits(row)]
        self.db.commit()
        self._serving = self.tornado_settings[SERVING] = asyncio.Event()
        self._looked = asyncio.ensure_future(super().init_spawners())
        await asyncio.sleep(0)  # its first part: from now on each of them is there, and its check is pending
        return int(self.db.query(orm.Spawner).filter(orm.Spawner.server != None).count())  # noqa: E711

    async def start(self) -> None:
        """Start the hub, look at the sessions that ran, then take up those that waited."""
        self._end_proxy_of_before()
        await super().start()
        self._serving.set()
        self._routing = asyncio.ensure_future(self._route())
        self._few_at_once = asyncio.Semaphore(RESUME_AT_ONCE)
        self._background = [asyncio.ensure_future(self._resume(*session)) for session in self._waiting]
        if cluster_of(self) is not None:
            self._background.append(asyncio.ensure_future(self._for_ever(self.settle_every_s, self.settle)))
            self._background.append(asyncio.ensure_future(self._for_ever(self.watch_every_s, self.watch)))

    def _end_proxy_of_before(self) -> None:
        """End the proxy that a killed hub left: JupyterHub does so too, but waits for a whole second after it."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            process = Path("/proc", Path(self.proxy.pid_file).read_text().strip())
            if PROXY not in (process / "cmdline").read_bytes():
                return
            os.kill(int(process.name), signal.SIGTERM)
            for _ in range(100):
                time.sleep(0.01)
                (process / "cmdline").stat()  # its error is the end that is waited for

    async def _route(self) -> None:
        """Bring the sessions back into the new proxy; one whose node is silent keeps no other one waiting."""
        every_s, routed = ROUTES_EVERY_S, False
        while not routed:
            looked, _ = await asyncio.wait([self._looked], timeout=every_s)
            try:
                await self.proxy.check_routes(self.users, self._service_map)
                routed = bool(looked)
            except Exception:  # the proxy is being started again, for one
                self.log.exception("The routes of the sessions: tried again")
                await asyncio.sleep(every_s)
            every_s = min(every_s * 2, ROUTES_EVERY_MAX_S)
        if error := self._looked.exception():
            self.log.error("Not all sessions could be looked at", exc_info=error)
        else:
            self.log.info("%s sessions were looked at", self._looked.result())

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
            ssl_options=self._own_tls(),
        )
        for attempt in range(1, RESUME_TRIES + 1):
            try:
                async with self._few_at_once:
                    await AsyncHTTPClient().fetch(request)
                self.log.info("Taken up again: the session of %s", username)
                return
            except (HTTPClientError, OSError) as error:
                self.log.warning("The session of %s that waited: try %s: %s", username, attempt, error)
                await asyncio.sleep(min(attempt * 2, 30))

    def _own_tls(self) -> Any:
        """The hub's own certificate, which its address asks for when the site has internal TLS."""
        if not self.internal_ssl:
            return None
        return make_ssl_context(self.internal_ssl_key, self.internal_ssl_cert, cafile=self.internal_ssl_ca)

    def services_api_token(self, name: str) -> str:
        """The token of one of our own services."""
        return str(self._service_map[name].api_token)

    async def _for_ever(self, every_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await work()
            except SlurmUnavailable as error:
                self.log.warning("Not done, and tried again: %s: %s", work.__name__, error.detail)
            except Exception:  # a locked database, for one: the next time is soon
                self.log.exception("Not done, and tried again: %s", work.__name__)

    async def watch(self) -> None:
        """One look at the queue for all sessions; those whose job is not where it was are asked about."""
        running = [s for user in list(self.users.values()) for s in list(user.spawners.values()) if s.ready]
        if not running:
            return
        seen = await cluster_of(self).queue(self.watch_every_s / 2)
        for spawner in running if not seen.error else ():
            spawner.notices(seen)
        if not seen.error:
            await asyncio.gather(*(s.poll_and_notify() for s in running if s.ready and s.needs_a_look(seen)))

    async def settle(self) -> None:
        """End the jobs of this hub that no session holds."""
        cluster, hub_id = cluster_of(self), self.config.SlurmSessionSpawner.hub_id
        jobs = await cluster.sessions(hub_id)
        held = {(row.state or {}).get("key") for row in self.db.query(orm.Spawner).all()}
        for job in jobs:
            if job.key not in held:
                await self._settle(cluster, job)

    async def _settle(self, cluster: Any, job: Any) -> None:
        try:
            if await cluster.confirmed(job):
                self.log.warning("Job %s of %s has no session any more; it is cancelled", job.id, job.user)
                await cluster.finish(job.user, job.key, job.id)
        except SlurmUnavailable as error:
            self.log.warning("Job %s of %s has no session and could not be ended: %s", job.id, job.user, error.detail)


def _waits(row: Any) -> bool:
    """True for a session whose job was asked for, and whose server has not been heard of."""
    state = row.state or {}
    return bool(state.get("key")) and not state.get("port")


def _detach(row: Any) -> tuple[str, str, dict[str, object]]:
    row.server = None
    return row.user.name, row.name, dict(row.user_options or {})
