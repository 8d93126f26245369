"""TensorBoard in a session: which folders it shows, and what reaches its process."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.web import Application, RequestHandler

from portal.homes import cache_folders
from portal.session_settings import SessionSettings, StorageFolder
from portal.session_usage.end_time import EndTime
from portal.singleuser.extension import runtime_folder, session_facts
from portal.tensorboard import boards, listed
from portal.tensorboard.boards import Boards, command, environment
from portal.tensorboard.error_page import page
from portal.tensorboard.folders import FolderRefused, Folders
from portal.tensorboard.proxy import BoardHandler


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """A home with a training's folder, a storage folder linked in it, and somebody else's home."""
    home, storage, other = tmp_path / "home" / "alice", tmp_path / "isilon", tmp_path / "home" / "bob"
    for folder in (home / "logs" / "run 1", home / "größe", storage / "logs", other / "logs"):
        folder.mkdir(parents=True)
    (home / "isilon").symlink_to(storage)
    (home / "out").symlink_to(other)
    (home / "loop").symlink_to(home / "loop")
    (home / "notes.txt").touch()
    return Folders(home, (storage,))


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("logs", "home/alice/logs"),
        ("logs/", "home/alice/logs"),
        ("logs/run 1", "home/alice/logs/run 1"),
        ("größe", "home/alice/größe"),
        ("logs/../logs/./run 1", "home/alice/logs/run 1"),
        ("isilon/logs", "isilon/logs"),
    ],
)
def test_folders_below_the_home_and_the_storage_are_shown(
    folders: Folders, tmp_path: Path, path: str, real: str
) -> None:
    assert folders.resolve(path) == tmp_path / real
    assert folders.resolve(str(tmp_path / real)) == tmp_path / real, "a whole path works as well"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("..", 403),
        ("../bob/logs", 403),
        ("logs/../../bob/logs", 403),
        ("out/logs", 403),
        ("/etc", 403),
        ("/", 403),
        ("../alice-not", 403),
        ("../../isilon-not/logs", 403),
        ("", 400),
        (".", 400),
        ("isilon", 400),
        ("notes.txt", 400),
        ("missing", 404),
        ("notes.txt/x", 404),
        ("loop", 400),
        ("a\0b", 400),
        ("x" * 5000, 404),
    ],
)
def test_every_other_path_is_refused_in_words(folders: Folders, path: str, status: int) -> None:
    with pytest.raises(FolderRefused) as refused:
        folders.resolve(path)
    assert refused.value.status == status
    assert (path or "your home folder") in refused.value.fault
    assert refused.value.advice.endswith(".")


def test_a_refusal_names_what_is_allowed(folders: Folders, tmp_path: Path) -> None:
    with pytest.raises(FolderRefused, match=f"folders under your home folder and {tmp_path / 'isilon'}"):
        folders.resolve("/etc")


def test_what_a_page_shows_is_text(folders: Folders) -> None:
    with pytest.raises(FolderRefused) as refused:
        folders.resolve("<script>alert(1)</script>")
    html = page(refused.value.fault, refused.value.advice, "/user/alice/", "<b>log</b>")
    assert "<script>" not in html
    assert "<b>" not in html


def test_one_real_folder_has_one_board(folders: Folders, tmp_path: Path) -> None:
    opened = Boards(tmp_path / "run")
    board = opened.open(folders.resolve("isilon/logs"))
    assert opened.open(folders.resolve("isilon/../isilon/logs")) is board
    assert opened.open(folders.resolve("logs")).id != board.id
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("mode", "uid", "is_chosen"), [(0o755, 0, True), (0o755, 54321, False), (0o777, 0, False)])
def test_a_folder_to_which_a_link_of_others_leads_has_a_board_of_its_own(
    folders: Folders, tmp_path: Path, mode: int, uid: int, is_chosen: bool
) -> None:
    """It shows no profiles; nor where a link of one's own leads there that others may have put where it is."""
    tmp_path.chmod(0o755)
    (folders.home / "project").mkdir()
    (folders.home / "project").chmod(mode)
    (folders.home / "project" / "link").symlink_to(folders.home / "logs")
    os.lchown(folders.home / "project" / "link", uid, -1)
    real = folders.resolve("project/link")
    assert (real, folders.is_chosen("logs", real)) == (folders.home / "logs", True)
    assert folders.is_chosen("project/link", real) is is_chosen
    assert folders.is_chosen("isilon", real) is False, "that path has meanwhile another folder"
    opened = Boards(tmp_path / "run")
    board = opened.open(real, is_chosen=is_chosen)
    assert (board is opened.open(real)) is is_chosen
    assert ("led" in command(board.socket, real, is_chosen=board.is_chosen)) is not is_chosen


async def test_an_unknown_board_is_none(tmp_path: Path) -> None:
    assert await Boards(tmp_path).use("0" * 16) is None


def test_the_process_learns_nothing_secret_and_nothing_of_the_modules(tmp_path: Path) -> None:
    environ = {
        "HOME": "/home/alice",
        "LANG": "C.UTF-8",
        "JUPYTERHUB_API_TOKEN": "secret",
        "PYTHONPATH": "/modules",
        "PATH": "/modules/bin",
        "LD_LIBRARY_PATH": "/modules/lib",
    }
    assert environment(environ, tmp_path) == {
        "HOME": "/home/alice",
        "LANG": "C.UTF-8",
        "PATH": os.defpath,
        "TMPDIR": str(tmp_path),
        "TF_CPP_MIN_LOG_LEVEL": "1",
    } | cache_folders.with_own({"HOME": "/home/alice"})


def test_a_folder_whose_name_looks_like_an_option_stays_a_folder(tmp_path: Path) -> None:
    argv = command(tmp_path / "x.sock", Path("/home/alice/--bind_all"))
    assert argv[1] == "-I"
    assert argv[-2:] == ["/home/alice/--bind_all", "--bind_all · TensorBoard"]


def test_sockets_lie_where_their_path_is_short_enough(tmp_path: Path) -> None:
    assert runtime_folder("/tmp/dsp-x") == Path("/tmp/dsp-x/tensorboard")
    other = runtime_folder(f"/tmp/{'x' * 90}")
    assert len(str(other)) < 60
    assert other.stat().st_mode & 0o777 == 0o700
    other.rmdir()


def test_the_facts_of_a_session() -> None:
    settings = SessionSettings("GPU Portal", storage=(StorageFolder("isilon", "/mnt/isilon"),))
    assert session_facts(settings, EndTime({"SLURM_JOB_END_TIME": "1700000000"})) == {
        "title": "GPU Portal",
        "storage": [{"name": "isilon", "path": "/mnt/isilon"}],
        "ends_at": 1700000000,
        "templates": "templates",
    }


class Echo(RequestHandler):
    """Stands for TensorBoard: answers with what reached it."""

    def get(self) -> None:
        headers = {name.lower(): value for name, value in self.request.headers.get_all()}
        font = "url(/font-roboto/a.woff2)"
        self.finish(json.dumps({"headers": headers, "uri": self.request.uri, "css": font}))

    post = get


class OneBoard:
    """The boards of a session that has one, with :class:`Echo` behind it."""

    def __init__(self, socket: Path) -> None:
        self.socket, self.id, self.folder = socket, "0" * 16, Path("/home/alice/logs <b>")
        self.is_ready = True
        self.asked: list[tuple[float, bool]] = []

    def ready(self, board_id: str) -> OneBoard | None:
        return self if board_id == self.id and self.is_ready else None

    async def use(self, board_id: str, within_s: float, *, wakes: bool) -> OneBoard | None:
        self.asked.append((within_s, wakes))
        return self if board_id == self.id else None


class OpenBoardHandler(BoardHandler):
    """Without Jupyter's authentication, which the session tests look at."""

    current_user = "alice"

    async def prepare(self) -> None:
        return None


@pytest.fixture
def board(tmp_path: Path) -> OneBoard:
    """The board of :func:`address`."""
    return OneBoard(tmp_path / "echo.sock")


@pytest.fixture
async def address(board: OneBoard) -> AsyncIterator[str]:
    """A proxy on a port and :class:`Echo` on a Unix socket; gives the board's address."""
    socket = board.socket
    echo = HTTPServer(Application([(".*", Echo)]))
    echo.add_socket(bind_unix_socket(str(socket)))
    routes = [(r"/tensorboard/([0-9a-f]{16})(/.*)", OpenBoardHandler, {"boards": board})]
    proxy = HTTPServer(Application(routes, base_url="/"))
    sockets = bind_sockets(0, "127.0.0.1")
    proxy.add_sockets(sockets)
    yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}/tensorboard/{'0' * 16}"
    proxy.stop()
    echo.stop()


async def fetch(url: str, **headers: str) -> HTTPResponse:
    return await AsyncHTTPClient().fetch(url, headers=headers, raise_error=False)


async def test_nothing_that_proves_who_a_person_is_reaches_the_process(address: str) -> None:
    secrets = {"Cookie": "jupyterhub-session=x", "Authorization": "token x", "X-XSRFToken": "x"}
    seen = json.loads((await fetch(f"{address}/data/runs?tag=a&token=x&plugin=b", **secrets)).body)
    assert not {"cookie", "authorization", "x-xsrftoken"} & seen["headers"].keys()
    assert seen["uri"] == "/data/runs?tag=a&plugin=b"


async def test_a_query_without_a_token_goes_through_as_it_is(address: str) -> None:
    seen = json.loads((await fetch(f"{address}/data/x?a=%2B+b&a=&c")).body)
    assert seen["uri"] == "/data/x?a=%2B+b&a=&c"


async def test_fonts_are_asked_for_below_the_board(address: str) -> None:
    assert json.loads((await fetch(f"{address}/")).body)["css"] == "url(font-roboto/a.woff2)"
    assert json.loads((await fetch(f"{address}/other")).body)["css"] == "url(/font-roboto/a.woff2)"


async def test_a_board_of_an_earlier_session_gets_a_plain_page(address: str) -> None:
    answer = await fetch(f"{address.removesuffix('0')}1/")
    assert answer.code == 404
    assert b"belongs to an earlier session" in answer.body


async def test_a_board_that_takes_long_has_a_page_that_says_so_and_looks_again(address: str, board: OneBoard) -> None:
    """No proxy before the portal has to wait: the start goes on without the request that began it."""
    board.is_ready = False
    answer = await fetch(f"{address}/")
    assert (answer.code, answer.headers["Refresh"], answer.headers["Cache-Control"]) == (200, "2", "no-store")
    assert "TensorBoard is starting …" in answer.body.decode()
    assert b"logs &lt;b&gt;" in answer.body
    data = await fetch(f"{address}/data/runs")
    assert (data.code, "Refresh" in data.headers) == (503, False)
    assert board.asked == [(4, True), (25, False)]


PROGRAM = """
import pathlib, socket, sys, time
gate = pathlib.Path(sys.argv[2])
while not gate.exists():
    time.sleep(0.01)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
time.sleep(600)
"""


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file without which a board does not listen."""
    file = tmp_path / "gate"
    program = [sys.executable, "-c", PROGRAM]
    monkeypatch.setattr(boards, "command", lambda socket, _, **__: [*program, str(socket), str(file)])
    return file


async def test_a_slow_start_is_one_start_for_all_who_ask(tmp_path: Path, gate: Path) -> None:
    opened = Boards(tmp_path / "run")
    board = opened.open(tmp_path)
    assert await opened.use(board.id, 0.01) is board
    assert (board.running, board.is_ready) == (True, False)
    first = board.pid
    waiting = [asyncio.create_task(opened.use(board.id)) for _ in range(3)]
    gate.touch()
    await asyncio.gather(*waiting)
    assert (board.is_ready, board.pid) == (True, first)
    await board.stop()


async def test_who_stops_a_board_has_it_stopped_until_it_is_opened_again(tmp_path: Path, gate: Path) -> None:
    gate.touch()
    opened = Boards(tmp_path / "run")
    board = opened.open(tmp_path)
    await opened.use(board.id)
    shown_before = listed.shown(board, tmp_path.parent)
    assert shown_before == {
        "id": board.id,
        "folder": tmp_path.name,
        "since": board.started_at,
        "path": f"tensorboard/{board.id}/",
    }
    assert await opened.stop(board.id)
    await opened.use(board.id, wakes=False)  # what a page that is still open asks for
    assert not board.running
    await opened.use(board.id)
    assert board.running
    await board.stop()
    assert not await opened.stop("0" * 16)


def test_the_files_of_tensorboards_page_are_those_that_it_would_serve_itself() -> None:
    """Each of them, and each a gzip file that holds what TensorBoard's own packing holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what TensorBoard imports
        from tensorboard.assets import get_default_assets_zip_provider
        from tensorboard.plugins.core import core_plugin

        from portal.tensorboard import assets
    taken: dict[str, bytes] = {}
    plugin = SimpleNamespace(
        _assets_zip_provider=get_default_assets_zip_provider(),
        _serve_asset=lambda path, content: taken.update({f"/{path}": content}),
        _serve_index=lambda content: taken.update({"/": content}),
    )
    stock = core_plugin.CorePlugin.get_resource_apps(plugin)
    expected = stock_files(stock, taken)
    found = stock_files(assets.resource_apps(plugin), taken)
    assert found.keys() == {path for path in expected if not path.endswith("/") or path == "/"}
    assert all(found[path] == expected[path] for path in found)
    assert len(found) > 20


def stock_files(apps: dict[str, Any], taken: dict[str, bytes]) -> dict[str, bytes]:
    """What each application has, unpacked."""
    taken.clear()
    for app in apps.values():
        app()
    return {path: content if path == "/" else gzip.decompress(content) for path, content in taken.items()}
