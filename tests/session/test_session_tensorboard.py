"""TensorBoard in a running session: who reaches it, what it knows, when it starts and ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.tensorboard import boards
from portal.tensorboard.boards import BoardFailed, Boards
from tests.forms import of_long_form
from tests.session.session_server import HUB_SECRET, Server, wait_for, write_scalars


def process_of(board: str, server: Server) -> Path | None:
    """The process behind an address ``tensorboard/<id>/``, as its folder in /proc."""
    socket = f"{server.runtime}/tensorboard/{board.split('/')[1]}.sock".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if socket in (process / "cmdline").read_bytes().split(b"\0"):
                return process
        except OSError:
            continue
    return None


def listening(process: Path) -> list[str]:
    """The TCP sockets on which a process listens."""
    inodes = set()
    for descriptor in (process / "fd").iterdir():
        target = str(descriptor.readlink())
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    tables = [(process / "net" / table).read_text().splitlines()[1:] for table in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table]
    return [row[1] for row in rows if row[3] == "0A" and row[9] in inodes]


def test_it_shows_what_a_training_wrote(server: Server) -> None:
    board = server.board("logs")
    assert server.ask(board)[0] == 200
    tags = wait_for("runs", lambda: server.json(f"{board}data/plugin/scalars/tags"))
    assert {run: list(of_run) for run, of_run in tags.items()} == {"train": ["test_accuracy"]}


def test_every_spelling_of_a_folder_opens_the_same_board(server: Server) -> None:
    boards = {server.board(path) for path in ("logs", "logs/", "logs/../logs", str(server.home / "logs"))}
    assert len(boards) == 1
    assert server.board("logs/train") not in boards


def test_a_folder_with_spaces_and_nothing_in_it_works(server: Server) -> None:
    board = server.board("projects/first%20run")
    assert server.ask(board)[0] == 200
    assert server.json(f"{board}data/runs") == []
    assert "first run" in server.json(f"{board}data/environment")["window_title"]


@pytest.mark.parametrize(
    "path", ["tensorboard/open?path=logs", "tensorboard/0123456789abcdef/", "dsportal/api/session"]
)
def test_nobody_without_a_login_gets_an_answer(server: Server, path: str) -> None:
    status, text = server.ask(path, token="")
    assert status in (302, 403)
    assert "login" in text or "Forbidden" in text


def test_an_unknown_board_says_how_to_open_it_again(server: Server) -> None:
    status, text = server.ask("tensorboard/0123456789abcdef/")
    assert (status, "earlier session" in text) == (404, True)


@pytest.mark.parametrize(("path", "status"), [("..", 403), ("/etc", 403), ("missing", 404), ("notes.txt", 400)])
def test_other_folders_get_a_plain_page(server: Server, path: str, status: int) -> None:
    answer = server.ask(f"tensorboard/open?path={path}")
    assert answer[0] == status
    assert path in answer[1]


def test_it_listens_on_a_private_socket_and_on_no_port(server: Server) -> None:
    board = server.board("logs")
    server.ask(board)
    process = process_of(board, server)
    assert process is not None
    assert listening(process) == []
    folder = server.runtime / "tensorboard"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / f"{board.split('/')[1]}.sock").stat().st_mode & 0o077 == 0


def test_its_process_knows_no_secret(server: Server) -> None:
    board = server.board("logs")
    server.ask(board)
    process = process_of(board, server)
    assert process is not None
    assert HUB_SECRET.encode() not in (process / "environ").read_bytes()
    assert HUB_SECRET.encode() not in (process / "cmdline").read_bytes()


def test_looking_at_it_does_not_keep_a_session_alive(server: Server) -> None:
    """Its page asks for new data again and again, also when nobody is there."""
    board = server.board("logs")
    server.ask(board)
    before = server.json("api/status")["last_activity"]
    server.ask(board)
    server.ask(f"{board}data/runs")
    server.ask("dsportal/api/session")
    assert server.json("api/status")["last_activity"] == before


def test_the_lab_extension_learns_of_the_session(server: Server) -> None:
    assert server.json("dsportal/api/session") == {
        "title": "Test Portal",
        "storage": [],
        "ends_at": None,
        "templates": "templates",
    }


def test_a_session_has_no_way_to_other_ports_of_its_node(server: Server) -> None:
    """jupyter-server-proxy's /proxy/PORT would open what other people run there, as this person."""
    assert server.ask("proxy/8000")[0] == 404
    assert server.ask("proxy/localhost:8000")[0] == 404


@pytest.mark.parametrize("end", [of_long_form("terminate"), "kill"])
def test_it_ends_with_the_server(start_server: Callable[[], Server], end: str) -> None:
    server = start_server()
    write_scalars(server.home / "logs")
    board = server.board("logs")
    server.ask(board)
    assert process_of(board, server)
    getattr(server.process, end)()
    server.process.wait()
    wait_for("end of TensorBoard", lambda: process_of(board, server) is None)


def test_several_boards_are_listed_and_stopped(start_server: Callable[[], Server]) -> None:
    """A page of a stopped one that is still open asks for data and does not start it again; who opens it does."""
    server = start_server()
    for folder in ("one", "two"):
        write_scalars(server.home / folder)
    opened = {folder: server.board(folder) for folder in ("one", "two")}
    assert server.json("dsportal/api/tensorboards") == {"tensorboards": []}
    for board in opened.values():
        assert server.ask(board)[0] == 200  # that it starts, where that takes long
    wait_for("both of them", lambda: len(server.json("dsportal/api/tensorboards")["tensorboards"]) == 2)
    before = server.json("api/status")["last_activity"]
    found = server.json("dsportal/api/tensorboards")["tensorboards"]
    assert {one["folder"]: one["path"] for one in found} == opened
    assert abs(found[0]["since"] - time.time()) < 60
    assert server.json("api/status")["last_activity"] == before

    address = f"dsportal/api/tensorboards/{found[0]['id']}"
    assert server.ask(address, "DELETE", token="")[0] == 403
    assert server.ask(address, "DELETE")[0] == 204
    assert server.ask("dsportal/api/tensorboards/0123456789abcdef", "DELETE")[0] == 404
    assert server.ask(f"{found[0]['path']}data/runs")[0] == 503
    assert [one["id"] for one in server.json("dsportal/api/tensorboards")["tensorboards"]] == [found[1]["id"]]
    assert server.ask(found[0]["path"])[0] == 200
    wait_for("both of them", lambda: len(server.json("dsportal/api/tensorboards")["tensorboards"]) == 2)


async def test_it_stops_when_nobody_looks_and_starts_again_at_the_same_address(tmp_path: Path) -> None:
    now_s = 1000.0
    opened = Boards(tmp_path / "run", idle_min=30, clock=lambda: now_s)
    board = opened.open(tmp_path)
    await opened.use(board.id)
    first = board.pid
    now_s += 29 * 60
    await opened.stop_idle()
    assert board.running
    now_s += 60
    await opened.stop_idle()
    assert not board.running
    assert not board.socket.exists()
    assert await opened.use(board.id) is board
    assert board.running
    assert board.pid != first
    await board.stop()


async def test_a_process_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last words are in the error, for the page and the log; the next look tries again."""
    dying = [sys.executable, "-c", "raise SystemExit('no space left on device')"]
    monkeypatch.setattr(boards, "command", lambda *_, **__: dying)
    opened = Boards(tmp_path / "run")
    board = opened.open(tmp_path)
    for _ in range(2):
        with pytest.raises(BoardFailed) as failed:
            await opened.use(board.id)
        assert failed.value.detail == "no space left on device"


def test_an_address_alone_shows_a_board_that_runs_and_wakes_none(server: Server) -> None:
    board = server.board("logs")
    assert server.ask(board, Sec_Fetch_Site="same-origin")[0] == 200
    assert server.ask(board, Sec_Fetch_Site="none")[0] == 200

    server.ask(f"dsportal/api/tensorboards/{board.split('/')[1]}", "DELETE")

    status, text = server.ask(board, Sec_Fetch_Site="none")
    assert (status, "Open it</a>" in text) == (403, True)
    assert board not in [one["path"] for one in server.json("dsportal/api/tensorboards")["tensorboards"]]
    assert server.ask(board, Sec_Fetch_Site="same-origin")[0] == 200


LETTER = {"Sec_Fetch_Site": "none", "Sec_Fetch_Dest": "document", "Sec_Fetch_Mode": "navigate"}
PICTURE = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "image", "Sec_Fetch_Mode": "no-cors"}
ITS_PAGE = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "empty", "Sec_Fetch_Mode": "cors"}
BY_CLICK = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document", "Sec_Fetch_Mode": "navigate"}


def ended(server: Server) -> str:
    """The address of a board that has ended by itself, as one does that nobody looks at."""
    board = server.board("logs")
    wait_for("board", lambda: server.ask(f"{board}data/environment")[0] == 200)
    process = process_of(board, server)
    assert process is not None
    os.kill(int(process.name), signal.SIGTERM)
    wait_for("its end", lambda: not runs(board, server))
    return board


def runs(board: str, server: Server) -> bool:
    """Whether a board is listed as running."""
    return board in [one["path"] for one in server.json("dsportal/api/tensorboards")["tensorboards"]]


@pytest.mark.parametrize("asked", [LETTER, PICTURE], ids=["by an address alone", "by a picture of a page"])
@pytest.mark.parametrize("path", ["", "index.html", "%3F", "%3Fx=1", "%23", "data/environment", "index.js"])
def test_one_that_has_ended_starts_for_nobody_but_the_person_and_its_own_page(
    server: Server, path: str, asked: dict[str, str]
) -> None:
    board = ended(server)

    assert server.ask(f"{board}{path}", **asked)[0] == 403
    assert not runs(board, server)


@pytest.mark.parametrize(
    ("path", "asked"), [("data/environment", ITS_PAGE), ("data/environment", BY_CLICK), ("", BY_CLICK)]
)
def test_one_that_has_ended_starts_for_its_own_page_and_a_click(
    server: Server, path: str, asked: dict[str, str]
) -> None:
    board = ended(server)

    assert server.ask(f"{board}{path}", **asked)[0] == 200
    wait_for("board", lambda: runs(board, server))


def test_a_page_of_it_that_asks_for_a_page_starts_none(server: Server) -> None:
    board = ended(server)

    assert server.ask(f"{board}%3F", **ITS_PAGE)[0] == 403
    assert not runs(board, server)
