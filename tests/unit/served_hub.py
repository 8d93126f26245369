"""A whole hub that serves its pages on a port of this machine, on FakeSlurm and without a proxy, and a browser for it.

Its handlers, templates, login and database are the real ones; its spawners are the portal's own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar
from unittest import mock

import httpx
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from jupyterhub import orm
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from traitlets.config import Config

from portal.guard import intake
from portal.hub import config
from portal.hub.app import PortalHub
from portal.hub.context import HubContext
from portal.site import Site
from portal.slurm.cluster import Cluster
from portal.testing.fake_slurm import FakeSlurm
from spawners import form
from spawners.slurm import SlurmSessionSpawner
from tests.unit.conftest import EXAMPLE

CHECKOUT = Path(__file__).parents[2]
HUB_ID = "abcdef"
PASSWORD = "right for everybody"
PATIENCE_S = 30  # for an answer: this machine may have much other work


async def eventually(holds: Callable[[], Any]) -> None:
    """Wait for a condition of a hub in this process."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  nobody sets an event
            await asyncio.sleep(0.02)


@dataclass
class ServedHub:
    """A hub, where it is, and its Slurm."""

    hub: PortalHub
    url: str
    slurm: FakeSlurm
    cluster: Cluster
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    async def browser(self, name: str = "") -> httpx.AsyncClient:
        """A browser; that of a person who has logged in, where there is a name."""
        headers = {"Accept": "text/html"}
        client = httpx.AsyncClient(base_url=self.url, follow_redirects=True, headers=headers, timeout=PATIENCE_S)
        self.clients.append(client)
        if name:
            await client.get("/hub/login")
            fields = {"username": name, "password": PASSWORD, "_xsrf": client.cookies["_xsrf"]}
            assert (await client.post("/hub/login", data=fields)).status_code == 200
        return client

    def token(self, name: str) -> str:
        """A token of somebody who has logged in before."""
        token: str = orm.User.find(self.hub.db, name).new_api_token()
        return token


class Compiled(BytecodeCache):
    """Templates as an earlier hub of these tests compiled them: a third of what a hub here costs.

    What is kept belongs to one source, and to environments that render asynchronously or to those that do not.
    """

    _kept: ClassVar[dict[tuple[str, str, bool], CodeType]] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give what there is."""
        bucket.code = self._kept.get(self._which(bucket))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        if bucket.code:
            self._kept[self._which(bucket)] = bucket.code

    def _which(self, bucket: Bucket) -> tuple[str, str, bool]:
        return bucket.key, bucket.checksum, bucket.environment.is_async


@asynccontextmanager
async def served_hub(
    folder: Path, prepare: Callable[[PortalHub], None] = lambda hub: None, **settings: Any
) -> AsyncIterator[ServedHub]:
    """Serve a hub; ``prepare`` gets it before it knows its handlers, ``settings`` are more of JupyterHub's."""
    listener, port = bind_unused_port()
    slurm = FakeSlurm()
    cluster = Cluster("/opt/dsportal/bin/portal-launch", run=slurm, clock=slurm.clock, pause=partial(_pause, slurm))
    with _files_of_this_checkout():
        hub = PortalHub(config=_settings(folder, port), hub_id=HUB_ID, **settings)
        hub.context = HubContext(HUB_ID, cluster)
        prepare(hub)
        seen_by = logging.getLogger().handlers[:]
        await hub.initialize([])
        logging.getLogger().handlers[:] = seen_by  # JupyterHub takes pytest's away
        hub.log.propagate = True  # what it logs is seen by tests that look for it, or for nothing
        server = HTTPServer(hub.tornado_application, xheaders=True)
        server.add_socket(listener)
        intake.limit(server)
        served = ServedHub(hub, f"http://127.0.0.1:{port}", slurm, cluster)
        try:
            yield served
        finally:
            for client in served.clients:
                await client.aclose()
            server.stop()
            await server.close_all_connections()
            hub.db.close()
            for name in ("portal", "asyncio"):
                logging.getLogger(name).parent = logging.getLogger()


async def _pause(slurm: FakeSlurm, _seconds: float) -> None:
    """Time passes a hundred times as fast as outside: what a test does in a moment is little time in the cluster."""
    slurm.advance(1)
    await asyncio.sleep(0.01)


@contextmanager
def _files_of_this_checkout() -> Iterator[None]:
    """An installation may lie beside the Python that runs the tests."""

    def folder(name: str) -> Path:
        return CHECKOUT / name

    form._template.cache_clear()
    with mock.patch("portal.data.folder", folder), mock.patch("spawners.form.folder", folder):
        yield
    form._template.cache_clear()


def _settings(folder: Path, port: int) -> Config:
    c = Config()
    config._pages(c, Site(), local=False)
    c.JupyterHub.authenticator_class = SharedPasswordAuthenticator
    c.SharedPasswordAuthenticator.user_password = PASSWORD
    c.Authenticator.allow_all = True
    c.JupyterHub.spawner_class = SlurmSessionSpawner
    c.SlurmSessionSpawner.site_file = str(EXAMPLE)
    c.JupyterHub.db_url = f"sqlite:///{folder}/hub.sqlite"
    c.JupyterHub.cookie_secret_file = f"{folder}/cookie_secret"
    c.JupyterHub.bind_url = c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{port}"
    c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0.2}
    c.JupyterHub.jinja_environment_options = {"bytecode_cache": Compiled()}
    return c
