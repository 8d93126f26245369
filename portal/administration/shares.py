"""Sharing of one's own session, where a site has turned JupyterHub's on: a share has no end, as a token has.

So it is made as a token is: by who has given the password not long ago, and not by whoever has the browser for a
minute, or its cookie.
"""

from __future__ import annotations

from typing import Any

from jupyterhub.apihandlers.shares import ServerShareAPIHandler, ServerShareCodeAPIHandler

from portal.administration import again
from portal.language.texts import N_

NEEDED = N_("Sharing a session needs your password or login once more: load the page Token, and share then.")


class _FreshShares:
    """Before a handler that gives others access to a session."""

    async def post(self, *names: str) -> Any:
        """Share it.

        Raises:
            again.Refused: 403, the password was given long ago.
        """
        if not again.is_fresh_for_tokens(self):
            raise again.Refused(403, NEEDED)
        return await super().post(*names)  # type: ignore[misc]


class FreshSharesHandler(_FreshShares, ServerShareAPIHandler):  # type: ignore[misc]
    """Shares with somebody by name."""


class FreshShareCodesHandler(_FreshShares, ServerShareCodeAPIHandler):  # type: ignore[misc]
    """Shares with whoever has the code."""


HANDLERS = tuple(
    (rf"/api/{what}/([^/]+){session}", handler)
    for what, handler in (("shares", FreshSharesHandler), ("share-codes", FreshShareCodesHandler))
    for session in ("", "/([^/]*)")
)
