"""What a request to the hub must keep to, and which scripts a page runs. The security ring asks a real hub."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from jinja2 import DictLoader, Environment
from jupyterhub.apihandlers import APIHandler
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.testing import bind_unused_port

from portal.administration import person
from portal.guard import intake, pages
from tests.unit.served_hub import served_hub

SESSIONS = ["/user/", "/services/"]
OWN = {"Sec-Fetch-Site": "same-origin", "Referer": "https://portal.example/hub/home"}
PICTURE = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
BELOW = {"Sec-Fetch-Site": "same-origin", "Referer": "https://portal.example/user/bob/lab"}


def request(method: str = "GET", arguments: Any = None, **headers: str) -> Any:
    """As much of a request as is looked at."""
    fields = arguments or {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    path = fields.pop("path", "/hub/home")
    return SimpleNamespace(method=method, path=path, headers=named, query_arguments=fields, body_arguments=fields)


@pytest.mark.parametrize(
    ("asked", "is_page", "status"),
    [
        (request(), True, 0),
        (request("POST"), True, 0),  # a program, or a browser of before
        (request("POST", **OWN), True, 0),
        (request("POST", **{"Sec-Fetch-Site": "none"}), True, 0),
        (request("POST", **BELOW), True, 403),
        (request("DELETE", **BELOW), False, 403),
        (request("POST", **{"Sec-Fetch-Site": "cross-site"}), False, 403),
        (request("POST", **{"Sec-Fetch-Site": "none", "Origin": "null"}), True, 403),  # by way of others, in Firefox
        (request("POST", **{"Sec-Fetch-Site": "none", "Origin": "https://portal.example"}), True, 0),
        (request("PUT", **{"Sec-Fetch-Site": "same-site"}), False, 403),
        (request("POST", Authorization="token a", **BELOW), False, 403),
        (request("GET", **{"Sec-Fetch-Site": "cross-site"}), True, 0),  # a link on another site
        (request("GET", **{"Sec-Fetch-Dest": "empty"}), True, 403),
        (request("GET", **{"Sec-Fetch-Dest": "empty"}), False, 0),
        (request("GET", **PICTURE), True, 403),
        (request("GET", **{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}), True, 0),
        (request("POST", {"name": [b"a", b"\xff"]}), False, 400),
        (request("POST", {"name": [b"a\0"]}), False, 400),
        (request("GET", {"path": "/hub/user-redirect/%C3%BC"}), True, 0),
        (request("GET", {"path": "/hub/user-redirect/%ED%A0%80"}), True, 400),
        (request("GET", {"path": "/hub/api/users/a%00"}), False, 400),
    ],
)
def test_a_request_is_refused_for_where_it_comes_from_or_for_what_is_no_text(
    asked: Any, is_page: bool, status: int
) -> None:
    try:
        pages.check(asked, SESSIONS, is_page)
        found = 0
    except web.HTTPError as error:
        found = error.status_code

    assert found == status


@pytest.mark.parametrize(("mode", "is_refused"), [("no-cors", True), ("cors", False), ("navigate", False), ("", False)])
def test_a_picture_of_a_page_is_no_way_to_the_rest_api(mode: str, is_refused: bool) -> None:
    asked = request(**({"Sec-Fetch-Mode": mode, "Sec-Fetch-Site": "same-origin"} if mode else {}))

    with pytest.raises(web.HTTPError) if is_refused else nullcontext():
        pages.check(asked, SESSIONS, is_page=False, is_call=True)


@pytest.mark.parametrize("guard", [pages.Guarded, pages.GuardedPage])
async def test_while_the_database_is_away_nobody_is_taken_for_logged_out(guard: type, tmp_path: Path) -> None:
    """A session that is told 403 closes the web sockets of the login; 503 says nothing of it."""
    handler_class = type("Asked", (guard, APIHandler), {})
    engine = create_engine(f"sqlite:///{tmp_path}/missing/database")
    headers = HTTPHeaders({"Host": "hub", "Authorization": "token abc"})
    asked = HTTPServerRequest(start_line=RequestStartLine("GET", "/hub/api/user", "HTTP/1.1"), headers=headers)
    asked.connection = Mock()
    asked.remote_ip = "127.0.0.1"
    hub = SimpleNamespace(base_url="/hub/")
    application = web.Application(base_url="/", hub=hub, db=Session(engine), log=logging.getLogger("hub"))

    handler = handler_class(application, asked)
    with pytest.raises(web.HTTPError) as refused:
        await handler.prepare()

    assert refused.value.status_code == 503
    assert "Running sessions go on" in str(refused.value.log_message)
    assert (handler.parsed_scopes, handler.expanded_scopes) == ({}, set()), "without them its page is empty"


@pytest.mark.parametrize("guard", [pages.Guarded, pages.GuardedPage])
def test_a_page_that_notices_in_its_middle_that_the_database_is_away_says_so_too(guard: type) -> None:
    told: list[tuple[int, object]] = []

    class Answers:
        """What stands behind the guard."""

        db = Mock()

        def send_error(self, status_code: int, **more: Any) -> None:
            """What the person would get."""
            told.append((status_code, getattr(more["exc_info"][1], "jupyterhub_message", "")))

    asked: Any = object.__new__(type("Middle", (guard, Answers), {}))
    for error in (OperationalError("SELECT 1", {}, OSError("gone")), ValueError("of ours")):
        asked.send_error(500, exc_info=(type(error), error, None))

    assert told == [(503, pages.NO_DATABASE), (500, "")]
    assert Answers.db.rollback.call_count == 1


@pytest.mark.parametrize(
    ("header", "is_taken"),
    [("token a", True), ("Bearer a", True), ("Basic YTpi", False), ("token", False), ("token a b", False)],
)
def test_with_a_token_no_login_of_a_browser_counts(header: str, is_taken: bool) -> None:
    headers = HTTPHeaders({"Host": "hub", "Authorization": header, "Cookie": "login=1"})
    asked = HTTPServerRequest(start_line=RequestStartLine("POST", "/", "HTTP/1.1"), headers=headers, connection=Mock())
    assert asked.cookies["login"].value == "1"

    assert pages.take_login(asked) is is_taken
    assert len(asked.cookies) == (0 if is_taken else 1)
    assert ("Cookie" in asked.headers) is not is_taken


def test_a_program_may_come_from_everywhere_and_sends_text() -> None:
    pages.check(request("POST", **BELOW), SESSIONS, is_page=False, is_program=True)
    with pytest.raises(web.HTTPError, match="400"):
        pages.check(request("POST", {"name": [b"\xff"]}), SESSIONS, is_page=False, is_program=True)


def test_a_script_of_a_template_has_the_nonce_and_one_that_is_filled_in_has_none() -> None:
    source = {"base": "<script src='a'></script>{% block b %}{% endblock %}<scripture>", "page": (
        "{% extends 'base' %}{% block b %}<script>{{ value | safe }}</script>{{ value | safe }}{% endblock %}"
    )}  # fmt: skip
    templates = Environment(loader=DictLoader(source), extensions=[pages.Nonces], autoescape=True)

    page = templates.get_template("page").render(csp_nonce="n0", value="<script>bad()</script>")

    assert page.count('nonce="n0"') == 2
    assert page.count("<script>bad()") == 2
    assert "<scripture>" in page


class Echo(web.RequestHandler):
    """Answers the length of what was sent."""

    def post(self) -> None:
        """It."""
        self.write(str(len(self.request.body)))


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HTTPServer]:
    """A server with the hub's limits, which are short."""
    monkeypatch.setattr(intake, "BODY_WITHIN_S", 0.3)
    monkeypatch.setattr(intake, "HEADERS_WITHIN_S", 0.3)
    server = HTTPServer(web.Application([("/", Echo)]))
    intake.limit(server)
    yield server
    server.stop()


@pytest.fixture
async def port(server: HTTPServer) -> int:
    """Where it listens."""
    listener, number = bind_unused_port()
    server.add_socket(listener)
    return number


async def answer(port: int, *parts: bytes) -> str:
    """The first line of what the server says until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(10):
            return (await reader.read()).decode().partition("\r\n")[0]
    except ConnectionError:
        return ""
    finally:
        writer.close()


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
LENGTH = HEAD + b"Content-Length: %d\r\n\r\n"


async def test_a_body_is_read_up_to_the_limit_and_for_some_time(port: int) -> None:
    assert await answer(port, LENGTH % 1000, b"x" * 1000) == "HTTP/1.1 200 OK"
    assert await answer(port, LENGTH % intake.BODY_MAX, b"x" * intake.BODY_MAX) == "HTTP/1.1 200 OK"
    assert await answer(port, LENGTH % (intake.BODY_MAX + 1)) == "HTTP/1.1 413 Content Too Large"
    assert await answer(port, LENGTH % 1000, b"x" * 999) == ""
    assert await answer(port, b"POST / HTTP/1.1\r\nHost:") == ""


async def test_a_body_without_a_stated_length_is_cut_at_the_limit(port: int) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    fits = await answer(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk * 16, b"0\r\n\r\n")
    cut = await answer(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk * 17, b"0\r\n\r\n")

    assert fits == "HTTP/1.1 200 OK"
    assert cut in ("HTTP/1.1 400 Bad Request", "")


async def test_few_big_bodies_are_read_at_a_time_and_small_ones_go_on(server: HTTPServer, port: int) -> None:
    server.conn_params.body_timeout = 60  # none of them ends by itself
    reading: Any = server.request_callback
    stalled = []
    for _ in range(intake.BIG_AT_ONCE):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(LENGTH % intake.BODY_MAX)
        stalled.append(connection)
    async with asyncio.timeout(10):
        while reading.big < intake.BIG_AT_ONCE:  # noqa: ASYNC110  nobody sets an event
            await asyncio.sleep(0.01)

    big = await answer(port, LENGTH % intake.BODY_MAX)
    small = await answer(port, LENGTH % 1000, b"x" * 1000)
    for connection in stalled:
        connection.close()

    assert (big, small) == ("HTTP/1.1 503 Service Unavailable", "HTTP/1.1 200 OK")
    async with asyncio.timeout(5):
        while await answer(port, LENGTH % intake.BODY_MAX, b"x" * intake.BODY_MAX) != "HTTP/1.1 200 OK":
            pass


@pytest.mark.parametrize("name", ["Content-Security-Policy", "content-security-policy"])
async def test_a_site_that_says_who_may_frame_its_pages_has_the_portals_policy_beside_its_own(
    tmp_path: Path, name: str
) -> None:
    theirs = "frame-ancestors 'self' https://intranet.example.org"

    def prepare(hub: Any) -> None:
        hub.tornado_settings["headers"] = {name: theirs}

    async with served_hub(tmp_path, prepare) as served:
        browser = await served.browser()
        page = (await browser.get("/hub/login")).headers["content-security-policy"]
        call = (await browser.get("/hub/api/user")).headers["content-security-policy"]

    assert "script-src 'nonce-" in page
    assert "default-src 'none'" in call
    for said in (page, call):
        own, _, beside = said.partition(", ")
        assert beside == theirs
        assert "frame-ancestors" not in own


async def test_a_policy_of_a_site_without_a_word_on_frames_leaves_the_portals_frames_closed(tmp_path: Path) -> None:
    def prepare(hub: Any) -> None:
        hub.tornado_settings["headers"] = {"Content-Security-Policy": "script-src 'self' 'unsafe-inline'"}

    async with served_hub(tmp_path, prepare) as served:
        page = (await (await served.browser()).get("/hub/login")).headers["content-security-policy"]

    own, _, beside = page.partition(", ")
    assert "frame-ancestors 'none'" in own
    assert "script-src 'nonce-" in own
    assert beside == "script-src 'self' 'unsafe-inline'"


@pytest.mark.parametrize(
    "time",
    [
        *("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00+24:00"),
        *("1." * 32 + "1", "2" * 65, 5, ["2026"], {"a": 1}),
    ],
)
@pytest.mark.parametrize("is_of_a_session", [False, True])
async def test_a_time_that_no_calendar_has_is_refused_without_a_fault(
    tmp_path: Path, time: object, is_of_a_session: bool
) -> None:
    async with served_hub(tmp_path) as hub:
        await (await hub.browser("alice")).get("/hub/spawn/alice")
        program = await hub.browser()
        program.headers["Authorization"] = f"token {hub.token('alice')}"
        told = {"servers": {"": {"last_activity": time}}} if is_of_a_session else {"last_activity": time}

        answer = await program.post("/hub/api/users/alice/activity", json=told)
        good = await program.post("/hub/api/users/alice/activity", json={"last_activity": "2026-01-01T00:00:00.000Z"})

    assert good.status_code == 200
    assert (answer.status_code, answer.json()["message"]) == (400, person.NO_TIME.format(most=64))


async def test_who_may_not_say_when_somebody_was_active_is_not_told_what_a_time_is(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as hub:
        await hub.browser("alice")
        await hub.browser("bob")
        program = await hub.browser()
        program.headers["Authorization"] = f"token {hub.token('bob')}"

        answers = [
            await program.post("/hub/api/users/alice/activity", json={"last_activity": time})
            for time in ("2" * 65, "2026-01-01T00:00:00.000Z")
        ]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json()["message"] == answers[1].json()["message"]
