"""What a cookie alone is not enough for: the password is asked again when it was not given for some minutes.

Who leaves a browser open, or loses a cookie, gives nobody a token that lives on, and nobody an administrator's pages.
Scripts, which come with a token, are not asked. Of a login that a site has set itself the portal knows no password to
ask for: there the login must be that young, and another one is the way on.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from jupyterhub import orm
from jupyterhub.apihandlers.users import UserTokenListAPIHandler
from jupyterhub.handlers.base import BaseHandler
from jupyterhub.handlers.pages import AdminHandler, TokenPageHandler
from jupyterhub.utils import url_path_join
from tornado import web
from tornado.httputil import url_concat

from portal.administration.figures import forecast_figures
from portal.databases.token_notes import NOTE_MAX
from portal.errors import DirectoryError
from portal.language.texts import N_, _

FOR_TOKENS_S = 600.0
FOR_ADMINISTRATORS_S = 900.0
REMEMBERED = 20_000  # people
REMEMBERED_EACH = 100  # browsers of one person
TOKEN_MAX = 8 * 1024  # of JSON
TOKENS_MAX = 100
LONGEST_S = 100 * 365 * 24 * 3600  # nearer than the last year that a date can be of
BY_HAND = "jupyterhub"  # whose token it is by JupyterHub: not a session's
PAGE = "again"
SETTING = "portal_logins"
WORDS = N_(
    "Changing what is other people's needs your password, not more than 15 minutes ago. Type it again: {address}"
)
LONGER_THAN_ITS_MAKER = N_(
    "A token that is made with another one ends with it, in {number} seconds at most (expires_in). On the page Token "
    "longer ones are made."
)


class Refused(web.HTTPError):
    """A request that is refused, with what JupyterHub's error page, or its REST API, says of it."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(status, "%s", words)
        self.jupyterhub_message = _(words)


class Checks:
    """When the password was last given in each browser's session, in memory: a hub that comes back asks again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._given: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()  # of each person

    def note(self, session: str, name: str) -> None:
        """It was given now, and was right."""
        given = self._given.setdefault(name, OrderedDict())
        given[session] = self._clock()
        given.move_to_end(session)
        self._given.move_to_end(name)
        if len(given) > REMEMBERED_EACH:
            given.popitem(last=False)
        if len(self._given) > REMEMBERED:
            self._given.popitem(last=False)

    def is_fresh(self, session: str, name: str, within_s: float) -> bool:
        """Whether it was given not long ago."""
        given = self._given.get(name, OrderedDict[str, float]()).get(session)
        return bool(session) and given is not None and self._clock() - given < within_s


def _checks(handler: Any) -> Checks:
    """When passwords were given; of a login that a site has set itself, when people logged in."""
    known = getattr(handler.authenticator, "checks", None)
    if isinstance(known, Checks):
        return known
    logins: Checks = handler.settings.setdefault(SETTING, Checks())
    return logins


def note(handler: Any, name: str) -> None:
    """The password was right, in this handler's session."""
    _checks(handler).note(handler.get_session_cookie() or "", name)


def is_fresh(handler: Any, within_s: float) -> bool:
    """Whether who asks has given the password not long ago, or asks with a token, which is no browser's."""
    user = handler.current_user
    if user is None or getattr(handler, "_token_authenticated", False):
        return True  # nobody yet: the handler itself says what comes of that
    return _checks(handler).is_fresh(handler.get_session_cookie() or "", user.name, within_s)


def is_fresh_for_tokens(handler: Any) -> bool:
    """The same, for a new token."""
    is_by_login = _checks(handler) is handler.settings.get(SETTING)
    return is_fresh(handler, FOR_ADMINISTRATORS_S if is_by_login else FOR_TOKENS_S)


def ask(handler: Any) -> None:
    """Lead to the page that asks for the password, and back."""
    place = url_path_join(handler.hub.base_url, PAGE)
    handler.redirect(url_concat(place, {"next": handler.request.uri}))


def check(handler: Any) -> None:
    """Refuse what an administrator does without a password that was given not long ago.

    Raises:
        Refused: 403, with where to give it.
    """
    if not is_fresh(handler, FOR_ADMINISTRATORS_S):
        raise Refused(403, _(WORDS).format(address=url_path_join(handler.hub.base_url, PAGE)))


class AgainHandler(BaseHandler):  # type: ignore[misc]
    """The page that asks for the password of who is logged in already."""

    @web.authenticated
    async def get(self) -> None:
        """The form."""
        await self._show("")

    @web.authenticated
    async def post(self) -> None:
        """Check the password, and lead back; or the form again, with the reason."""
        values = self.request.body_arguments.get("password", [])
        password = values[0].decode() if len(values) == 1 else ""
        name = self.current_user.name
        try:
            await self.authenticator.verify(self, name, password)
        except DirectoryError as error:
            self.set_status(403)
            await self._show(_(error.message))
            return
        note(self, name)
        self.redirect(self._back)

    @property
    def _back(self) -> str:
        found: str = self.get_next_url(self.current_user, default=url_path_join(self.hub.base_url, "home"))
        return found

    async def _show(self, fault: str) -> None:
        action = url_concat(self.request.path, {"next": self._back})
        self.finish(await self.render_template("again.html", action=action, fault=fault))


class NewLoginPage(BaseHandler):  # type: ignore[misc]
    """The page that stands in for it where a site has set another login: how to log in anew."""

    @web.authenticated
    async def get(self) -> None:
        """The page, with the button that logs out; or on, where the login is young already."""
        if is_fresh_for_tokens(self):
            self.redirect(self.get_next_url(self.current_user, default=url_path_join(self.hub.base_url, "token")))
            return
        self.finish(await self.render_template("new_login.html", minutes=int(FOR_ADMINISTRATORS_S // 60)))


class BoundTokensHandler(UserTokenListAPIHandler):  # type: ignore[misc]
    """Tokens of a person: a new one is short, and ends with the token that it was made with."""

    def get_json_body(self) -> Any:
        """What it is for, and its scopes, which the hub keeps."""
        if len(self.request.body) > TOKEN_MAX:
            words = _("What a token is for, and its scopes, are at most {number} bytes.")
            raise Refused(413, words.format(number=TOKEN_MAX))
        body = super().get_json_body()
        _check_token(body)
        return self._within_its_maker(body)

    def _within_its_maker(self, body: Any) -> Any:
        """A token that is made with another one ends with it, or who has copied one would have one for ever."""
        maker = self.get_token() if getattr(self, "_token_authenticated", False) else None
        if maker is None or maker.expires_at is None or not isinstance(body, dict | None):
            return body
        rest_s = max(int(maker.expires_in), 1)
        wanted = (body or {}).get("expires_in")
        if isinstance(wanted, int) and wanted > rest_s:
            raise Refused(400, _(LONGER_THAN_ITS_MAKER).format(number=rest_s))
        return {**(body or {}), "expires_in": rest_s if wanted is None else wanted}


class FreshTokensHandler(BoundTokensHandler):
    """A token is made by who has given the password not long ago."""

    async def post(self, user_name: str) -> None:
        """Make one; of one person there are so many at a time."""
        if not is_fresh_for_tokens(self):
            raise Refused(403, N_("A new token needs your password or login once more: load the page Token again."))
        await super().post(user_name)

    def get_scope_filter(self, scope: str) -> Any:
        """JupyterHub's own (6.1, post), and then whether there is room: nobody else hears of that."""
        may = super().get_scope_filter(scope)

        def has_room(user: Any, kind: str) -> bool:
            return bool(may(user, kind=kind)) and self._check_room(user.name)

        return has_room if scope == "tokens" and self.request.method == "POST" else may

    def _check_room(self, name: str) -> bool:
        theirs = self.db.query(orm.APIToken).filter(orm.APIToken.user.has(orm.User.name == name))
        if theirs.filter(orm.APIToken.client_id == BY_HAND).count() >= TOKENS_MAX:
            words = _("There are {number} tokens of {name}: revoke some first.")
            raise Refused(409, words.format(number=TOKENS_MAX, name=name))
        return True


def _check_token(body: object) -> None:
    """JupyterHub (6.1) looks at what a token may do, and not at the rest.

    Raises:
        web.HTTPError: 400, with what is allowed.
    """
    if not isinstance(body, dict):
        return  # JupyterHub says that it is none
    note = body.get("note", "")
    if not isinstance(note, str | None) or len(note or "") > NOTE_MAX:
        raise web.HTTPError(400, f"The note of a token is a text of at most {NOTE_MAX} characters.")
    expires_in = body.get("expires_in")
    if isinstance(expires_in, int) and not 0 < expires_in <= LONGEST_S:
        raise web.HTTPError(400, f"A token is for 1 to {LONGEST_S} seconds (expires_in).")


class FreshTokenPage(TokenPageHandler):  # type: ignore[misc]
    """The page on which tokens are made."""

    @web.authenticated
    async def get(self) -> None:
        """The page, or first the password."""
        if not is_fresh_for_tokens(self):
            ask(self)
            return
        await super().get()


class FreshAdminPage(AdminHandler):  # type: ignore[misc]
    """The page of administrators, with how good forecasts were."""

    def render_template(self, name: str, sync: bool = False, **given: Any) -> Any:
        """JupyterHub's page, and below it the portal's figures; pages of errors have none."""
        figures = {} if sync or name != "admin.html" else {"forecasts": forecast_figures(self.db)}
        return super().render_template(name, sync, **given, **figures)

    @web.authenticated
    async def get(self) -> None:
        """The page, or first the password."""
        if not is_fresh(self, FOR_ADMINISTRATORS_S):
            ask(self)
            return
        await super().get()


HANDLERS = [
    (f"/{PAGE}", AgainHandler),
    ("/token", FreshTokenPage),
    ("/admin", FreshAdminPage),
    (r"/api/users/([^/]+)/tokens", FreshTokensHandler),
]
# Where a site has set another login; those of LDAP's stand before them.
OF_EVERY_LOGIN = (
    (f"/{PAGE}", NewLoginPage),
    ("/token", FreshTokenPage),
    (r"/api/users/([^/]+)/tokens", FreshTokensHandler),
)


class Noting:
    """Before the handlers of a hub whose login a site has set itself: when somebody logged in is known."""

    async def login_user(self, data: Any = None) -> Any:
        """As JupyterHub does."""
        user = await super().login_user(data)  # type: ignore[misc]
        if user is not None:
            note(self, user.name)
        return user


def noting(handlers: list[Any]) -> list[Any]:
    """The handlers of a hub: they know when people log in."""
    return [standing_before(route, Noting) for route in handlers]


def standing_before(route: Any, before: type) -> Any:
    """A route whose handler has this class before it, if it is one of the hub's."""
    path, handler, *rest = route
    if not isinstance(handler, type) or not issubclass(handler, BaseHandler) or issubclass(handler, before):
        return route
    named = {"__doc__": handler.__doc__, "__module__": handler.__module__}
    return (path, type(handler.__name__, (before, handler), named), *rest)
