"""Which session a route leads to: a word that this start's certificate has, and no earlier one.

A certificate is good for longer than a session, and a name may be given to another account. Without the word, whoever
has kept the key of an ended session could answer in the place of the next one of that name.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

WORD = "session_word"  # of a route; deploy/site/proxy_owner.mjs compares it with the certificate's
_word: ContextVar[str] = ContextVar("session_word", default="")


class WithWord:
    """Before a proxy of JupyterHub: the routes of sessions say which session it is."""

    async def add_user(self, user: Any, server_name: str = "") -> None:
        """The route of a session."""
        token = _word.set(getattr(user.spawners[server_name], "session_word", ""))
        try:
            await super().add_user(user, server_name)  # type: ignore[misc]
        finally:
            _word.reset(token)

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None:
        """A route, with the word of the session that it leads to."""
        word = _word.get()
        await super().add_route(routespec, target, {**data, WORD: word} if word else data)  # type: ignore[misc]
