"""A session's server keeps nothing big of whoever has no login to it, and answers in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jupyterhub.services.auth import HubOAuth
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, HTTPError, RequestHandler, create_signed_value

from portal.session_pages.page_guards import LONG_TYPE, NOT_YET
from portal.singleuser import logins
from portal.singleuser.logins import ELSEWHERE, NO_HUB, NO_LOGIN, NO_METHOD, SMALL_BODY, Body, guard_bodies

TOKEN = "hers"


class Size(RequestHandler):
    """Answers how much it was given."""

    def post(self) -> None:
        self.write(str(len(self.request.body)))


class HubAuth(HubOAuth):  # type: ignore[misc]
    """JupyterHub's own, but for the call of the hub."""

    is_silent = False
    has_no_thread = False

    async def _check_hub_authorization(self, url: str, api_token: str, **_: Any) -> dict[str, Any] | None:
        if self.is_silent:
            raise HTTPError(500, "Failed to connect to Hub API")
        if self.has_no_thread:
            raise RuntimeError("can't start new thread")
        return {"name": "alice", "scopes": ["access:servers"]} if api_token == TOKEN else None


@pytest.fixture
def hub_auth() -> HubAuth:
    return HubAuth(
        api_token="own",
        api_url="http://127.0.0.1:1/hub/api",
        oauth_client_id="jupyterhub-user-alice",
        access_scopes={"access:servers"},
        base_url="/user/alice/",
    )


@pytest.fixture
async def port(hub_auth: HubAuth) -> AsyncIterator[int]:
    application = Application([("/", Size)], cookie_secret="secret")
    server = HTTPServer(application, max_body_size=2**25)
    guard_bodies(server, application, hub_auth)
    sock, port = bind_unused_port()
    server.add_socket(sock)
    yield port
    server.stop()
    await server.close_all_connections()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much of the bodies reached a handler."""
    sizes: list[int] = []
    received = Body.data_received

    def counted(self: Body, chunk: bytes) -> Any:
        if self._refusal is None:
            sizes.append(len(chunk))
        return received(self, chunk)

    monkeypatch.setattr(Body, "data_received", counted)
    return sizes


async def post(port: int, body: bytes, *headers: str) -> tuple[int, str]:
    """The status and the text of the answer; 0 when the connection was cut. Its length is stated if no header does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    if not any(line.startswith(("Transfer-Encoding", "Content-Length")) for line in headers):
        headers += (f"Content-Length: {len(body)}",)
    writer.write("\r\n".join(("POST / HTTP/1.1", "Host: x", "Connection: close", *headers)).encode())
    writer.write(b"\r\n\r\n" + body)
    try:
        answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    except ConnectionResetError:
        answer = ""
    writer.close()
    head, _, text = answer.partition("\r\n\r\n")
    return int(head.split()[1]) if head else 0, text


def chunked(body: bytes) -> bytes:
    """A body in one part of which the head tells no length."""
    return f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"


BIG = b"x" * (SMALL_BODY + 1)


async def test_a_small_body_is_read_from_anybody(port: int) -> None:
    assert await post(port, BIG[1:]) == (200, str(SMALL_BODY))


@pytest.mark.parametrize("token", ["", "Authorization: token another", "Cookie: jupyterhub-user-alice=hers"])
@pytest.mark.parametrize("size", [SMALL_BODY + 1, 2**24])
async def test_a_big_body_without_a_login_is_kept_nowhere(port: int, kept: list[int], token: str, size: int) -> None:
    status, text = await post(port, b"x" * size, *filter(None, [token]))

    assert (status, json.loads(text)) == (403, {"message": NO_LOGIN})
    assert sum(kept) == 0


async def test_a_body_without_a_length_counts_as_big(port: int, kept: list[int]) -> None:
    status, _ = await post(port, chunked(BIG), "Transfer-Encoding: chunked")

    assert (status, sum(kept)) == (403, 0)


@pytest.mark.parametrize("length", ["+9999999", "-1", "9" * 30, "9" * 6000, "0" * 6000, "1_000_000", "0x99999"])
async def test_a_length_that_is_no_number_is_no_way_around(
    port: int, kept: list[int], length: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, _ = await post(port, BIG, f"Content-Length: {length}")

    assert status in (0, 400, 403)
    assert sum(kept) == 0
    assert "Traceback" not in caplog.text


async def test_who_is_logged_in_sends_much(port: int) -> None:
    hers = f"Authorization: token {TOKEN}"

    assert await post(port, BIG * 20, hers) == (200, str(len(BIG) * 20))
    assert await post(port, chunked(BIG), "Transfer-Encoding: chunked", hers) == (200, str(len(BIG)))


@pytest.mark.parametrize("why", ["is_silent", "has_no_thread"])
async def test_a_hub_that_cannot_be_asked_is_said(port: int, hub_auth: HubAuth, kept: list[int], why: str) -> None:
    setattr(hub_auth, why, True)

    status, text = await post(port, BIG, f"Authorization: token {TOKEN}")

    assert (status, json.loads(text), sum(kept)) == (503, {"message": NO_HUB}, 0)


@pytest.mark.parametrize("size", [SMALL_BODY, SMALL_BODY + 1])
async def test_who_never_sends_the_rest_is_cut_off(port: int, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(logins, "SMALL_WITHIN_S", 0.2)

    status, _ = await post(port, b"x", f"Content-Length: {size}")

    assert status == 0


class Asked(RequestHandler):
    """Answers whatever is asked."""

    def get(self) -> None:
        self.write("done")

    post = put = delete = get


@pytest.fixture
async def session(hub_auth: HubAuth) -> AsyncIterator[int]:
    """The port of a session in which everything is answered."""
    application = Application([("/user/alice/.*", Asked)], base_url="/user/alice/", cookie_secret="secret")
    server = HTTPServer(application)
    guard_bodies(server, application, hub_auth)
    sock, port = bind_unused_port()
    server.add_socket(sock)
    yield port
    server.stop()
    await server.close_all_connections()


@pytest.fixture
def hers() -> str:
    """The cookie of her login."""
    name = "jupyterhub-user-alice"
    return f"Cookie: {name}={create_signed_value('secret', name, TOKEN).decode()}"


async def ask(port: int, path: str, *headers: str, method: str = "GET") -> tuple[int, str]:
    """The status and the text of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = (f"{method} /user/alice/{path} HTTP/1.1", "Host: alice.example", "Connection: close", "Content-Length: 1")
    writer.write("\r\n".join((*asked, *headers, "", "x")).encode())
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    head, _, text = answer.partition("\r\n\r\n")
    return int(head.split()[1]), text


NO_PAGES = (
    "api/contents/shared/much",
    "api/kernels",
    "dsportal/api/modules/show?name=x",
    "dsportal/api/archive?path=",
    "lab/api/settings",
    "nbconvert/html/shared/theirs.ipynb",
    "logout",
    "terminals/websocket/1",
)


@pytest.mark.parametrize("path", NO_PAGES)
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "header",
    [
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: cross-site",
        "Origin: http://bob.example",
        "Sec-Fetch-Site: cross-site\r\nAuthorization: Basic YTpi",
        "Origin: http://bob.example\r\nAuthorization: Negotiate YTpi",
    ],
)
async def test_what_is_no_page_answers_no_page_of_another_origin(
    session: int, path: str, method: str, header: str
) -> None:
    status, text = await ask(session, path, header, method=method)

    assert (status, json.loads(text)) == (403, {"message": ELSEWHERE})


OF_A_PAGE = "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty"
OF_LAB = f"{OF_A_PAGE}\r\nReferer: https://x/user/alice/lab/tree/a"


@pytest.mark.parametrize(
    ("headers", "method", "path", "is_refused"),
    [
        (OF_A_PAGE, "GET", "api/contents/shared/much", True),
        (OF_A_PAGE, "GET", "api/contents?content=1", True),
        (f"{OF_A_PAGE}\r\nX-Portal-Page: part", "GET", "api/contents/shared/much", True),
        (f"{OF_A_PAGE}\r\nX-Portal-Page: whole", "GET", "api/contents/shared/much", False),
        (f"{OF_A_PAGE}\r\nAuthorization: token x", "GET", "api/contents/shared/much", True),  # which the page holds
        ("Authorization: token x", "GET", "api/contents/shared/much", False),
        ("Accept: */*", "GET", "api/contents/shared/much", False),
        (OF_LAB, "GET", "api/contents/shared/much?content=0&hash=0", False),  # before a save
        (OF_LAB, "GET", "api/contents/shared/much/checkpoints?1", False),  # after it
        (OF_LAB, "GET", "api/contents/shared/much?content=1&hash=0", True),
        (OF_A_PAGE, "GET", "api/kernels", False),
        (OF_A_PAGE, "GET", "files/shared/much?type=notebook&content=1", True),
        (OF_A_PAGE, "GET", "nbconvert/markdown/shared/much?content=1", True),
        (OF_A_PAGE, "GET", "tools/mine/much?content=1", False),
        (f"{OF_A_PAGE}\r\nReferer: https://x/user/alice/tools/mine/", "GET", "tools/mine/much?content=1", False),
        (OF_LAB, "GET", "tools/mine/much?content=1", True),
        (f"{OF_A_PAGE}\r\nReferer: https://[", "GET", "tools/mine/much?content=1", False),
        (OF_A_PAGE, "GET", "files/shared/much", False),
        (OF_A_PAGE, "PUT", "api/contents/shared/much", False),
    ],
)
async def test_a_page_that_lacks_the_portals_part_is_shown_no_files(
    session: int, headers: str, method: str, path: str, is_refused: bool
) -> None:
    status, text = await ask(session, path, headers, method=method)

    assert (status == 409) == is_refused
    assert not is_refused or "load the page again" in json.loads(text)["message"]


@pytest.mark.parametrize(
    ("part", "status"), [("document", 409), ("script", 200), ("empty", 200), ("style", 200), ("font", 200)]
)
async def test_a_tab_that_goes_to_a_file_of_the_portals_part_is_told_what_to_do(
    session: int, part: str, status: int
) -> None:
    headers = f"Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: {part}"
    answered, text = await ask(session, "lab/extensions/dsportal-lab/static/remoteEntry.1.js?v=1", headers)

    assert answered == status
    assert ("did not reach your browser" in text) is (part == "document")


async def test_who_asks_for_the_head_alone_gets_no_more(session: int) -> None:
    assert await ask(session, "api/contents", "Sec-Fetch-Site: same-site", method="HEAD") == (403, "")


@pytest.mark.parametrize("path", NO_PAGES)
@pytest.mark.parametrize(
    "header",
    [
        "Sec-Fetch-Site: same-origin\r\nReferer: https://alice.example/user/alice/lab/tree/first.ipynb",
        "Origin: https://alice.example",
        "Accept: */*",
        "Sec-Fetch-Site: cross-site\r\nAuthorization: token hers",
    ],
)
async def test_ones_own_pages_and_programs_are_answered(session: int, path: str, header: str) -> None:
    assert await ask(session, path, header) == (200, "done")


@pytest.mark.parametrize("path", NO_PAGES)
async def test_an_address_that_no_page_leads_to_is_read_but_does_nothing(session: int, path: str) -> None:
    """As somebody else's link does, where a program that is no browser shows it."""
    does_something = path.startswith(("nbconvert/", "logout"))

    status, _ = await ask(session, path, "Sec-Fetch-Site: none")

    assert status == (403 if does_something else 200)


@pytest.mark.parametrize("path", ["lab/tree/first.ipynb", "tree", "oauth_callback?code=x", "files/picture.png"])
async def test_every_page_leads_to_a_page(session: int, path: str) -> None:
    assert await ask(session, path, "Sec-Fetch-Site: same-site") == (200, "done")


@pytest.mark.parametrize("path", ["lab", "files/own.js?_xsrf=x", "files/picture.png", "kernelspecs/own/logo.svg"])
@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize("part", ["image", "script", "style", "video", "object", "iframe", "empty", "audioworklet"])
async def test_a_page_of_another_origin_loads_nothing_as_a_part_of_itself(
    session: int, path: str, site: str, part: str, hers: str
) -> None:
    headers = f"Sec-Fetch-Site: {site}\r\nSec-Fetch-Dest: {part}"

    status, text = await ask(session, path, f"{headers}\r\n{hers}")

    assert (status, json.loads(text)) == (403, {"message": ELSEWHERE})
    assert await ask(session, path, f"{headers}\r\nAuthorization: token hers") == (200, "done")
    assert await ask(session, path, f"Sec-Fetch-Site: {site}\r\n{TAB}\r\n{hers}") == (200, "done")
    assert await ask(session, path, f"Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: {part}") == (200, "done")


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "http://a]b"])
async def test_an_origin_that_is_none_is_elsewhere(session: int, origin: str, caplog: pytest.LogCaptureFixture) -> None:
    status, text = await ask(session, "api/kernels", f"Origin: {origin}")

    assert (status, json.loads(text)) == (403, {"message": ELSEWHERE})
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("method", ["get", "MADEUP1", "A" * 1000, "PROPFIND", "TRACE"])
async def test_a_method_that_nobody_knows_reaches_nothing(session: int, method: str) -> None:
    status, text = await ask(session, "lab", method=method)

    assert (status, json.loads(text)) == (405, {"message": NO_METHOD})


@pytest.mark.parametrize(("letters", "is_read"), [(70, True), (16_000, False)])
async def test_a_form_whose_boundary_takes_long_to_look_for_is_not_read(
    session: int, letters: int, is_read: bool
) -> None:
    kind = f"Content-Type: multipart/form-data; boundary=a{'-' * (letters - 1)}"
    _, text = await ask(session, "lab", kind)
    assert (LONG_TYPE in text) is not is_read


TAB = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document"
NOTEBOOK = "nbconvert/html/shared/theirs.ipynb?download=false"


@pytest.mark.parametrize("site", ["same-site", "cross-site", "none"])
async def test_who_is_led_to_a_converted_notebook_without_a_login_goes_through_that(session: int, site: str) -> None:
    led = await ask(session, NOTEBOOK, f"Sec-Fetch-Site: {site}\r\n{TAB}")

    assert led == (200, "done"), "the handler asks for the login, as for any page"


@pytest.mark.parametrize("site", ["same-site", "cross-site", "none"])
async def test_who_has_a_login_opens_a_converted_notebook_by_a_click(session: int, site: str, hers: str) -> None:
    status, text = await ask(session, NOTEBOOK, f"Sec-Fetch-Site: {site}\r\n{TAB}\r\n{hers}")

    assert status == 403
    assert f'href="/user/alice/{NOTEBOOK}">Open it</a>' in text
    assert "A link or an address has led you here, to a notebook as a page of your session." in text
    own = "Referer: https://alice.example/user/alice/lab/tree/first.ipynb"
    assert (await ask(session, NOTEBOOK, f"Sec-Fetch-Site: same-origin\r\n{own}\r\n{TAB}\r\n{hers}"))[0] == 200


@pytest.mark.parametrize(
    "page", ["https://alice.example/user/alicea/lab", "https://alice.example/hub/home", "", "http://["]
)
async def test_where_all_are_one_origin_another_sessions_page_opens_none_without_a_click(
    session: int, page: str, hers: str
) -> None:
    headers = f"Sec-Fetch-Site: same-origin\r\nReferer: {page}\r\n{hers}"

    status, text = await ask(session, NOTEBOOK, f"{headers}\r\n{TAB}")
    assert (status, "Open it</a>" in text) == (403, True)
    status, text = await ask(session, NOTEBOOK, f"{headers}\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe")
    assert (status, json.loads(text)) == (403, {"message": ELSEWHERE})


async def test_a_way_to_a_converted_notebook_writes_nothing_into_the_page(session: int, hers: str) -> None:
    path = "nbconvert/html/a\"'><img/src=x>.ipynb"
    status, text = await ask(session, path, f"Sec-Fetch-Site: same-site\r\n{TAB}\r\n{hers}")

    assert status in (400, 403)
    assert "<img" not in text


@pytest.mark.parametrize(
    "told",
    [
        "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe",
        "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: document",
        "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image",
        "Sec-Fetch-Dest: document",
        "",
    ],
)
async def test_no_frame_picture_or_script_has_a_notebook_converted(session: int, told: str, hers: str) -> None:
    for login in ("", hers):
        headers = "\r\n".join(filter(None, ("Sec-Fetch-Site: same-site", told, login)))
        status, text = await ask(session, NOTEBOOK, headers)
        assert (status, json.loads(text)) == (403, {"message": ELSEWHERE})
    status, _ = await ask(session, NOTEBOOK, f"Sec-Fetch-Site: same-site\r\n{TAB}", method="POST")
    assert status == 403


@pytest.mark.parametrize("path", NO_PAGES)
@pytest.mark.parametrize("part", ["image", "video", "audio", "track", "style", "script", "font", "iframe", "object"])
async def test_a_picture_that_somebodys_notebook_shows_in_ones_own_page_does_nothing(
    session: int, path: str, part: str, hers: str
) -> None:
    own = f"Referer: https://alice.example/user/alice/lab\r\nSec-Fetch-Site: same-origin\r\n{hers}"

    status, text = await ask(session, path, f"{own}\r\nSec-Fetch-Dest: {part}")

    assert (status, json.loads(text)) == (403, {"message": ELSEWHERE})
    loaded = (await ask(session, path, f"{own}\r\nSec-Fetch-Dest: empty\r\nX-Portal-Page: whole"))[0]
    assert loaded == (403 if path == "logout" else 200)  # which a page goes to, and never loads
    assert (await ask(session, path, f"{own}\r\nSec-Fetch-Dest: websocket"))[0] == 200


@pytest.mark.parametrize("part", ["style", "font", "image"])
async def test_jupyterlab_still_has_its_themes(session: int, part: str) -> None:
    own = f"Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: {part}"

    assert (await ask(session, "lab/api/themes/@jupyterlab/theme-light-extension/index.css", own))[0] == 200


async def test_a_hub_that_is_silent_leads_nobody_to_a_converted_notebook(
    session: int, hub_auth: HubAuth, hers: str
) -> None:
    hub_auth.is_silent = True
    status, text = await ask(session, NOTEBOOK, f"Sec-Fetch-Site: same-site\r\n{TAB}\r\n{hers}")

    assert (status, json.loads(text)) == (503, {"message": NO_HUB})


@pytest.mark.parametrize("site", ["same-origin", "none"])
@pytest.mark.parametrize("path", [NOTEBOOK, "logout", "tools/mlflow/dsportal-open", "tools/mlflow/dsportal-open?again"])
async def test_a_page_that_is_drawn_ahead_starts_and_converts_nothing(
    session: int, site: str, path: str, hers: str
) -> None:
    own = f"Referer: https://alice.example/user/alice/lab\r\nSec-Fetch-Site: {site}\r\n{TAB}\r\n{hers}"

    status, text = await ask(session, path, f"{own}\r\nSec-Purpose: prefetch;prerender")

    assert (status, json.loads(text)) == (503, {"message": NOT_YET})
    assert (await ask(session, path, own.replace("Site: none", "Site: same-origin")))[0] == 200
    assert (await ask(session, "tools/mlflow/", f"{own}\r\nSec-Purpose: prefetch;prerender"))[0] == 200
