"""What a request says that its body is. Pure."""

from __future__ import annotations

from collections.abc import Mapping

LENGTH_MOST = 256  # of a boundary there are 70 (RFC 2046, 5.1.1)


def is_too_long(headers: Mapping[str, str]) -> bool:
    """Whether it says so at a length that no program needs.

    Tornado (6.5) looks for a long boundary of a form at each place of a body, letter by letter: for seconds, before
    anybody knows who asks.
    """
    return len(headers.get("Content-Type", "")) > LENGTH_MOST
