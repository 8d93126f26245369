"""The pages of web tools, by the proxy to their sockets. Imported with the first page: it costs a server 0.2 s."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado.web import HTTPError, authenticated

from portal.errors import RequestError
from portal.forwarding.origins import is_again, is_from_elsewhere
from portal.forwarding.socket_pages import SocketPages
from portal.tensorboard.error_page import LED_HERE, is_own_click, page
from portal.webtools.tools import Tools, WebTool

LOOK_AGAIN_S = 1
# What a tool's pages say is the same elsewhere, and names them to their own session (W3C, Referrer Policy).
NAMED_HERE = {
    "no-referrer": "same-origin",
    "origin": "strict-origin-when-cross-origin",
    "strict-origin": "strict-origin-when-cross-origin",
}


def _or_404(tools: Tools, name: str) -> WebTool:
    """The tool of this name, or the page that says that there is none."""
    try:
        return tools.tool(name)
    except RequestError as error:
        raise HTTPError(HTTPStatus.NOT_FOUND, error.message) from error


def _led_to(tools: Tools, name: str, home: str) -> str:
    """The page for a request that a page of elsewhere sends: it leads to the tool, not to what that page asks of it.

    An address may have an editor open somebody's folder, and run what lies there.
    """
    tool = _or_404(tools, name)
    title = tool.offered.title
    advice = f"{title} does what it is asked to as you. Open it if you meant to: it begins with its own first page."
    return page(LED_HERE.format(what=title), advice, home, again=_start_of(tool))


def _place_of(address: str | None) -> str:
    """Path and query of an address, however they are written; "" of what is none."""
    try:
        found = urlsplit(address or "")
    except ValueError:
        return ""
    return unquote(f"{found.path}?{found.query}")


def _start_of(tool: WebTool) -> str:
    return url_path_join(tool.base, "dsportal-open")


def _is_beginning(tool: WebTool, place: str) -> bool:
    """Whether it is the first page of a tool that runs, or where that has led a tab."""
    return tool.state == "ready" and (place == _place_of(f"{tool.base}/") or place in tool.has_led_to)


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
            self.finish(_led_to(self.tools, name, self.base_url))
            return
        tool = _or_404(self.tools, name)
        await tool.start()
        tool.leads(_place_of(f"{tool.base}/"))
        self.redirect(f"{tool.base}/#")


class ToolProxy(SocketPages):
    """``tools/NAME/…``: the pages of a tool and its web sockets, for the person of this session only."""

    _is_file = False
    _tool: WebTool | None = None

    def initialize(self, tools: Tools) -> None:
        """Take the tools of this session."""
        self.tools = tools
        own: Any = self  # jupyter-server-proxy (4.6) gives each handler the flush of HTTP as an attribute
        self._plain_flush = own.flush
        own.flush = self._confined_flush

    def points_at(self, name: str) -> bool:
        """Whether a tool answers; then the proxy points at it."""
        tool = self._tool = _or_404(self.tools, name)
        self.unix_socket = str(tool.socket)
        self.proxy_base = f"tools/{tool.offered.name}"
        self.absolute_url = tool.offered.whole_path
        self._is_file = any(part in unquote(self.request.path) for part in tool.offered.hands_out)
        return tool.state == "ready"

    def is_led(self, name: str, path: str) -> bool:
        """Whether a page of this session, by a link in somebody's notebook, leads on into a tool: see :func:`_led_to`.

        Browsers name the page (RFC 9110 §10.1.3). With a tab that is loaded again they name the page that led to its
        first address (Chromium, Firefox), whatever address the tool has given itself since.
        """
        if not self._is_tab():
            return False
        tool = _or_404(self.tools, name)
        place = _place_of(self.request.uri)
        if tool.has_come(place) or not self._is_from_other_page(tool):
            return False
        is_loaded_again = is_again(self.request.headers) and place not in tool.kept_from
        if is_loaded_again or (tool.state != "ready" and place == _place_of(f"{tool.base}/")):
            return False
        if not _is_beginning(tool, place):
            tool.kept_from.append(place)
        return True

    def _is_from_other_page(self, tool: WebTool) -> bool:
        """Whether the browser names a page that is none of the tool's, or its host alone: it cuts what is long.

        It names none for an address alone, nor where a link (``rel=noreferrer``) says so: no notebook's link does.
        """
        return "Referer" in self.request.headers and not self._is_from_tool(tool)

    def _is_from_tool(self, tool: WebTool) -> bool:
        return self._came_from.startswith(f"{unquote(tool.base)}/")

    @property
    def _came_from(self) -> str:
        return _place_of(self.request.headers.get("Referer"))

    def lead_away(self, name: str) -> None:
        """To where a tool begins other pages lead by its start: the link may have a fragment, which no server sees."""
        tool = _or_404(self.tools, name)
        if not is_from_elsewhere(self.request.headers) and _is_beginning(tool, _place_of(self.request.uri)):
            self.redirect(f"{_start_of(tool)}#")
        else:
            super().lead_away(name)

    def _is_tab(self) -> bool:
        return bool(self.request.headers.get("Sec-Fetch-Dest") == "document")

    def _confined_flush(self, *args: Any, **kwargs: Any) -> Any:
        """A file that a tool hands out has none of the rights of the session's own pages, whatever is in it.

        What the tool itself forbids holds as well (CSP, "multiple policies"). Where it leads to is looked at.
        """
        if self._tool and not self._headers_written and self._leads():
            self._look_where_it_leads(self._tool)
        if self._tool and not self._headers_written:
            policy = self._headers.get("Referrer-Policy", "").rpartition(",")[2].strip().lower()
            if policy in NAMED_HERE:
                self.set_header("Referrer-Policy", NAMED_HERE[policy])
        if self._is_file and not self._headers_written:
            self.add_header("Content-Security-Policy", "sandbox")
            self.set_header("X-Content-Type-Options", "nosniff")
        return self._plain_flush(*args, **kwargs)

    def _leads(self) -> bool:
        return HTTPStatus.MULTIPLE_CHOICES <= self.get_status() < HTTPStatus.BAD_REQUEST and "Location" in self._headers

    def _look_where_it_leads(self, tool: WebTool) -> None:
        """Note it for a tab. Browsers carry a link's fragment along unless there is one (Fetch, "location URL")."""
        location = self._headers["Location"]
        if self._is_tab():
            tool.leads(_place_of(urljoin(self.request.uri or "", location)))
            self.set_header("Cache-Control", "no-store")  # each tab asks anew, and goes where it is led once
        if "#" not in location and not self._is_from_tool(tool):
            self.set_header("Location", f"{location}#")

    def led_here(self, name: str) -> str:
        """The page for a request that a page of elsewhere sends."""
        return _led_to(self.tools, name, self.base_url)

    def say(self, name: str) -> None:
        """That it starts, and look again; why it has failed; or that it does not run."""
        tool = _or_404(self.tools, name)
        title = tool.offered.title
        state = tool.state
        again = _start_of(tool)
        self.set_header("Cache-Control", "no-store")
        if state == "starting":
            is_page = self.request.headers.get("Sec-Fetch-Dest", "document") == "document"
            self.set_status(HTTPStatus.OK if is_page else HTTPStatus.SERVICE_UNAVAILABLE)
            # To itself without a fragment: with one it would stay where it is.
            self.set_header("Refresh", f"{LOOK_AGAIN_S}; url={self.request.uri}")
            self.finish(page(f"{title} is starting …", "This page opens it as soon as it answers.", self.base_url))
        elif state == "failed":
            self.set_status(HTTPStatus.INTERNAL_SERVER_ERROR)
            advice = f"{tool.why} The last lines of its log are below."
            self.finish(page(f"{title} does not run.", advice, self.base_url, tool.last_words(), again))
        else:
            self.set_status(HTTPStatus.NOT_FOUND)
            self.finish(page(f"{title} does not run.", "It starts when you open it.", self.base_url, again=again))
