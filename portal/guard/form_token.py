"""The token of a form: the one that is the person's own, whatever other cookies of that name a browser sends.

JupyterHub (6.1) takes the first cookie ``_xsrf`` that the hub has signed. A page of a host below the domain may set
one for all of the domain: that of whoever made the page, which the hub has signed as well, for a longer path, which
browsers send first (RFC 6265, 5.4). No form of the person would be taken until that cookie ends. The token is of a
browser's session as well, whose number is a cookie for all of the domain: what no hub can have given is none.
"""

from __future__ import annotations

import re
from typing import Any

from jupyterhub import _xsrf_utils
from jupyterhub.handlers.base import SESSION_COOKIE_NAME

COOKIE = "_xsrf"
COOKIES_MOST = 200  # that are looked at: each is a signature to check, and browsers keep fewer of a domain
NUMBER = re.compile(rb"[0-9a-f]{32}\Z")  # of a browser's session; a database keeps 255 letters


class OwnFormToken:
    """Before a handler of pages or of the REST API."""

    request: Any
    _session_id: str

    @property
    def xsrf_token(self) -> bytes:
        """The person's own, out of the cookies; a new one where there is none."""
        if not hasattr(self, "_xsrf_token") and (own := _own(self)):
            self._xsrf_token = own
        token: bytes = super().xsrf_token  # type: ignore[misc]
        return token

    def get_session_cookie(self) -> str | None:
        """The number of the browser's session: of several the last one, as JupyterHub has it; ``None`` for none."""
        if not hasattr(self, "_session_id"):
            given = [one for one in _values(self.request, SESSION_COOKIE_NAME) if NUMBER.match(one)]
            return given[-1].decode() if given else None
        return self._session_id


def _own(handler: Any) -> bytes:
    """The token that was made for who asks; ``b""`` where none is among the cookies."""
    wanted = handler._xsrf_token_id
    for value in _values(handler.request, COOKIE)[:COOKIES_MOST]:
        if _xsrf_utils._get_signed_value_urlsafe(handler, COOKIE, value) == wanted:
            return value
    return b""


def _values(request: Any, name: str) -> list[bytes]:
    """What the cookies of a name say, in their order."""
    parts = (part.partition("=") for part in request.headers.get("Cookie", "").split(";"))
    return [value.strip().encode() for known, _, value in parts if known.strip() == name and value.isascii()]
