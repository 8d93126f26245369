"""Somebody's first login is one change of the database: JupyterHub (6.1) makes four of it, and each takes a while."""

from __future__ import annotations

from typing import Any

from portal.databases.connections import one_change


class FirstLogins:
    """Before a handler of JupyterHub's that logs people in."""

    db: Any
    users: Any
    authenticator: Any
    _record_activity: Any
    _groups: list[str] | None = None

    async def auth_to_user(self, authenticated: dict[str, Any], user: Any = None) -> Any:
        """Who this is, known from now on, with what the authenticator says."""
        self._groups = authenticated.get("groups") if self.authenticator.manage_groups else None
        return await super().auth_to_user(authenticated, user)  # type: ignore[misc]

    def user_from_username(self, username: str) -> Any:
        """Somebody new, kept with role, groups, place for a session and the time of this login, or not at all."""
        number = None
        try:
            with one_change(self.db):
                user = super().user_from_username(username)  # type: ignore[misc]
                number = user.id
                self._record_activity(user)
                if self._groups:
                    user.sync_groups(self._groups)
        except Exception:
            self.users.pop(number, None)  # the next one may have that number
            raise
        return user
