"""What strangers make up leaves nothing in the hub that stays: no metric, no traceback, no long line of its log."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
from urllib.parse import quote, urlencode, urlsplit

import httpx
import pytest
from jupyterhub import orm
from jupyterhub.handlers import BaseHandler
from jupyterhub.metrics import REQUEST_DURATION_SECONDS
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine

from portal import journal
from portal.administration import again
from portal.guard.gone import BEGUN_MOST, MANY_SCOPES, SCOPES_MOST
from portal.guard.intake import Intake
from portal.guard.texts import NO_BODY
from portal.hub.app import PortalHub
from tests.unit.served_hub import ServedHub, served_hub

NO_ADDRESSES = ("http://[", "//[::1", "http://a]b/", "http://\u2100.example/")
NUMBERS_OF_FAILURES = [f"error/{digits * '9'}" for digits in (19, 5000)]


class Kept(logging.Handler):
    """What a hub logs, as it is written."""

    def __init__(self, served: ServedHub) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        served.hub.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


async def asked(served: ServedHub, method: str, *headers: str) -> str:
    """The status line of an answer."""
    place = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(
        "\r\n".join((f"{method} /hub/login HTTP/1.1", "Host: x", "Connection: close", *headers, "", "")).encode()
    )
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer.partition(b"\r\n")[0].decode()


async def test_methods_that_are_made_up_leave_no_metrics(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as served:
        for number in range(50):
            assert await asked(served, f"MADEUP{number}") == "HTTP/1.1 405 Method Not Allowed"
        assert await asked(served, "GET") == "HTTP/1.1 200 OK"
    methods = {sample.labels["method"] for one in REQUEST_DURATION_SECONDS.collect() for sample in one.samples}
    assert not [method for method in methods if method.startswith("MADEUP")]


async def test_a_form_in_parts_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """The hub has none; a long boundary is looked for at each place of a body."""
    async with served_hub(tmp_path) as served:
        for kind in ("multipart/form-data; boundary=a", f"Multipart/Form-Data; boundary=a{'-' * 16_000}"):
            with mock.patch("tornado.httputil.parse_multipart_form_data", side_effect=AssertionError("it was read")):
                status = await asked(served, "POST", f"Content-Type: {kind}\r\nContent-Length: 0")
            assert status == "HTTP/1.1 415 Unsupported Media Type"


async def test_a_length_that_is_very_long_is_refused_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served_hub(tmp_path) as served:
        for length in ("9" * 6000, "0" * 6000, "1" + "0" * 18):
            status = await asked(served, "POST", f"Content-Length: {length}")
            assert status in (
                "",
                "HTTP/1.1 413 Content Too Large",
                "HTTP/1.1 400 Bad Request",
                "HTTP/1.1 403 Forbidden",
            )
    assert "Traceback" not in caplog.text


async def test_a_question_for_a_token_that_stands_in_the_address_is_refused_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served_hub(tmp_path) as served:
        stranger = await served.browser()
        assert (await stranger.post("/hub/api/oauth2/token?code=x")).status_code == 400
        for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
            answer = await stranger.post("/hub/api/oauth2/token", content=b"\xff", headers={"Content-Type": kind})
            assert answer.status_code == 400
        several = {"Content-Type": "multipart/form-data; boundary=x"}
        assert (await stranger.post("/hub/spawn", content=b"--y", headers=several)).status_code == 415
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_question_has_no_body_of_which_anything_would_be_taken(tmp_path: Path, method: str) -> None:
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")
        for place in ("/hub/spawn", "/hub/login", "/hub/api/user"):
            answer = await alice.request(method, place, data={"next": "/user/alice/lab"})
            assert answer.status_code == 400
            assert NO_BODY in answer.text or method == "HEAD"


async def test_where_a_session_opens_stands_in_no_link_of_the_form_when_it_is_very_long(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")
        token = {"Authorization": f"token {served.token('alice')}"}
        choices = {"name": "mine", "options": {"partition": "sxm2", "gpus": 2, "hours": 3}}
        assert (await alice.put("/hub/api/dsportal/choices/alice", json=choices, headers=token)).status_code < 300
        place = "/user/alice/lab/tree/" + 300 * "é"
        for opens, is_kept in ((place, True), (place + 700 * "x", False)):
            form = await alice.get("/hub/spawn", params={"next": opens})
            assert form.status_code == 200
            links = re.findall(r'href="[^"]*[?&;]next=([^"&]*)', form.text)
            assert any(quote("é") in link for link in links) == is_kept


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_login_that_asks_for_very_many_scopes_is_refused(tmp_path: Path, method: str) -> None:
    """Each is looked at, and at what it contains, while everybody else waits."""
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")

        async def asks(count: int) -> str:
            scopes = " ".join(f"users!user={number}" for number in range(count))
            data = {"_xsrf": alice.cookies["_xsrf"]} if method == "POST" else None
            params = {"client_id": "jupyterhub-user-alice", "response_type": "code", "scope": scopes}
            answer = await alice.request(method, "/hub/api/oauth2/authorize", params=params, data=data)
            assert answer.status_code == (400 if MANY_SCOPES in answer.text else 403)
            return answer.text

        assert MANY_SCOPES in await asks(SCOPES_MOST + 1)
        assert MANY_SCOPES not in await asks(SCOPES_MOST)


async def test_who_is_not_logged_in_is_led_to_the_login(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served_hub(tmp_path) as served:
        stranger = await served.browser()
        params = {"client_id": "jupyterhub-user-alice", "response_type": "code"}
        answer = await stranger.get("/hub/api/oauth2/authorize", params=params, follow_redirects=False)
    assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/hub/login")
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_who_may_not_enter_a_session_does_not_hear_whether_there_is_one(tmp_path: Path, method: str) -> None:
    """Nor by another question that is wrong: of a session that is there it would be told what is wrong."""
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")
        await alice.get("/hub/spawn/alice")
        bob = await served.browser("bob")
        for name in ("alice", "carol"):
            own = f"/user/{name}/oauth_callback"
            client = served.hub.oauth_provider.add_client(f"jupyterhub-user-{name}", "s" * 32, own, allowed_scopes=[])
            if name == "alice":
                orm.User.find(served.hub.db, name).orm_spawners[""].oauth_client = client
        served.hub.db.commit()

        async def asks(name: str, back: str) -> tuple[int, str]:
            params = {"client_id": f"jupyterhub-user-{name}", "response_type": "code", "redirect_uri": back}
            data = {"_xsrf": bob.cookies["_xsrf"]} if method == "POST" else None
            place = "/hub/api/oauth2/authorize"
            answer = await bob.request(method, place, params=params, data=data, follow_redirects=False)
            shown = re.sub(r"<script.*?</script>|<[^>]*>", " ", answer.text, flags=re.DOTALL)
            return answer.status_code, re.sub(r"\b[0-9a-f]{8}\b", "ID", shown)

        for back in ("/user/NAME/oauth_callback", "/elsewhere"):
            told = {await asks(name, back.replace("NAME", name)) for name in ("alice", "carol", "nobody")}
            assert len(told) == 1
            assert next(iter(told))[0] == 403


async def test_what_a_login_asks_for_stands_in_its_address_and_not_in_a_body(tmp_path: Path) -> None:
    """The library reads a body of any type, and keeps what it says."""
    own = "/user/alice/oauth_callback"
    async with served_hub(tmp_path) as served:
        alice = await served.browser("alice")
        await alice.get("/hub/spawn/alice")
        client = served.hub.oauth_provider.add_client("jupyterhub-user-alice", "s" * 32, own, allowed_scopes=[])
        orm.User.find(served.hub.db, "alice").orm_spawners[""].oauth_client = client
        served.hub.db.commit()
        alice.follow_redirects = False
        params = {"client_id": "jupyterhub-user-alice", "response_type": "code", "redirect_uri": own, "state": "x"}

        async def asks(method: str, body: str, kind: str) -> httpx.Response:
            where = {"_xsrf": alice.cookies["_xsrf"], **params}
            types = {"Content-Type": kind}
            return await alice.request(method, "/hub/api/oauth2/authorize", params=where, content=body, headers=types)

        scopes = "+".join(f"users!user={number}" for number in range(SCOPES_MOST + 1))
        for kind in ("application/x-www-form-urlencoded", "text/plain"):
            for body in (f"scope={scopes}", f"code_challenge={200 * 'a'}&code_challenge_method=S256", "state=another"):
                refused, allowed = await asks("GET", body, kind), await asks("POST", body, kind)
                is_looked_at = "form" in kind and "challenge" in body  # of the hub's own bounds, before
                assert (refused.status_code, NO_BODY in refused.text) == (400, True)
                assert allowed.status_code == (400 if is_looked_at else 302)
                assert "another" not in allowed.headers.get("Location", "")
        assert (await asks("POST", f"scopes={scopes}", "application/x-www-form-urlencoded")).status_code == 400
        for _ in range(BEGUN_MOST + 5):
            assert (await alice.get("/hub/api/oauth2/authorize", params=params)).status_code == 302
        newest = (await alice.get("/hub/api/oauth2/authorize", params=params)).headers["Location"]
        kept = served.hub.db.query(orm.OAuthCode).all()
        assert len(kept) == BEGUN_MOST
        assert any(code.code in newest for code in kept)
        assert {code.code_challenge for code in served.hub.db.query(orm.OAuthCode)} <= {None, ""}

        assert (await asks("POST", "a=&" * 6000, "text/plain")).status_code == 413
        for odd in ("user=bob", "client=bob&redirect_uri_provided=1", "grant_type=implicit&user=", "x=[", "x=%zz"):
            answer = await alice.get(f"/hub/api/oauth2/authorize?{urlencode(params)}&{odd}")
            assert answer.status_code == 302, "what the standard does not name is passed by"
            assert answer.headers["Location"].startswith(own)


@pytest.mark.parametrize("length", ["1000000", "0" * 18 + "1000000", "1000000,1000000"])
def test_each_way_to_say_a_big_length_counts_as_a_big_request(length: str) -> None:
    class Application:
        """Takes each request."""

        def start_request(self, *_: object) -> HTTPMessageDelegate:
            return HTTPMessageDelegate()

    intake = Intake(Application())  # type: ignore[arg-type]
    connection = SimpleNamespace(context=SimpleNamespace(address=("127.0.0.1", 1)))
    reading = intake.start_request(None, connection)

    reading.headers_received(
        RequestStartLine("POST", "/hub/login", "HTTP/1.1"), HTTPHeaders({"Content-Length": length})
    )

    assert intake.big == 1


@pytest.mark.parametrize("address", NO_ADDRESSES)
async def test_an_address_that_is_none_is_no_fault_of_the_hub(tmp_path: Path, address: str) -> None:
    async with served_hub(tmp_path) as served:
        kept = Kept(served)
        stranger = await served.browser()
        hers = await served.browser("alice")
        own = {b"Sec-Fetch-Site": b"same-origin", b"Referer": address.encode()}
        answers = [
            await stranger.post("/hub/login", data={"username": "a", "password": "b"}, headers=own),
            await stranger.get(f"/hub/login?next={quote(address)}"),
            await hers.get(f"/hub/login?next={quote(address)}"),
            await hers.get(f"/hub/spawn?next={quote(address)}"),
            await stranger.get(f"/hub/error/503?url={quote(address)}"),
        ]
    assert not [answer.url for answer in answers if answer.status_code in (500, 502)]
    assert not [record for record in kept.records if record.exc_info]


@pytest.mark.parametrize("page", [again.AgainHandler, again.FreshTokenPage, again.FreshAdminPage])
async def test_a_page_that_asks_for_the_password_leads_a_stranger_to_the_login(
    tmp_path: Path, page: type[BaseHandler]
) -> None:
    def prepare(hub: PortalHub) -> None:
        hub.extra_handlers = [("/asks", page)]

    async with served_hub(tmp_path, prepare) as served:
        kept = Kept(served)
        answer = await (await served.browser()).get("/hub/asks")

    assert (answer.status_code, answer.url.path) == (200, "/hub/login")
    assert not [record for record in kept.records if record.exc_info]


@pytest.mark.parametrize("path", ["static/style%00.css", "static/%ff", "static/css/..%00", *NUMBERS_OF_FAILURES])
async def test_a_name_or_a_number_that_is_none_is_no_fault_of_the_hub(tmp_path: Path, path: str) -> None:
    async with served_hub(tmp_path) as served:
        kept = Kept(served)
        answer = await (await served.browser()).get(f"/hub/{path}")

    assert answer.status_code == 400
    assert not [record for record in kept.records if record.exc_info]


async def test_a_body_that_is_no_json_is_one_line_of_the_log(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as served:
        kept = Kept(served)
        await served.browser("alice")
        program = await served.browser()
        program.headers["Authorization"] = f"token {served.token('alice')}"
        answers = [
            await program.post("/hub/api/users/alice/tokens", content=body) for body in (b"{", b"[" * 3000, b"NaN,")
        ]
    assert [answer.status_code for answer in answers] == [400] * 3
    found = [record for record in kept.records if "parse JSON" in record.getMessage()]
    assert [record.exc_info for record in found] == [None] * 3


def test_a_line_of_the_hubs_log_has_an_end() -> None:
    record = logging.LogRecord(
        "hub", logging.WARNING, __file__, 1, "Content security violation: %s", ("x" * 2**20,), None
    )
    assert journal.Plain().filter(record)
    assert record.getMessage() == f"{'Content security violation: ' + 'x' * 2**20}"[: journal.LONGEST] + " …"
