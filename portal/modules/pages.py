"""The modules of the cluster for the Lab extension and for programs: JSON of the session's server."""

from __future__ import annotations

import json
from dataclasses import asdict

from tornado.web import authenticated

from portal.modules.desk import ModuleDesk
from portal.session_pages.refusing import RefusingHandler


class _ModulesHandler(RefusingHandler):
    not_there = "modules"

    def initialize(self, desk: ModuleDesk) -> None:
        """Take the modules, and do not count a look at them as activity of the person."""
        self.desk = desk
        self._track_activity = False


class ModuleSearchHandler(_ModulesHandler):
    """``dsportal/api/modules?words=…``: which there are."""

    @authenticated
    async def get(self) -> None:
        """Those with all of the words, at most 200 of them, and how many there are."""
        found = await self.desk.search(self.get_query_argument("words", ""))
        self.finish(json.dumps(asdict(found)))


class ModuleShowHandler(_ModulesHandler):
    """``dsportal/api/modules/show?name=…``: what one of them does."""

    @authenticated
    async def get(self) -> None:
        """What it says of itself, sets, needs and excludes."""
        self.finish(json.dumps(asdict(await self.desk.show(self.get_query_argument("name", "")))))
