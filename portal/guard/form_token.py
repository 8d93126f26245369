"""The token of a form: the one that is the person's own, whatever other cookies of that name a browser sends.

JupyterHub (6.1) takes the first cookie ``_xsrf`` that the hub has signed. A page of a host below the domain may set
one for all of the domain: that of whoever made the page, which the hub has signed as well, for a longer path, which
browsers send first (RFC 6265, 5.4). No form of the person would be taken until that cookie ends. The token is of a
browser's session as well, whose number is a cookie for all of the domain, that such a page may set, too: a number is
that of who is logged in where a token comes along that the hub has signed for both, and nobody's otherwise.

What an authenticator of a site's keeps in a browser until somebody comes back from elsewhere (a state of OAuth) would
have its visitor end a login that another person has begun: such a cookie carries the prefix, too, as that of a login.
"""

from __future__ import annotations

import re
from typing import Any

from jupyterhub import _xsrf_utils
from jupyterhub.handlers.base import SESSION_COOKIE_NAME

COOKIE = "_xsrf"
PREFIX = "__Host-"  # of a cookie that no other host of the site can set (RFC 6265bis, 4.1.3)
FOR_ALL = (COOKIE, SESSION_COOKIE_NAME)  # the sessions' own pages read them: see OwnFormToken
IN_ORDER = ("domain", "expires", "path", "expires_days")  # as Tornado (6.5) takes what is said of a cookie
COOKIES_MOST = 200  # that are looked at: each is a signature to check, and browsers keep fewer of a domain
NUMBER = re.compile(rb"[0-9a-f]{32}\Z")  # of a browser's session; a database keeps 255 letters


class OwnFormToken:
    """Before a handler of pages or of the REST API."""

    request: Any
    hub: Any
    settings: dict[str, Any]
    _session_id: str
    _signed: list[tuple[bytes, bytes]]

    @property
    def xsrf_token(self) -> bytes:
        """The person's own, out of the cookies; a new one where there is none."""
        if not hasattr(self, "_xsrf_token"):
            wanted = self._xsrf_token_id  # type: ignore[attr-defined]
            if own := next((token for token, made_for in self._tokens() if made_for == wanted), b""):
                self._xsrf_token = own
            elif not self._is_below_hub():  # a cookie that is set there takes the place of one that was not sent
                self._xsrf_token = _xsrf_utils._create_signed_value_urlsafe(self, COOKIE, wanted)
        token: bytes = super().xsrf_token  # type: ignore[misc]
        return token

    def get_session_cookie(self) -> str | None:
        """The number of the browser's session, in the login with which it asks; ``None``: the hub gives a new one."""
        if hasattr(self, "_session_id"):
            return self._session_id
        given = [one for one in _values(self.request, SESSION_COOKIE_NAME) if NUMBER.match(one)]
        if not given or not (login := _login_of(self)):
            return None
        if not self._is_below_hub():  # nor is one looked at there
            return given[-1].decode()
        own = {number + b":" + login: number for number in given}
        return next((own[made_for].decode() for _, made_for in self._tokens() if made_for in own), None)

    def get_cookie(self, name: str, default: str | None = None) -> str | None:
        """What a cookie says, which nobody but the hub has set."""
        found: str | None = super().get_cookie(self._kept_as(name), default)  # type: ignore[misc]
        return found

    def set_cookie(self, name: str, value: str | bytes, *arguments: Any, **attributes: Any) -> None:
        """Set one that no other host can."""
        attributes |= zip(IN_ORDER, arguments, strict=False)
        kept_as = self._kept_as(name)
        if kept_as != name:
            attributes |= {"path": "/", "domain": None, "secure": True}
        super().set_cookie(kept_as, value, **attributes)  # type: ignore[misc]

    def _kept_as(self, name: str) -> str:
        has_prefix = self.settings.get("cookie_host_prefix_enabled")
        return f"{PREFIX}{name}" if has_prefix and name not in FOR_ALL and not name.startswith(PREFIX) else name

    def _is_below_hub(self) -> bool:
        """Whether the cookie comes along at this address: it is for all below the hub's own path."""
        return bool(self.request.path.startswith(self.hub.base_url))

    def _tokens(self) -> list[tuple[bytes, bytes]]:
        """The tokens among the cookies that the hub has signed, and for whom: each is looked at once."""
        if not hasattr(self, "_signed"):
            values = _values(self.request, COOKIE)[:COOKIES_MOST]
            found = ((value, _xsrf_utils._get_signed_value_urlsafe(self, COOKIE, value)) for value in values)
            self._signed = [(value, made_for) for value, made_for in found if made_for]
        return self._signed


def _login_of(handler: Any) -> bytes:
    """What stands for the person in a token of a form, until all logins of the person end; ``b""`` before a login."""
    if hasattr(handler, "_jupyterhub_user"):
        known: str = getattr(handler._jupyterhub_user, "cookie_id", "")
        return known.encode()
    shown: bytes | None = handler.get_secure_cookie(handler.hub.cookie_name, max_age_days=handler.cookie_max_age_days)
    return shown or b""


def _values(request: Any, name: str) -> list[bytes]:
    """What the cookies of a name say, in their order."""
    parts = (part.partition("=") for part in request.headers.get("Cookie", "").split(";"))
    return [value.strip().encode() for known, _, value in parts if known.strip() == name and value.isascii()]
