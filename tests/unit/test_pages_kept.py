"""What a browser is told to keep of what it goes to in a session."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tornado.httputil import HTTPHeaders

from portal.session_pages.pages_kept import NotKept

TAB = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "said", "told"),
    [
        (TAB, None, "no-store"),
        (TAB, "no-cache", "no-store"),
        (TAB, "private, max-age=0, must-revalidate", "no-store"),
        (TAB, "public", "public"),
        (TAB, "max-age=31556926", "max-age=31556926"),
        ("*/*", "no-cache", "no-cache"),
        ("image/avif,image/webp", None, None),
        (None, "no-cache", "no-cache"),
    ],
)
def test_a_page_is_kept_by_no_cache_and_what_it_loads_is_as_before(
    accept: str | None, said: str | None, told: str | None
) -> None:
    request = SimpleNamespace(headers=HTTPHeaders({"Accept": accept} if accept else {}))
    headers = HTTPHeaders({"Cache-Control": said} if said else {})

    status, answered, chunk = NotKept(request).transform_first_chunk(200, headers, b"words", True)

    assert (status, answered.get("Cache-Control"), chunk) == (200, told, b"words")
