"""The addresses of a person's environments: what stands behind them is imported when the first is asked for."""

from __future__ import annotations

import os
from typing import Any

from tornado.routing import Rule

from portal.session_pages.late import Pages, late_rules

ENVIRONMENT = r"([a-z0-9._-]+)"
PAGES = {
    "dsportal/api/environments": "all",
    rf"dsportal/api/environments/{ENVIRONMENT}": "one",
    rf"dsportal/api/environments/{ENVIRONMENT}/log": "log",
}


def routes(application: Any, base: str, form: str) -> list[Rule]:
    """The rules for a server's application; ``form`` is ``environments.folder`` of the site."""

    def load() -> Pages:
        from portal.environments.desk import EnvironmentDesk
        from portal.environments.pages import EnvironmentLogHandler, OwnEnvironmentHandler, OwnEnvironmentsHandler

        handlers = {"all": OwnEnvironmentsHandler, "one": OwnEnvironmentHandler, "log": EnvironmentLogHandler}
        return handlers, {"desk": EnvironmentDesk(os.environ, form)}

    return late_rules(application, base, PAGES, load)
