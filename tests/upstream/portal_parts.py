"""The portal's hub and spawner in the places of JupyterHub's own, with FakeSlurm instead of Slurm.

JupyterHub's tests derive their mocks (``MockHub``, ``SlowSpawner``, ``BadSpawner``...) from ``JupyterHub`` and
``SimpleLocalProcessSpawner``. While these two are replaced, their modules are imported: the mocks derive from the
portal's then, and not one line of JupyterHub's tests is copied or changed.
"""

from __future__ import annotations

import asyncio
import functools
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.objects import Hub, Server
from jupyterhub.orm import Server as ServerRow
from jupyterhub.proxy import ConfigurableHTTPProxy
from jupyterhub.utils import new_token
from tornado.escape import json_decode
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler
from traitlets import default
from traitlets.config import Config

from portal.hub.app import PortalHub
from portal.hub.config import addresses
from portal.hub.context import SETTING, HubContext
from portal.site import Site
from portal.slurm.cluster import Cluster
from spawners.callback import read_announcement
from spawners.slurm import SlurmSessionSpawner
from tests.upstream.served_slurm import SPEED, ServedSlurm

HUB_ID = "abcdef"
LAUNCHER = "/opt/dsportal/bin/portal-launch"
SITE_FILE = Path(__file__).parents[2] / "deploy" / "site" / "site.toml.example"
SLURMS: dict[Cluster, ServedSlurm] = {}  # of the module of tests that runs


def new_context() -> HubContext:
    """What the spawners of one hub share, on a Slurm of its own."""
    slurm = ServedSlurm()
    cluster = Cluster(LAUNCHER, run=slurm, clock=slurm.clock, pause=slurm.pause)
    SLURMS[cluster] = slurm
    return HubContext(HUB_ID, cluster)


@functools.cache
def context_without_hub() -> HubContext:
    """The same for all spawners that a module of tests makes without a hub."""
    return new_context()


def end_all() -> list[str]:
    """End what a module of tests has left; answers the people whose servers still ran though their hub has ended."""
    SLURMS.pop(context_without_hub().slurm).end_all()  # some of those tests stop nothing
    left = [slurm.jobs[job_id].user for slurm in SLURMS.values() for job_id in slurm.end_all()]
    SLURMS.clear()
    context_without_hub.cache_clear()
    return left


class HubOnFakeSlurm(PortalHub):
    """In the place of JupyterHub: what ``MockHub`` derives from."""

    @default("watch_every_s")
    def _watch_soon(self) -> float:
        return 12 / SPEED

    @default("settle_every_s")
    def _settle_soon(self) -> float:
        return 60 / SPEED

    @default("proxy_class")
    def _portals_proxy(self) -> type:
        return PortalsProxy

    def init_tornado_settings(self) -> None:
        """The portal's own, then FakeSlurm in the place of Slurm."""
        super().init_tornado_settings()
        self.context = new_context()
        self.hub_id = HUB_ID
        self.tornado_settings[SETTING] = self.context


class PortalsProxy(ConfigurableHTTPProxy):  # type: ignore[misc]
    """JupyterHub's proxy out of the portal's installation."""

    @default("command")
    def _portals_command(self) -> list[str]:
        config = Config()
        addresses(config, Site())
        command: list[str] = config.ConfigurableHTTPProxy.command
        return command


class SpawnerOnFakeSlurm(SlurmSessionSpawner):
    """In the place of SimpleLocalProcessSpawner: what ``MockSpawner`` derives from.

    Its server is a process of this machine, so it has the ``proc`` and the ``pid`` that the tests look for.
    """

    takes_s = 0.0  # so much longer than FakeSlurm a start takes

    @default("site_file")
    def _example(self) -> str:
        return str(SITE_FILE)

    @property
    def context(self) -> HubContext:
        """That of the hub, if there is one."""
        return super().context if self.user.settings else context_without_hub()

    @property
    def proc(self) -> subprocess.Popen[str] | None:
        """The process of the session's server, while there is one."""
        return SLURMS[self.cluster].servers.get(self.session.state.job_id)

    def get_state(self) -> dict[str, Any]:
        """The portal's own, and the number of that process."""
        state = super().get_state()
        return {**state, "pid": self.proc.pid} if self.proc else state

    async def start(self) -> Any:
        """Start; where there is no hub, with what ``User.spawn`` gives a spawner before. Their tests want a pair."""
        if not self.user.settings:
            row = ServerRow(base_url=self.user.base_url)
            self.user.db.add(row)
            self.user.db.commit()
            self.server = Server.from_orm(row)
            self.api_token = new_token()
            self.hub = hub_of_one(self)
        parts = urlsplit(await super().start())
        await asyncio.sleep(self.takes_s)
        return parts.hostname, parts.port


def hub_of_one(spawner: SpawnerOnFakeSlurm) -> Hub:
    """A hub that knows one session, and does nothing but take its port."""

    class Ready(RequestHandler):
        async def post(self) -> None:
            assert self.request.headers["Authorization"] == f"token {spawner.api_token}"
            announcement = read_announcement(json_decode(self.request.body))
            self.set_status(204 if await spawner.announce_port(announcement) else 409)

    listener, port = bind_unused_port()
    HTTPServer(Application([(r".*/api/dsportal/ready", Ready)])).add_socket(listener)
    return Hub(ip="127.0.0.1", port=port)
