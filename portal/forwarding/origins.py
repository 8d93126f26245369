"""Whether a page of another origin has a browser send a request: what the browser itself says of it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

FIREFOX = "Firefox/"
TO_GO = ("document", "iframe", "frame", "object", "embed")  # where a link leads to
AGAIN = ("max-age=0", "no-cache")  # what browsers send with a page that is loaded again, and no link can


def is_from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether a page of another origin sends a request: by Fetch Metadata (W3C), or else by ``Origin`` (RFC 6454).

    Browsers send the first over HTTPS and on this machine, and the second with what is no plain GET. It comes with
    each web socket, too, of which they say the first in different ways; no page can ask for one in another way. Of what
    a page of the same site has it fetch ahead Chromium (156) says that no page asks; ``Referer`` names one's own.
    Firefox (140) says so, too, of a link that leads on twice: there an address that was typed counts as a page's link.
    """
    site = headers.get("Sec-Fetch-Site")
    origin = headers.get("Origin")
    is_socket = headers.get("Upgrade", "").lower() == "websocket"
    if site == "none" and is_ahead(headers):
        return _place_of(headers.get("Referer", "")) != headers.get("Host", "").lower()
    if site == "none" and origin is None:
        return FIREFOX in headers.get("User-Agent", "") and headers.get("Sec-Fetch-Dest") in TO_GO
    if site not in (None, "none") and not (is_socket and origin is not None):
        return site != "same-origin"
    return origin is not None and _place_of(origin) != headers.get("Host", "").lower()


def is_from_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a page of this origin leads here, as far as the browser says; true for programs, which say nothing.

    What no page is said to have asked for (``none``) need not be the person's own: a program that is no browser opens
    links so, and browsers the way back to an address that was typed, wherever it leads by now (Chromium 156).
    """
    is_nobodys = headers.get("Sec-Fetch-Site") == "none" and not is_ahead(headers)
    return not is_nobodys and not is_from_elsewhere(headers)


def is_part_of_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser asks by itself for what a page shows: a picture, a frame, a style (Fetch Metadata, W3C)."""
    return headers.get("Sec-Fetch-Dest", "empty") not in ("empty", "document", "websocket")


def is_ahead(headers: Mapping[str, str]) -> bool:
    """Whether a browser asks before the person does, for a page that may never be looked at (Sec-Purpose, Fetch)."""
    return "prefetch" in headers.get("Sec-Purpose", "").lower()


def is_again(headers: Mapping[str, str]) -> bool:
    """Whether a browser loads a page again; or one of elsewhere that then leads here."""
    return headers.get("Cache-Control") in AGAIN


def _place_of(origin: str) -> str | None:
    """Name and port of an origin; ``None`` for what is none."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
