"""Whether a script may read an answer of the hub's, by what the browser itself says of the request (Fetch Metadata).

Where all share one host name, a service worker of a session reads the answers to the pictures, scripts and style sheets
of its pages, also where its own server has led them to the hub. A page that somebody goes to it does not read.
"""

from __future__ import annotations

from typing import Any

MODE = "Sec-Fetch-Mode"
ONLY_A_PAGE = "This page is for people; scripts ask the REST API."


def is_read(request: Any) -> bool:
    """Whether a script may read the answer: that to whatever is no way to a page."""
    told = request.headers
    return bool(told.get(MODE, "navigate") != "navigate" or told.get("Sec-Fetch-Dest") == "empty")


def is_of_a_page(request: Any) -> bool:
    """Whether it is a picture, script or style sheet of a page: JupyterHub (6.1) asks those for no token."""
    return bool(request.headers.get(MODE) == "no-cors")
