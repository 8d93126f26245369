"""The proxy apart from the hub, with the real configurable-http-proxy: used, replaced, ended; its own page."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import jupyterhub.proxy
import pytest
from jupyterhub.httpclient import JupyterHubHTTPClient
from traitlets.config import Config

from portal import cli
from portal.errors import PortalError
from portal.hub import config
from portal.hub.restart import KnownPeople
from portal.proxy import apart as proxy
from portal.proxy import parts, proxy_process
from portal.proxy.apart import ApartProxy
from portal.proxy.proxy_process import ProxyPlan
from portal.site import Site
from tests.ports import held_port

ROOT = Path(__file__).parents[2]
BROWSER = {"Accept": "text/html,*/*"}
PAGE_WORDS = "Running sessions go on."


class Portal:
    """What a hub's proxy needs of its hub; each :meth:`hub` is another start of the same portal."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.ports = {name: held_port() for name in ("port", "proxy_port", "hub_port")}
        self.options: dict[str, Any] = {}
        self.public_url = ""  # with a domain
        self.base_url = "/"
        self.hubs: list[ApartProxy] = []

    @property
    def url(self) -> str:
        """Where browsers are."""
        return f"http://127.0.0.1:{self.ports['port']}"

    def hub(self, **settings: Any) -> ApartProxy:
        """The proxy as a hub that starts has it, with these settings beside."""
        site = Site().model_copy(
            update={"portal": Site().portal.model_copy(update={"bind": "127.0.0.1", **self.ports})}
        )
        c = Config()
        config.addresses(c, site)
        config._apart_proxy(c, self.state)
        host = f"http://127.0.0.1:{self.ports['hub_port']}"
        hub = SimpleNamespace(url=f"{host}/hub/", host=host, routespec="/")
        words = {"site_title": "Portal <of> ours"}
        pages = [str(ROOT / "templates" / "hub")]
        app = SimpleNamespace(
            hub=hub,
            base_url=self.base_url,
            subdomain_host=self.public_url,
            internal_ssl=False,
            template_paths=pages,
            template_vars=words,
            users={},
        )
        self.hubs.append(
            ApartProxy(
                app=app,
                hub=hub,
                public_url=self.url,
                host_routing=bool(self.public_url),
                config=c,
                log=logging.getLogger("hub"),
                **settings,
            )
        )
        return self.hubs[-1]

    def end(self) -> None:
        """End the proxy."""
        if running := proxy_process.running_in(self.state):
            proxy_process.end(running.pid)
        for hub in self.hubs:
            if hub.proxy_process:
                hub.proxy_process.wait(5)


@pytest.fixture
async def portal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Portal]:
    """A portal whose state folder is new, with the files of this checkout."""
    folders = {"deploy": ROOT / "deploy" / "site", "templates": ROOT / "templates"}
    monkeypatch.setattr("portal.data.folder", folders.__getitem__)
    ours = Portal(tmp_path)
    yield ours
    ours.end()
    await JupyterHubHTTPClient.loop_instance().close()  # JupyterHub keeps one for as long as it runs


async def started(hub: ApartProxy) -> int:
    """The process of the proxy that a hub has after its start."""
    await hub.start()
    assert hub._looks
    hub._looks.stop()  # the test looks itself
    assert hub.running
    return hub.running.pid


async def test_a_hub_that_starts_again_uses_the_proxy_that_runs_and_its_connections_stay(
    portal: Portal, caplog: pytest.LogCaptureFixture
) -> None:
    first = await started(portal.hub())
    reader, writer = await asyncio.open_connection("127.0.0.1", portal.ports["port"])

    with caplog.at_level(logging.INFO):
        second = await started(portal.hub())

    assert second == first
    assert f"The proxy goes on (process {first}): connections to sessions stay" in caplog.messages
    writer.write(b"GET /_chp_healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200 OK" in await asyncio.wait_for(reader.readline(), 5)
    writer.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda portal: portal.ports.update(port=held_port()), r"changed: portal.bind or portal.port \(http://"),
        (lambda portal: portal.ports.update(hub_port=held_port()), "changed: the hub's address "),
        (lambda portal: portal.options.update(log_level="warn"), "changed: options of the proxy"),
        (lambda portal: portal.options.update(auth_token="another"), "it does not take our token at "),
        (lambda portal: (portal.state / "proxy" / "running.json").unlink(), "another version of the portal started it"),
    ],
)
async def test_a_proxy_that_is_not_as_it_should_be_is_replaced_and_the_log_says_why(
    portal: Portal, change: Callable[[Portal], None], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = await started(portal.hub())
    change(portal)

    second = await started(portal.hub(**portal.options))

    assert second != first
    assert not proxy_process.began(first)
    (said,) = [message for message in caplog.messages if f"The proxy (process {first}) is replaced" in message]
    assert words.replace("\\", "") in said
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{portal.url}/_chp_healthz")).status_code == 200


@pytest.mark.parametrize("which", ["port", "proxy_port"])
async def test_a_port_that_is_still_being_closed_is_waited_for(portal: Portal, which: str) -> None:
    with closing(socket.create_server(("127.0.0.1", portal.ports[which]))) as before:
        starting = asyncio.ensure_future(started(portal.hub()))
        log = portal.state / "proxy" / "proxy.log"
        await asyncio.to_thread(until, lambda: log.is_file())
        await asyncio.sleep(2)  # it tries meanwhile
        before.close()
        await starting

    async with asyncio.timeout(10), httpx.AsyncClient(trust_env=False) as client:
        while True:
            with suppress(httpx.TransportError):
                assert (await client.get(f"{portal.url}/_chp_healthz")).status_code == 200
                break
            await asyncio.sleep(0.05)


async def test_a_proxy_that_died_is_started_again_and_gets_all_routes(portal: Portal) -> None:
    hub = portal.hub()
    first = await started(hub)
    restored = []

    async def restore_routes() -> None:
        restored.append(await hub.get_all_routes())

    hub.restore_routes = restore_routes
    await hub.check_running()
    assert not restored

    os.kill(first, 9)
    await asyncio.to_thread(until, lambda: not proxy_process.began(first))
    await hub.check_running()

    assert restored == [{}]
    assert hub.running
    assert hub.running.pid != first


async def test_a_session_that_is_ready_while_the_proxy_is_away_gets_its_route_when_that_is_back(
    portal: Portal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """JupyterHub itself gives up after 30 seconds, and stops the session."""
    patient = jupyterhub.proxy.exponential_backoff

    async def impatient(*arguments: Any, **options: Any) -> Any:
        return await patient(*arguments, **{**options, "timeout": 0.1})

    monkeypatch.setattr(jupyterhub.proxy, "exponential_backoff", impatient)
    hub = portal.hub()
    os.kill(await started(hub), 9)
    added = asyncio.ensure_future(hub.add_route("/user/alice/", "http://127.0.0.1:1", {"user": "alice"}))
    async with asyncio.timeout(20):
        while caplog.text.count("has no route yet") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    await hub.start()
    await added

    assert list(await hub.get_all_routes()) == ["/user/alice/"]


async def test_a_route_that_the_proxy_does_not_take_for_minutes_is_given_up(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "ROUTE_WITHIN_S", 0.0)
    hub = portal.hub()

    async def silent(*_: Any, **__: Any) -> None:
        raise TimeoutError

    hub.api_request = silent
    with pytest.raises(TimeoutError):
        await hub.add_route("/user/alice/", "http://127.0.0.1:1", {})


async def test_a_proxy_that_its_service_has_just_started_is_given_the_time_to_listen(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "SERVICE_UP_WITHIN_S", 5)
    hub = portal.hub(by_service=True)
    hub.restore_routes = hub.get_all_routes
    hub._write_pages()
    proxy_process.write_plan(portal.state, hub._plan())
    with proxy_process.start_apart(portal.state) as first:
        assert await started(hub) == first.pid
        os.kill(first.pid, 9)
    with proxy_process.start_apart(portal.state) as second:
        await asyncio.to_thread(until, lambda: proxy_process.running_in(portal.state))
        os.kill(second.pid, signal.SIGSTOP)  # it is there and does not listen
        asyncio.get_running_loop().call_later(0.5, os.kill, second.pid, signal.SIGCONT)

        await hub.check_running()

        assert hub.running
        assert hub.running.pid == second.pid
        assert hub.running.lives, "it was not ended for being young"
        portal.end()


@pytest.mark.parametrize(("is_journal", "start"), [(True, "<6>20"), (False, "20")])
def test_the_proxys_lines_have_level_and_no_colours_in_the_journal(
    portal: Portal, is_journal: bool, start: str
) -> None:
    plan = portal.hub()._plan()
    reading, writing = os.pipe()
    there = os.fstat(writing)
    stream = f"{there.st_dev}:{there.st_ino}" if is_journal else "1:2"
    with (
        os.fdopen(reading) as pipe,
        subprocess.Popen(
            plan.argv, stdout=writing, env={**os.environ, **plan.environment, "JOURNAL_STREAM": stream}
        ) as started_proxy,
    ):
        os.close(writing)
        line = pipe.readline()
        started_proxy.terminate()

    assert line.startswith(start), line
    assert ("[ConfigProxy] info: Proxying" in line, "\x1b" in line) == (is_journal, not is_journal)


async def test_a_service_that_runs_no_proxy_is_told_in_words(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "SERVICE_UP_WITHIN_S", 0.1)

    with pytest.raises(PortalError, match="With --without-proxy a service of its own runs `portal proxy`"):
        await portal.hub(by_service=True).start()

    assert proxy_process.running_in(portal.state) is None


async def test_a_service_starts_the_proxy_as_the_hub_planned_it(portal: Portal) -> None:
    (portal.state / "proxy").mkdir()
    log = portal.state / "proxy" / "proxy.log"
    with proxy_process.start_apart(portal.state) as service:
        await asyncio.to_thread(until, lambda: "portal proxy: waits: no portal has started here yet" in log.read_text())

        assert await started(portal.hub(by_service=True)) == service.pid
        portal.end()


async def test_while_the_hub_is_away_a_browser_gets_our_page_and_a_program_gets_two_words(portal: Portal) -> None:
    hub = portal.hub()
    await started(hub)
    await hub.add_route("/", f"http://127.0.0.1:{portal.ports['hub_port']}", {"hub": True})

    async with httpx.AsyncClient(trust_env=False) as client:
        page = await client.get(f"{portal.url}/hub/home", headers=BROWSER)
        words = await client.get(f"{portal.url}/hub/api", headers={"Accept": "application/json"})

    assert (page.status_code, words.status_code) == (503, 503)
    assert PAGE_WORDS in page.text
    assert '<meta http-equiv="refresh" content="2">' in page.text
    assert "Portal &lt;of&gt; ours" in page.text
    assert page.headers["retry-after"] == "2"
    assert words.text == "Service Unavailable"


async def test_a_proxy_that_is_stopped_is_no_failed_unit(portal: Portal) -> None:
    hub = portal.hub()
    pid = await started(hub)
    assert hub.proxy_process

    os.kill(pid, signal.SIGTERM)  # as `systemctl stop` does

    unit = (ROOT / "deploy/site/dsportal-proxy.service").read_text()
    assert f"\nSuccessExitStatus={hub.proxy_process.wait(5)}\n" in unit


async def test_while_the_hub_is_there_the_words_on_a_session_that_is_away_are_the_hubs(portal: Portal) -> None:
    hub = portal.hub()
    await started(hub)
    await hub.add_route("/user/alice/", f"http://127.0.0.1:{held_port()}", {"user": "alice"})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readline()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(asked), asked)
        )
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", portal.ports["hub_port"])
    async with server, httpx.AsyncClient(trust_env=False) as client:
        page = await client.get(f"{portal.url}/user/alice/lab", headers=BROWSER)

    assert page.status_code == 503
    assert page.text.startswith("GET /hub/error/503?url=")


async def test_routes_of_sessions_that_are_still_looked_at_stay_and_those_of_nobody_go(portal: Portal) -> None:
    hub = portal.hub()
    await started(hub)
    target = "http://127.0.0.1:1"
    for name in ("alice", "bob", "nobody"):
        await hub.add_route(f"/user/{name}/", target, {"user": name, "server_name": ""})
    server = SimpleNamespace(host=target)
    spawners = {
        "alice": SimpleNamespace(ready=False, pending="check", proxy_spec="/user/alice/", server=server),
        "bob": SimpleNamespace(ready=True, pending=False, proxy_spec="/user/bob/", server=server),
        "nobody": SimpleNamespace(ready=False, pending=False, proxy_spec="/user/nobody/", server=None),
    }
    users = {name: SimpleNamespace(id=name, name=name, spawners={"": spawner}) for name, spawner in spawners.items()}

    await hub.check_routes(users, {})

    assert set(await hub.get_all_routes()) == {"/", "/user/alice/", "/user/bob/"}


async def test_a_session_that_goes_on_without_its_person_has_no_route_until_the_person_is_back(portal: Portal) -> None:
    hub = portal.hub()
    await started(hub)
    target = "http://127.0.0.1:1"
    for name in ("alice", "bob"):
        await hub.add_route(f"/user/{name}/", target, {"user": name, "server_name": ""})
    users = {}
    for number, name in enumerate(("alice", "bob")):
        server = SimpleNamespace(host=target)
        spawner = SimpleNamespace(ready=True, pending=False, proxy_spec=f"/user/{name}/", server=server)
        users[number] = SimpleNamespace(id=number, name=name, spawners={"": spawner})

    hub.without_route = {"alice"}
    await hub.check_routes(users, {})
    await hub.add_user(users[0])
    assert set(await hub.get_all_routes()) == {"/", "/user/bob/"}

    hub.without_route = set()
    await hub.check_routes(users, {})
    assert set(await hub.get_all_routes()) == {"/", "/user/alice/", "/user/bob/"}


# -- an address for each person ---------------------------------------------------------------------------------


@pytest.fixture
async def echo(portal: Portal) -> AsyncIterator[Callable[..., Awaitable[httpx.Response]]]:
    """Asks the proxy of a portal with a domain; hub and sessions answer with their names and what reached them."""

    def answering(name: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            kept = [line for line in head.decode().lower().splitlines() if line.startswith(("host:", "cookie:"))]
            text = "\n".join([name, *sorted(kept)]).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
            writer.close()

        return answer

    portal.public_url = portal.public_url or f"http://localhost:{portal.ports['port']}"
    hub = portal.hub()
    await started(hub)
    domain = urlsplit(portal.public_url).hostname
    base = portal.base_url
    await hub.add_route("/", f"http://127.0.0.1:{portal.ports['hub_port']}", {"hub": True})

    async def ask(host: str, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False) as client:
            sent = {"Host": host.replace("PORT", str(portal.ports["port"])), "Cookie": "a=b", **headers}
            return await client.request(method, portal.url, headers=sent, extensions={"target": path.encode()})

    async with (
        await asyncio.start_server(answering("hub"), "127.0.0.1", portal.ports["hub_port"]),
        await asyncio.start_server(answering("alice"), "127.0.0.1", 0) as session,
    ):
        host, port = session.sockets[0].getsockname()
        for label, name in (("alice", "alice"), ("u-mueller", "m%C3%BCller")):
            await hub.add_route(f"{label}.{domain}{base}user/{name}/", f"http://{host}:{port}", {"user": label})
        yield ask


TOKEN = {"Authorization": "token 123"}
ANSWERS = {  # who came to which address: what the proxy does
    ("localhost:PORT", "/hub/home"): "hub\ncookie: a=b\nhost: localhost:PORT",
    ("localhost:PORT", "/user/alice/lab"): "hub\ncookie: a=b\nhost: localhost:PORT",
    ("alice.localhost:PORT", "/user/alice/lab"): "alice\ncookie: a=b\nhost: alice.localhost:PORT",
    ("ALICE.localhost:PORT", "/user/alice/lab"): "alice\ncookie: a=b\nhost: alice.localhost:PORT",
    ("bob.localhost:PORT", "/user/alice/lab"): "hub\ncookie: a=b\nhost: bob.localhost:PORT",
    ("bob.localhost:PORT", "/hub/home?a=b"): "302 http://localhost:PORT/hub/home?a=b",
    ("alice.localhost:PORT", "/"): "302 http://localhost:PORT/",
    ("127.0.0.1:PORT", "/hub/login"): "302 http://localhost:PORT/hub/login",
    ("[::1]:PORT", "/user/alice/lab"): "302 http://localhost:PORT/user/alice/lab",
    ("127.0.0.1:PORT", "/hub/health"): "hub\ncookie: a=b\nhost: 127.0.0.1:PORT",
    ("127.0.0.1:PORT", "//gpubox/hub/login"): "302 http://localhost:PORT//gpubox/hub/login",
    ("bob.localhost:PORT", "//gpubox/user/alice/lab"): "302 http://localhost:PORT//gpubox/user/alice/lab",
    ("127.0.0.1:PORT", "http://gpubox/hub/login?a=b"): "302 http://localhost:PORT/hub/login?a=b",
    ("alice.localhost:PORT", "http://gpubox/user/alice/lab"): "alice\ncookie: a=b\nhost: alice.localhost:PORT",
    ("127.0.0.1:PORT", "*"): "302 http://localhost:PORT/",
    ("localhost:1", "/hub/login"): "421",  # a tunnel: the portal's own address leads nowhere there
    ("gpubox:PORT", "/hub/login"): "421",
    ("gpubox:PORT", "/user/alice/lab"): "421",
}


@pytest.mark.parametrize(("path", "status"), [("/hub/health", 200), ("/hub/login", 421), ("/user/alice/lab", 421)])
async def test_a_request_that_names_no_host_is_no_fault_of_the_proxy(
    portal: Portal, echo: Callable[..., Awaitable[httpx.Response]], path: str, status: int
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", portal.ports["port"])
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())  # as balancers ask whether it lives
    line = await asyncio.wait_for(reader.readline(), 20)
    writer.close()

    assert line.split()[1] == str(status).encode()


@pytest.mark.parametrize(("host", "path"), ANSWERS)
async def test_what_a_browser_shows_has_one_address_and_each_session_its_persons(
    portal: Portal, echo: Callable[..., Awaitable[httpx.Response]], host: str, path: str
) -> None:
    answer = await echo(host, path)

    found = answer.text if answer.status_code == 200 else f"{answer.status_code} {answer.headers.get('location', '')}"
    assert found.strip().lower() == ANSWERS[host, path].replace("PORT", str(portal.ports["port"]))


@pytest.mark.parametrize(
    "more", ["/user/alice/x.localhost:PORT", "/user/alice?.localhost:PORT", "/.localhost:PORT", "\\"]
)
@pytest.mark.parametrize("path", ["/hub/health", "/user/alice/lab", "/user/bob/lab"])
async def test_a_host_with_more_than_a_name_and_a_port_leads_nowhere(
    echo: Callable[..., Awaitable[httpx.Response]], more: str, path: str
) -> None:
    """The proxy finds a route by host and path as one text, and counts by the path alone."""
    answer = await echo(f"alice.localhost:PORT{more}", path)

    assert (answer.status_code, answer.text.split(",")[0]) == (421, "This is not the portal's own address")


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "localhost:PORT", "gpubox", "bob.localhost:PORT"])
async def test_a_program_with_a_token_reaches_hub_and_sessions_at_every_address_and_without_cookies(
    portal: Portal, echo: Callable[..., Awaitable[httpx.Response]], host: str
) -> None:
    port = portal.ports["port"]

    hub = await echo(host, "/hub/api/user", **TOKEN)
    if host.startswith("bob"):  # another person's address leads to nobody else
        assert (await echo(host, "/user/alice/api", **TOKEN)).text.startswith("hub\n")
    else:
        assert (await echo(host, "/user/alice/api", **TOKEN)).text == f"alice\nhost: alice.localhost:{port}"

    assert hub.text == f"hub\nhost: localhost:{port}"


async def test_a_program_with_a_token_reaches_the_session_of_who_has_an_encoded_name(
    portal: Portal, echo: Callable[..., Awaitable[httpx.Response]]
) -> None:
    for path in ("/user/m%C3%BCller/api", "/user/m%c3%bcller/api"):
        answer = await echo("localhost:PORT", path, **TOKEN)
        assert answer.text == f"alice\nhost: u-mueller.localhost:{portal.ports['port']}"


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "bob.localhost:PORT", "gpubox"])
async def test_nothing_is_changed_at_another_address_than_the_portals_own(
    echo: Callable[..., Awaitable[httpx.Response]], host: str
) -> None:
    answer = await echo(host, "/hub/login", "POST")

    assert (answer.status_code, answer.text.split(",")[0]) == (421, "This is not the portal's own address")


async def test_a_person_at_an_address_that_leads_nowhere_is_told_the_portals_own(
    portal: Portal, echo: Callable[..., Awaitable[httpx.Response]]
) -> None:
    page = await echo("gpubox", "/hub/login", **BROWSER)

    assert page.status_code == 421
    assert f'<a href="http://localhost:{portal.ports["port"]}">' in page.text
    assert "make demo DOMAIN=NAME" in page.text


class TestASiteWithAName:
    """As behind a server that speaks HTTPS and leaves ports away."""

    @pytest.fixture(autouse=True)
    def _name(self, portal: Portal) -> None:
        portal.public_url = "https://portal.example.org"

    async def test_every_other_address_leads_to_it(self, echo: Callable[..., Awaitable[httpx.Response]]) -> None:
        for host in ("10.1.2.3", "127.0.0.1:8000", "gpubox", "bob.portal.example.org"):
            answer = await echo(host, "/hub/login?next=a")
            assert answer.headers["location"] == "https://portal.example.org/hub/login?next=a", host

    async def test_its_own_addresses_are_known_with_and_without_a_port(
        self, echo: Callable[..., Awaitable[httpx.Response]]
    ) -> None:
        for port in ("", ":443", ":8000"):
            assert (await echo(f"portal.example.org{port}", "/hub/login")).text.startswith("hub\n")
            assert (await echo(f"alice.portal.example.org{port}", "/user/alice/lab")).text.startswith("alice\n")


class TestASiteWithAPath:
    """As behind a server that has other things at the same name."""

    @pytest.fixture(autouse=True)
    def _path(self, portal: Portal) -> None:
        portal.public_url = "https://example.org"
        portal.base_url = "/jupyter/"

    async def test_a_session_is_at_its_persons_address_below_the_path(
        self, echo: Callable[..., Awaitable[httpx.Response]]
    ) -> None:
        assert (await echo("alice.example.org", "/jupyter/user/alice/lab")).text.startswith("alice\n")
        assert (await echo("bob.example.org", "/jupyter/user/alice/lab")).text.startswith("hub\n")
        assert (await echo("10.1.2.3", "/jupyter/hub/health")).text.startswith("hub\n")
        led = await echo("alice.example.org", "/jupyter/hub/home")
        assert led.headers["location"] == "https://example.org/jupyter/hub/home"

    async def test_a_program_with_a_token_reaches_the_session_below_the_path(
        self, echo: Callable[..., Awaitable[httpx.Response]]
    ) -> None:
        answer = await echo("example.org", "/jupyter/user/alice/api", **TOKEN)

        assert answer.text == "alice\nhost: alice.example.org"

    async def test_who_is_told_the_portals_own_address_is_told_it_with_its_path(
        self, echo: Callable[..., Awaitable[httpx.Response]]
    ) -> None:
        answer = await echo("gpubox", "/jupyter/hub/login", "POST", **BROWSER)

        assert '<a href="https://example.org/jupyter">' in answer.text


async def test_a_domain_that_changes_makes_it_another_proxy(portal: Portal, caplog: pytest.LogCaptureFixture) -> None:
    first = await started(portal.hub())
    portal.public_url = "https://portal.example.org"

    second = await started(portal.hub())

    assert second != first
    assert "portal.domain (none, now https://portal.example.org)" in caplog.text


async def test_a_hub_that_has_not_made_its_sessions_yet_removes_nobodys_route(portal: Portal) -> None:
    hub = portal.hub()
    await started(hub)
    for name in ("alice", "bob"):
        await hub.add_route(f"/user/{name}/", "http://127.0.0.1:1", {"user": name, "server_name": ""})
    await hub.delete_route("/")
    people = KnownPeople(lambda: None, {})
    people.ran([1, 2])

    await hub.check_routes(people, {})
    assert set(await hub.get_all_routes()) == {"/", "/user/alice/", "/user/bob/"}

    people.ran([])
    await hub.check_routes(people, {})
    assert set(await hub.get_all_routes()) == {"/"}


# -- the process ------------------------------------------------------------------------------------------------


def plan(*words: str, **environment: str) -> ProxyPlan:
    """A plan for a program that sleeps and is called like the proxy."""
    program = "import time; time.sleep(60)"
    return ProxyPlan((sys.executable, "-c", program, "configurable-http-proxy", *words), environment, 0o077, {"a": "b"})


def until(found: Callable[[], Any]) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + 10
    while not (answer := found()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def test_the_token_is_in_no_command_line_and_in_no_file_that_others_read(tmp_path: Path) -> None:
    proxy_process.write_plan(tmp_path, plan(**{proxy_process.TOKEN_VARIABLE: "secret"}))

    started = proxy_process.start_apart(tmp_path)
    running = until(lambda: proxy_process.running_in(tmp_path))
    until(lambda: b"sleep" in Path(f"/proc/{running.pid}/cmdline").read_bytes())

    assert (running.pid, running.parts) == (started.pid, {"a": "b"})
    assert b"secret" not in Path(f"/proc/{running.pid}/cmdline").read_bytes()
    assert b"=secret\0" in Path(f"/proc/{running.pid}/environ").read_bytes()
    holders = [file for file in tmp_path.rglob("*") if file.is_file() and b"secret" in file.read_bytes()]
    assert [(file.name, file.stat().st_mode & 0o777) for file in holders] == [("plan.json", 0o600)]
    assert os.getsid(running.pid) == running.pid  # Ctrl-C and the end of a terminal do not reach it
    proxy_process.end(running.pid)
    assert started.wait(5) == -15
    assert proxy_process.running_in(tmp_path) is None


def test_a_copied_state_folder_leaves_the_proxy_of_the_first_portal_alone(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    proxy_process.write_plan(first, plan())
    with proxy_process.start_apart(first) as started:
        running = until(lambda: proxy_process.running_in(first))
        until(lambda: b"sleep" in Path(f"/proc/{running.pid}/cmdline").read_bytes())
        shutil.copytree(first, tmp_path / "copy")

        assert proxy_process.running_in(tmp_path / "copy") is None
        assert proxy_process.running_in(first) == running
        proxy_process.end(started.pid)


def test_portal_down_ends_the_proxy_of_its_settings_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site.toml").write_text(f'[portal]\nstate_folder = "{tmp_path}"\n')
    proxy_process.write_plan(tmp_path, plan())
    with proxy_process.start_apart(tmp_path) as started:
        until(lambda: proxy_process.running_in(tmp_path))

        assert cli.main(["down", "--site", str(tmp_path / "site.toml")]) == 0
    assert capsys.readouterr().out == f"portal: the proxy has ended (process {started.pid})\n"

    assert cli.main(["down", "--site", str(tmp_path / "site.toml")]) == 0
    assert capsys.readouterr().out == f"portal: no portal of {tmp_path} runs\n"


def test_a_proxy_that_does_not_go_is_killed() -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        proxy_process.end(process.pid, within_s=0.1)

        assert process.wait(5) == -9


@pytest.mark.parametrize("content", ["", "no number", "999999999"])
def test_a_file_that_names_no_proxy_names_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy.pid").write_text(content)
    (tmp_path / "proxy" / "running.json").write_text(content)
    (tmp_path / "proxy" / "plan.json").write_text(content)

    assert proxy_process.running_in(tmp_path) is None
    assert proxy_process.plan_of(tmp_path) is None


def test_another_process_with_the_number_of_a_proxy_of_before_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy.pid").write_text(str(os.getpid()))
    running = {"pid": os.getpid(), "began": "1", "place": str(tmp_path), "parts": {}}
    (tmp_path / "proxy" / "running.json").write_text(json.dumps(running))

    assert proxy_process.running_in(tmp_path) is None


def test_a_plan_of_a_version_that_was_removed_is_not_tried() -> None:
    assert plan().can_start
    assert not replace(plan(), argv=("/opt/dsportal/0.0/node", "proxy")).can_start


def test_the_same_proxy_in_another_folder_is_the_same_and_a_renewed_certificate_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for version, libraries in (("0.1", "{}"), ("0.2", "{}"), ("0.3", '{"ws": "9"}')):
        lock = tmp_path / version / "share/dsportal/proxy/package-lock.json"
        lock.parent.mkdir(parents=True)
        lock.write_text(libraries)
        monkeypatch.setattr(sys, "prefix", str(tmp_path / version))
        found.append(parts.program([f"{tmp_path}/{version}/bin/node", f"{tmp_path}/{version}/proxy"]))
    assert found[0] == found[1] != found[2]

    certificate = tmp_path / "portal.crt"
    certificate.write_text("first")
    before = parts.digest(["--ssl-cert", str(certificate)])
    certificate.write_text("renewed")
    assert parts.digest(["--ssl-cert", str(certificate)]) != before


def test_what_changed_is_said_with_addresses_and_without_digests() -> None:
    before = {"portal.port": "http://:8000", "portal.certificate": "17ab", "options": "same"}
    now = {"portal.port": "http://:8443", "portal.certificate": "99cd", "options": "same", "new": "1"}

    assert parts.changes(before, now) == ["new", "portal.certificate", "portal.port (http://:8000, now http://:8443)"]
    assert parts.changes(now, now) == []


async def test_a_proxy_that_pip_did_not_bring_is_said_with_the_command_that_does(portal: Portal) -> None:
    hub = portal.hub()
    hub.command = [hub.command[0], "/nowhere/configurable-http-proxy"]

    with pytest.raises(PortalError) as caught:
        await hub.start()

    assert "The proxy is not installed: /nowhere/configurable-http-proxy is not there" in caught.value.message
    assert f"npm ci --prefix {sys.prefix}/share/dsportal/proxy" in caught.value.message
    assert proxy_process.absent(["configurable-http-proxy"]) == "", "one that a site names by itself"


def test_the_local_mode_says_so_before_it_starts_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr("portal.hub.app.PortalHub.launch_instance", pytest.fail)

    assert cli.main(["up", "--local", "--state", str(tmp_path / "state")]) == 1

    said = capsys.readouterr()
    assert "The proxy is not installed" in said.err
    assert "Password" not in said.out
