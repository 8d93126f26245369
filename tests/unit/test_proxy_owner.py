"""With internal TLS the proxy hands a request to the very session it is for, whatever else answers at its address."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import pytest_asyncio
from certipy import Certipy
from jupyterhub.proxy import ConfigurableHTTPProxy
from traitlets.config import Config

from portal.hub import config
from portal.hub.certificates import signed
from portal.proxy import proxy_process
from portal.proxy.apart import ApartProxy
from portal.site import parse
from tests.ports import held_port

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROOT = Path(__file__).parents[2]
TRUST = {"proxy-api-ca": ["hub-ca"], "proxy-client-ca": ["hub-ca", "notebooks-ca"], "hub-ca": ["proxy-client-ca"]}
HERE = ["IP:127.0.0.1", "DNS:localhost"]
BROWSER = {"Host": "portal.example.org", "Cookie": "secret=1"}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "x" * 16,
    "Sec-WebSocket-Version": "13",
}


class Answering:
    """Something that answers with TLS, and notes all that it was told."""

    def __init__(self, port: int, server: asyncio.Server, heard: list[bytes]) -> None:
        self.port, self.server, self.heard = port, server, heard


class Cluster:
    """The authorities of a hub, its proxy, and what listens on its nodes."""

    def __init__(self, folder: Path) -> None:
        self.store = Certipy(store_dir=str(folder / "certificates"))
        self.bundles = self.store.trust_from_graph(TRUST)
        self.store.create_ca("notebooks-ca", overwrite=True)
        self.bundles = self.store.trust_from_graph(TRUST)
        self.folder = folder
        self.listeners: list[Answering] = []

    async def listen(self, name: str, authority: str = "notebooks-ca", port: int = 0, word: str = "") -> Answering:
        """Answer to everybody, with the certificate that names ``name``, and a start."""
        key, certificate = signed(self.folder / "certificates", authority, name, HERE, word)
        file = self.folder / f"{name}-{len(self.listeners)}.pem"
        file.write_text(key + certificate)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        heard: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.read(4096))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", port, ssl=context)
        self.listeners.append(Answering(server.sockets[0].getsockname()[1], server, heard))
        return self.listeners[-1]

    def pair(self, name: str, authority: str) -> dict[str, str]:
        """Key and certificate of a part of the hub."""
        files = self.store.create_signed_pair(name, authority, alt_names=HERE)["files"]
        return {"keyfile": files["key"], "certfile": files["cert"]}


class Proxy:
    """The proxy of a hub with internal TLS, as that hub starts it; the hub itself is away."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        folders = {"deploy": ROOT / "deploy" / "site", "templates": ROOT / "templates"}
        monkeypatch.setattr("portal.data.folder", folders.__getitem__)
        ports = {"port": held_port(), "proxy_port": held_port(), "hub_port": held_port()}
        texts = {"bind": "127.0.0.1", "hub_address": "127.0.0.1", "state_folder": str(cluster.folder / "state")}
        site = parse({"portal": {**ports, **texts}})
        c = Config()
        config.addresses(c, site)
        config._internal_ssl(c, site)
        config._apart_proxy(c, cluster.folder)
        names = ("proxy-api", "proxy-client")
        pairs = {name: cluster.pair(name, f"{name}-ca") for name in names}
        hub = SimpleNamespace(url=f"https://127.0.0.1:{ports['hub_port']}/hub/", routespec="/")
        app = SimpleNamespace(
            base_url="/",
            hub=hub, subdomain_host="", internal_ssl=True, template_paths=[str(ROOT / "templates" / "hub")],
            template_vars={"site_title": "x"}, users={}, internal_proxy_certs=pairs,
            internal_trust_bundles=cluster.bundles,
        )  # fmt: skip
        self.cluster = cluster
        self.url = f"http://127.0.0.1:{ports['port']}"
        self.hub_port = ports["hub_port"]
        self.api = f"https://127.0.0.1:{ports['proxy_port']}/api/routes"
        self.parts = ApartProxy(app=app, hub=hub, public_url=self.url, config=c, log=logging.getLogger("hub"))
        self.known = cluster.pair("hub-internal", "hub-ca")

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        proxy_process.write_plan(self.cluster.folder, self.parts._plan())
        self.process = proxy_process.start_apart(self.cluster.folder)
        async with asyncio.timeout(20), httpx.AsyncClient(trust_env=False) as client:
            while not await answers(client, f"{self.url}/_chp_healthz"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def route(self, path: str, target: str, **data: object) -> None:
        """Add a route, as the hub does."""
        context = ssl.create_default_context(cafile=self.known["certfile"])
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(self.known["certfile"], self.known["keyfile"])
        headers = {"Authorization": f"token {self.parts.auth_token}"}
        async with httpx.AsyncClient(trust_env=False, verify=context) as client:
            answer = await client.post(self.api + path, json={"target": target, **data}, headers=headers)
        assert answer.status_code == 201

    async def get(self, path: str, **headers: str) -> int:
        """The status that a browser gets."""
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            return (await client.get(self.url + path, headers={**BROWSER, **headers})).status_code

    def end(self) -> None:
        """End it."""
        proxy_process.end(self.process.pid)
        self.process.wait(5)


async def answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """One for all: each test has its own listeners."""
    return Cluster(tmp_path_factory.mktemp("cluster"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(cluster: Cluster) -> AsyncIterator[Proxy]:
    """A proxy that runs; each test leads its addresses to its own listeners."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        ours = Proxy(cluster, monkeypatch)
        await ours.start()
        yield ours
    ours.end()
    for listener in cluster.listeners:
        listener.server.close()


async def test_a_request_reaches_the_session_of_its_person(cluster: Cluster, proxy: Proxy) -> None:
    alice = await cluster.listen("user-alice")
    await proxy.route("/user/alice", f"https://127.0.0.1:{alice.port}", user="alice", server_name="")

    assert await proxy.get("/user/alice/api") == 200
    assert await proxy.get("/user/alice/api/kernels/1/channels", **UPGRADE) == 200
    assert b"secret=1" in alice.heard[0]


@pytest.mark.parametrize("name", ["user-bob", "user-alice2", "user-", "hub-internal", "alice"])
@pytest.mark.parametrize("headers", [{}, UPGRADE], ids=["web", "socket"])
async def test_who_answers_in_its_place_with_another_certificate_gets_no_byte(
    cluster: Cluster, proxy: Proxy, name: str, headers: dict[str, str]
) -> None:
    other = await cluster.listen(name)
    await proxy.route("/user/alice", f"https://127.0.0.1:{other.port}", user="alice", server_name="")

    assert await proxy.get("/user/alice/api", **headers) == 503
    assert b"".join(other.heard) == b""


async def test_a_place_that_was_alices_and_is_bobs_now_hears_nothing_for_alice(cluster: Cluster, proxy: Proxy) -> None:
    alice = await cluster.listen("user-alice")
    await proxy.route("/user/alice", f"https://127.0.0.1:{alice.port}", user="alice", server_name="")
    assert await proxy.get("/user/alice/api") == 200
    alice.server.close()
    await alice.server.wait_closed()
    bob = await cluster.listen("user-bob", port=alice.port)
    await proxy.route("/user/bob", f"https://127.0.0.1:{bob.port}", user="bob", server_name="")

    assert await proxy.get("/user/bob/api") == 200
    assert await proxy.get("/user/alice/api") == 503
    assert len(bob.heard) == 1


@pytest.mark.parametrize("before", ["", "word-of-before"])
@pytest.mark.parametrize("headers", [{}, UPGRADE], ids=["web", "socket"])
async def test_a_key_of_an_ended_session_is_worth_nothing_whoever_has_the_name_by_now(
    cluster: Cluster, proxy: Proxy, before: str, headers: dict[str, str]
) -> None:
    alice = await cluster.listen("user-alice", word="word-of-now")
    route = {"user": "alice", "server_name": "", "session_word": "word-of-now"}
    await proxy.route("/user/alice", f"https://127.0.0.1:{alice.port}", **route)
    assert await proxy.get("/user/alice/api") == 200
    alice.server.close()
    await alice.server.wait_closed()
    other = await cluster.listen("user-alice", port=alice.port, word=before)

    assert await proxy.get("/user/alice/api", **headers) == 503
    assert b"".join(other.heard) == b""


@pytest.mark.parametrize("word", ["", "word-that-an-earlier-version-did-not-save"])
async def test_a_session_of_which_the_hub_knows_no_word_is_reached(cluster: Cluster, proxy: Proxy, word: str) -> None:
    alice = await cluster.listen("user-alice", word=word)
    await proxy.route("/user/alice", f"https://127.0.0.1:{alice.port}", user="alice", server_name="")

    assert await proxy.get("/user/alice/api") == 200


async def test_the_routes_of_sessions_say_their_word_and_those_of_others_none(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, dict[str, object]] = {}

    async def add_route(_self: object, routespec: str, _target: str, data: dict[str, object]) -> None:
        made[routespec] = data

    monkeypatch.setattr(ConfigurableHTTPProxy, "add_route", add_route)
    session = SimpleNamespace(proxy_spec="/user/alice/", server=SimpleNamespace(host="https://n:1"), pending=None)
    of_alice = SimpleNamespace(name="alice", spawners={"": session})

    await proxy.parts.add_user(of_alice)
    session.session_word = "word-of-now"
    session.proxy_spec = "/user/alice/two/"
    await asyncio.gather(
        proxy.parts.add_user(of_alice), proxy.parts.add_route("/services/x/", "http://n:2", {"service": "x"})
    )

    assert made == {
        "/user/alice/": {"user": "alice", "server_name": ""},
        "/user/alice/two/": {"user": "alice", "server_name": "", "session_word": "word-of-now"},
        "/services/x/": {"service": "x"},
    }


async def test_a_certificate_that_nobody_signed_is_not_enough_whatever_it_names(cluster: Cluster, proxy: Proxy) -> None:
    cluster.store.create_ca("strangers-ca")
    other = await cluster.listen("user-alice", authority="strangers-ca")
    await proxy.route("/user/alice", f"https://127.0.0.1:{other.port}", user="alice", server_name="")

    assert await proxy.get("/user/alice/api") == 503
    assert b"".join(other.heard) == b""


async def test_no_session_answers_in_the_place_of_the_hub(cluster: Cluster, proxy: Proxy) -> None:
    session = await cluster.listen("user-bob")
    await proxy.route("/", f"https://127.0.0.1:{session.port}", hub=True)
    assert await proxy.get("/hub/login") == 503
    assert b"".join(session.heard) == b""

    hub = await cluster.listen("hub-internal", authority="hub-ca")
    await proxy.route("/", f"https://127.0.0.1:{hub.port}", hub=True)
    assert await proxy.get("/hub/login") == 200


async def test_a_session_of_before_that_speaks_plain_http_is_reached(cluster: Cluster, proxy: Proxy) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    await proxy.route("/user/alice", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", user="alice")

    assert await proxy.get("/user/alice/api") == 200
    server.close()
