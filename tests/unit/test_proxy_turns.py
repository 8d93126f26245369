"""What one client has under way through the real proxy: its next requests wait, and nobody else's do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.ports import held_port
from tests.unit.test_proxy import Portal, portal, started
from tests.unit.test_proxy_guard import Told, answering, ask, is_open, routed

__all__ = ["portal"]
WITHIN_S = 20
OTHER = {"X-Forwarded-For": "192.0.2.2"}
PIPELINED = 32
CHECKOUT = Path(__file__).parents[2]


class Held(Told):
    """Answers what has ``/held`` in its path when it is told to."""

    going = 0
    release = threading.Event()

    def do_GET(self) -> None:
        """Count what is under way."""
        type(self).going += 1
        if "/held" in self.path:
            self.release.wait(WITHIN_S)
        type(self).going -= 1
        with contextlib.suppress(OSError):
            super().do_GET()

    do_POST = do_GET


@pytest.fixture
def upstream() -> Iterator[str]:
    """A hub and a session."""
    Held.going = 0
    Held.release.clear()
    with answering(Held) as url:
        yield url
        Held.release.set()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what is opened."""
    with ExitStack() as opened:
        yield opened


def asking(portal: Portal, stack: ExitStack, path: str, times: int = 1) -> socket.socket:
    """A connection that has asked for something, so many times."""
    browser = stack.enter_context(socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=WITHIN_S))
    browser.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * times)
    return browser


async def until_going(number: int) -> None:
    """Wait until so many requests are under way behind the proxy."""
    async with asyncio.timeout(WITHIN_S):
        while Held.going != number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("path", ["/hub/held", "/user/nobody/held"])
async def test_one_client_has_few_requests_at_the_hub_and_the_others_go_before_the_next(
    portal: Portal, upstream: str, stack: ExitStack, path: str
) -> None:
    await routed(portal, upstream, trusted_proxies=["127.0.0.1"], of_hub=2, of_hub_waiting=3)
    browsers = [asking(portal, stack, path) for _ in range(2 + 3 + 1)]
    answered, _, _ = await asyncio.to_thread(select.select, browsers, [], [], WITHIN_S)
    refused = [await asyncio.to_thread(one.recv, 1000) for one in answered]
    await until_going(2)

    others = await ask("GET", f"{portal.url}/hub/", headers=OTHER)
    session = await ask("GET", f"{portal.url}/user/alice/lab")

    assert [one.startswith(b"HTTP/1.1 429 ") and b"Retry-After" in one for one in refused] == [True]
    assert (Held.going, others.status_code, session.status_code) == (2, 200, 200)
    Held.release.set()
    async with asyncio.timeout(WITHIN_S):
        while (await ask("GET", f"{portal.url}{path}")).status_code != 200:  # noqa: ASYNC110  those that waited go first
            await asyncio.sleep(0.05)


async def test_who_goes_away_while_waiting_leaves_room(portal: Portal, upstream: str, stack: ExitStack) -> None:
    await routed(portal, upstream, of_hub=1, of_hub_waiting=1)
    first = asking(portal, stack, "/hub/held")
    await until_going(1)
    second = asking(portal, stack, "/hub/held")
    first.close()
    await until_going(2)  # the first is still held behind the proxy
    second.close()
    Held.release.set()

    assert (await ask("GET", f"{portal.url}/hub/")).status_code == 200


@pytest.mark.parametrize("path", ["/hub/held", "/user/alice/held"])
async def test_of_one_connection_one_request_is_under_way_at_a_time(
    portal: Portal, upstream: str, stack: ExitStack, path: str
) -> None:
    await routed(portal, upstream)
    few = asking(portal, stack, path, 3)
    await until_going(1)
    many = asking(portal, stack, path, PIPELINED + 1)

    assert await asyncio.to_thread(many.recv, 1) == b""
    assert Held.going <= 2
    Held.release.set()
    answers = b""
    while answers.count(b"200 OK") < 3:
        answers += await asyncio.to_thread(few.recv, 65536)


async def test_what_is_refused_behind_other_requests_counts_as_one_of_them(
    portal: Portal, upstream: str, stack: ExitStack
) -> None:
    await routed(portal, upstream)
    browser = asking(portal, stack, "/hub/held")
    await until_going(1)

    browser.sendall(b"GET /hub/%zz HTTP/1.1\r\nHost: x\r\n\r\n" * (PIPELINED + 1))

    assert await asyncio.to_thread(browser.recv, 1) == b""


async def test_a_connection_that_ends_with_requests_that_wait_leaves_nothing_that_counts(
    portal: Portal, upstream: str, stack: ExitStack
) -> None:
    await routed(portal, upstream, of_one_session=5)
    for _ in range(3):
        asking(portal, stack, "/user/alice/held", 5).close()
    page = f"{portal.url}/user/alice/lab"

    async with asyncio.timeout(WITHIN_S):
        while (await ask("GET", page)).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_what_one_client_sends_behind_other_requests_is_bounded_in_bytes_and_others_go_on(
    portal: Portal, upstream: str, stack: ExitStack
) -> None:
    await routed(portal, upstream, trusted_proxies=["127.0.0.1"])
    long = f"GET /hub/held HTTP/1.1\r\nHost: x\r\nX-Long: {15_000 * 'x'}\r\n\r\n".encode()
    browsers = []
    for _ in range(100):
        browsers.append(asking(portal, stack, "/hub/held"))
        with contextlib.suppress(ConnectionError):
            await asyncio.to_thread(browsers[-1].sendall, long * (PIPELINED - 1))
        browsers[-1].setblocking(False)

    async with asyncio.timeout(WITHIN_S):
        while len(kept := [one for one in browsers if is_open(one)]) >= 80:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    other = b"GET /hub/ HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.2\r\n\r\n"
    neighbour = asking(portal, stack, "/hub/")
    neighbour.sendall(other * 3)

    assert len(kept) > 40, "32 MiB"
    answers = b""
    while answers.count(b"200 OK") < 4:
        piece = await asyncio.to_thread(neighbour.recv, 65536)
        assert piece, "it was cut"
        answers += piece
    for one in browsers:
        one.close()
    async with asyncio.timeout(WITHIN_S):
        while (await ask("GET", f"{portal.url}/hub/")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_a_web_socket_that_waits_on_a_connection_that_ends_leaves_nothing_that_counts(
    portal: Portal, upstream: str, stack: ExitStack
) -> None:
    await routed(portal, upstream, of_one_session=1)
    upgrade = b"GET /user/alice/held HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    browser = stack.enter_context(socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=WITHIN_S))
    browser.sendall(b"GET /hub/held HTTP/1.1\r\nHost: x\r\n\r\n" * PIPELINED + upgrade)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.to_thread(browser.recv, 1) == b"", "it has sent too many"

    assert (await ask("GET", f"{portal.url}/user/alice/lab")).status_code == 200


async def test_the_page_about_a_session_that_does_not_answer_has_its_turn_at_the_hub(
    portal: Portal, upstream: str, stack: ExitStack
) -> None:
    await routed(portal, upstream, of_hub=2, of_hub_waiting=1)
    hub = portal.hubs[-1]
    dead = f"http://127.0.0.1:{held_port()}"
    await hub.api_request("/user/bob/", method="POST", body={"target": dead, "user": "bob"})
    for _ in range(2):
        asking(portal, stack, "/hub/held")
    await until_going(2)
    asking(portal, stack, "/hub/held")

    async with asyncio.timeout(WITHIN_S):
        while (await ask("GET", f"{portal.url}/hub/")).status_code != 429:  # noqa: ASYNC110  the third waits soon
            await asyncio.sleep(0.05)
    refused = await ask("GET", f"{portal.url}/user/bob/lab")

    assert (refused.status_code, Held.going) == (429, 2)
    Held.release.set()


async def test_one_client_has_a_part_of_the_connections(portal: Portal, upstream: str, stack: ExitStack) -> None:
    await routed(portal, upstream, per_address=20)
    held = [asking(portal, stack, "/user/alice/held") for _ in range(20)]
    await until_going(20)

    with contextlib.suppress(OSError):
        assert asking(portal, stack, "/user/alice/lab").recv(1) == b""
    for one in held:
        one.setblocking(False)
    assert all(map(is_open, held))
    held[0].close()
    async with asyncio.timeout(WITHIN_S), httpx.AsyncClient(trust_env=False) as browser:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                assert (await browser.get(f"{portal.url}/user/alice/lab")).status_code == 200
                break
            await asyncio.sleep(0.1)


async def key_and_certificate(folder: Path) -> list[str]:
    """The two files."""
    pair = [str(folder / name) for name in ("key.pem", "certificate.pem")]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    argv = [*made, "-keyout", pair[0], "-out", pair[1]]
    await asyncio.to_thread(subprocess.run, argv, check=True, capture_output=True)
    return pair


SENT_AHEAD = """
import http from "node:http";
import https from "node:https";
import net from "node:net";
import tls from "node:tls";
import { turnOnConnection } from "PROXY_TURNS";
let seen = 0;
const listen = (req, res) => { seen += 1; turnOnConnection(req, res, "one"); };
const pem = process.env.PEM;
const server = pem ? https.createServer({ key: pem, cert: pem }, listen) : http.createServer(listen);
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address();
  const client = pem ? tls.connect({ port, rejectUnauthorized: false }) : net.connect(port, "127.0.0.1");
  client.on("error", () => {});
  client.on("close", () => { console.log(seen); process.exit(0); });
  client.write("GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".repeat(500));
});
"""


@pytest.mark.parametrize("has_tls", [False, True])
async def test_node_reads_no_more_of_a_connection_that_sends_too_many_ahead(tmp_path: Path, has_tls: bool) -> None:
    environment = dict(os.environ)
    if has_tls:
        pair = await key_and_certificate(tmp_path)
        environment["PEM"] = "".join(Path(one).read_text() for one in pair)
    program = SENT_AHEAD.replace("PROXY_TURNS", str(CHECKOUT / "deploy/site/proxy_turns.mjs"))
    argv = [str(Path(sys.executable).with_name("node")), "--input-type=module", "-e", program]

    ran = await asyncio.to_thread(subprocess.run, argv, env=environment, capture_output=True, text=True, timeout=60)

    assert ran.stdout.split() == [str(PIPELINED + 1)], ran.stderr


async def test_the_way_to_https_answers_one_request_of_a_connection(portal: Portal, tmp_path: Path) -> None:
    pair = await key_and_certificate(tmp_path)
    hub = portal.hub(ssl_key=pair[0], ssl_cert=pair[1], redirect_port=held_port())
    hub.public_url = portal.url.replace("http:", "https:")
    await started(hub)

    reader, writer = await asyncio.open_connection("127.0.0.1", hub.redirect_port)
    writer.write(b"GET /hub/login HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
    async with asyncio.timeout(WITHIN_S):
        told = await reader.read()
    writer.close()

    assert told.count(b"HTTP/1.1 308 ") == 1
