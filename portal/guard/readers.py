"""Who sends a request to the hub, and whether a script may read the answer, by what the browser says (Fetch Metadata).

Where all share one host name, a service worker of a session reads the answers to the pictures, scripts and style sheets
of its pages, also where its own server has led them to the hub. A page that somebody goes to it does not read.
Which scripts there are on the hub's pages is their policy's word, whatever a site says beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tornado.httputil import HTTPHeaders

POLICY = "Content-Security-Policy"
FRAMES = "frame-ancestors"
MODE = "Sec-Fetch-Mode"
ONLY_A_PAGE = "This page is for people; scripts ask the REST API."


def is_led(headers: Mapping[str, str]) -> bool:
    """Whether another page has a browser send what changes something.

    Firefox (140) says of a form that is led on twice that no page sends it, and of its origin that it has none.
    """
    site = headers.get("Sec-Fetch-Site", "none")
    return site not in ("same-origin", "none") or (site == "none" and headers.get("Origin") == "null")


def is_read(request: Any) -> bool:
    """Whether a script may read the answer: that to whatever is no way to a page."""
    told = request.headers
    return bool(told.get(MODE, "navigate") != "navigate" or told.get("Sec-Fetch-Dest") == "empty")


def is_of_a_page(request: Any) -> bool:
    """Whether it is a picture, script or style sheet of a page: JupyterHub (6.1) asks those for no token."""
    return bool(request.headers.get(MODE) == "no-cors")


def keep_policy(handler: Any) -> None:
    """Have a site's own policy count beside the hub's, as a second one: a browser keeps to both (CSP 3, 8.1).

    JupyterHub (6.1) puts the one of ``tornado_settings["headers"]`` in the place of the hub's. Which pages may have the
    hub's in a frame is for the site to say, so there it does take the place.
    """
    theirs = HTTPHeaders(handler.settings.get("headers", {})).get(POLICY, "").strip()
    parts: list[str] = handler.content_security_policy.split("; ")
    if re.search(rf"(^|[;,])\s*{FRAMES}\b", theirs, re.IGNORECASE):
        parts = [part for part in parts if not part.startswith(FRAMES)]
    handler.set_header(POLICY, ", ".join(filter(None, ["; ".join(parts), theirs])))
