"""The hub's port, which takes TLS and plain HTTP, and waits for nobody who says nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import tornado.httpserver
from certipy import Certipy
from tornado.web import Application, RequestHandler

from portal.hub import listener
from portal.hub.listener import EitherServer, either_protocol

HERE = ["IP:127.0.0.1"]


class Shown(RequestHandler):
    """Answers how it was asked."""

    def get(self) -> None:
        """The protocol."""
        self.finish(self.request.protocol)

    def put(self) -> None:
        """The size of the body."""
        self.finish(str(len(self.request.body)))

    def post(self) -> None:
        """Who asks, for the log."""
        self.finish(str(self.request.remote_ip))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A hub's key and certificate."""
    store = Certipy(store_dir=str(tmp_path))
    store.create_ca("ca")
    return dict(store.create_signed_pair("hub", "ca", alt_names=HERE)["files"])


@pytest.fixture
async def port(files: dict[str, str]) -> AsyncIterator[int]:
    """The port of a server that asks for certificates, as the hub's does."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files["ca"])
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files["cert"], files["key"])
    with either_protocol():
        server = tornado.httpserver.HTTPServer(Application([("/", Shown)]), ssl_options=context, xheaders=True)
    assert isinstance(server, EitherServer)
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    yield sockets[0].getsockname()[1]
    server.stop()
    await server.close_all_connections()


def client(files: dict[str, str]) -> httpx.AsyncClient:
    """Somebody with a certificate."""
    context = ssl.create_default_context(cafile=files["ca"])
    context.load_cert_chain(files["cert"], files["key"])
    return httpx.AsyncClient(verify=context, trust_env=False)


async def test_both_are_answered_at_the_same_port(port: int, files: dict[str, str]) -> None:
    async with client(files) as asking:
        assert (await asking.get(f"https://127.0.0.1:{port}/")).text == "https"
        assert (await asking.get(f"http://127.0.0.1:{port}/")).text == "http"
        assert (await asking.get(f"https://127.0.0.1:{port}/")).text == "https", "one plain question changes nothing"
        assert (await asking.put(f"https://127.0.0.1:{port}/", content=b"x" * 10**6)).text == str(10**6)


async def test_tls_without_a_certificate_is_not_answered(port: int) -> None:
    async with httpx.AsyncClient(verify=False, trust_env=False) as stranger:  # noqa: S501
        with pytest.raises(httpx.HTTPError):
            await stranger.get(f"https://127.0.0.1:{port}/")


async def test_who_says_nothing_is_given_up_and_keeps_nobody_waiting(
    port: int, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SAYS_WITHIN_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with client(files) as asking:
        assert (await asking.get(f"http://127.0.0.1:{port}/")).text == "http"
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_who_goes_away_without_a_word_leaves_nothing(port: int, files: dict[str, str]) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await writer.wait_closed()
    async with client(files) as asking:
        assert (await asking.get(f"https://127.0.0.1:{port}/")).text == "https"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_who_calls_from_elsewhere_is_who_is_connected_whatever_the_headers_say(
    port: int, files: dict[str, str], scheme: str
) -> None:
    claims = {"X-Forwarded-For": "192.0.2.1", "X-Real-Ip": "192.0.2.2", "X-Forwarded-Proto": "https"}
    context = ssl.create_default_context(cafile=files["ca"])
    context.load_cert_chain(files["cert"], files["key"])

    async def told(address: str) -> str:
        way = httpx.AsyncHTTPTransport(verify=context, local_address=address)
        async with httpx.AsyncClient(transport=way, trust_env=False) as asking:
            return (await asking.post(f"{scheme}://127.0.0.1:{port}/", headers=claims)).text

    assert await told("127.0.0.9") == "127.0.0.9"
    assert await told("127.0.0.1") == "192.0.2.2", "the proxy, on this host, says who asks"


def test_afterwards_servers_are_made_as_usual() -> None:
    usual = tornado.httpserver.HTTPServer
    with either_protocol():
        assert tornado.httpserver.HTTPServer is EitherServer
    assert tornado.httpserver.HTTPServer is usual
