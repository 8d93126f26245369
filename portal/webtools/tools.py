"""The web tools of one session: which the site offers this person, which run, their logs, and their end.

The REST addresses, the launcher's tiles and the pages of the tools all ask :class:`Tools`. A tool starts when somebody
asks for it, and a failed one only when somebody asks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from portal.errors import RequestError
from portal.forwarding.socket_process import end
from portal.homes import cache_folders, temporary
from portal.homes.log_part import LogPart, read_part
from portal.homes.private_folder import VARIABLE
from portal.kernels.modules import ModuleSystem, clean
from portal.kernels.run_kernel import Launch
from portal.session_settings import OfferedTool, SessionSettings

START_TIMEOUT_S = 120
POLL_S = 0.1
ANSWER_TIMEOUT_S = 5
PLACES_MOST = 20
TAIL_BYTES = 8 * 1024
TAIL_LINES = 20
_RUN_TOOL = Path(__file__).with_name("run_tool.py")
State = Literal["stopped", "starting", "ready", "failed"]
NO_TOOL = "tool"  # the field of a RequestError
FOR_TERMINALS = "TMPDIR_OF_SESSION"  # deploy/environments/code-server/defaults: jobs of a terminal do not find ours
TEMPORARY = "tmp"  # beside the sockets: in /tmp others make first what a tool keeps there under a known name


@dataclass(frozen=True)
class ToolPlace:
    """Where a session's tools are: a private folder for sockets and logs, the session's address, the person's home."""

    sockets: Path
    base_url: str
    home: Path


class WebTool:
    """One tool: its process, its socket, its log."""

    def __init__(self, offered: OfferedTool, settings: SessionSettings, place: ToolPlace) -> None:
        self.offered = offered
        self.socket = place.sockets / f"{offered.name}.sock"
        self.base = f"{place.base_url.rstrip('/')}/tools/{offered.name}"
        self.why = ""  # of a tool that has failed
        self.started_at: float | None = None  # seconds since 1970
        self.leads_to: deque[str] = deque(maxlen=PLACES_MOST)  # where tabs are on their way to, by its redirections
        self.has_led_to: deque[str] = deque(maxlen=PLACES_MOST)  # where those of before have led
        self.kept_from: deque[str] = deque(maxlen=PLACES_MOST)  # where others' links would have led last
        self._system = ModuleSystem(settings.module_command, settings.module_path)
        self._system_environment = settings.module_environment
        self._home = place.home
        self._log = place.sockets / f"{offered.name}.log"
        self._temporary = place.sockets / TEMPORARY
        self._process: subprocess.Popen[bytes] | None = None
        self._start: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    @property
    def state(self) -> State:
        """What it does now."""
        if self._start is not None and not self._start.done():
            return "starting"
        if self._process is not None and self._process.poll() is None:
            if temporary.is_held(self.socket):
                self.why = ""
                return "ready"
            self.why = f"It cannot be reached: {temporary.GONE}."
        if self._process is not None and not self.why:
            self.why = f"It has ended (exit status {self._process.returncode})."
        return "failed" if self.why else "stopped"

    def leads(self, place: str) -> None:
        """Note where a tab is led to."""
        for places in (self.leads_to, self.has_led_to):
            if place not in places:
                places.append(place)

    def has_come(self, place: str) -> bool:
        """Whether a tab was led to where one has come; that is good for one tab, once."""
        if place not in self.leads_to:
            return False
        self.leads_to.remove(place)
        return True

    async def start(self) -> None:
        """Begin to start it, if it does not run yet; :attr:`state` says what comes of it."""
        async with self._changing:
            if self.state in ("starting", "ready"):
                return
            await self._end()
            self.why = ""
            self.started_at = time.time()
            try:
                temporary.check(self.socket)
                self.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.socket.parent.chmod(0o700)
                self._temporary.mkdir(mode=0o700, exist_ok=True)
                self._process = self._launched()
            except OSError as error:
                self.why = f"It cannot be started: {error.strerror}."
                return
            self._start = asyncio.create_task(self._until_it_answers(self._process))

    def _launched(self) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as log:
            return subprocess.Popen(
                self.command(),
                env=self.environment(os.environ),
                cwd=self._home,
                stdin=subprocess.PIPE,  # it ends when the server is gone
                stdout=log,
                stderr=log,
            )

    def command(self) -> list[str]:
        """The whole command line: that of :mod:`portal.webtools.run_tool`, then the tool's own words."""
        words = self.offered.words({"socket": str(self.socket), "base": self.base, "home": str(self._home)})
        launch = Launch(self.offered.name, self.offered.modules, self._system, tuple(words))
        python, isolated, bare, _, *options = launch.argv(sys.executable)
        return [python, isolated, bare, str(_RUN_TOOL), *options]

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The person's without the portal's secrets, a private TMPDIR, own caches, and what the site sets for it."""
        private = {VARIABLE: environ[VARIABLE]} if VARIABLE in environ else {}  # where the cache of modules is
        of_site = {**self._system_environment, **self.offered.environment}
        before = {**environ, **of_site}.get("TMPDIR", "/tmp")  # noqa: S108  as Slurm has it
        own = {**clean(environ), **private, "TMPDIR": str(self._temporary), FOR_TERMINALS: before}
        return cache_folders.with_own({**own, **of_site})

    async def _until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        path = (self.base if self.offered.whole_path else "") + self.offered.ready
        while process.poll() is None:
            if await answers(self.socket, path):
                return
            if time.monotonic() > deadline_s:
                self.why = f"It did not answer within {START_TIMEOUT_S} s."
                await asyncio.to_thread(end, process)
                return
            await asyncio.sleep(POLL_S)
        self.why = f"It ended before it was ready (exit status {process.returncode})."
        await asyncio.to_thread(end, process)  # closes its input

    async def stop(self) -> None:
        """End it, and everything that it has started."""
        async with self._changing:
            await self._end()
            self.why = ""

    async def _end(self) -> None:
        if self._start is not None:
            self._start.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._start
        process = self._process
        self._process = None
        self._start = None
        if process is not None:
            await asyncio.to_thread(end, process)
        if temporary.is_held(self.socket):
            self.socket.unlink(missing_ok=True)

    def log(self, start: int = 0) -> LogPart:
        """What it has written since its start, from a byte on."""
        return read_part(str(self._log), start, self.state not in ("starting", "ready"))

    def last_words(self) -> str:
        """The last lines of its log."""
        size = self._log.stat().st_size if self._log.is_file() else 0
        return "\n".join(self.log(max(0, size - TAIL_BYTES)).text.splitlines()[-TAIL_LINES:])

    def as_json(self) -> dict[str, object]:
        """What the session tells of it."""
        state = self.state  # first: it finds out why
        return {
            "name": self.offered.name,
            "title": self.offered.title,
            "state": state,
            "why": self.why,
            "started_at": self.started_at if state in ("starting", "ready") else None,
        }


class Tools:
    """The tools that the site offers this person, by name and in the order of the settings."""

    def __init__(self, settings: SessionSettings, place: ToolPlace) -> None:
        self._tools = {one.name: WebTool(one, settings, place) for one in settings.tools}

    def all(self) -> list[WebTool]:
        """Every one, also those that do not run."""
        return list(self._tools.values())

    def tool(self, name: str) -> WebTool:
        """The tool of this name.

        Raises:
            RequestError: there is none for this person; the message names those that there are.
        """
        if name not in self._tools:
            raise RequestError(NO_TOOL, name, f"one of {', '.join(self._tools) or 'none'}")
        return self._tools[name]


async def answers(socket: Path, path: str) -> bool:
    """Whether HTTP on a socket answers a GET with anything but a fault of its own (a status below 500)."""
    with contextlib.suppress(OSError, ValueError, TimeoutError, asyncio.LimitOverrunError):
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()
                words = (await reader.readline()).split()
                return len(words) > 1 and words[0].startswith(b"HTTP/") and int(words[1]) < 500
            finally:
                writer.close()
    return False
