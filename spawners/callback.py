"""What a session's server says to the hub: its port, and that it ends. Nothing else is accepted, and only from itself.

The two addresses take the place of batchspawner's own ``/api/batchspawner``, which sets any attribute of a spawner.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, TypeGuard

import batchspawner.api  # its import registers the handler that is taken out below
from jupyterhub.apihandlers import APIHandler, default_handlers
from jupyterhub.metrics import prometheus_log_method
from tornado import web

from portal.assets.offered import HEADER
from portal.guard import announcement
from portal.session_settings import ENDS_AT
from portal.session_state import Announcement

LOWEST_PORT = 1024
HIGHEST_PORT = 65535
MOST_RESTARTS = 1_000_000


def read_announcement(body: object) -> Announcement:
    """The port, and how often Slurm had restarted the job, which servers of before 0.2.0 do not say; nothing else.

    Raises:
        ValueError: it is anything else.
    """
    given = body if isinstance(body, dict) and {"port"} <= set(body) <= {"port", "restarts"} else {}
    port = given.get("port")
    restarts = given.get("restarts")
    if not _is_number(port, LOWEST_PORT, HIGHEST_PORT) or not (
        restarts is None or _is_number(restarts, 0, MOST_RESTARTS)
    ):
        raise ValueError(
            f'the body is {{"port": <integer from {LOWEST_PORT} to {HIGHEST_PORT}>, '
            f'"restarts": <integer from 0 to {MOST_RESTARTS}>}}'
        )
    return Announcement(port, restarts)


def end_of(facts: object) -> str:
    """When a session ends at the latest, as it is told it: in seconds since 1970; ``""`` while that is not known.

    Arguments:
        facts: what the server page shows of the session.
    """
    ends_at = facts.get("ends_at") if isinstance(facts, Mapping) else None
    return str(int(datetime.fromisoformat(ends_at).timestamp())) if isinstance(ends_at, str) else ""


def _is_number(value: object, lowest: int, highest: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


class AnnouncingSpawner(Protocol):
    """A spawner whose server announces its port."""

    name: str
    api_token: str

    @property
    def ready(self) -> bool:
        """True while the session runs, and nothing is being done to it."""

    @property
    def following(self) -> asyncio.Future[None] | None:
        """Done when the session has the new address of its job, which Slurm has started again."""

    async def announce_port(self, announcement: Announcement) -> bool:
        """Take a port; ``False`` when none is expected."""

    def announce_end(self) -> None:
        """The server has said that it ends."""


class CallbackHandler(APIHandler):  # type: ignore[misc]
    """What a session says about itself; it is known by its own token, and nobody else's will do."""

    def spawner(self) -> AnnouncingSpawner:
        """The spawner whose own token this request carries.

        Raises:
            web.HTTPError: 403, the token belongs to no session.
        """
        token = (self.get_auth_token() or "").encode()
        for spawner in getattr(self.current_user, "spawners", {}).values():
            known = hasattr(spawner, "announce_port") and spawner.api_token
            if known and hmac.compare_digest(spawner.api_token.encode(), token):
                found: AnnouncingSpawner = spawner
                return found
        raise web.HTTPError(403, "this token belongs to no session")


class ReadyHandler(CallbackHandler):
    """``POST /hub/api/dsportal/ready``: a session says where it listens."""

    _is_repeated = False

    async def post(self) -> None:
        """Accept the port of a session that is starting: 204; 400, 403 or 409 otherwise."""
        spawner = self.spawner()
        try:
            announcement = read_announcement(self.get_json_body())
        except ValueError as error:
            raise web.HTTPError(400, str(error)) from error
        self.set_header(HEADER, self.settings.get("template_vars", {}).get("lab_key", ""))
        runs = spawner.ready
        if not await spawner.announce_port(announcement):
            raise web.HTTPError(409, "this session is not starting")
        self._is_repeated = runs and not spawner.following
        if following := spawner.following:  # a requeued job: the session runs already, elsewhere
            await self.without_turn(following)
            if following.cancelled():
                raise web.HTTPError(409, "this session was stopped")
            await self.proxy.add_user(self.current_user, spawner.name)
        if ends_at := end_of(getattr(spawner, "session_facts", None)):
            self.set_header(ENDS_AT, ends_at)
        self.set_status(204)

    def _log(self) -> None:
        """What a server says again every two minutes is counted and not logged: of a thousand the log would be full."""
        if self._is_repeated:
            prometheus_log_method(self)
        else:
            super()._log()


class NewsHandler(CallbackHandler):
    """``GET /hub/api/dsportal/news``: what a session shows its person of the hub, with the session's own token."""

    async def get(self) -> None:
        """The site's announcement, and how full the person's folders are; 403 for a token of no session."""
        quotas = getattr(self.spawner(), "quotas", None)
        folders = [one.as_json() | {"is_nearly_full": one.is_nearly_full} for one in (await quotas() if quotas else ())]
        told = announcement.of_sessions(self.settings.get("template_vars", {}))
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"announcement": told.as_json() if told else None, "folders": folders}))


class EndingHandler(CallbackHandler):
    """``POST /hub/api/dsportal/ending``: a session says that it ends. It is only a hint to ask Slurm now."""

    async def post(self) -> None:
        """Ask Slurm soon: 204; 403 for a token that belongs to no session."""
        self.spawner().announce_end()
        self.set_status(204)


def install() -> None:
    """Put our handlers where batchspawner registered its own; doing it twice changes nothing."""
    theirs = batchspawner.api.BatchSpawnerAPIHandler
    ours = [
        (r"/api/dsportal/ready", ReadyHandler),
        (r"/api/dsportal/ending", EndingHandler),
        (r"/api/dsportal/news", NewsHandler),
    ]
    kept = [route for route in default_handlers if route[1] is not theirs and route not in ours]
    default_handlers[:] = [*kept, *ours]
