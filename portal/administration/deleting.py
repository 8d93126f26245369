"""How an administrator deletes somebody: whose sessions are ended first, and not what has to be read."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyterhub.apihandlers.users import UserAPIHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import utcnow

from portal.administration import again
from portal.language.texts import N_, _
from portal.session_state import TOLD_FOR_S, SessionState

UNTOLD = N_(
    "{name} has to read first that {who} entered the session: it stands on the server page until the next session. "
    "Who has not come back {days} days after that can be deleted."
)
STILL_ENDS = N_("A session of {name} has not ended yet. Delete {name} again in a moment.")


class DeletingHandler(UserAPIHandler):  # type: ignore[misc]
    """Deleting somebody does not take along what they have to read: who entered their session."""

    @needs_scope("delete:users")  # type: ignore[untyped-decorator]
    async def delete(self, user_name: str) -> None:
        """Delete somebody who has nothing of that kind to read.

        Raises:
            again.Refused: 409, with until when it stays; or a session has not ended yet.
        """
        user = self.find_user(user_name)
        check_told(user)
        if user and user != self.current_user:
            await self._end_sessions(user)
            check_told(user)  # an administrator may have come in meanwhile
        await super().delete(user_name)

    async def _end_sessions(self, user: Any) -> None:
        """End all: JupyterHub (6.1) ends the one without a name, and fails where there are others or a start."""
        for spawner in list(user.spawners.values()):
            if spawner.active and hasattr(spawner, "note_stop"):
                spawner.note_stop(self.current_user.name)
            if spawner.pending == "spawn" and spawner._spawn_future:
                spawner._spawn_future.cancel()
                await asyncio.sleep(1)  # as JupyterHub does (UserServerAPIHandler)
            if spawner.active and not spawner.pending:
                await self.stop_single_user(user, spawner.name)
        if any(spawner.active for spawner in user.spawners.values()):
            raise again.Refused(409, _(STILL_ENDS).format(name=user.name))


def check_told(user: Any) -> None:
    """Look whether somebody has read who entered their sessions.

    Raises:
        again.Refused: 409, not yet.
    """
    rows = user.orm_user._orm_spawners if user else ()
    now = utcnow().timestamp()
    if untold := [entry.who for row in rows for entry in SessionState.from_json(row.state or {}).untold(now)]:
        raise again.Refused(409, _(UNTOLD).format(name=user.name, who=untold[-1], days=TOLD_FOR_S // 86400))
