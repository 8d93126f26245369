"""The proxy apart from the hub: a hub that starts takes the one that runs, so no connection to a session ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jinja2
from jupyterhub.httpclient import fetch
from jupyterhub.objects import Server
from jupyterhub.proxy import ConfigurableHTTPProxy
from jupyterhub.utils import url_path_join
from tornado.ioloop import PeriodicCallback
from traitlets import Bool, Float, Integer, List, Unicode

from portal import data
from portal.errors import PortalError
from portal.proxy import proxy_process
from portal.proxy.parts import CHECKS, changes, digest, digest_of, program
from portal.proxy.proxy_process import ProxyPlan, RunningProxy, StartedProxy
from portal.proxy.session_word import WithWord

ERROR_PAGE = "restarting.html"
ADDRESS_PAGE = "other_address.html"
HEADERS_PAGE = "too_big.html"
PRELOADED = ("proxy_journal.mjs", "proxy_log.mjs", "proxy_error_page.mjs", *CHECKS)
UP_WITHIN_S = 15.0
SERVICE_UP_WITHIN_S = 30.0  # the service manager may wait a moment between two starts
ASK_TIMEOUT_S = 5.0
ROUTE_WITHIN_S = 600.0
STEP_S = 0.05


class Routed:
    """People whose sessions have routes: those of the moment in which JupyterHub asks for them."""

    def __init__(self, users: Any, without_route: Collection[str]) -> None:
        self._users = users
        self._without_route = without_route

    def values(self) -> list[Any]:
        """All others are left out."""
        return [user for user in self._users.values() if user.name not in self._without_route]


class ApartProxy(WithWord, ConfigurableHTTPProxy):  # type: ignore[misc]
    """configurable-http-proxy as a process of its own life: used as it is, or replaced with the reason in the log."""

    state_folder = Unicode(help="The portal's state folder.").tag(config=True)
    by_service = Bool(False, help="True where a service of its own runs `portal proxy`.").tag(config=True)
    trusted_proxies = List(Unicode(), help="Addresses and networks of other proxies in front of it.").tag(config=True)
    redirect_port = Integer(0, help="A port whose requests are led to HTTPS; 0 = none.").tag(config=True)
    headers_within_s = Float(15, help="How long a connection may take to its first request.").tag(config=True)
    silent_per_address = Integer(1024, help="Connections of one address that have not asked yet.").tag(config=True)
    of_one_session = Integer(1024, help="Requests of one address for one person, at a time.").tag(config=True)
    of_hub = Integer(128, help="Requests of one address that the hub works on, at a time.").tag(config=True)
    of_hub_waiting = Integer(8192, help="Requests of one address that wait for those.").tag(config=True)
    per_address = Integer(15_000, help="Connections of one address; half of all.").tag(config=True)
    taken_within_s = Float(60, help="How long an answer of the hub may make no progress.").tag(config=True)
    slow_per_address = Integer(128, help="Answers that one address reads slowly, at a time.").tag(config=True)
    without_route_s = Float(20, help="How long what was begun with a session outlives its route.").tag(config=True)
    faults_told = Integer(300, help="Warnings and errors in its log, in so long.").tag(config=True)
    faults_every_s = Float(60, help="How long that is.").tag(config=True)
    without_route: Collection[str] = ()  # people whose sessions nobody reaches
    running: RunningProxy | None = None
    proxy_process: StartedProxy | None = None  # when this hub started it
    _looks: PeriodicCallback | None = None

    @property
    def state(self) -> Path:
        """The portal's state folder."""
        return Path(self.state_folder)

    async def start(self) -> None:
        """Use the proxy that runs when it is as it should be; end it and start another one when it is not."""
        if words := proxy_process.absent(self.command):
            raise PortalError(words)
        plan = self._plan()
        self._write_pages()
        running = proxy_process.running_in(self.state)
        reason = await self._fault(running, plan)
        proxy_process.write_plan(self.state, plan)
        if running and not reason:
            self.log.info("The proxy goes on (process %s): connections to sessions stay", running.pid)
            self.running = running
        else:
            await self._replace(running, reason, plan)
        if self._looks is None:
            self._looks = PeriodicCallback(self.check_running, 1e3 * self.check_running_interval)
            self._looks.start()

    async def _fault(self, running: RunningProxy | None, plan: ProxyPlan) -> str:
        """Why a proxy that runs cannot be used; '' when it can."""
        if running is None:
            return ""
        if not running.parts:
            return "another version of the portal started it"
        if changed := changes(running.parts, plan.parts):
            return f"changed: {', '.join(changed)}"
        await self._listens_soon(running)
        if not await self._answers():
            return f"it does not take our token at {self.api_url}, or browsers do not reach it at {self.public_url}"
        return ""

    async def _listens_soon(self, running: RunningProxy) -> None:
        """Give a proxy that its service has just started, after a crash, the time that one of ours has."""
        while running.lives and proxy_process.age_s(running.began) < UP_WITHIN_S:
            with contextlib.suppress(OSError):
                await Server.from_url(self.api_url).wait_up(STEP_S)
                return
            await asyncio.sleep(STEP_S)

    async def _replace(self, running: RunningProxy | None, reason: str, plan: ProxyPlan) -> None:
        if running:
            self.log.warning("The proxy (process %s) is replaced, connections end once: %s", running.pid, reason)
            await asyncio.to_thread(proxy_process.end, running.pid)
        if self.proxy_process:  # or it stays in the table of processes as long as this hub; its threads may end later
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self.proxy_process.wait, proxy_process.END_WITHIN_S)
        self.proxy_process = None if self.by_service else proxy_process.start_apart(self.state)
        await self._wait_up(self.proxy_process)
        self.running = proxy_process.running_in(self.state)
        if self.running and (changed := changes(self.running.parts, plan.parts)):  # its service was faster than we
            await self._replace(self.running, f"changed: {', '.join(changed)}", plan)
            return
        self.log.info("The proxy was started (process %s)", self.running.pid if self.running else "?")

    async def _wait_up(self, started: StartedProxy | None) -> None:
        deadline = time.monotonic() + (UP_WITHIN_S if started else SERVICE_UP_WITHIN_S)
        while not await self._answers():
            if started and started.poll() is not None:
                raise PortalError(f"The proxy ended with status {started.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise PortalError(self._silence(started is not None))
            await asyncio.sleep(STEP_S)

    def _silence(self, is_ours: bool) -> str:
        if is_ours:
            return f"The proxy does not answer at {self.public_url} and {self.api_url}: {self._last_words()}"
        return (
            f"No proxy answers at {self.public_url} and {self.api_url}. With --without-proxy a service of its own runs "
            "`portal proxy`: start it (systemctl start dsportal-proxy; its words: journalctl -u dsportal-proxy), "
            "or leave --without-proxy away."
        )

    def _last_words(self) -> str:
        log = self.state / proxy_process.FOLDER / proxy_process.LOG_FILE
        lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
        return "\n".join([f"the end of {log}:", *lines])

    async def _answers(self) -> bool:
        """True when a proxy takes our token, and browsers reach one."""
        url = url_path_join(self.api_url, "api/routes?inactive_since=2000-01-01T00:00:00Z")  # no route is so old
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                await fetch(url, headers={"Authorization": f"token {self.auth_token}"})
                await Server.from_url(self.public_url).wait_up(ASK_TIMEOUT_S)
        except Exception as error:
            self.log.debug("The proxy does not answer: %r", error)
            return False
        return True

    async def check_running(self) -> None:
        """When it has ended: start another one, or find that of its service; then all routes are brought back."""
        if self.running and self.running.lives:
            return
        self.log.error("The proxy (process %s) has ended", self.running.pid if self.running else "?")
        try:
            await self.start()
        except PortalError as error:
            self.log.error("Tried again in %s s: %s", self.check_running_interval, error.message)
            return
        await self.restore_routes()

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None:
        """JupyterHub stops a session that is ready when this fails: a proxy, or a hub, that is slow is waited for."""
        deadline = time.monotonic() + ROUTE_WITHIN_S
        while True:
            try:
                await super().add_route(routespec, target, data)
                return
            except TimeoutError:  # after 30 seconds
                if time.monotonic() >= deadline:
                    raise
                self.log.warning(
                    "%s has no route yet: the proxy has not answered in time, and is asked again", routespec
                )

    async def add_user(self, user: Any, server_name: str = "") -> None:
        """The route of a session; none for who may not use the portal any more."""
        if user.name not in self.without_route:
            await super().add_user(user, server_name)

    async def check_routes(self, users: Any, services: Any, routes: dict[str, Any] | None = None) -> None:
        """Repair the routes. While a hub that starts has not made all its sessions, nobody's route is removed."""
        if getattr(users, "unmade", ()):
            await self.add_hub_route(self.hub)  # so there is one route at least: without any JupyterHub asks itself
            found = await self.get_all_routes()
            routes = {path: route for path, route in found.items() if "user" not in route["data"]}
        await super().check_routes(Routed(users, self.without_route), services, routes)

    def stop(self) -> None:
        """The hub stops: the proxy does not."""
        if self._looks:
            self._looks.stop()
        self.log.info("The proxy goes on without the hub (process %s)", self.running.pid if self.running else "?")

    def _plan(self) -> ProxyPlan:
        """How the proxy is started: as :class:`ConfigurableHTTPProxy` of JupyterHub 6.1 does it."""
        public = Server.from_url(self.public_url)
        api = Server.from_url(self.api_url)
        target = url_path_join(self.hub.url, "error")
        others = ["--log-level", self.log_level, *(["--host-routing"] if self.app.subdomain_host else [])]
        https = [*(["--ssl-key", self.ssl_key] if self.ssl_key else []), *_pair("--ssl-cert", self.ssl_cert)]
        internal = self._get_ssl_options() if self.app.internal_ssl else []
        argv = [*self.command, *_listens(public, ""), *_listens(api, "api-"), "--error-target", target]
        parts = {
            "portal.bind or portal.port": self.public_url,
            "portal.proxy_port": self.api_url,
            "the hub's address": target,
            "portal.certificate or portal.key": digest(https),
            "portal.internal_ssl": digest(internal),
            "portal.domain": self.app.subdomain_host,
            "options of the proxy": " ".join(others),
            "the proxy's own version": program(self.command),
            "the portal's part of the proxy": digest_of(self._preloaded(), self._guard()),
        }
        return ProxyPlan((*argv, *others, *https, *internal), self._environment(), self.command_umask, parts)

    def _environment(self) -> dict[str, str]:
        preloaded = [f"--import={file.as_uri()}" for file in self._preloaded()]
        return {
            proxy_process.TOKEN_VARIABLE: self.auth_token,
            "NODE_OPTIONS": " ".join([os.environ.get("NODE_OPTIONS", ""), *preloaded]).strip(),
            "DSPORTAL_URL": self.app.subdomain_host,
            "DSPORTAL_BASE_URL": self.app.base_url,
            "DSPORTAL_PROXY_GUARD": self._guard(),
            "DSPORTAL_ERROR_PAGE": str(self.state / proxy_process.FOLDER / ERROR_PAGE),
            "DSPORTAL_ADDRESS_PAGE": str(self.state / proxy_process.FOLDER / ADDRESS_PAGE),
            "DSPORTAL_HEADERS_PAGE": str(self.state / proxy_process.FOLDER / HEADERS_PAGE),
        }

    def _preloaded(self) -> list[Path]:
        return [data.folder("deploy") / name for name in PRELOADED]

    def _guard(self) -> str:
        """What proxy_guard.mjs and proxy_log.mjs are told."""
        public = Server.from_url(self.public_url)
        base = self.app.base_url
        guard = {
            "bind": public.ip,
            "port": public.port,
            "headers_within_s": self.headers_within_s,
            "redirect_port": self.redirect_port,
            "silent_per_address": self.silent_per_address,
            "of_one_session": self.of_one_session,
            "of_hub": self.of_hub,
            "of_hub_waiting": self.of_hub_waiting,
            "per_address": self.per_address,
            "taken_within_s": self.taken_within_s,
            "slow_per_address": self.slow_per_address,
            "without_route_s": self.without_route_s,
            "faults_told": self.faults_told,
            "faults_every_s": self.faults_every_s,
            "origins_apart": bool(self.app.subdomain_host),
            "sessions": [url_path_join(base, "user") + "/", url_path_join(base, "services") + "/"],
            "trusted_proxies": list(self.trusted_proxies),
        }
        return json.dumps(guard)

    def _write_pages(self) -> None:
        """What browsers see while no hub answers, and at other addresses; the proxy reads it when it needs it."""
        templates = jinja2.Environment(loader=jinja2.FileSystemLoader(self.app.template_paths), autoescape=True)
        folder = self.state / proxy_process.FOLDER
        url = f"{self.app.subdomain_host}{self.app.base_url}".rstrip("/")
        for page in (ERROR_PAGE, ADDRESS_PAGE, HEADERS_PAGE):
            words = templates.get_template(page).render(self.app.template_vars, portal_url=url)
            proxy_process.write(folder / page, words)


def _pair(option: str, value: str) -> list[str]:
    return [option, value] if value else []


def _listens(server: Server, prefix: str) -> list[str]:
    if server._unix_socket:
        return [f"--{prefix}socket", unquote(server.connect_addr)]
    return [f"--{prefix}ip", server.ip, f"--{prefix}port", str(server.port)]
