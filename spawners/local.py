"""The embedded local mode: a session as a process of this machine, for the very person who runs the portal."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import List, Unicode

from portal import data
from portal.errors import SessionEnded
from portal.language.texts import N_, _
from portal.session_settings import KERNELS_PATH, SETTINGS, SessionSettings
from portal.session_state import Announcement
from spawners import timings
from spawners.announcements import AnnouncedPort
from spawners.errors import StartRefused
from spawners.startup import first_answer

HOST = "127.0.0.1"
SIGNAL_AT_PARENTS_END = 1  # prctl(2), PR_SET_PDEATHSIG
LIBC = ctypes.CDLL(None)  # loaded now: between fork and exec is no time for it


class LocalSessionSpawner(LocalProcessSpawner):  # type: ignore[misc]
    """A session as a local process of the very person who runs the portal."""

    kernels_folder = Unicode(help="Where the kernelspecs of this machine are.").tag(config=True)
    files_folder = Unicode(help="The folder that the file browser shows.").tag(config=True)
    templates_folders = List(Unicode(), help="The site's own folders of notebook templates.").tag(config=True)
    log_folder = Unicode(help="Where the log of the session goes.").tag(config=True)

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        """The process stays the person's, and ends with the hub, however that ends.

        Without a hub it would believe whoever listens at the hub's port next, which is anybody on this machine.
        """
        return partial(_end_with, os.getpid())

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """The person's own home and shell, whatever the name of the account in the hub."""
        return {**env, "HOME": str(Path.home()), "SHELL": os.environ.get("SHELL", "/bin/sh")}

    def get_env(self) -> dict[str, str]:
        """JupyterHub's variables, and what the session must know of this machine."""
        settings = SessionSettings(
            notebooks=str(data.folder("notebooks")),
            files=self.files_folder,
            site_notebooks=tuple(self.templates_folders),
        )
        return {**super().get_env(), SETTINGS: settings.to_text(), KERNELS_PATH: self.kernels_folder}

    async def start(self) -> tuple[str, int]:
        """Start the process and wait until its server answers."""
        self._port = AnnouncedPort()
        self._port.expect()
        self._listens_at = 0
        self.cmd = [sys.executable, "-I", "-m", "portal.singleuser.server"]
        log = Path(self.log_folder) / "session.log"
        with log.open("wb") as output:
            self.popen_kwargs = {"stdout": output, "stderr": output}
            await super().start()
        try:
            self._listens_at = await self._answered(log)
            return HOST, self._listens_at
        finally:
            self._port.forget()

    def get_args(self) -> list[str]:
        """No arguments: the server takes everything from its environment."""
        return []

    async def announce_port(self, announcement: Announcement) -> bool:
        """Take the port of the session's server; ``False`` when none is expected. The same again is no fault."""
        now = asyncio.get_running_loop().time()
        return self._port.accept(announcement, now) or announcement.port == self._listens_at

    async def _answered(self, log: Path) -> int:
        """Wait for the port, then for the first answer; answers the port."""
        deadline = asyncio.get_running_loop().time() + timings.LOCAL_START_S
        news: asyncio.Future[None] = asyncio.ensure_future(self._port.announced())
        try:
            await self._or_its_end(news, deadline, log)
            # There is one session, and the wrapper holds JupyterHub's record of it.
            url = f"http://{HOST}:{self._port.number}{self.user.base_url}"
            news = asyncio.ensure_future(first_answer(url, self.user.settings))
            await self._or_its_end(news, deadline, log)
        finally:
            news.cancel()
        return self._port.number

    async def _or_its_end(self, news: asyncio.Future[None], deadline: float, log: Path) -> None:
        """Wait for news of the process, as long as it lives."""
        while not news.done():
            await asyncio.wait([news], timeout=timings.LIVELY_EVERY_S / 2)
            if not news.done() and await self.poll() is not None:
                error = SessionEnded(N_("JupyterLab ended before it answered. Its last lines are below."))
                raise StartRefused(error, status_code=502, lines=_tail(log))
            if asyncio.get_running_loop().time() > deadline:
                error = SessionEnded(
                    _("JupyterLab did not answer within {number} s.").format(number=round(timings.LOCAL_START_S))
                )
                raise StartRefused(error, status_code=502)


def _end_with(hub: int) -> None:
    LIBC.prctl(SIGNAL_AT_PARENTS_END, signal.SIGTERM)
    if os.getppid() != hub:  # it has ended before
        os._exit(1)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]
