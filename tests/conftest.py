"""What all rings share."""

from __future__ import annotations

import functools

import httpx
from httpx._transports import default

# Each client of httpx (0.28) reads the world's authorities anew, which takes longer than a dozen of requests here.
default.create_ssl_context = functools.cache(httpx.create_ssl_context)  # type: ignore[attr-defined]
