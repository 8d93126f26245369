"""What one client may ask of the real proxy, and what a session may say through it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import held_port
from tests.unit.test_proxy import Portal, portal, started

__all__ = ["portal"]
HUB_BODY_MAX = 2**20
COOKIES_MOST = 400
SILENT_PER_ADDRESS = 50
HEADERS_WITHIN_S = 6.0  # a busy machine may need one of them to open all connections
OVER_ITS_PLACE = {
    "Service-Worker-Allowed": "/",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Clear-Site-Data": '"cookies"',
    "NEL": '{"report_to": "a", "max_age": 60, "success_fraction": 1}',
    "Report-To": '{"group": "a", "max_age": 60, "endpoints": [{"url": "https://elsewhere.example"}]}',
    "Alt-Svc": 'h2=":8443"; ma=60',
    "Secure-Session-Registration": '(ES256);path="refresh";challenge="c"',
    "Sec-Session-Registration": '(ES256);path="refresh";challenge="c"',
    "Use-As-Dictionary": 'match="/hub/*"',
    "X-Accel-Redirect": "/internal/file",
    "X-Sendfile": "/srv/file",
    "X-Sendfile2": "/srv/file 0-",
    "X-Sendfile-Temporary": "/srv/file",
    "X-LIGHTTPD-send-tempfile": "/srv/file",
    "X-LiteSpeed-Location": "/srv/file",
}
COOKIES = ("_xsrf=1; Path=/user/alice/", "a=2; Domain=portal.example; Path=/; Secure; samesite=strict")


class Told(BaseHTTPRequestHandler):
    """Answers what it was told, with headers that reach over its place."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The request's headers and the length of its body; no answer to what asks for none."""
        if self.path.endswith("/silence"):
            self.rfile.read()  # until the other side has gone
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = json.dumps({"headers": {k.lower(): v for k, v in self.headers.items()}, "body": len(body)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        for cookie in COOKIES:
            self.send_header("Set-Cookie", cookie)
        for name, value in OVER_ITS_PLACE.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_PUT = do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextlib.contextmanager
def answering(handler: type[Told]) -> Iterator[str]:
    """A server that answers so, and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def upstream() -> Iterator[str]:
    """A hub and a session."""
    with answering(Told) as url:
        yield url


async def routed(portal: Portal, upstream: str, **settings: Any) -> None:
    """The proxy with a hub and the session of alice."""
    hub = portal.hub(**settings)
    await started(hub)
    for place, whose in (("/", {"hub": True}), ("/user/alice/", {"user": "alice"})):  # as JupyterHub says it
        await hub.api_request(place, method="POST", body={"target": upstream, **whose})


async def routed_apart(portal: Portal, upstream: str) -> None:
    """The same where alice's session has an address of its own."""
    portal.public_url = "https://portal.example.org"
    hub = portal.hub()
    await started(hub)
    await hub.add_route("/", upstream, {"hub": True})
    await hub.add_route("alice.portal.example.org/user/alice/", upstream, {"user": "alice"})


async def ask(method: str, url: str, **arguments: Any) -> httpx.Response:
    """One request of a browser."""
    async with httpx.AsyncClient(trust_env=False, timeout=20, verify=False) as client:  # noqa: S501
        return await client.request(method, url, **arguments)


async def test_a_sessions_cookies_are_for_its_own_host_and_are_not_sent_by_other_sites(
    portal: Portal, upstream: str
) -> None:
    await routed(portal, upstream, trusted_proxies=["127.0.0.1"])

    plain = await ask("GET", f"{portal.url}/user/alice/lab")
    behind_tls = await ask("GET", f"{portal.url}/user/alice/lab", headers={"X-Forwarded-Proto": "https"})

    second = "a=2; Path=/; Secure; samesite=strict"
    assert plain.headers.get_list("set-cookie") == ["_xsrf=1; Path=/user/alice/; SameSite=Lax", second]
    assert behind_tls.headers.get_list("set-cookie") == ["_xsrf=1; Path=/user/alice/; SameSite=Lax; Secure", second]


CLAIMS = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https", "X-Real-IP": "198.51.100.7"}


async def test_what_a_browser_claims_to_be_is_not_passed_on(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)

    heard = (await ask("GET", f"{portal.url}/hub/", headers=CLAIMS)).json()["headers"]

    assert heard["x-forwarded-for"] in ("127.0.0.1", "::ffff:127.0.0.1")
    assert heard["x-forwarded-proto"] == "http"
    assert "x-real-ip" not in heard


async def test_what_a_named_proxy_says_is_passed_on_with_its_own_address_appended(
    portal: Portal, upstream: str
) -> None:
    await routed(portal, upstream, trusted_proxies=["127.0.0.0/8", "2001:db8::/32"])

    heard = (await ask("GET", f"{portal.url}/hub/", headers=CLAIMS)).json()["headers"]

    assert heard["x-forwarded-for"].split(",")[0] == "198.51.100.7"
    assert heard["x-forwarded-for"].endswith("127.0.0.1")
    assert heard["x-forwarded-proto"] == "https,http"


@pytest.mark.parametrize("claim", [{"Forwarded": "for=203.0.113.7;proto=http"}, {"X-Scheme": "http"}])
async def test_what_went_through_a_named_proxy_does_not_gainsay_it(
    portal: Portal, upstream: str, claim: dict[str, str]
) -> None:
    """JupyterHub believes these before X-Forwarded-Proto, and a cookie was not Secure behind HTTPS."""
    await routed(portal, upstream, trusted_proxies=["127.0.0.0/8"])

    told = (await ask("GET", f"{portal.url}/hub/", headers={**claim, "X-Forwarded-Proto": "https"})).json()["headers"]
    alone = (await ask("GET", f"{portal.url}/hub/", headers=claim)).json()["headers"]

    ((name, value),) = claim.items()
    assert name.lower() not in told
    assert told["x-forwarded-proto"] == "https,http"
    assert alone[name.lower()] == value


@pytest.mark.parametrize("kb", [17, 90, 600])
async def test_a_request_with_too_many_cookies_is_answered_with_a_page_that_takes_them_away(
    portal: Portal, upstream: str, kb: int
) -> None:
    await routed(portal, upstream)
    cookies = "; ".join(f"full{number}={'x' * 1000}" for number in range(kb))

    answer = await ask("GET", f"{portal.url}/hub/home", headers={"Cookie": cookies})

    assert (answer.status_code, answer.headers["content-type"]) == (431, "text/html; charset=utf-8")
    assert "This request was too big" in answer.text
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        in (answer.headers["content-security-policy"])
    )
    assert (await ask("GET", f"{portal.url}/hub/home")).status_code == 200


@pytest.mark.parametrize("path", ["/hub/home", "/user/alice/lab"])
@pytest.mark.parametrize("is_socket", [False, True])
async def test_very_many_cookies_are_read_by_nobody_behind_the_proxy(
    portal: Portal, upstream: str, path: str, is_socket: bool
) -> None:
    """Thousands of them take as long as ten pages, and whoever reaches the portal can send them."""
    await routed(portal, upstream)
    socket = {"Connection": "Upgrade", "Upgrade": "websocket"} if is_socket else {}

    def cookies(count: int) -> dict[str, str]:
        return {"Cookie": ";".join(f"{number}=" for number in range(count))} | socket

    at_most = await ask("GET", f"{portal.url}{path}", headers=cookies(COOKIES_MOST))
    more = await ask("GET", f"{portal.url}{path}", headers=cookies(COOKIES_MOST + 1))

    assert at_most.status_code == 200
    assert more.status_code == 431
    assert is_socket or "This request was too big" in more.text


@pytest.mark.parametrize("path", ["/hub/home", "/user/alice/lab"])
async def test_very_many_lines_of_headers_are_read_by_nobody_behind_the_proxy(
    portal: Portal, upstream: str, path: str
) -> None:
    await routed(portal, upstream)

    answers = [
        await ask("GET", f"{portal.url}{path}", headers={f"X-{number}": "1" for number in range(count)})
        for count in (80, 220)
    ]

    assert [answer.status_code for answer in answers] == [200, 431]


async def test_what_is_no_request_is_answered_as_that(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    reader, writer = await asyncio.open_connection("127.0.0.1", portal.ports["port"])
    writer.write(b"\x16\x03\x01 no HTTP\r\n\r\n")

    async with asyncio.timeout(10):
        answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    writer.close()


async def test_the_hub_gets_no_big_body_and_a_session_gets_any(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)
    big = b"x" * (HUB_BODY_MAX + 1)

    refused = await ask("POST", f"{portal.url}/hub/login", content=big)
    fits = await ask("POST", f"{portal.url}/hub/login", content=big[:-1])
    upload = await ask("PUT", f"{portal.url}/user/alice/api/contents/f", content=big * 20)

    assert (refused.status_code, "at most 1048576 bytes" in refused.text) == (413, True)
    assert (fits.status_code, fits.json()["body"]) == (200, HUB_BODY_MAX)
    assert (upload.status_code, upload.json()["body"]) == (200, 20 * len(big))


async def test_a_big_save_into_a_session_that_does_not_run_is_not_taken_for_too_big(
    portal: Portal, upstream: str
) -> None:
    await routed(portal, upstream)

    answer = await ask("PUT", f"{portal.url}/user/nobody/api/contents/a.ipynb", content=b"x" * (2**20 + 1))

    assert (answer.status_code, "does not run" in answer.text) == (424, True)


@pytest.mark.parametrize(
    "path",
    [
        "/user/alice/lab",
        "/%75ser/alice/lab",
        "/hub/../user/alice/lab",
        "/%2Fuser/alice/lab",
        "/.//user/alice/lab",
        "/user%2Falice/lab",
    ],
)
async def test_a_sessions_answer_does_not_reach_over_its_own_place_however_it_is_spelled(
    portal: Portal, upstream: str, path: str
) -> None:
    await routed(portal, upstream)

    answer = await asyncio.to_thread(raw_get, portal, path)
    hubs = await asyncio.to_thread(raw_get, portal, "/hub/user/alice")

    assert "200 OK" in answer
    assert not [name for name in OVER_ITS_PLACE if name.lower() in answer.lower()]
    assert [name for name in OVER_ITS_PLACE if name.lower() in hubs.lower()] == list(OVER_ITS_PLACE), hubs


@pytest.mark.parametrize("path", ["/hub/home", "/user/alice/lab"])
async def test_the_end_of_a_browsers_connection_is_none_of_that_behind_the_proxy(
    portal: Portal, upstream: str, path: str
) -> None:
    """A server that is told to end it may do so without a word, and another person's request is on its way by then."""
    await routed(portal, upstream)

    last = await ask("GET", f"{portal.url}{path}", headers={"Connection": "close"})

    assert last.json()["headers"]["connection"] == "keep-alive"
    assert last.headers["connection"] == "close"


class KeepsOpen(Told):
    """Says of its own connection that it goes on, as Node's servers do."""

    def end_headers(self) -> None:
        self.send_header("Connection", "keep-alive")
        super().end_headers()


@pytest.mark.parametrize("more", ["", "Expect: 100-continue\r\n"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_browsers_connection_ends_when_it_wants_that_whatever_the_server_says(
    portal: Portal, more: str, version: str
) -> None:
    with answering(KeepsOpen) as url:
        await routed(portal, url)
        with socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=20) as browser:
            head = f"GET /user/alice/lab HTTP/{version}\r\nHost: x\r\n{more}Connection: close\r\n\r\n"
            await asyncio.to_thread(browser.sendall, head.encode())
            answer = b"".join(await asyncio.to_thread(lambda: list(iter(lambda: browser.recv(65536), b"")))).decode()

    assert "connection: close" in answer.lower()
    assert '"connection": "keep-alive"' in answer, "that is said behind the proxy"


async def test_with_a_domain_no_page_of_another_origin_has_hold_of_a_window_of_a_session(
    portal: Portal, upstream: str
) -> None:
    await routed_apart(portal, upstream)

    answer = await asyncio.to_thread(raw_get, portal, "/user/alice/lab", "alice.portal.example.org")

    said = [line for line in answer.splitlines() if line.lower().startswith("cross-origin-opener-policy:")]
    assert [line.partition(":")[2].strip() for line in said] == ["same-origin-allow-popups"]


def raw_get(portal: Portal, path: str, host: str = "localhost") -> str:
    """The head of an answer to exactly this address; clients tidy it up."""
    with socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=10) as browser:
        browser.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: browser.recv(65536), b"")).decode().partition("\r\n\r\n")[0]


async def test_a_connection_without_a_request_is_closed_and_one_address_has_few_of_them(
    portal: Portal, upstream: str
) -> None:
    await routed(portal, upstream, headers_within_s=HEADERS_WITHIN_S, silent_per_address=SILENT_PER_ADDRESS)
    began = time.monotonic()
    half = [socket.create_connection(("127.0.0.1", portal.ports["port"])) for _ in range(SILENT_PER_ADDRESS + 44)]
    for browser in half:
        browser.setblocking(False)
        with contextlib.suppress(OSError):
            browser.send(b"GET /hub/ HTTP/1.1\r\nHost: x\r\nX-")

    def are_open() -> int:
        return sum(is_open(browser) for browser in half)

    while are_open() > SILENT_PER_ADDRESS:
        assert time.monotonic() - began < HEADERS_WITHIN_S
        await asyncio.sleep(0.05)
    left = are_open()
    meanwhile = await ask("GET", f"{portal.url}/hub/")
    while are_open():
        assert time.monotonic() - began < 10 * HEADERS_WITHIN_S
        await asyncio.sleep(0.1)
    answer = await ask("GET", f"{portal.url}/hub/")
    for browser in half:
        browser.close()

    assert left >= SILENT_PER_ADDRESS - 2  # the hub may have one
    assert (meanwhile.status_code, answer.status_code) == (200, 200), "who asks at once is answered"


def is_open(browser: socket.socket) -> bool:
    """False when the proxy has closed it."""
    try:
        return browser.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


async def test_a_session_that_never_answers_holds_a_part_of_the_connections_only(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream, of_one_session=5)
    page = f"{portal.url}/user/alice/lab"
    request = b"GET /user/alice/silence HTTP/1.1\r\nHost: x\r\n%s\r\n"
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    held = [socket.create_connection(("127.0.0.1", portal.ports["port"])) for _ in range(5)]
    for number, one in enumerate(held):
        one.sendall(request % (upgrade if number % 2 else b""))

    async with asyncio.timeout(20):
        while (refused := await ask("GET", page)).status_code != 429:  # noqa: ASYNC110  the proxy hears of them soon
            await asyncio.sleep(0.1)
    assert "Retry-After" in refused.headers
    with socket.create_connection(("127.0.0.1", portal.ports["port"])) as sixth:
        sixth.settimeout(20)
        sixth.sendall(request % upgrade)
        assert sixth.recv(100).startswith(b"HTTP/1.1 429 ")
    assert (await ask("GET", f"{portal.url}/hub/")).status_code == 200
    assert (await ask("GET", f"{portal.url}/user/bob/lab")).status_code == 200
    assert (await ask("GET", f"{portal.url}/services/alice/")).status_code == 200, "a service has the same name"

    for one in held:
        one.close()
    async with asyncio.timeout(20):
        while (await ask("GET", page)).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_plain_http_is_led_to_https(portal: Portal, upstream: str, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made = [*command, "-keyout", str(key), "-out", str(certificate)]
    await asyncio.to_thread(subprocess.run, made, check=True, capture_output=True)
    hub = portal.hub(ssl_key=str(key), ssl_cert=str(certificate), redirect_port=held_port())
    hub.public_url = portal.url.replace("http:", "https:")
    await started(hub)

    plain = f"http://localhost:{hub.redirect_port}"
    led = await ask("GET", f"{plain}/hub/login?next=%2Fhub%2Fhome")
    strange = await ask("GET", f"{plain}/hub/login", headers={"Host": "a b/c"})

    expected = f"https://localhost:{portal.ports['port']}/hub/login?next=%2Fhub%2Fhome"
    assert (led.status_code, led.headers["location"]) == (308, expected)
    assert strange.status_code == 400
