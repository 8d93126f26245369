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

from portal.addresses import address_of
from portal.hub import listener
from portal.hub.certificates import signed
from portal.hub.listener import EitherServer, either_protocol

HERE = ["IP:127.0.0.1", "IP:127.0.1.1"]


class Shown(RequestHandler):
    """Answers how it was asked."""

    def get(self) -> None:
        """The protocol."""
        self.finish(self.request.protocol)

    def put(self) -> None:
        """The size of the body."""
        self.finish(str(len(self.request.body)))

    def post(self) -> None:
        """Who asks: for the log, and for what counts."""
        self.finish(f"{self.request.remote_ip} {address_of(self.request)}")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A hub's key and certificate."""
    store = Certipy(store_dir=str(tmp_path))
    store.create_ca("ca")
    return dict(store.create_signed_pair("hub", "ca", alt_names=HERE)["files"])


@pytest.fixture
def proxy(tmp_path: Path, files: dict[str, str]) -> dict[str, str]:
    """The proxy's key and certificate, of an authority of its own as JupyterHub makes it, which the hub believes."""
    store = Certipy(store_dir=str(tmp_path))
    store.create_ca("proxy-client-ca")
    mine = dict(store.create_signed_pair("proxy-client", "proxy-client-ca", alt_names=HERE)["files"])
    return {**mine, "ca": files["ca"], "own_ca": mine["ca"]}


@pytest.fixture
def namesake(tmp_path: Path, files: dict[str, str]) -> dict[str, str]:
    """A certificate with the proxy's name, of the authority for others."""
    key, certificate = signed(tmp_path, "ca", "proxy-client", HERE)
    (tmp_path / "namesake.key").write_text(key)
    (tmp_path / "namesake.crt").write_text(certificate)
    return {"key": f"{tmp_path}/namesake.key", "cert": f"{tmp_path}/namesake.crt", "ca": files["ca"]}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """So many connections are held of one address, and as many that have not shown who they are."""
    monkeypatch.setattr(listener, "OF_ONE_ADDRESS", 4)
    monkeypatch.setattr(listener, "OWN_UNPROVEN", 4, raising=False)
    return 4


def hub_context(files: dict[str, str], proxy: dict[str, str]) -> ssl.SSLContext:
    """Asks for certificates, as the hub does."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files["ca"])
    context.load_verify_locations(proxy["own_ca"])
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files["cert"], files["key"])
    return context


@pytest.fixture
async def port(files: dict[str, str], proxy: dict[str, str], request: pytest.FixtureRequest) -> AsyncIterator[int]:
    """The port of a server that asks for certificates, as the hub's does; the parameter is its address."""
    context = hub_context(files, proxy)
    with either_protocol({"proxy-client": {"certfile": proxy["cert"]}}):
        server = tornado.httpserver.HTTPServer(Application([("/", Shown)]), ssl_options=context, xheaders=True)
    assert isinstance(server, EitherServer)
    sockets = tornado.netutil.bind_sockets(0, getattr(request, "param", "127.0.0.1"))
    server.add_sockets(sockets)
    yield sockets[0].getsockname()[1]
    server.stop()
    await server.close_all_connections()


def shows(given: dict[str, str]) -> ssl.SSLContext:
    """What a connection that shows this certificate is made with."""
    context = ssl.create_default_context(cafile=given["ca"])
    context.load_cert_chain(given["cert"], given["key"])
    return context


def client(files: dict[str, str]) -> httpx.AsyncClient:
    """Somebody with a certificate."""
    return httpx.AsyncClient(verify=shows(files), trust_env=False)


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


CLAIMS = {"X-Forwarded-For": "192.0.2.1", "X-Real-Ip": "192.0.2.2", "X-Forwarded-Proto": "https"}


async def told(url: str, files: dict[str, str], address: str = "127.0.0.1") -> str:
    """Who asks, as the server sees it that is asked from this address with such headers."""
    way = httpx.AsyncHTTPTransport(verify=shows(files), local_address=address)
    async with httpx.AsyncClient(transport=way, trust_env=False) as asking:
        first = (await asking.post(url, headers=CLAIMS)).text
        assert (await asking.post(url, headers=CLAIMS)).text == first, "a second time by the same connection"
        return first


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("address", ["127.0.0.9", "127.0.0.1"])
async def test_who_shows_no_certificate_of_the_proxy_is_who_is_connected_whatever_the_headers_say(
    port: int, files: dict[str, str], namesake: dict[str, str], scheme: str, address: str
) -> None:
    for shown in (files, namesake):
        assert await told(f"{scheme}://127.0.0.1:{port}/", shown, address) == f"{address} {address}"


async def test_the_proxy_says_who_asks(port: int, proxy: dict[str, str]) -> None:
    assert await told(f"https://127.0.0.1:{port}/", proxy) == "192.0.2.2 192.0.2.1"
    assert await told(f"http://127.0.0.1:{port}/", proxy) == "127.0.0.1 127.0.0.1", "its own connections have TLS"


@pytest.mark.parametrize("port", ["127.0.1.1"], indirect=True)
async def test_the_proxy_is_known_where_the_hubs_name_is_another_address_of_its_host(
    port: int, files: dict[str, str], proxy: dict[str, str]
) -> None:
    """As Debian has it: what leads to 127.0.1.1 comes from 127.0.0.1."""
    assert await told(f"https://127.0.1.1:{port}/", proxy, "127.0.0.1") == "192.0.2.2 192.0.2.1"
    assert await told(f"https://127.0.1.1:{port}/", files, "127.0.0.1") == "127.0.0.1 127.0.0.1"


async def test_without_internal_tls_the_proxy_is_known_by_this_hosts_address(files: dict[str, str]) -> None:
    with either_protocol({}):
        server = tornado.httpserver.HTTPServer(Application([("/", Shown)]), xheaders=True)
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/"
    assert await told(url, files) == "192.0.2.2 192.0.2.1"
    assert await told(url, files, "127.0.0.9") == "127.0.0.9 127.0.0.9"
    server.stop()
    await server.close_all_connections()


async def left_of(begun: int, port: int, context: ssl.SSLContext | None) -> int:
    """Begin so many requests from this host, and end none; answers how many the hub still holds, and closes them."""
    held = []
    for number in range(begun):
        of = ("127.0.0.1" if context else f"127.0.1.{number + 1}", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=of)
        writer.write(b"GET / HTTP/1.1\r\nX")
        held.append((reader, writer))
        await asyncio.sleep(0.01)
    for _ in range(50):  # what is closed there is told a moment later
        left = [not reader.at_eof() and reader.exception() is None for reader, _ in held].count(True)
        if left <= begun // 3:
            break
        await asyncio.sleep(0.02)
    for _, writer in held:
        writer.close()
    return left


async def test_connections_of_this_host_are_bounded_and_those_of_the_proxy_are_not(
    few: int, port: int, files: dict[str, str], proxy: dict[str, str]
) -> None:
    async with client(proxy) as asking:
        assert (await asking.get(f"https://127.0.0.1:{port}/")).text == "https"
        assert await left_of(3 * few, port, None) == few
        assert await left_of(3 * few, port, shows(files)) == few
        assert await left_of(3 * few, port, shows(proxy)) == 3 * few
        assert (await asking.get(f"https://127.0.0.1:{port}/")).text == "https", "the proxy's connection of before"


async def test_who_fills_the_port_from_this_host_takes_no_place_of_the_proxy_and_of_who_asks_in_time(
    few: int, port: int, files: dict[str, str], proxy: dict[str, str]
) -> None:
    filling = [await asyncio.open_connection("127.0.0.1", port) for _ in range(few)]
    for _, writer in filling:
        writer.write(b"GET / HTTP/1.1\r\nX")
    for shown in (files, proxy):
        async with client(shown) as asking:
            assert (await asking.get(f"https://127.0.0.1:{port}/")).text == "https"
            assert (await asking.get(f"http://127.0.0.1:{port}/")).text == "http"
    for _, writer in filling:
        writer.close()


async def test_handshakes_of_this_host_that_nobody_ends_are_bounded(few: int, port: int, proxy: dict[str, str]) -> None:
    begun = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * few)]
    for _, writer in begun:
        writer.write(listener.TLS_HELLO)
        await asyncio.sleep(0.01)
    for _ in range(50):
        if [reader.at_eof() for reader, _ in begun].count(False) <= few:
            break
        await asyncio.sleep(0.02)
    assert [reader.at_eof() for reader, _ in begun].count(False) == few
    async with client(proxy) as asking:
        assert (await asking.get(f"https://127.0.0.1:{port}/")).text == "https"
    for _, writer in begun:
        writer.close()


def test_afterwards_servers_are_made_as_usual() -> None:
    usual = tornado.httpserver.HTTPServer
    with either_protocol({}):
        assert tornado.httpserver.HTTPServer is EitherServer
    assert tornado.httpserver.HTTPServer is usual
