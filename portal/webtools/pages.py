"""The web tools for the Lab extension and for programs: JSON of the session's server."""

from __future__ import annotations

import json
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path

from tornado.web import authenticated

from portal.errors import KernelError, RequestError
from portal.session_pages.refusing import RefusingHandler
from portal.webtools.tools import NO_TOOL, Tools, WebTool


class _ToolApi(RefusingHandler):
    not_there = NO_TOOL

    def initialize(self, tools: Tools) -> None:
        self.tools = tools


class ToolsHandler(_ToolApi):
    """``dsportal/api/tools``: all of them."""

    @authenticated
    def get(self) -> None:
        """Name, title, state, why it failed, start and icon of each; a look does not count as activity."""
        self._track_activity = False
        self.finish(json.dumps({"tools": [one.as_json() | {"icon": self._icon(one)} for one in self.tools.all()]}))

    def _icon(self, tool: WebTool) -> str:
        from portal.catalogue.icons import of_tool  # late: where a site has no tools, a page waits for nothing

        try:
            return of_tool(tool.offered.title, Path(tool.offered.icon) if tool.offered.icon else None)
        except KernelError as error:  # the site's file cannot be read: the tool has its letters
            self.log.warning("%s", error.message)
            return of_tool(tool.offered.title, None)


class ToolHandler(_ToolApi):
    """``dsportal/api/tools/NAME``: start and stop one."""

    @authenticated
    async def post(self, name: str) -> None:
        """Begin to start it, or leave it as it runs."""
        tool = self.tools.tool(name)
        await tool.start()
        self.set_status(HTTPStatus.ACCEPTED)
        self.finish(json.dumps(tool.as_json()))

    @authenticated
    async def delete(self, name: str) -> None:
        """Stop it."""
        await self.tools.tool(name).stop()
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()


class ToolLogHandler(_ToolApi):
    """``dsportal/api/tools/NAME/log``: what it has written."""

    @authenticated
    def get(self, name: str) -> None:
        """The part that begins at the byte ``from``, of what it has written since its start."""
        self._track_activity = False
        start = self.get_query_argument("from", "0")
        if not (start.isascii() and start.isdecimal() and len(start) <= 18):
            raise RequestError("from", start, "a number of bytes, 0 or the answer's next")
        self.finish(json.dumps(asdict(self.tools.tool(name).log(int(start)))))
