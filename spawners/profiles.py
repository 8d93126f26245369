"""wrapspawner's profile switch: the same portal with sessions as Slurm jobs or as processes of this machine.

Which profile is used is the site's decision (``portal up --local``), never a person's option.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import List, Unicode
from wrapspawner import ProfilesSpawner

from portal import data
from portal.errors import PortalError, RequestError, SessionEnded
from spawners.errors import StartRefused
from spawners.reach import ReachesServer
from spawners.ready import AwaitsPort

START_WITHIN_S = 120.0


class LocalSessionSpawner(AwaitsPort, ReachesServer, LocalProcessSpawner):  # type: ignore[misc]
    """A session as a local process of the very person who runs the portal."""

    kernels_folder = Unicode(help="Where the kernelspecs of this machine are.").tag(config=True)
    files_folder = Unicode(help="The folder that the file browser shows.").tag(config=True)
    log_folder = Unicode(help="Where the log of the session goes.").tag(config=True)

    def make_preexec_fn(self, name: str) -> None:
        """The process stays the person's: no change of user."""

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """The person's own home and shell, whatever the name of the account in the hub."""
        return {**env, "HOME": str(Path.home()), "SHELL": os.environ.get("SHELL", "/bin/sh")}

    def get_env(self) -> dict[str, str]:
        """JupyterHub's variables, and what the session must know of this machine."""
        notebooks = str(data.folder("notebooks"))
        settings = {"title": "Data Scientist Portal", "notebooks": notebooks, "files": self.files_folder}
        own = {"DSPORTAL_SESSION": json.dumps(settings), "JUPYTER_PATH": self.kernels_folder}
        return {**super().get_env(), **own}

    async def start(self) -> tuple[str, int]:
        """Start the process and wait until its server listens."""
        port = self.expect_port()
        self.cmd = [sys.executable, "-I", "-m", "portal.singleuser.server"]
        log = Path(self.log_folder) / "session.log"
        with log.open("wb") as output:
            self.popen_kwargs = {"stdout": output, "stderr": output}
            await super().start()
        try:
            return "127.0.0.1", await self._answered(port, log)
        finally:
            self.forget_port()

    def get_args(self) -> list[str]:
        """No arguments: the server takes everything from its environment."""
        return []

    def url_at(self, host: str, port: int) -> str:
        """There is one session, and the wrapper holds JupyterHub's record of it."""
        return f"http://{host}:{port}{self.user.base_url}"

    async def _answered(self, port: asyncio.Future[int], log: Path) -> int:
        deadline = asyncio.get_running_loop().time() + START_WITHIN_S
        answer: asyncio.Future[None] | None = None
        try:
            while not (answer and answer.done()):
                await asyncio.wait([answer or port], timeout=0.5)
                if port.done() and not answer:
                    answer = asyncio.ensure_future(self.first_answer("127.0.0.1", port.result()))
                elif await self.poll() is not None:
                    error = SessionEnded("JupyterLab ended before it answered. Its last lines are below.")
                    raise StartRefused(error, status_code=502, lines=_tail(log))
                if asyncio.get_running_loop().time() > deadline:
                    raise StartRefused(SessionEnded(f"JupyterLab did not answer within {START_WITHIN_S:.0f} s."), 502)
        finally:
            if answer:
                answer.cancel()
        return port.result()


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]


class PortalProfilesSpawner(ProfilesSpawner):  # type: ignore[misc]
    """The profile switch, set by the site: the first profile is used for everybody."""

    profiles: Any = List().tag(config=True)

    async def get_options_form(self) -> str:
        """A form that offers nothing, so that a start still needs a click."""
        name = html.escape(os.uname().nodename)
        return f'<p class="lead">A session on this machine ({name}), with your own account. No Slurm here.</p>'

    def options_from_form(self, form_data: Mapping[str, list[str]]) -> dict[str, object]:
        """There is nothing to choose; whatever comes is refused by name."""
        given = [key for key in form_data if key != "_xsrf"]
        if given:
            raise StartRefused(RequestError("options", given[0], "none: a local session has no options"))
        return {}

    def options_from_query(self, query_data: Mapping[str, list[str]]) -> dict[str, object]:
        """A link never starts anything."""
        raise StartRefused(PortalError("A link cannot start a session. Press Start."))

    def construct_child(self) -> Any:
        """The child is always that of the site's first profile."""
        self.child_profile = self.profiles[0][1]
        self.select_profile(self.child_profile)
        return super(ProfilesSpawner, self).construct_child()

    def start(self) -> Any:
        """Start the child, unless somebody sent options past the form."""
        if self.user_options:
            raise StartRefused(
                RequestError("options", next(iter(self.user_options)), "none: a local session has no options")
            )
        return super().start()

    async def take_port(self, port: int) -> bool:
        """The child's session calls with the token that the wrapper holds."""
        return self.child_spawner is not None and bool(await self.child_spawner.take_port(port))

    def ends_soon(self) -> None:
        """A local process that has ended is noticed by the next poll."""
