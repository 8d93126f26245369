"""JupyterLab's files from the hub's host: the right ones, packed, to whoever asks; a page that knows where they are."""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import brotli
import pytest
from jinja2 import Environment
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from portal.assets import handler, lab_page
from portal.assets.files import FIRST, FOLDER, LabAssets, key_of
from portal.assets.handler import LabAssetHandler
from portal.assets.offered import hubs_lab
from portal.assets.packed import PackedFiles
from portal.assets.static import PackedStaticHandler

HASH = "0123456789abcdef"
MAIN = f"main.{HASH}.js"
HUB = "http://portal.example.org"
OF_A_SESSION = {"JUPYTERHUB_HOST": HUB, "JUPYTERHUB_BASE_URL": "/portal/"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "static"
    made.mkdir()
    (made / "index.html").write_text(f"<script src={MAIN}>")
    (made / MAIN).write_text("let lab;" * 500)
    (made / f"9999.{HASH}.js").write_text("rarely")
    (made / "font.woff2").write_bytes(bytes(range(256)) * 10)
    return made


class World:
    """A hub that serves the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.assets = LabAssets(folder)
        rule = (r"/hub/dsportal/lab/([0-9a-f]{16})/([^/]+)", LabAssetHandler, {"assets": self.assets})
        self.server = HTTPServer(Application([rule]))
        sock, self.port = bind_unused_port()
        self.server.add_socket(sock)

    async def get(self, name: str, key: str = "", **headers: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/hub/dsportal/lab/{key or self.assets.key}/{name}"
        return await AsyncHTTPClient().fetch(url, headers=headers, decompress_response=False)

    async def status(self, name: str, key: str = "") -> int:
        try:
            return int((await self.get(name, key)).code)
        except HTTPClientError as error:
            return error.code


@pytest.fixture
async def world(folder: Path) -> Any:
    made = World(folder)
    yield made
    made.server.stop()
    await made.server.close_all_connections()


async def test_a_file_comes_packed_and_for_ever_to_pages_of_other_hosts(world: World, folder: Path) -> None:
    packed = await world.get(f"{MAIN}?v={HASH}", **{"Accept-Encoding": "deflate, gzip"})
    plain = await world.get(MAIN)

    assert gzip.decompress(packed.body) == plain.body == (folder / MAIN).read_bytes()
    assert len(packed.body) < len(plain.body) / 4
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    for answer in (packed, plain):
        assert answer.headers["Content-Type"].partition(";")[0] in ("text/javascript", "application/javascript")
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Set-Cookie" not in answer.headers


async def test_a_font_is_sent_as_it_is(world: World, folder: Path) -> None:
    font = await world.get("font.woff2", **{"Accept-Encoding": "gzip"})

    assert font.body == (folder / "font.woff2").read_bytes()
    assert "Content-Encoding" not in font.headers


@pytest.mark.parametrize("header", ["", "Accept-Encoding: gzip\r\n"])
async def test_who_asks_and_does_not_read_costs_one_piece_and_is_cut_off(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    size = 30_000_000
    (folder / MAIN).write_bytes(secrets.token_bytes(size))  # it packs to nothing smaller
    monkeypatch.setattr(handler, "WITHIN_S", 0.5)
    monkeypatch.setattr(handler, "SLOWEST", 1e9)
    pieces: list[int] = []
    write = RequestHandler.write
    is_over = asyncio.Event()

    def noted(self: RequestHandler, piece: bytes) -> None:
        pieces.append(len(piece))
        write(self, piece)

    monkeypatch.setattr(RequestHandler, "write", noted)
    monkeypatch.setattr(LabAssetHandler, "on_finish", lambda _: is_over.set())

    with socket.create_connection(("127.0.0.1", world.port)) as client:
        client.sendall(f"GET /hub/dsportal/lab/{world.assets.key}/{MAIN} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
        await asyncio.wait_for(is_over.wait(), 60)
        read = await asyncio.to_thread(lambda: sum(map(len, iter(lambda: client.recv(65536), b""))))

    assert max(pieces) <= handler.PIECE
    assert sum(pieces) < size / 2, "what the kernels of both sides hold"
    assert read < size / 2


@pytest.mark.parametrize("name", ["absent.js", "index.html", "..%2fsecret.js", "%2e%2e", ".", "%00", "a" * 300])
async def test_nothing_else_is_served(world: World, name: str) -> None:
    assert await world.status(name) == 404


async def test_another_jupyterlab_is_not_found_and_not_kept(world: World) -> None:
    assert await world.status(MAIN, "f" * 16) == 404


async def test_a_file_that_is_gone_meanwhile_is_not_found_and_found_again_later(world: World, folder: Path) -> None:
    text = (folder / MAIN).read_bytes()
    (folder / MAIN).unlink()
    assert await world.status(MAIN) == 404
    (folder / MAIN).write_bytes(text)
    assert await world.status(MAIN) == 200


async def test_the_list_names_what_every_lab_begins_with(world: World) -> None:
    answer = await world.get("first.json")

    assert json.loads(answer.body) == [f"{MAIN}?v={HASH}"]


async def packed_by_brotli(fetch: Callable[[], Awaitable[Any]]) -> Any:
    """The first answer that is: a thread of the lowest priority does it, and browsers get gzip meanwhile."""
    async with asyncio.timeout(60):
        while (answer := await fetch()).headers["Content-Encoding"] != "br":
            assert answer.headers["Content-Encoding"] == "gzip"
            await asyncio.sleep(0.01)
    return answer


async def test_what_every_lab_begins_with_is_packed_smaller_before_somebody_asks(world: World, folder: Path) -> None:
    await world.get("first.json")
    answer = await packed_by_brotli(lambda: world.get(MAIN, **{"Accept-Encoding": "gzip, br"}))

    assert brotli.decompress(answer.body) == (folder / MAIN).read_bytes()
    assert answer.headers["Vary"] == "Accept-Encoding"
    for header, encoding in (("gzip", "gzip"), ("gzip, br;q=0", "gzip"), ("br;q=0.1", "br"), ("zstd", None)):
        answer = await world.get(MAIN, **{"Accept-Encoding": header})
        assert answer.headers.get("Content-Encoding") == encoding, header


@pytest.fixture
async def hubs_files(tmp_path: Path) -> Any:
    """JupyterHub's own files, as the hub sends them: a function that fetches one."""
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "style.css").write_text("p{}\n" * 500)
    (tmp_path / "static" / "small.css").write_text("p{}")
    (tmp_path / "secret").write_text("not for anybody")
    handler = type("Fresh", (PackedStaticHandler,), {"packed": PackedFiles()})
    settings: dict[str, Any] = {"static_path": str(tmp_path / "static"), "static_handler_class": handler}
    server = HTTPServer(Application([], static_url_prefix="/hub/static/", **settings))
    sock, port = bind_unused_port()
    server.add_socket(sock)

    async def fetch(name: str, method: str = "GET", **headers: str) -> Any:
        request = HTTPRequest(f"http://127.0.0.1:{port}/hub/static/{name}", method, headers, decompress_response=False)
        return await AsyncHTTPClient().fetch(request, raise_error=False)

    yield fetch
    server.stop()
    await server.close_all_connections()


async def test_the_hubs_own_files_come_packed(hubs_files: Any) -> None:
    takes = {"Accept-Encoding": "gzip"}
    packed = await hubs_files("style.css?v=1", **takes)
    head = await hubs_files("style.css", "HEAD", **takes)
    plain = await hubs_files("style.css")
    smaller = await packed_by_brotli(lambda: hubs_files("style.css", **{"Accept-Encoding": "gzip, br"}))
    seen = {"If-Modified-Since": packed.headers["Last-Modified"]}

    assert gzip.decompress(packed.body) == brotli.decompress(smaller.body) == plain.body == b"p{}\n" * 500
    assert "Content-Encoding" not in plain.headers
    assert "max-age" in packed.headers["Cache-Control"]
    assert plain.headers["Cache-Control"] == "no-cache"
    assert not head.body
    assert int(head.headers["Content-Length"]) == len(packed.body)
    assert {answer.headers["Vary"] for answer in (packed, head, plain, smaller)} == {"Accept-Encoding"}
    assert {answer.headers["Content-Type"] for answer in (packed, head, plain, smaller)} == {"text/css"}
    assert (await hubs_files("style.css", **takes, **seen)).code == 304
    assert (await hubs_files("small.css", **takes)).body == b"p{}"
    assert (await hubs_files("style.css", **takes, Range="bytes=0-2")).body == b"p{}"


@pytest.mark.parametrize(("name", "code"), [("absent.css", 404), ("../secret", 403), ("%2e%2e/secret", 403), ("", 403)])
async def test_none_but_the_hubs_own_files(hubs_files: Any, name: str, code: int) -> None:
    assert (await hubs_files(name, **{"Accept-Encoding": "gzip"})).code == code


def test_every_part_of_the_list_is_one_of_the_installed_jupyterlab() -> None:
    named = [name.partition(".")[0] for name in LabAssets(FOLDER).first()]

    assert sorted(named) == sorted(FIRST)


def test_a_key_is_of_exactly_these_files(folder: Path, tmp_path: Path) -> None:
    before = key_of(folder)
    (folder / MAIN).rename(folder / "main.fedcba9876543210.js")

    assert before != key_of(folder)
    assert len(before) == 16
    assert key_of(tmp_path / "absent") == ""
    assert LabAssets(tmp_path / "absent").first() == []


@pytest.fixture
def said() -> Iterator[Any]:
    """What the hub has said to this session, which forgets it afterwards."""
    yield hubs_lab
    hubs_lab.key = ""


def page(application: Application, own: str = "/portal/user/alice/static/lab") -> str:
    """Where a page of a session loads JupyterLab's files from."""
    hook = application.settings["page_config_hook"]
    return str(hook(None, {"fullStaticUrl": own})["fullStaticUrl"])


def session(folder: Path, environ: dict[str, str]) -> Application:
    """A session's application with JupyterHub's own hook."""
    application = Application(base_url="/portal/user/alice/", page_config_hook=lambda _, config: {**config, "hub": 1})
    lab_page.install(application, environ, folder)
    return application


def test_the_page_of_a_session_loads_from_the_hub_what_the_hub_has(folder: Path, said: Any) -> None:
    application = session(folder, OF_A_SESSION)
    own = "/portal/user/alice/static/lab"
    hubs = f"{HUB}/portal/hub/dsportal/lab/{key_of(folder)}"

    assert page(application) == own  # the hub has said nothing yet
    said.key = key_of(folder)
    assert page(application) == hubs
    assert page(application, hubs) == hubs  # jupyterlab_server keeps what a page was told
    assert page(application, "/portal/user/alice/static/notebook") == "/portal/user/alice/static/notebook"
    said.key = "f" * 16  # the hub has another version now
    assert page(application, hubs) == own


def test_no_page_asks_whether_jupyterlab_is_built(folder: Path, said: Any) -> None:
    hook = session(folder, OF_A_SESSION).settings["page_config_hook"]
    told = hook(None, {"buildCheck": True, "buildAvailable": True})

    assert (told["buildCheck"], told["buildAvailable"]) == (False, False)


def test_no_page_loads_an_extension_that_is_off(folder: Path, said: Any) -> None:
    hook = session(folder, OF_A_SESSION).settings["page_config_hook"]
    own, other = {"name": "dsportal-lab"}, {"name": "@jupyterhub/jupyter-server-proxy"}

    told = hook(None, {"federated_extensions": [own, other], "disabledExtensions": [other["name"]]})

    assert told["federated_extensions"] == [own]


def test_the_portals_own_part_is_off_for_nobody(folder: Path, said: Any) -> None:
    """Whoever has it off in JupyterLab's settings would be shown no files."""
    hook = session(folder, OF_A_SESSION).settings["page_config_hook"]
    own = {"name": "dsportal-lab"}

    told = hook(None, {"federated_extensions": [own], "disabledExtensions": ["theirs", own["name"]]})

    assert told["federated_extensions"] == [own]
    assert "theirs" in told["disabledExtensions"]
    assert own["name"] not in told["disabledExtensions"]


@pytest.mark.parametrize("debugger", [False, True])
def test_a_page_has_no_language_servers_and_a_debugger_only_where_kernels_have_one(
    folder: Path, said: Any, *, debugger: bool
) -> None:
    application = Application(base_url="/portal/user/alice/", page_config_hook=lambda _, config: config)
    lab_page.install(application, OF_A_SESSION, folder, debugger=debugger)

    off = application.settings["page_config_hook"](None, {"disabledExtensions": ["theirs"]})["disabledExtensions"]

    assert {"theirs", "@jupyterlab/lsp-extension"} <= set(off)
    assert ("@jupyterlab/debugger-extension" in off) is not debugger


def test_without_a_hub_nothing_is_changed(folder: Path, said: Any) -> None:
    said.key = key_of(folder)

    assert page(session(folder, {})) == "/portal/user/alice/static/lab"


def test_the_pages_have_the_portals_script_first_and_ask_for_their_files_without_cookies(folder: Path) -> None:
    source = '<!doctype html><html><head><title>x</title><script src="{{page_config.fullStaticUrl}}/a.js"></script>'
    environment = Environment(autoescape=True)
    application = Application(base_url="/", jupyterlab_jinja2_env=environment)

    lab_page.install(application, {}, folder, first="if ({{}} < 1) {}")

    text = environment.from_string(source).render(page_config={"fullStaticUrl": "/hub"})
    assert text.split("<head>")[1] == (
        '<script>if ({{}} < 1) {}</script><title>x</title><script crossorigin="anonymous" src="/hub/a.js"></script>'
    )


class Answer(RequestHandler):
    """The same long text at every address."""

    def get(self) -> None:
        self.set_header("Content-Type", "application/json")
        self.write("x" * 5000)


@pytest.mark.parametrize(
    ("path", "is_packed"),
    [
        ("lab/api/settings", True),
        ("lab/extensions/x/remoteEntry.js", True),
        ("files/big.csv", False),
        ("api/contents/x", False),
        ("lab", False),
    ],
)
async def test_a_session_packs_what_jupyterlab_starts_with_alone(folder: Path, path: str, is_packed: bool) -> None:
    application = session(folder, OF_A_SESSION)
    application.add_handlers(".*", [(".*", Answer)])
    server = HTTPServer(application)
    sock, port = bind_unused_port()
    server.add_socket(sock)

    url = f"http://127.0.0.1:{port}/portal/user/alice/{path}"
    answer = await AsyncHTTPClient().fetch(url, headers={"Accept-Encoding": "gzip"}, decompress_response=False)

    assert ("Content-Encoding" in answer.headers) == is_packed
    server.stop()
