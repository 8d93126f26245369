"""What a session was asked for whose job is there from before the hub was restarted: nothing that is given now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.hub.context import HubContext
from spawners.session import Session


class ResumedChoices:
    """Keeps the choices of a job that waits, whatever the start brings that takes it up."""

    api_token: str  # these are JupyterHub's
    orm_spawner: Any
    user_options: Any
    _of_before: Mapping[str, object] = {}

    @property
    def context(self) -> HubContext:
        """What the hub's parts share."""
        raise NotImplementedError

    @property
    def session(self) -> Session:
        """The session of this spawner."""
        raise NotImplementedError

    def load_state(self, state: dict[str, Any]) -> None:
        """Take the state of before the hub was restarted; the session's own token stays the same."""
        self.session.load(self.context.state(state))
        self.api_token = self.session.state.token
        self._of_before = dict(self.user_options or {})

    def choices(self) -> Mapping[str, object]:
        """What the job of this start was asked for, or is: JupyterHub has put what is given now in its place."""
        if not self.session.can_resume:
            return self.user_options or {}
        self.orm_spawner.user_options = dict(self._of_before)
        return self._of_before
