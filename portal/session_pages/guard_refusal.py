"""What a session's server answers to a request that it does not give to its application."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import NamedTuple

from tornado.httputil import HTTPHeaders


class GuardRefusal(NamedTuple):
    """What is answered in place of the application."""

    status: HTTPStatus
    words: str
    is_page: bool = False
    leads_to: str = ""

    @property
    def body(self) -> bytes:
        """As it is sent."""
        return (self.words if self.is_page else json.dumps({"message": self.words})).encode()

    @property
    def headers(self) -> HTTPHeaders:
        """What is said of it; a page is in no frame."""
        kind = "text/html; charset=utf-8" if self.is_page else "application/json"
        told = {"Content-Type": kind, "Content-Length": str(len(self.body)), "Cache-Control": "no-store"}
        told |= {"Location": self.leads_to} if self.leads_to else {}
        return HTTPHeaders(told | ({"Content-Security-Policy": "frame-ancestors 'none'"} if self.is_page else {}))
