"""Whether a page of another origin has a browser send a request: what the browser itself says of it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def is_from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether a page of another origin sends a request: by Fetch Metadata (W3C), or else by ``Origin`` (RFC 6454).

    Browsers send the first over HTTPS and on this machine, and the second with what is no plain GET.
    """
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("Host", "").lower()
