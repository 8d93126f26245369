"""The addresses of the cluster's modules: what stands behind them is imported when the first is asked for."""

from __future__ import annotations

import os
from typing import Any

from tornado.routing import Rule

from portal.session_pages.late import Pages, late_rules

PAGES = {"dsportal/api/modules": "search", "dsportal/api/modules/show": "show"}


def routes(application: Any, base: str) -> list[Rule]:
    """The rules for a server's application."""

    def load() -> Pages:
        from portal.modules.desk import ModuleDesk
        from portal.modules.pages import ModuleSearchHandler, ModuleShowHandler

        return {"search": ModuleSearchHandler, "show": ModuleShowHandler}, {"desk": ModuleDesk(os.environ)}

    return late_rules(application, base, PAGES, load)
