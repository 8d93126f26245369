"""The addresses of a person's jobs: what stands behind them is imported when the first is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_server.utils import url_path_join
from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.routing import PathMatches, Router, Rule

if TYPE_CHECKING:
    from portal.jobs.pages import JobPlace

JOB = r"([0-9_]+)"
PAGES = {"dsportal/api/jobs": "all", rf"dsportal/api/jobs/{JOB}": "one", rf"dsportal/api/jobs/{JOB}/log": "log"}


class JobRouter(Router):
    """Brings the handlers in with the first request, not when a session starts."""

    SUPPORTED_METHODS = ()  # jupyter_server asks a handler for its methods; ours authenticate all

    def __init__(self, application: Any, home: Path) -> None:
        self._application = application
        self._home = home
        self._place: JobPlace | None = None

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> HTTPMessageDelegate | None:
        """The handler of one request."""
        from portal.jobs.desk import JobDesk
        from portal.jobs.pages import JobLogHandler, JobPlace, OwnJobHandler, OwnJobsHandler

        self._place = self._place or JobPlace(JobDesk(os.environ), self._home)
        handler = {"all": OwnJobsHandler, "one": OwnJobHandler, "log": JobLogHandler}[kwargs["target_kwargs"]["page"]]
        delegate: HTTPMessageDelegate = self._application.get_handler_delegate(
            request, handler, target_kwargs={"place": self._place}, path_args=kwargs.get("path_args")
        )
        return delegate


def routes(application: Any, base: str, home: Path) -> list[Rule]:
    """The rules for a server's application; ``home`` is where its file browser begins."""
    router = JobRouter(application, home)
    return [Rule(PathMatches(url_path_join(base, path)), router, {"page": page}) for path, page in PAGES.items()]
