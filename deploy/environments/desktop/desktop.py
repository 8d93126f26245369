"""A desktop as a web tool: a screen of TigerVNC with a window manager, shown by noVNC's pages on one Unix socket.

    python3 desktop.py SOCKET BASE [PROGRAM ARGUMENT…]

BASE is the path of the tool's address; the program is what draws the desktop, and the tool ends with it. It needs
Tornado, which every Python with ipykernel has, and Debian's packages ``tigervnc-standalone-server``, ``novnc`` and
``icewm``. Nothing of it listens on a port: the screen is a socket of mode 0600 beside SOCKET, in a folder that only its
owner may enter, and programs get onto the screen with its cookie alone (Xsecurity(7)).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import struct
import sys
import tempfile
from asyncio.subprocess import Process
from pathlib import Path

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler, StaticFileHandler
from tornado.websocket import WebSocketHandler

PAGES = "/usr/share/novnc"
PROGRAM = ("icewm-session", "--nobg")  # a picture would not follow the window's size
SIZE = "1280x800"  # until a page is open, which makes it as large as its window
READ_BYTES = 64 * 1024
SCREENS_TRIED = 5
SCREENS = range(100, 59_000)  # their numbers; X counts ports from 6000 on by them, also where it opens none
ANY_HOST = 0xFFFF  # FamilyWild, X11/Xauth.h


class FirstPage(RequestHandler):
    """``/``: noVNC's page, told where the screen is."""

    def initialize(self, base: str) -> None:
        """Take the path of the tool's address."""
        self.base = base

    def get(self) -> None:
        """Lead there. noVNC reads its fragment first: without one of ours it would be that of a link to here."""
        self.redirect(f"vnc.html?autoconnect=true&resize=remote&path={self.base.strip('/')}/screen#")


class ScreenSocket(WebSocketHandler):
    """``/screen``: the bytes of VNC, from the page to the screen's socket and back."""

    def initialize(self, screen: Path) -> None:
        """Take the socket of the screen."""
        self.screen = screen
        self.reading: asyncio.Task[None] | None = None

    def check_origin(self, origin: str) -> bool:
        """The session's server has looked at it, and nobody else reaches this socket."""
        return True

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """What older noVNC asks for."""
        return "binary" if "binary" in subprotocols else None

    async def open(self, *_: str, **__: str) -> None:
        """Connect, and begin to hand on what the screen sends."""
        reader, self.writer = await asyncio.open_unix_connection(self.screen)
        self.reading = asyncio.create_task(self._hand_on(reader))

    async def _hand_on(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(READ_BYTES):
            await self.write_message(data, binary=True)
        self.close()

    async def on_message(self, message: str | bytes) -> None:
        """What the page sends."""
        self.writer.write(message if isinstance(message, bytes) else message.encode())
        await self.writer.drain()

    def on_close(self) -> None:
        """The page is gone; the desktop stays as it is for the next one."""
        if self.reading is not None:
            self.reading.cancel()
            self.writer.close()


async def run(socket: Path, base: str, program: tuple[str, ...], folder: Path) -> int:
    """Serve until the program, or the screen, ends; the exit status."""
    screen = folder / "screen"
    cookie = folder / "cookie"
    cookie.write_bytes(cookie_of(secrets.token_bytes(16)))
    for _ in range(SCREENS_TRIED):
        vnc, number = await started_screen(screen, cookie)
        if number:
            break
    if not number:
        return await vnc.wait() or 1
    environ = {**os.environ, "DISPLAY": f":{number}", "XAUTHORITY": str(cookie)}
    desktop = await asyncio.create_subprocess_exec(*program, env=environ, cwd=Path.home())
    pages = Application(
        [
            ("/", FirstPage, {"base": base}),
            ("/screen", ScreenSocket, {"screen": screen}),
            ("/(.*)", StaticFileHandler, {"path": PAGES}),
        ]
    )
    server = HTTPServer(pages)
    server.add_socket(bind_unix_socket(str(socket), mode=0o600))
    ends = [asyncio.ensure_future(one.wait()) for one in (desktop, vnc)]
    await asyncio.wait([*ends, asyncio.ensure_future(asked_to_end())], return_when=asyncio.FIRST_COMPLETED)
    for one in (desktop, vnc):
        if one.returncode is None:
            one.terminate()
    return desktop.returncode or vnc.returncode or 0


async def started_screen(screen: Path, cookie: Path) -> tuple[Process, str]:
    """TigerVNC's screen and its number, which it tells once it is there; ``""`` where it has ended.

    It writes ``/tmp/server-N.xkm``, and ends where somebody else has made that: so the number is one of very many.
    """
    told, tells = os.pipe()
    options = ["-displayfd", str(tells), "-auth", str(cookie), "-geometry", SIZE, "-depth", "24", "-nolisten", "tcp"]
    options += ["-rfbunixpath", str(screen), "-rfbunixmode", "384", "-rfbport", "-1", "-SecurityTypes", "None"]
    number = f":{secrets.choice(SCREENS)}"
    vnc = await asyncio.create_subprocess_exec("Xtigervnc", number, *options, "-AlwaysShared", pass_fds=(tells,))
    os.close(tells)
    with os.fdopen(told) as words:
        return vnc, (await asyncio.to_thread(words.readline)).strip()


def cookie_of(secret: bytes) -> bytes:
    """A file of Xau with one cookie, for each name of this host and each number of a screen."""
    fields = (b"", b"", b"MIT-MAGIC-COOKIE-1", secret)
    return struct.pack(">H", ANY_HOST) + b"".join(struct.pack(">H", len(one)) + one for one in fields)


async def asked_to_end() -> None:
    """Wait for SIGTERM."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await asked.wait()


def main(words: list[str]) -> int:
    """Run it in a folder of its own beside the socket."""
    os.umask(0o077)
    socket, base, *program = words
    folder = Path(tempfile.mkdtemp(prefix="screen-", dir=Path(socket).parent))
    try:
        return asyncio.run(run(Path(socket), base, tuple(program) or PROGRAM, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
