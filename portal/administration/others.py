"""What is other people's: pages and the REST API change it for a recent password, and not for a cookie alone."""

from __future__ import annotations

import re
from typing import Any

from jupyterhub.apihandlers import APIHandler
from jupyterhub.scopes import Scope

from portal.administration.again import FOR_ADMINISTRATORS_S, ask, check, is_fresh, standing_before

SAFE = ("GET", "HEAD", "OPTIONS")
# The REST API's addresses in which a person's name comes first (JupyterHub 6.1, and the portal's own).
NAMES_SOMEBODY = re.compile(r"api/(users|shares|share-codes|dsportal/[a-z]+)/")
# What somebody may change of other people's with one of these is asked about.
CHANGES = (
    *("delete:servers", "start:servers", "admin:server_state", "delete:users", "users", "admin:users", "tokens"),
    *("groups", "delete:groups", "admin:services", "shutdown", "proxy", "users:shares", "groups:shares", "shares"),
    "users:activity",
)


class Asking:
    """Stands before pages and the REST API: a change of what is another person's asks for a recent password."""

    async def prepare(self: Any) -> None:
        """As JupyterHub does; then refuse what needs a password that was not given lately: a page asks for it."""
        await super().prepare()  # type: ignore[misc]
        if self._finished or not self.current_user or self.request.method in SAFE or not _concerns_others(self):
            return
        if isinstance(self, APIHandler):
            check(self)
        elif not is_fresh(self, FOR_ADMINISTRATORS_S):
            ask(self)


def _concerns_others(handler: Any) -> bool:
    """Whether who asks may change, with this very request, what is not their own."""
    own = handler.current_user.name
    is_page = not isinstance(handler, APIHandler)
    place = handler.request.path.removeprefix(handler.hub.base_url)
    if not is_page and not NAMES_SOMEBODY.match(place):  # a group's, say, or everybody's
        return any(_is_of_others(handler.parsed_scopes.get(scope), own) for scope in CHANGES)
    named = [*handler.path_args, *handler.path_kwargs.values()]
    name = named[0] if named else (own if is_page else "")
    return bool(name != own and any(_may(handler, scope, name) for scope in CHANGES))


def _is_of_others(filters: Any, own: str) -> bool:
    """Whether a scope with these filters of JupyterHub's reaches more than what is somebody's own."""
    if filters is None or filters == Scope.ALL:
        return filters is not None
    owners = {name.partition("/")[0] for kind in ("user", "server") for name in filters.get(kind, ())}
    return bool(owners - {own} or filters.keys() - {"user", "server"})


def _may(handler: Any, scope: str, name: str) -> bool:
    """Whether who asks has a scope for a person, or for one of that person's sessions."""
    filters = handler.parsed_scopes.get(scope) or {}
    sessions = () if filters == Scope.ALL else filters.get("server", ())
    is_for_one = any(session.startswith(f"{name}/") for session in sessions)
    return is_for_one or bool(handler.has_scope(f"{scope}!user={name}"))


def asking(handlers: list[Any]) -> list[Any]:
    """The handlers of a hub: they ask for a password where it is due."""
    return [standing_before(route, Asking) for route in handlers]
