"""Sharing of one's own session, where a site has turned JupyterHub's on: a share has no end, as a token has.

So it is made as a token is: by who has given the password not long ago, and not by whoever has the browser for a
minute, or its cookie.
"""

from __future__ import annotations

from typing import Any

from jupyterhub import orm
from jupyterhub.apihandlers.shares import ServerShareAPIHandler, ServerShareCodeAPIHandler
from jupyterhub.scopes import ScopeNotFound, _check_scopes_exist
from tornado import web

from portal.administration import again
from portal.language.texts import N_, _

CODES_MOST = 100
MANY = N_("There are {number} codes for sessions of {name}: delete some first.")
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

    def get_json_body(self) -> dict[str, Any]:
        """What is asked for: JupyterHub (6.1) takes it for an object, and its scopes for such as there are."""
        body = super().get_json_body()  # type: ignore[misc]
        if not isinstance(body, dict | None):
            raise web.HTTPError(400, "The body has to be a JSON object.")
        asked = {name: value for name, value in (body or {}).items() if value != ""}
        try:
            _check_scopes_exist(_texts(asked.get("scopes")), who_for="share")
        except ScopeNotFound as error:
            raise web.HTTPError(400, str(error.args[0])) from error
        return asked


def _texts(given: Any) -> list[str]:
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []


class FreshSharesHandler(_FreshShares, ServerShareAPIHandler):  # type: ignore[misc]
    """Shares with somebody by name."""


class FreshShareCodesHandler(_FreshShares, ServerShareCodeAPIHandler):  # type: ignore[misc]
    """Shares with whoever has the code; of one person there are so many, which go one by one with the session."""

    def _lookup_spawner(self, user_name: str, *place: Any, **named: Any) -> Any:
        """JupyterHub's own (6.1), which it asks when it knows that who asks may share; then whether there is room."""
        found = super()._lookup_spawner(user_name, *place, **named)
        if self.request.method == "POST":
            theirs = self.db.query(orm.ShareCode).filter(orm.ShareCode.owner.has(orm.User.name == user_name))
            if theirs.count() >= CODES_MOST:
                raise again.Refused(409, _(MANY).format(number=CODES_MOST, name=user_name))
        return found


HANDLERS = tuple(
    (rf"/api/{what}/([^/]+){session}", handler)
    for what, handler in (("shares", FreshSharesHandler), ("share-codes", FreshShareCodesHandler))
    for session in ("", "/([^/]*)")
)
