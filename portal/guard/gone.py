"""Addresses of JupyterHub 1 that it (6.1) still has; asked wrongly they answer with a traceback."""

from __future__ import annotations

from typing import Any

from jupyterhub.apihandlers import APIHandler
from tornado import web

WORDS = "This address is gone. Who somebody is says /hub/api/user; tokens are made at /hub/api/users/NAME/tokens."


class GoneHandler(APIHandler):  # type: ignore[misc]
    """404 to every method."""

    def prepare(self) -> None:
        """Refuse."""
        raise web.HTTPError(404, WORDS)

    def get(self, *_: Any) -> None:
        """Not reached; it has JupyterHub take this for a page of its own."""


HANDLERS = ((r"/api/authorizations/token", GoneHandler), (r"/api/authorizations/token/([^/]+)", GoneHandler))
