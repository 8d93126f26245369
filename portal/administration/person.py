"""How an administrator deletes somebody, whose sessions are ended first, and not what has to be read; or changes them.

A person's name is that of an account of the cluster: what runs, and who is logged in, has it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jupyterhub.apihandlers.users import ActivityAPIHandler, UserAPIHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import utcnow

from portal.administration import again
from portal.language.texts import N_, _
from portal.session_state import TOLD_FOR_S, SessionState
from portal.sessions.ending import cancel_start

UNTOLD = N_(
    "{name} has to read first that {who} entered the session: it stands on the server page until the next session. "
    "Who has not come back {days} days after that can be deleted."
)
NO_OTHER_NAME = N_("{name} is the name of an account of this cluster. Who has another one logs in with that.")
DELETED_NOW = N_("An administrator is just deleting {name}. Nothing was done.")
STILL_ENDS = N_("A session of {name} has not ended yet. Delete {name} again in a moment.")
NO_TIME = N_("A time of activity is one that has been, in the years from 1 to now, in {most} characters at most.")
LONGEST_TIME = 64  # characters; with more, reading it takes the square of their number
LOOKS = 25
LOOKS_EVERY_S = 0.2
_deleted_now: set[str] = set()


class PersonHandler(UserAPIHandler):  # type: ignore[misc]
    """Deleting somebody does not take along what they have to read: who entered their session. Nobody is renamed."""

    async def patch(self, user_name: str) -> None:
        """JupyterHub's own (6.1), but for the name, which it gives to the row and to nothing that is under way.

        Raises:
            again.Refused: 400, for another name.
        """
        body = self.get_json_body()
        if isinstance(body, dict) and "name" in body:
            if body.pop("name") != user_name:
                raise again.Refused(400, _(NO_OTHER_NAME).format(name=user_name))
            self.request.body = json.dumps(body).encode()  # JupyterHub takes the same name for none
        await super().patch(user_name)

    @needs_scope("delete:users")  # type: ignore[untyped-decorator]
    async def delete(self, user_name: str) -> None:
        """Delete somebody who has nothing of that kind to read.

        Raises:
            again.Refused: 409, with until when it stays; or a session has not ended yet.
        """
        user = self.find_user(user_name)
        check_told(user)
        if user is None or user == self.current_user:
            await super().delete(user_name)
            return
        with _without_starts(user):
            await self._end_sessions(user)
            check_told(user)  # an administrator may have come in meanwhile
            await super().delete(user_name)

    async def _end_sessions(self, user: Any) -> None:
        """End all: JupyterHub (6.1) ends the one without a name, and fails where there are others or a start."""
        for spawner in [one for one in user.spawners.values() if one.active]:
            await cancel_start(spawner, self.current_user.name)
            if spawner.active and not spawner.pending:
                await self.stop_single_user(user, spawner.name)
        for _look in range(LOOKS):  # a start that is refused is none in a moment
            if not any(spawner.active for spawner in user.spawners.values()):
                return
            await asyncio.sleep(LOOKS_EVERY_S)
        raise again.Refused(409, _(STILL_ENDS).format(name=user.name))


@contextmanager
def _without_starts(user: Any) -> Iterator[None]:
    """Meanwhile none of somebody's sessions starts.

    Raises:
        again.Refused: 409, somebody else deletes them already.
    """
    check_stays(user)
    _deleted_now.add(user.name)
    try:
        yield
    finally:
        _deleted_now.discard(user.name)


def check_stays(user: Any) -> None:
    """Look whether somebody is not just being deleted.

    Raises:
        again.Refused: 409, they are.
    """
    if user.name in _deleted_now:
        raise again.Refused(409, _(DELETED_NOW).format(name=user.name))


def check_told(user: Any) -> None:
    """Look whether somebody has read who entered their sessions.

    Raises:
        again.Refused: 409, not yet.
    """
    rows = user.orm_user._orm_spawners if user else ()
    now = utcnow().timestamp()
    if untold := [entry.who for row in rows for entry in SessionState.from_json(row.state or {}).untold(now)]:
        raise again.Refused(409, _(UNTOLD).format(name=user.name, who=untold[-1], days=TOLD_FOR_S // 86400))


class PersonActivityHandler(ActivityAPIHandler):  # type: ignore[misc]
    """When somebody was last active."""

    @needs_scope("users:activity")  # type: ignore[untyped-decorator]
    def post(self, user_name: str) -> None:
        """JupyterHub's own (6.1), which fails at times that no calendar has, and reads long ones while all wait.

        Raises:
            again.Refused: 400, for such a time; nothing was changed.
        """
        if not all(isinstance(time, str) and len(time) <= LONGEST_TIME for time in _times(self.get_json_body())):
            raise _no_time()
        try:
            super().post(user_name)
        except (OverflowError, ValueError):  # the second one for a zone of a day and more
            raise _no_time() from None


def _no_time() -> again.Refused:
    return again.Refused(400, _(NO_TIME).format(most=LONGEST_TIME))


def _times(body: object) -> Iterator[object]:
    """All times of activity that a body tells; JupyterHub says what else is wrong with it."""
    if isinstance(body, dict):
        servers = body.get("servers")
        told = [body, *(servers.values() if isinstance(servers, dict) else ())]
        yield from filter(None, (one.get("last_activity") for one in told if isinstance(one, dict)))


HANDLERS = ((r"/api/users/([^/]+)", PersonHandler), (r"/api/users/([^/]+)/activity", PersonActivityHandler))
