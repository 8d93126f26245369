"""What every request to the hub must keep to, and what every answer says to the browser.

A person owns what answers below ``/user/NAME/``: where all share one host name, a page of theirs is of the hub's own
origin. What a browser itself says of a request (Fetch Metadata, W3C) tells such a page from the hub's pages.
:class:`~portal.hub.app.PortalHub` puts this in front of all its handlers.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from jinja2.ext import Extension
from jupyterhub.apihandlers import APIHandler
from jupyterhub.apihandlers.users import SpawnProgressAPIHandler, UserServerAPIHandler, UserTokenAPIHandler
from jupyterhub.handlers import base, metrics, pages
from jupyterhub.utils import get_browser_protocol, url_path_join
from sqlalchemy.exc import InterfaceError, OperationalError, PendingRollbackError, SQLAlchemyError
from tornado import web
from tornado.httputil import HTTPHeaders

from portal.addresses import path_of
from portal.guard import announcement, form_token, intake, readers, refusals, silences
from portal.guard.texts import check_address, check_body, check_digits, check_json, refused
from portal.guard.told import Told, ToldCall, ToldFile, ToldPage, ToldProgress
from portal.language.templates import Translated
from portal.language.texts import N_, chosen, speak

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-site",
}
STRICT_TRANSPORT = "max-age=31536000"
# What scripts may fetch of the hub's pages: answers to requests for sessions that are away, and what is no page.
FETCHED = (
    base.UserUrlHandler,
    base.PrefixRedirectHandler,
    base.AddSlashHandler,
    base.CSPReportHandler,
    pages.HealthCheckHandler,
    metrics.MetricsHandler,
)
NUMBERED = (UserTokenAPIHandler, pages.ProxyErrorHandler)  # whose addresses end with the number of something
ELSEWHERE = N_("This came from another page than the portal's own. Do it on the portal's pages.")
NO_DATABASE = N_("The portal's database does not answer. Running sessions go on; try again in a minute.")
OF_A_DATABASE_AWAY = (OperationalError, InterfaceError, PendingRollbackError)


def check(request: Any, sessions: list[str], is_page: bool, is_program: bool = False, is_call: bool = False) -> None:
    """Look at where a request comes from, before anything of it is done.

    Arguments:
        sessions: the beginnings of the paths where people's own servers answer.
        is_page: whether it asks for a page, which no script reads.
        is_program: whether it counts by its token alone: no page can send one that it does not know.
        is_call: whether it asks the REST API, which no picture of a page does.

    Raises:
        web.HTTPError: 400 for what is no text, 403 for what comes from elsewhere; nothing was done.
    """
    check_address(request)
    if is_program:
        return
    if request.method not in SAFE_METHODS and (readers.is_led(request.headers) or _is_below(request, sessions)):
        raise refused(403, ELSEWHERE)
    if (is_page and readers.is_read(request)) or (is_call and readers.is_of_a_page(request)):
        raise refused(403, readers.ONLY_A_PAGE)


def take_login(request: Any) -> bool:
    """Whether a request brings a token of the hub, right or wrong; the login of the browser that sends it goes away."""
    if base.auth_header_pat.match(request.headers.get("Authorization", "")) is None:
        return False
    request.headers.pop("Cookie", None)
    vars(request).pop("_cookies", None)  # as Tornado has read them
    return True


def _is_below(request: Any, sessions: Iterable[str]) -> bool:
    return path_of(request.headers.get("Referer", "")).startswith(tuple(sessions))


class Guarded(intake.OwnTurn, form_token.OwnFormToken, Told):
    """Before one of JupyterHub's handlers: see :func:`check`."""

    request: Any
    settings: dict[str, Any]
    path_args: list[str]
    _accept_token_auth: bool
    _is_database_away = False
    _is_let_in = False
    set_header: Callable[[str, str], None]
    db: Any

    def set_default_headers(self) -> None:
        """What is for one person is kept by no cache; what is said from here on is in the browser's language."""
        speak(chosen(self.request.headers.get("Accept-Language", "")))
        super().set_default_headers()  # type: ignore[misc]
        self.set_header("Cache-Control", "no-store")
        readers.keep_policy(self)

    def set_cookie(self, name: str, value: str | bytes, *arguments: Any, **attributes: Any) -> None:
        """No script reads it, no other site sends it, and HTTPS alone carries it where there is HTTPS."""
        if self._is_database_away or not self._is_let_in:
            return  # all look like nobody then, and nobody's token would take the place of a person's own
        attributes["httponly"] = True
        attributes.setdefault("samesite", "Lax")
        if get_browser_protocol(self.request) == "https":
            attributes["secure"] = True
        super().set_cookie(name, value, *arguments, **attributes)

    def _log(self) -> None:
        """What the proxy could not lead to a session is logged without that address, which may hold a token."""
        if isinstance(self, pages.ProxyErrorHandler):
            self.request.uri = self.request.path
        super()._log()

    async def prepare(self) -> None:
        """Refuse what must not come here, then do as JupyterHub does."""
        sessions = [url_path_join(self.settings["base_url"], place) + "/" for place in ("user", "services")]
        is_page = isinstance(self, GuardedPage) and not (isinstance(self, FETCHED) or hasattr(self, "is_picture"))
        is_program = self._accept_token_auth and take_login(self.request)
        check(self.request, sessions, is_page, is_program, isinstance(self, GuardedCall))
        if isinstance(self, NUMBERED):
            check_digits(self.path_args[-1])
        self._is_let_in = True
        await super().prepare()

    async def get_current_user(self) -> Any:
        """The person, as JupyterHub finds her."""
        try:
            return await super().get_current_user()
        except SQLAlchemyError:
            self._is_database_away = True
            raise

    def send_error(self, status_code: int = 500, **told: Any) -> None:
        """Say in words that the database is away, wherever a page or a call noticed it."""
        error, trace = (told.get("exc_info") or (None, None, None))[1:]
        if isinstance(error, OF_A_DATABASE_AWAY):
            self.db.rollback()
            error = refused(503, NO_DATABASE)
            status_code = 503
            told["exc_info"] = (type(error), error, trace)
        super().send_error(status_code, **told)  # type: ignore[misc]

    def _resolve_roles_and_scopes(self) -> None:
        """JupyterHub (6.1, prepare) takes whoever it cannot look up for nobody, and sessions would end her logins."""
        if self._is_database_away:
            self.expanded_scopes: set[str] = set()  # the page that says so asks for both
            self.parsed_scopes: dict[str, Any] = {}
            raise refused(503, NO_DATABASE)
        super()._resolve_roles_and_scopes()  # type: ignore[misc]


class GuardedCall(ToldCall, Guarded):
    """Before a handler of the REST API."""

    def get_json_body(self) -> Any:
        """The body, all of whose texts and numbers the database could keep."""
        check_body(self.request.body)
        body = super().get_json_body()  # type: ignore[misc]
        check_json(body)
        return body


class GuardedServerCall(GuardedCall):
    """Before JupyterHub's calls for one session, which read some bodies in a way of their own."""

    def get_server_json_body(self) -> Any:
        """The body, looked at in the same way."""
        check_body(self.request.body)
        body = super().get_server_json_body()  # type: ignore[misc]
        check_json(body)
        return body


class GuardedProgress(ToldProgress, GuardedCall):
    """Before the events of a start."""


class GuardedPage(ToldPage, Guarded):
    """Before a handler of pages: their scripts are the templates' own, and no script reads them."""

    @property
    def csp_nonce(self) -> str:
        """Known to this one answer: a script that carries it is one of its templates'."""
        if not hasattr(self, "_csp_nonce"):
            self._csp_nonce = secrets.token_urlsafe(16)
        return self._csp_nonce

    @property
    def content_security_policy(self) -> str:
        """What a page of the hub may load and do."""
        stock: str = super().content_security_policy  # type: ignore[misc]
        parts = {
            "default-src": "'none'",
            "script-src": f"'nonce-{self.csp_nonce}' 'strict-dynamic'",  # require.js brings its modules itself
            "style-src": "'self' 'unsafe-inline'" if isinstance(self, pages.AdminHandler) else "'self'",  # its React
            "style-src-attr": "'unsafe-inline'",  # JupyterHub's templates hide parts of a page so
            "img-src": "'self' data:",
            "font-src": "'self'",
            "connect-src": "'self'",
            "manifest-src": "'self'",
            "base-uri": "'none'",
            "form-action": " ".join(["'self'", *_led_to(self.settings)]),
        }
        return "; ".join([stock, *(f"{name} {value}" for name, value in parts.items())])

    def render_template(self, name: str, **names: Any) -> Any:
        """Render one; what a script has asked for tells it no token."""
        names["csp_nonce"] = self.csp_nonce
        if readers.is_read(self.request):
            names |= {"xsrf": "", "xsrf_token": ""}
        return super().render_template(name, **names)


def _led_to(settings: Mapping[str, Any]) -> Iterator[str]:
    """Where a form may lead to beside the hub: people's own host names, and a site's services on other hosts."""
    people = urlsplit(settings.get("subdomain_host", ""))
    if people.netloc:
        yield f"{people.scheme}://*.{people.netloc}"
    for service in settings.get("services", {}).values():
        place = urlsplit(service.oauth_redirect_uri or "")
        if place.netloc:
            yield f"{place.scheme}://{place.netloc}"


def stand_before(hub: Any) -> None:
    """Put the guard before each handler of a hub."""
    made: dict[type, type] = {}

    def guarded(handler: type) -> type:
        if issubclass(handler, Told):
            return handler
        if issubclass(handler, SpawnProgressAPIHandler):
            before: type = GuardedProgress
        elif issubclass(handler, UserServerAPIHandler):
            before = GuardedServerCall
        elif issubclass(handler, base.BaseHandler):
            before = GuardedCall if issubclass(handler, APIHandler) else GuardedPage
        elif issubclass(handler, web.StaticFileHandler):
            before = ToldFile
        else:
            return handler
        return made.setdefault(handler, type(handler.__name__, (before, handler), {"__module__": handler.__module__}))

    hub.handlers = [(rule[0], guarded(rule[1]), *rule[2:]) for rule in hub.handlers]


def look_after_pages(hub: Any, files: type) -> None:
    """Have the templates of a hub speak the reader's language, and know nonces, silences, announcements.

    What people have to mend themselves leaves no traceback in its log.

    Arguments:
        files: the handler of the hub's own scripts and style sheets.
    """
    silences.show(hub)
    announcement.show(hub)
    hub.log.addFilter(refusals.in_one_line)
    told = type("FilesHandler", (ToldFile, files), {"__module__": __name__})
    hub.tornado_settings.setdefault("static_handler_class", told)
    options = hub.jinja_environment_options
    hub.jinja_environment_options = {**options, "extensions": [*options.get("extensions", ()), Nonces, Translated]}


class Nonces(Extension):
    """Gives each script that stands in a template's own text the nonce of the answer; what is filled in gets none."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The source of a template."""
        return re.sub(r"<script(?=[\s>])", '<script nonce="{{ csp_nonce }}"', source)


class Headers(web.OutputTransform):
    """What each answer of the hub says, files and errors too."""

    def __init__(self, request: Any, strict_transport: bool = False) -> None:
        self._is_https = get_browser_protocol(request) == "https"
        self._is_strict = strict_transport

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Complete the headers; what a site has set itself stays."""
        for name, value in ALWAYS.items():
            headers.setdefault(name, value)
        if self._is_https and self._is_strict:
            headers.setdefault("Strict-Transport-Security", STRICT_TRANSPORT)
        return status_code, headers, chunk
