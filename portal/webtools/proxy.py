"""The pages of web tools, by the proxy to their sockets. Imported with the first page: it costs a server 0.2 s."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado.web import HTTPError, authenticated

from portal.errors import RequestError
from portal.forwarding.private_proxy import PrivateProxy
from portal.tensorboard.error_page import from_elsewhere, is_from_elsewhere, is_own_click, page
from portal.webtools.tools import Tools, WebTool

LOOK_AGAIN_S = 1
GOING_AWAY = 1001  # RFC 6455 §7.4.1
NOT_RUNNING = "It does not run."


def _or_404(tools: Tools, name: str) -> WebTool:
    """The tool of this name, or the page that says that there is none."""
    try:
        return tools.tool(name)
    except RequestError as error:
        raise HTTPError(HTTPStatus.NOT_FOUND, error.message) from error


def _led_to(tools: Tools, name: str, request: Any, home: str) -> str:
    """The page for a request that a page of elsewhere sends."""
    title = _or_404(tools, name).offered.title
    return from_elsewhere(request, home, title, f"{title} does what it is asked to as you. Open it if you meant to.")


class OpenToolHandler(JupyterHandler):
    """``GET tools/NAME/dsportal-open``: start a tool, and go to its page."""

    def initialize(self, tools: Tools) -> None:
        """Take the tools of this session."""
        self.tools = tools

    @authenticated
    async def get(self, name: str) -> None:
        """Only a person's own click starts one."""
        if not is_own_click(self.request):
            self.set_status(HTTPStatus.FORBIDDEN)
            self.finish(_led_to(self.tools, name, self.request, self.base_url))
            return
        tool = _or_404(self.tools, name)
        await tool.start()
        self.redirect(f"{tool.base}/")


class ToolProxy(PrivateProxy):
    """``tools/NAME/…``: the pages of a tool and its web sockets, for the person of this session only."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An open page asks again and again: that does not keep a session alive.
        super().__init__(*args, update_last_activity=False, **kwargs)

    def initialize(self, tools: Tools) -> None:
        """Take the tools of this session."""
        self.tools = tools

    async def http_get(self, name: str, path: str) -> None:
        """Forward a request, whatever its method."""
        if self._found(name):
            await self.proxy("localhost", 0, path)

    post = put = delete = head = patch = options = http_get

    async def open(self, name: str, path: str) -> None:
        """Forward a web socket; that its tool does not run is said by its end, for an open page asks again."""
        if is_from_elsewhere(self.request) or not self._points_at(_or_404(self.tools, name)):
            self.close(GOING_AWAY, NOT_RUNNING)
            return
        await self.proxy_open("localhost", 0, path)

    def _points_at(self, tool: WebTool) -> bool:
        """Whether a tool answers; then the proxy points at it."""
        self.unix_socket = str(tool.socket)
        self.proxy_base = f"tools/{tool.offered.name}"
        self.absolute_url = tool.offered.whole_path
        return tool.state == "ready"

    def _found(self, name: str) -> bool:
        """Point the proxy at the tool; otherwise answer with a page that says what there is."""
        if is_from_elsewhere(self.request):
            self.set_status(HTTPStatus.FORBIDDEN)
            self.finish(_led_to(self.tools, name, self.request, self.base_url))
            return False
        tool = _or_404(self.tools, name)
        if not self._points_at(tool):
            self._say(tool)
            return False
        return True

    def _say(self, tool: WebTool) -> None:
        """That it starts, and look again; why it has failed; or that it does not run."""
        title = tool.offered.title
        state = tool.state
        again = url_path_join(tool.base, "dsportal-open")
        self.set_header("Cache-Control", "no-store")
        if state == "starting":
            is_page = self.request.headers.get("Sec-Fetch-Dest", "document") == "document"
            self.set_status(HTTPStatus.OK if is_page else HTTPStatus.SERVICE_UNAVAILABLE)
            self.set_header("Refresh", str(LOOK_AGAIN_S))
            self.finish(page(f"{title} is starting …", "This page opens it as soon as it answers.", self.base_url))
        elif state == "failed":
            self.set_status(HTTPStatus.INTERNAL_SERVER_ERROR)
            advice = f"{tool.why} The last lines of its log are below."
            self.finish(page(f"{title} does not run.", advice, self.base_url, tool.last_words(), again))
        else:
            self.set_status(HTTPStatus.NOT_FOUND)
            self.finish(page(f"{title} does not run.", "It starts when you open it.", self.base_url, again=again))
