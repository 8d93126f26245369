"""A person's own program on a socket of the session: its page and web socket, for that person only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import websocket

from tests.session.session_server import TOKEN, Server, wait_for

PROGRAM = """
import asyncio, sys
from tornado import web, websocket
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
class Page(web.RequestHandler):
    def get(self):
        self.write({"uri": self.request.uri, "headers": sorted(self.request.headers)})
class Echo(websocket.WebSocketHandler):
    def on_message(self, message):
        self.write_message("heard " + message)
async def main():
    HTTPServer(web.Application([("/echo", Echo), ("/.*", Page)])).add_socket(bind_unix_socket(sys.argv[1], 0o600))
    await asyncio.Event().wait()
asyncio.run(main())
"""


def takes(address: Path) -> bool:
    """Whether somebody takes connections there: the file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(address)) == 0


@pytest.fixture(scope="module")
def folder(server: Server) -> Iterator[Path]:
    """The folder of the sockets, with a program of the person's on one, a file and a link."""
    folder = server.runtime / "sockets"
    folder.mkdir(mode=0o700)
    (folder / "file.sock").write_text("")
    (folder / "link.sock").symlink_to(folder / "mine.sock")
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder / "mine.sock")]) as program:
        wait_for("program", lambda: takes(folder / "mine.sock"))
        yield folder
        program.terminate()


def test_its_page_is_told_nothing_that_proves_who_asks(server: Server, folder: Path) -> None:
    answer = server.json(f"sockets/mine/status?token={TOKEN}&n=1")
    assert answer["uri"] == "/status?n=1"
    assert not {"Authorization", "Cookie"} & set(answer["headers"])


def connected(server: Server, path: str) -> websocket.WebSocket:
    """A web socket at an address of the session."""
    address = server.url.replace("http", "ws", 1) + path
    return websocket.create_connection(
        address, timeout=30, header=[f"Authorization: token {TOKEN}"], http_no_proxy=["127.0.0.1", "localhost"]
    )


def test_its_web_socket_comes_through(server: Server, folder: Path) -> None:
    opened = connected(server, "sockets/mine/echo")
    try:
        opened.send("a word")
        assert opened.recv() == "heard a word"
    finally:
        opened.close()


def test_a_web_socket_to_nothing_ends_with_a_word(server: Server, folder: Path) -> None:
    opened = connected(server, "sockets/none/echo")
    try:
        kind, data = opened.recv_data()
    finally:
        opened.shutdown()  # type: ignore[no-untyped-call]  # its close() leaves a socket whose other side went first
    assert kind == websocket.ABNF.OPCODE_CLOSE
    assert (int.from_bytes(data[:2], "big"), data[2:]) == (1001, b"Nothing listens at this address.")


def test_a_link_of_another_page_is_told_where_it_leads(server: Server, folder: Path) -> None:
    status, text = server.ask("sockets/mine/status", Sec_Fetch_Site="cross-site")
    assert status == 403
    assert "to a program of your session." in text


def test_nobody_else_gets_it(server: Server, folder: Path) -> None:
    assert server.ask("sockets/mine/status", token="")[0] in (302, 403)


@pytest.mark.parametrize("name", ["none", "file", "link", "..%2fmine"])
def test_what_is_no_socket_of_the_person_is_not_there(server: Server, folder: Path, name: str) -> None:
    assert server.ask(f"sockets/{name}/status")[0] == 404


def test_a_program_that_knows_of_no_other_folder_has_jupyters_in_the_home(server: Server) -> None:
    folder = server.home / ".local/share/jupyter/runtime/sockets"
    folder.mkdir(parents=True, mode=0o700)
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder / "of_home.sock")]) as program:
        wait_for("program", lambda: takes(folder / "of_home.sock"))
        assert server.json("sockets/of_home/status")["uri"] == "/status"
        folder.chmod(0o755)
        assert server.ask("sockets/of_home/status")[0] == 404
        program.terminate()


def test_a_folder_that_others_may_enter_is_not_used(server: Server, folder: Path) -> None:
    folder.chmod(0o755)
    assert server.ask("sockets/mine/status")[0] == 404
    folder.chmod(0o700)
    assert server.ask("sockets/mine/status")[0] == 200
    assert folder.stat().st_uid == os.geteuid()
