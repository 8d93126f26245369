"""The hub's side of "the server listens": one address that takes a port, and nothing else.

It takes the place of batchspawner's own ``/api/batchspawner``, which sets any attribute of a spawner.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

import batchspawner.api  # its import registers the handler that is taken out below
from jupyterhub.apihandlers import APIHandler, default_handlers
from tornado import web

LOWEST_PORT, HIGHEST_PORT = 1024, 65535


def read_port(body: object) -> int:
    """The port of a body that is exactly ``{"port": <integer>}``.

    Raises:
        ValueError: it is anything else.
    """
    port = body.get("port") if isinstance(body, dict) and set(body) == {"port"} else None
    if not isinstance(port, int) or isinstance(port, bool) or not LOWEST_PORT <= port <= HIGHEST_PORT:
        raise ValueError(f'the body is {{"port": <integer from {LOWEST_PORT} to {HIGHEST_PORT}>}}')
    return port


class AwaitsPort:
    """A spawner whose session says itself which port it took; the first word counts, and only while starting."""

    _port: asyncio.Future[int] | None = None
    _listens_at = 0

    @property
    def announced(self) -> int:
        """The port that the server has told, or 0."""
        return self._port.result() if self._port and self._port.done() else 0

    def expect_port(self) -> asyncio.Future[int]:
        """From now on a port is waited for."""
        self._port = asyncio.get_running_loop().create_future()
        return self._port

    def forget_port(self) -> None:
        """From now on no port is accepted."""
        self._port = None

    def accept_port(self, port: int) -> bool:
        """Take the port; ``False`` when none is waited for. The same port again is the same answer again."""
        if self._port is None:
            return port == self._listens_at
        if self._port.done():
            return self._port.result() == port
        self._port.set_result(port)
        return True

    async def take_port(self, port: int) -> bool:
        """What a session tells."""
        return self.accept_port(port)

    def ends_soon(self) -> None:
        """The session has said that it ends; where this does nothing, the next poll notices."""


class SessionHandler(APIHandler):  # type: ignore[misc]
    """What a session says about itself; it is known by its own token, and nobody else's will do."""

    def session(self) -> Any:
        """The spawner whose own token this request carries.

        Raises:
            web.HTTPError: 403, the token belongs to no session.
        """
        token = (self.get_auth_token() or "").encode()
        for spawner in getattr(self.current_user, "spawners", {}).values():
            known = hasattr(spawner, "take_port") and spawner.api_token
            if known and hmac.compare_digest(spawner.api_token.encode(), token):
                return spawner
        raise web.HTTPError(403, "this token belongs to no session")


class ReadyHandler(SessionHandler):
    """``POST /hub/api/dsportal/ready``: a session says where it listens."""

    async def post(self) -> None:
        """Accept the port of a session that is starting: 204; 400, 403 or 409 otherwise."""
        try:
            port = read_port(self.get_json_body())
        except ValueError as error:
            raise web.HTTPError(400, str(error)) from error
        spawner = self.session()
        if not await spawner.take_port(port):
            raise web.HTTPError(409, "this session is not starting")
        if following := getattr(spawner, "following", None):  # a requeued job: the session runs already, elsewhere
            await asyncio.wait([following])
            if following.cancelled():
                raise web.HTTPError(409, "this session was stopped")
            await self.proxy.add_user(self.current_user, spawner.name)
        self.set_status(204)


class EndingHandler(SessionHandler):
    """``POST /hub/api/dsportal/ending``: a session says that it ends. It is only a hint to ask Slurm now."""

    async def post(self) -> None:
        """Look at Slurm soon: 204; 403 for a token that belongs to no session."""
        self.session().ends_soon()
        self.set_status(204)


def install() -> None:
    """Put our handler where batchspawner registered its own; doing it twice changes nothing."""
    theirs = batchspawner.api.BatchSpawnerAPIHandler
    kept = [route for route in default_handlers if route[1] not in (theirs, ReadyHandler, EndingHandler)]
    ours = [(r"/api/dsportal/ready", ReadyHandler), (r"/api/dsportal/ending", EndingHandler)]
    default_handlers[:] = [*kept, *ours]
