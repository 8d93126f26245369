"""A person's environments for the Lab extension and for programs: JSON of the session's server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict

from tornado.web import authenticated

from portal.environments.desk import EnvironmentDesk
from portal.environments.notes import MakingState
from portal.environments.order import Tool, order_of
from portal.session_pages.refusing import RefusingHandler


class _EnvironmentsHandler(RefusingHandler):
    not_there = "environment"

    def initialize(self, desk: EnvironmentDesk) -> None:
        self.desk = desk


class OwnEnvironmentsHandler(_EnvironmentsHandler):
    """``dsportal/api/environments``: all of them, and a new one."""

    @authenticated
    async def get(self) -> None:
        """Every environment by name, where new ones lie, and what makes them; no activity of the person."""
        self._track_activity = False
        views = await self.desk.all()
        here = await asyncio.to_thread(self.desk.tools)
        tools = [{"name": tool, "is_here": tool in here} for tool in Tool]
        listed = [view.as_json() for view in views]
        self.finish(json.dumps({"environments": listed, "folder": self.desk.folder, "tools": tools}))

    @authenticated
    async def post(self) -> None:
        """Begin to make one; a kernel out of modules alone is there at once."""
        body = self.get_json_body()
        view = await self.desk.make(order_of(dict(body) if isinstance(body, Mapping) else {}))
        self.set_status(202 if view.state == MakingState.MAKING else 201)
        self.finish(json.dumps(view.as_json()))


class OwnEnvironmentHandler(_EnvironmentsHandler):
    """``dsportal/api/environments/NAME``: one of them."""

    @authenticated
    async def get(self, name: str) -> None:
        """How far it is, where it lies, how big it is."""
        self._track_activity = False
        self.finish(json.dumps((await self.desk.one(name)).as_json()))

    @authenticated
    async def delete(self, name: str) -> None:
        """Take it away with its kernel; one that is being made is stopped."""
        await self.desk.remove(name)
        self.set_status(204)
        self.finish()


class EnvironmentLogHandler(_EnvironmentsHandler):
    """``dsportal/api/environments/NAME/log``: what its making has said."""

    @authenticated
    async def get(self, name: str) -> None:
        """The part that begins at the byte ``from``."""
        self._track_activity = False
        self.finish(json.dumps(asdict(await self.desk.log(name, self.asked_from()))))
