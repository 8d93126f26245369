"""A person's own program on a socket of the session: its page and web socket, for that person only."""

from __future__ import annotations

import os
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


@pytest.fixture(scope="module")
def folder(server: Server) -> Iterator[Path]:
    """The folder of the sockets, with a program of the person's on one, a file and a link."""
    folder = server.runtime / "sockets"
    folder.mkdir(mode=0o700)
    (folder / "file.sock").write_text("")
    (folder / "link.sock").symlink_to(folder / "mine.sock")
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder / "mine.sock")]) as program:
        wait_for("socket", (folder / "mine.sock").exists)
        yield folder
        program.terminate()


def test_its_page_is_told_nothing_that_proves_who_asks(server: Server, folder: Path) -> None:
    answer = server.json(f"sockets/mine/status?token={TOKEN}&n=1")
    assert answer["uri"] == "/status?n=1"
    assert not {"Authorization", "Cookie"} & set(answer["headers"])


def test_its_web_socket_comes_through(server: Server, folder: Path) -> None:
    address = server.url.replace("http", "ws", 1) + "sockets/mine/echo"
    opened = websocket.create_connection(
        address, timeout=30, header=[f"Authorization: token {TOKEN}"], http_no_proxy=["127.0.0.1", "localhost"]
    )
    try:
        opened.send("a word")
        assert opened.recv() == "heard a word"
    finally:
        opened.close()


def test_nobody_else_gets_it(server: Server, folder: Path) -> None:
    assert server.ask("sockets/mine/status", token="")[0] in (302, 403)


@pytest.mark.parametrize("name", ["none", "file", "link", "..%2fmine"])
def test_what_is_no_socket_of_the_person_is_not_there(server: Server, folder: Path, name: str) -> None:
    assert server.ask(f"sockets/{name}/status")[0] == 404


def test_a_folder_that_others_may_enter_is_not_used(server: Server, folder: Path) -> None:
    folder.chmod(0o755)
    assert server.ask("sockets/mine/status")[0] == 404
    folder.chmod(0o700)
    assert server.ask("sockets/mine/status")[0] == 200
    assert folder.stat().st_uid == os.geteuid()
