"""wrapspawner's profile switch: the same portal with sessions as Slurm jobs or as processes of this machine.

Which profile is used is the site's decision (``portal up --local``), never a person's option.
"""

from __future__ import annotations

import asyncio
import html
import os
from collections.abc import Mapping
from typing import Any

from traitlets import List, default
from wrapspawner import ProfilesSpawner

from portal.errors import PortalError, RequestError
from portal.language.texts import N_, _
from portal.session_state import Announcement
from spawners import callback
from spawners.errors import StartRefused
from spawners.local import LocalSessionSpawner


class PortalProfilesSpawner(ProfilesSpawner):  # type: ignore[misc]
    """The profile switch, set by the site: the first profile is used for everybody."""

    profiles: Any = List(help="As wrapspawner's; the first one is used.").tag(config=True)

    following: asyncio.Future[None] | None = None  # a process of this machine is never moved

    @default("profiles")
    def _this_machine(self) -> list[tuple[str, str, type, dict[str, object]]]:
        return [("This machine", "local", LocalSessionSpawner, {})]

    @staticmethod
    def add_handlers() -> None:
        """Put the addresses at which sessions announce themselves where JupyterHub finds them."""
        callback.install()

    async def get_options_form(self) -> str:
        """A form that offers nothing, so that a start still needs a click."""
        name = html.escape(os.uname().nodename)
        words = _("A session on this machine ({name}), with your own account. No Slurm here.")
        return f'<p class="lead">{words.format(name=name)}</p>'

    def options_from_form(self, form_data: Mapping[str, list[str]]) -> dict[str, object]:
        """There is nothing to choose; whatever comes is refused by name."""
        given = [key for key in form_data if key != "_xsrf"]
        if given:
            raise StartRefused(RequestError("options", given[0], _("none: a local session has no options")))
        return {}

    def options_from_query(self, query_data: Mapping[str, list[str]]) -> dict[str, object]:
        """A link never starts anything."""
        raise StartRefused(PortalError(N_("A link cannot start a session. Press Start.")))

    def construct_child(self) -> Any:
        """The child is always that of the site's first profile."""
        self.child_profile = self.profiles[0][1]
        self.select_profile(self.child_profile)
        return super(ProfilesSpawner, self).construct_child()

    def start(self) -> Any:
        """Start the child, unless somebody sent options past the form."""
        if self.user_options:
            raise StartRefused(
                RequestError("options", next(iter(self.user_options)), _("none: a local session has no options"))
            )
        return super().start()

    async def announce_port(self, announcement: Announcement) -> bool:
        """The child's session calls with the token that the wrapper holds."""
        return self.child_spawner is not None and bool(await self.child_spawner.announce_port(announcement))

    def announce_end(self) -> None:
        """A local process that has ended is noticed by the next poll."""
