"""Where a request ends, by the real proxy: what follows is nobody's request, and no answer comes to somebody else."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import routed

__all__ = ["portal"]


class Heard(BaseHTTPRequestHandler):
    """Answers each request with what came with it, and notes its first line."""

    protocol_version = "HTTP/1.1"
    lines: list[str] = []  # noqa: RUF012  of the one server of a test

    def do_GET(self) -> None:
        """The body, as long as the request says that it is."""
        self.lines.append(self.requestline)
        body = self._chunked() if "chunked" in self.headers.get("Transfer-Encoding", "") else self._stated()
        answer = f"{self.requestline}: {body.decode()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_DELETE = do_OPTIONS = do_POST = do_PUT = do_PATCH = do_GET

    def _stated(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunked(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def hearing() -> Iterator[str]:
    """A hub and a session, and their address."""
    Heard.lines.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Heard)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def sent(portal: Portal, request: bytes) -> str:
    """The body of the answer to exactly these bytes."""
    with socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=10) as browser:
        browser.sendall(request)
        answer = HTTPResponse(browser)
        answer.begin()
        return answer.read().decode()


@pytest.mark.parametrize("place", ["/hub/api", "/user/alice/api"])
async def test_what_comes_in_a_request_is_no_other_request(portal: Portal, hearing: str, place: str) -> None:
    await routed(portal, hearing)
    inner = b"POST /hub/inner HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n"

    for method in ("DELETE", "OPTIONS", "GET", "POST", "PUT", "PATCH"):
        head = f"{method} {place} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        answer = await asyncio.to_thread(sent, portal, head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner))
        async with httpx.AsyncClient(base_url=portal.url, trust_env=False, timeout=10) as other:
            others = [(await other.get(f"{place}/{number}")).text for number in range(3)]

        assert answer == f"{method} {place} HTTP/1.1: {inner.decode()}"
        assert others == [f"GET {place}/{number} HTTP/1.1: " for number in range(3)]


@pytest.mark.parametrize("upgrade", ["", "Connection: Upgrade\r\nUpgrade: websocket\r\n"], ids=["page", "web socket"])
async def test_a_request_that_names_its_host_twice_is_refused(portal: Portal, hearing: str, upgrade: str) -> None:
    """What reads it may take the first or the last one (RFC 9112, 3.2)."""
    await routed(portal, hearing)
    await assert_refused(portal, f"GET /user/alice/lab HTTP/1.1\r\nHost: x\r\nhost: y\r\n{upgrade}\r\n")


async def assert_refused(portal: Portal, head: str) -> None:
    """Such a request is none, and nobody behind the proxy hears of it."""
    with socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=10) as browser:
        browser.sendall(head.encode())
        answer = await asyncio.to_thread(browser.recv, 100)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert Heard.lines == []


@pytest.mark.parametrize("stated", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_a_request_for_a_web_socket_that_states_a_body_is_refused(
    portal: Portal, hearing: str, stated: str
) -> None:
    await routed(portal, hearing)
    head = "GET /user/alice/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket"
    await assert_refused(portal, f"{head}\r\n{stated}\r\n\r\n")
