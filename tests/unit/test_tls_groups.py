"""Who says hello to hub, session or proxy chooses no way of agreeing on a key that takes all others long."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.hub.listener import EitherServer
from portal.internal_tls.contexts import own_context
from portal.proxy.apart import ApartProxy
from portal.singleuser.handshakes import Handshakes
from tests.inside import VENV_BIN
from tests.unit import test_proxy_owner
from tests.unit.test_proxy_owner import Cluster, Proxy

HELLO = """
const tls = require("node:tls");
const fs = require("node:fs");
const [port, ecdhCurve, key, cert] = process.argv.slice(1);
const given = { host: "127.0.0.1", port, ecdhCurve, key: fs.readFileSync(key), cert: fs.readFileSync(cert) };
const socket = tls.connect({ ...given, rejectUnauthorized: false }, () => {
  console.log("agreed");
  socket.destroy();
});
socket.on("error", (error) => console.log(error.code));
"""
SLOW = "ffdhe3072"  # as 8192, which not every Node knows
Serving = Callable[[Cluster, pytest.MonkeyPatch], AbstractAsyncContextManager[int]]


async def said(port: int, groups: str, pair: dict[str, str]) -> str:
    """What comes of a hello that knows these groups alone."""
    words = (str(VENV_BIN / "node"), "-e", HELLO, "--", str(port), groups, pair["keyfile"], pair["certfile"])
    node = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(node.communicate(), 30)
    return out.decode().strip()


def server_context(cluster: Cluster) -> ssl.SSLContext:
    """As JupyterHub makes it."""
    pair = cluster.pair("hub-internal", "hub-ca")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair["certfile"], pair["keyfile"])
    return context


@asynccontextmanager
async def of_tornado(cluster: Cluster, kind: type[HTTPServer]) -> AsyncIterator[int]:
    server = kind(Application([]), ssl_options=server_context(cluster))
    if kind is HTTPServer:
        Handshakes().watch(server)
    listener, port = bind_unused_port()
    server.add_socket(listener)
    yield port
    server.stop()
    await server.close_all_connections()


@asynccontextmanager
async def of_proxy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    pair = cluster.pair("portal", "hub-ca")
    https = {"ssl_key": pair["keyfile"], "ssl_cert": pair["certfile"]}
    monkeypatch.setattr(test_proxy_owner, "ApartProxy", lambda **given: ApartProxy(**given, **https))
    proxy = Proxy(cluster, monkeypatch)
    proxy.url = proxy.url.replace("http:", "https:")
    trusting = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **given: trusting(**{"verify": False, **given}))
    await proxy.start()
    try:
        yield int(proxy.url.rsplit(":", 1)[1])
    finally:
        proxy.end()


SERVERS: dict[str, Serving] = {
    "hub": lambda cluster, _: of_tornado(cluster, EitherServer),
    "session": lambda cluster, _: of_tornado(cluster, HTTPServer),
    "proxy": of_proxy,
}


@pytest.mark.parametrize("name", SERVERS)
async def test_a_hello_gets_a_key_in_a_usual_way_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cluster = Cluster(tmp_path)
    pair = cluster.pair("asking", "hub-ca")
    async with SERVERS[name](cluster, monkeypatch) as port:
        assert "HANDSHAKE_FAILURE" in await said(port, SLOW, pair)
        for usual in ("P-256", f"X25519:P-256:{SLOW}"):
            assert await said(port, usual, pair) == "agreed"


def test_what_is_asked_of_a_session_is_so_too(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    pair = cluster.pair("hub-internal", "hub-ca")
    asking = own_context(pair["keyfile"], pair["certfile"], cluster.bundles["hub-ca"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        asking.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()

    assert b"\x00\x0a\x00\x04\x00\x02\x00\x17" in outgoing.read(), "the one group that is offered: secp256r1"
