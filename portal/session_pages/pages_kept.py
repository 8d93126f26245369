"""What a browser keeps of what it goes to in a session: nothing that the Back button would show after a logout."""

from __future__ import annotations

import re
from typing import Any

from tornado.httputil import HTTPHeaders
from tornado.web import OutputTransform

# Of what is the same for everybody; "no-cache", as Jupyter says of a person's files, lets a way back show them.
KEPT = re.compile(r"\b(public|immutable|max-age=[1-9])", re.IGNORECASE)


class NotKept(OutputTransform):
    """A page, or a file in a tab, is kept by no cache; what pages load for themselves is as before.

    What says itself how long it is kept, as files that are the same for everybody, goes on so.
    """

    def __init__(self, request: Any) -> None:
        self._is_page = "text/html" in request.headers.get("Accept", "")  # what browsers say where a person goes

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Complete the headers."""
        if self._is_page and not KEPT.search(headers.get("Cache-Control", "")):
            headers["Cache-Control"] = "no-store"
        return status_code, headers, chunk
