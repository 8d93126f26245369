"""TensorBoard in a session: one process for each real folder, on a Unix socket, stopped when it is not used.

``tensorboard/open?path=logs`` finds the folder and sends the browser to ``tensorboard/<id>/``, which
:mod:`portal.tensorboard.proxy` forwards to the socket of :mod:`portal.tensorboard.server`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from portal.errors import PortalError
from portal.forwarding.socket_process import accepts, end
from portal.homes import cache_folders, temporary

IDLE_MIN = 30
START_TIMEOUT_S = 60
LED = "led"  # its name in server.py
POLL_S = 0.02
_SERVER = Path(__file__).with_name("server.py")
# What a program needs of a person's environment; tokens and the modules of a kernel are not in it.
_PASSED_ON = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


class BoardFailed(PortalError):
    """The TensorBoard process ended or was silent; the last lines of its log are in the detail."""

    reason = "tensorboard"


class Board:
    """TensorBoard for one folder: its process starts when it is used.

    Arguments:
        is_chosen: whether the person alone has chosen the folder; else the page *Profile* shows nothing.
    """

    def __init__(self, folder: Path, runtime: Path, *, is_chosen: bool = True) -> None:
        self.folder = folder
        self.is_chosen = is_chosen
        self.id = id_of(folder, is_chosen=is_chosen)
        self.socket = runtime / f"{self.id}.sock"
        self.last_used_s = 0.0
        self.started_at: float | None = None  # seconds since 1970
        self.is_stopped = False  # by the person: only who opens its page starts it again
        self._log = runtime / f"{self.id}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()
        self._start: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether it listens."""
        return self.running and self._start is None and temporary.is_held(self.socket)

    @property
    def pid(self) -> int | None:
        """The process id, when there is one."""
        return self._process.pid if self._process else None

    async def ready(self, within_s: float | None = None) -> bool:
        """Start it if it is not there; False when it does not listen yet after so long, and goes on starting.

        Raises:
            BoardFailed: it ended, or did not listen in time; whoever asks next starts it anew.
        """
        if self.is_ready:
            return True
        start = self._start = self._start or asyncio.create_task(self.start())
        done, _ = await asyncio.wait([start], timeout=within_s)
        if not done:
            return False
        if self._start is start:
            self._start = None
        start.result()
        return True

    async def start(self) -> None:
        """Start the process if it is not there, and wait until it listens.

        Raises:
            BoardFailed: it ended, or did not listen in time.
        """
        async with self._starting:
            if not (self.running and temporary.is_held(self.socket)):
                await self._stop()  # what an earlier process left
                self._launch()
                await self._wait_until_it_listens()

    def _launch(self) -> None:
        try:
            temporary.check(self.socket)
        except OSError as error:
            raise BoardFailed(f"TensorBoard cannot be started: {error.strerror}.") from error
        self.started_at = time.time()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command(self.socket, self.folder, is_chosen=self.is_chosen),
                env=environment(os.environ, self.socket.parent),
                cwd=self.socket.parent,
                stdin=subprocess.PIPE,  # it ends when the server is gone
                stdout=log,
                stderr=log,
            )

    async def _wait_until_it_listens(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if not self.running:
                await self._stop()
                raise BoardFailed("TensorBoard ended before it was ready.", detail=self._log_tail())
            if await accepts(self.socket):
                return
            await asyncio.sleep(POLL_S)
        await self._stop()
        raise BoardFailed(f"TensorBoard was not ready within {START_TIMEOUT_S} s.", detail=self._log_tail())

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-12:])

    async def stop(self, unless_used_after_s: float = float("inf")) -> None:
        """End the process, unless it was used meanwhile; the next use starts it again."""
        async with self._starting:  # a new process must not lose its socket to the end of the old one
            if self.last_used_s <= unless_used_after_s:
                await self._stop()

    async def _stop(self) -> None:
        process = self._process
        self._process = None
        if process is not None:
            await asyncio.to_thread(end, process)
        if temporary.is_held(self.socket):
            self.socket.unlink(missing_ok=True)


class Boards:
    """The boards of one session, by id."""

    def __init__(self, runtime: Path, idle_min: float = IDLE_MIN, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime = runtime
        self._idle_s = idle_min * 60
        self._clock = clock
        self._boards: dict[str, Board] = {}

    def __iter__(self) -> Iterator[Board]:
        return iter(list(self._boards.values()))

    def open(self, folder: Path, *, is_chosen: bool = True) -> Board:
        """The board of a real folder: the one that is there, or a new one."""
        self._runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._runtime.chmod(0o700)
        board = Board(folder, self._runtime, is_chosen=is_chosen)
        return self._boards.setdefault(board.id, board)

    def ready(self, board_id: str) -> Board | None:
        """The board with this id if it listens; a look at it is no use of it."""
        board = self._boards.get(board_id)
        return board if board is not None and board.is_ready else None

    async def use(self, board_id: str, within_s: float | None = None, *, wakes: bool = True) -> Board | None:
        """The board with this id, started; None when this session has none such.

        Arguments:
            within_s: how long its start is waited for: it may come back before it is ready.
            wakes: whether it is started though the person has stopped it.

        Raises:
            BoardFailed: it cannot be started.
        """
        board = self._boards.get(board_id)
        if board is None or (board.is_stopped and not wakes):
            return board
        board.is_stopped = False
        board.last_used_s = self._clock()
        await board.ready(within_s)
        return board

    async def stop(self, board_id: str) -> bool:
        """Stop a board for good, until somebody opens it; False when this session has none such."""
        board = self._boards.get(board_id)
        if board is None:
            return False
        board.is_stopped = True  # a page of it that is still open asks again and again
        await board.stop()
        return True

    async def stop_idle(self) -> None:
        """Stop the boards that were not used for a while."""
        since_s = self._clock() - self._idle_s
        for board in self:
            if board.running and board.last_used_s <= since_s:
                await board.stop(unless_used_after_s=since_s)


def id_of(folder: Path, *, is_chosen: bool = True) -> str:
    """What a board of a real folder is called."""
    return hashlib.sha256(os.fsencode(folder) + (b"" if is_chosen else b"\0led")).hexdigest()[:16]


def command(socket: Path, folder: Path, *, is_chosen: bool = True) -> list[str]:
    """The command line of one board, in the portal's own environment and nobody else's."""
    words = [str(socket), str(folder), f"{folder.name} · TensorBoard", *([] if is_chosen else [LED])]
    return [sys.executable, "-I", str(_SERVER), *words]


def environment(environ: dict[str, str] | os._Environ[str], runtime: Path) -> dict[str, str]:
    """A board's whole environment: who the person is, language, zone, a private TMPDIR, own caches, how much to log."""
    known = {name: environ[name] for name in _PASSED_ON if name in environ}
    # The page Profile notes every step of its work otherwise: a dozen lines in the log for each click.
    return cache_folders.with_own(known) | {"PATH": os.defpath, "TMPDIR": str(runtime), "TF_CPP_MIN_LOG_LEVEL": "1"}
