"""What the portal's own addresses of a session do with what is no text: nothing, in words."""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jupyter_server.auth import User
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

import portal
from portal.session_pages.calls import NO_TEXT, SessionCall


class Own(SessionCall):
    """One of them, without the login, which is looked at elsewhere; Jupyter counts what it does as activity."""

    current_user = User("alice")
    _jupyter_current_user = User("alice")

    def check_xsrf_cookie(self) -> None:
        """Looked at elsewhere."""

    def set_default_headers(self) -> None:
        """None."""

    def get(self) -> None:
        self.finish("done")

    def post(self) -> None:
        self.finish(json.dumps({"heard": self.get_json_body()}))


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(JupyterHandler, "prepare", RequestHandler.prepare)
    monkeypatch.setattr(APIHandler, "prepare", _prepared)
    server = HTTPServer(Application([("/own", Own)]))
    sock, port = bind_unused_port()
    server.add_socket(sock)
    yield port
    server.stop()
    await server.close_all_connections()


async def _prepared(_: Any) -> None:
    """The login is looked at elsewhere."""


async def ask(port: int, method: str, query: bytes = b"", body: bytes = b"", kind: str = "application/json") -> Any:
    """The status and what is said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"Host: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(f"{method} /own?".encode() + query + b" HTTP/1.1\r\n" + head.encode() + body)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    head, _, text = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), text


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        b'{"file": "caf\xe9"}',
        b'{"file": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"file": "a\\u0000b"}',
        b'{"file": "a\0b"}',
        b'["\xc3"]',
    ],
)
async def test_a_body_that_is_no_text_is_refused_in_words(port: int, body: bytes) -> None:
    status, text = await ask(port, "POST", body=body)
    assert (status, json.loads(text)["message"]) == (400, NO_TEXT)


async def test_a_body_that_is_no_json_or_too_deep_is_refused(port: int) -> None:
    for body in (b"{", b"nan", b"[" * 100_000, b"[" * 900 + b"]" * 900):
        assert (await ask(port, "POST", body=body))[0] in (200, 400), body[:10]


@pytest.mark.parametrize("query", [b"path=%ff", b"no_track_activity=%ff", b"%ff", b"path=a%00b", b"path=a&x=%e9"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_address_that_is_no_text_is_answered_at_once_and_in_words(
    port: int, method: str, query: bytes
) -> None:
    if query == b"%ff":
        assert (await ask(port, method, query))[0] == 200, "a name that nobody reads"
        return
    status, text = await ask(port, method, query)
    assert (status, json.loads(text)["message"]) == (400, NO_TEXT)


async def test_a_form_that_is_no_text_is_refused_too(port: int) -> None:
    status, text = await ask(port, "POST", body=b"no_track_activity=%ff", kind="application/x-www-form-urlencoded")
    assert (status, json.loads(text)["message"]) == (400, NO_TEXT)


async def test_what_a_name_of_a_file_can_hold_is_heard(port: int) -> None:
    for given in ("caf\u00e9", "a\\u0000b", "\\", "\udce9.txt", "\U0001f600"):  # one that is no UTF-8 on the disk
        status, text = await ask(port, "POST", body=json.dumps({"file": given}).encode())
        assert (status, json.loads(text)["heard"]["file"]) == (200, given)


def test_every_address_of_the_portals_own_looks_at_what_it_is_sent() -> None:
    for module in pkgutil.walk_packages(portal.__path__, "portal."):
        if module.name.endswith((".pages", ".listed", ".extension", ".refusing")) and ".hub" not in module.name:
            importlib.import_module(module.name)
    known = {one for one in _below(APIHandler) if one.__module__.startswith("portal.")}
    assert len(known) > 15
    assert {one.__name__ for one in known if not issubclass(one, SessionCall)} == set()


def _below(handler: type) -> set[type]:
    found: set[type] = set(handler.__subclasses__())
    return found.union(*(_below(one) for one in found))
