"""Web sockets end with the login that opened them: an open terminal would outlive a logout, and a changed password.

The hub is asked about each open one as often as for any other request, and through the same cache. A hub that does not
answer ends none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakSet

from tornado.httpclient import HTTPClientError
from tornado.web import HTTPError
from tornado.websocket import WebSocketHandler

LOOK_EVERY_S = 5.0
GONE = 4001  # a number of our own (RFC 6455 §7.4.2)
WHY = "this login has ended"


class OpenSockets:
    """The open web sockets of this session.

    Args:
        is_login: whether the login with which a request came goes on; raises when the hub does not answer.
    """

    def __init__(self, is_login: Callable[[Any], Awaitable[bool]]) -> None:
        self._is_login = is_login
        self._sockets: WeakSet[WebSocketHandler] = WeakSet()

    def watch(self) -> None:
        """From now on notice every web socket that is opened in this process, whatever opens it."""
        opened = WebSocketHandler.get_websocket_protocol

        def noticed(handler: WebSocketHandler) -> Any:
            self._sockets.add(handler)
            return opened(handler)

        WebSocketHandler.get_websocket_protocol = noticed  # type: ignore[method-assign, assignment]

    async def look(self) -> None:
        """Close those whose login has ended."""
        for handler in [one for one in self._sockets if one.ws_connection is not None]:
            try:
                goes_on = await self._is_login(handler)
            except (HTTPError, HTTPClientError, OSError):
                continue
            if not goes_on and handler.ws_connection is not None:
                handler.close(GONE, WHY)


def login_of_hub(hub_auth: Any) -> Callable[[Any], Awaitable[bool]]:
    """Whether the token with which a request came still opens this session (HubOAuth of JupyterHub 6.1)."""

    async def is_login(handler: Any) -> bool:
        token = hub_auth.get_token(handler)
        session_id = hub_auth.get_session_id(handler)
        found = await hub_auth.user_for_token(token, session_id=session_id, sync=False) if token else None
        return bool(found and hub_auth.check_scopes(hub_auth.access_scopes, found))

    return is_login
