"""Pages of a session's server whose modules are imported with the first request, not when a session starts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_server.utils import url_path_join
from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.routing import PathMatches, Router, Rule
from tornado.web import RequestHandler

Pages = tuple[Mapping[str, type[RequestHandler]], Mapping[str, Any]]  # by name, and what each is given


class LateRouter(Router):
    """Brings handlers in when they are asked for."""

    SUPPORTED_METHODS = ()  # jupyter_server asks a handler for its methods; ours authenticate all

    def __init__(self, application: Any, load: Callable[[], Pages]) -> None:
        self._application = application
        self._load = functools.cache(load)

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> HTTPMessageDelegate | None:
        """The handler of one request."""
        pages, given = self._load()
        delegate: HTTPMessageDelegate = self._application.get_handler_delegate(
            request,
            pages[kwargs["target_kwargs"]["page"]],
            target_kwargs=dict(given),
            path_args=kwargs.get("path_args"),
        )
        return delegate


def late_rules(application: Any, base: str, pages: Mapping[str, str], load: Callable[[], Pages]) -> list[Rule]:
    """The rules for a server's application.

    Arguments:
        base: the address that all pages are below.
        pages: the name of a page by its address, a regular expression.
        load: imports the handlers by these names, and makes what each of them is given.
    """
    router = LateRouter(application, load)
    return [Rule(PathMatches(url_path_join(base, path)), router, {"page": page}) for path, page in pages.items()]
