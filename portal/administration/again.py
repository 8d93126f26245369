"""A password once more: what administrators change of other people's asks for one of the last 15 minutes.

A browser that is left alone, or a login that was copied, then ends nobody's session. It is kept in memory by login, so
a hub that was restarted asks once more. Scripts, which come with a token, are not asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from jupyterhub.apihandlers import APIHandler
from jupyterhub.handlers import BaseHandler
from jupyterhub.scopes import Scope
from tornado import web

LASTS_S = 15 * 60.0
MOST = 10_000  # logins that are remembered
SETTING = "dsportal_passwords"  # its key in JupyterHub's settings
ADDRESS = "dsportal/again"  # below the hub's own
LONGEST_NEXT = 2000
SAFE = ("GET", "HEAD", "OPTIONS")
# What may be done to others with these scopes is asked about.
CHANGES = (
    *("delete:servers", "start:servers", "admin:server_state", "delete:users", "users", "admin:users", "tokens"),
    *("groups", "delete:groups", "admin:services", "shutdown", "proxy", "users:shares", "groups:shares", "shares"),
)
WORDS = "Changing what is other people's asks for your password every 15 minutes. Give it at {address}, then try again."
Login = tuple[str, str]


class Refused(web.HTTPError):
    """A request that is refused, with what JupyterHub's error page, or its REST API, says of it."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(status, "%s", words)
        self.jupyterhub_message = words


class Passwords:
    """Which logins gave a password when, on a clock that never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._given_at: dict[Login, float] = {}

    def note(self, login: Login) -> None:
        """This login has given its password now."""
        self._given_at.pop(login, None)
        self._given_at[login] = self._clock()
        while len(self._given_at) > MOST:
            self._given_at.pop(next(iter(self._given_at)))

    def is_recent(self, login: Login) -> bool:
        """Whether this login has given its password in the last 15 minutes."""
        given_at = self._given_at.get(login)
        return given_at is not None and self._clock() - given_at < LASTS_S


def _passwords(handler: Any) -> Passwords:
    passwords: Passwords = handler.settings.setdefault(SETTING, Passwords())
    return passwords


def _login_of(handler: Any, user: Any) -> Login:
    """One login of a person: with another password or after a logout it is another one."""
    return (str(user.cookie_id), str(handler.get_session_cookie() or ""))


def note(handler: Any, user: Any) -> None:
    """Somebody has just given the right password, in this request."""
    _passwords(handler).note(_login_of(handler, user))


def is_recent(handler: Any) -> bool:
    """Whether who asks has given the password in the last 15 minutes."""
    return _passwords(handler).is_recent(_login_of(handler, handler.current_user))


def address(handler: Any, after: str = "") -> str:
    """Where the password is asked for.

    Arguments:
        after: the path that follows then.
    """
    where = f"{handler.hub.base_url}{ADDRESS}"
    return f"{where}?next={quote(after)}" if after else where


def check(handler: Any) -> None:
    """Refuse what needs a password that was not given lately.

    Raises:
        web.HTTPError: 403, with where to give it.
    """
    if not is_recent(handler):
        raise Refused(403, WORDS.format(address=address(handler)))


class AgainHandler(BaseHandler):  # type: ignore[misc]
    """``/hub/dsportal/again``: asks for the password of who is logged in, and leads to ``next``."""

    @web.authenticated
    async def get(self) -> None:
        """Ask."""
        await self._show()

    @web.authenticated
    async def post(self) -> None:
        """Check; a wrong password counts like one at the login page."""
        user = self.current_user
        given = {"username": user.name, "password": self.get_body_argument("password", "", strip=False)}
        try:
            found = await self.authenticator.get_authenticated_user(self, given)
        except web.HTTPError as error:
            await self._show(error)
            return
        if not found or found["name"] != user.name:
            await self._show(web.HTTPError(403, "not the same person"))
            return
        note(self, user)
        self.redirect(self._next or f"{self.hub.base_url}admin")

    @property
    def _next(self) -> str:
        return str(self._validate_next_url(self.get_argument("next", "")[:LONGEST_NEXT]))

    async def _show(self, error: web.HTTPError | None = None) -> None:
        words = getattr(error, "jupyterhub_message", "That was not your password.") if error else ""
        self.set_status(error.status_code if error else 200)
        self.finish(await self.render_template("again.html", next_url=self._next, error=words))


class Asking:
    """Stands before a handler of the REST API: a change of what is another person's asks for a recent password."""

    async def prepare(self: Any) -> None:
        """As JupyterHub does; then refuse what needs a password that was not given lately."""
        await super().prepare()  # type: ignore[misc]
        is_by_cookie = self.current_user and not getattr(self, "_token_authenticated", False)
        if is_by_cookie and self.request.method not in SAFE and _concerns_others(self):
            check(self)


def _concerns_others(handler: Any) -> bool:
    """Whether who asks may change, with this very request, what is not their own."""
    if "/api/users/" not in handler.request.path:
        return any(handler.parsed_scopes.get(scope) == Scope.ALL for scope in CHANGES)
    name = handler.path_args[0] if handler.path_args else ""
    if name == handler.current_user.name:
        return False
    return any(handler.has_scope(f"{scope}!user={name}") for scope in CHANGES)


def asking(handlers: list[Any]) -> list[Any]:
    """The handlers of a hub; those of the REST API ask for a password where it is due."""
    return [_asking(route) for route in handlers]


def _asking(route: Any) -> Any:
    path, handler, *rest = route
    if not isinstance(handler, type) or not issubclass(handler, APIHandler) or issubclass(handler, Asking):
        return route
    return (path, type(handler.__name__, (Asking, handler), {"__doc__": handler.__doc__}), *rest)
