"""Which requests of a session's paths a page of elsewhere may have a browser send, as far as the browser says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus, urlsplit

from tornado.httputil import RequestStartLine

from portal.forwarding.origins import is_again, is_ahead, is_from_elsewhere, is_from_own_page, is_part_of_page

# Below the session's path; and who is led to its logout would lose the login of the pages that are open.
NO_PAGES = ("api/", "dsportal/", "lab/api/", "logout", "lsp/", "nbconvert/", "terminals/websocket/")
BY_TOKEN = re.compile(r"(?:token|bearer)\s", re.IGNORECASE)  # as JupyterHub's HubAuth.auth_header_pat
THEMES = "lab/api/themes/"  # of NO_PAGES, what JupyterLab's own page shows
IN_A_TAB = "nbconvert/"  # of NO_PAGES, what JupyterLab opens so
BY_A_CLICK = (IN_A_TAB, "logout")  # what a GET runs or changes
# How begins what JupyterLab and Notebook draw (Notebook draws /editor, too); the bare address leads on to one of them.
DRAWN = ("lab", "doc", "tree", "notebooks", "edit", "consoles", "terminals")
OWN_PART = "lab/extensions/dsportal-lab/"
FILES = "api/contents"
RAW = ("files/", "nbconvert/")  # what somebody's file says to the letter
AS_A_MODEL = "content="  # asked for in FILES alone
NO_CONTENT = "content=0"  # how old a file is: a page looks before it saves, one from before an upgrade, too
CHECKPOINTS = "/checkpoints"  # below FILES, whatever a file is called
PAGE = "X-Portal-Page"
WHOLE = "whole"  # as templates/lab/src/whole.ts says it
OF_LAYOUT = ("reset", "clone")  # a page with it forgets its saved layout, or takes another one in its place
A_LAYOUT = ".jupyterlab-workspace"  # a file that is one: JupyterLab (4.6) goes on to it when it opens the file
UP = ".."
DECODED = 4  # times
BETWEEN = re.compile(r"[/\\?&=]")  # the parts of an address
IN_FOLDERS = "/tree/"  # before a file's path; jupyterlab_server (2.28) takes it out wherever it stands


class SessionPaths(NamedTuple):
    """The paths below that of a session, ``base``."""

    base: str

    def refuses(self, path: str, headers: Mapping[str, str]) -> bool:
        """Whether one of another origin, or of another session, asks for what is no page, or for a part of itself.

        No page can send a token in the header. A password of HTTP's own (Basic, Negotiate) a browser sends with
        every request where a web server before the portal asks for one, whichever page it comes from.
        """
        if _has_token(headers):
            return False
        if not (below := self.below(path)).startswith(NO_PAGES):
            return is_from_elsewhere(headers) and not _is_document(headers)
        is_part = is_part_of_page(headers) or (below.startswith("logout") and headers.get("Sec-Fetch-Dest") == "empty")
        is_led = is_from_elsewhere(headers) or (below.startswith(BY_A_CLICK) and not is_from_own_page(headers))
        is_of_others = below.startswith(IN_A_TAB) and self.is_from_other_session(headers)
        return (is_part and not below.startswith(THEMES)) or is_led or is_of_others

    def is_of_half_a_page(self, start_line: RequestStartLine, headers: Mapping[str, str]) -> bool:
        """Whether a page asks for files that has not said that the portal's own part of JupyterLab is there.

        A page of another host can keep a browser from loading that part alone, by cookies for its address that are too
        much to send. What Jupyter draws then is not what the portal lets it draw. It sends the session's token.
        """
        path, _, query = self.below(start_line.path).partition("?")
        if path.startswith(FILES):
            is_asked = not path.endswith(CHECKPOINTS) and NO_CONTENT not in query
        else:
            is_asked = AS_A_MODEL in query and self._is_of_drawn(path, headers)
        is_pages = headers.get("Sec-Fetch-Dest") == "empty" and headers.get("Sec-Fetch-Site") == "same-origin"
        return start_line.method in ("GET", "HEAD") and is_asked and is_pages and headers.get(PAGE) != WHOLE

    def is_own_part(self, start_line: RequestStartLine, headers: Mapping[str, str]) -> bool:
        """Whether a tab goes to a file of the portal's part of JupyterLab, as a page does to which it did not come."""
        return self.below(start_line.path).startswith(OWN_PART) and headers.get("Sec-Fetch-Dest") == "document"

    def is_too_early(self, path: str, headers: Mapping[str, str]) -> bool:
        """Whether a browser draws ahead what starts a tool, converts a notebook or logs out: a click asks again."""
        below = self.below(path).partition("?")[0]
        is_start = below.startswith("tools/") and below.endswith("/dsportal-open")
        return (is_start or below.startswith(BY_A_CLICK)) and is_ahead(headers)

    def is_from_other_session(self, headers: Mapping[str, str]) -> bool:
        """Whether a page of the same origin, but not of this session, leads here.

        Without addresses of their own all sessions are one origin; JupyterHub lets its tabs alone through, which
        this is. Which page it was stands in ``Referer`` (RFC 9110 §10.1.3), unless that page hides it.
        """
        if headers.get("Sec-Fetch-Site") != "same-origin":
            return False
        try:
            return not urlsplit(headers.get("Referer", "")).path.startswith(self.base)
        except ValueError:
            return True

    def led(self, start_line: RequestStartLine, headers: Mapping[str, str]) -> str:
        """Where a request for a page goes: to the path as it was asked for, if it leads out of nothing.

        JupyterLab puts the path of a file behind the address of those that it asks the server for. With parts that lead
        up it asks for something else, and takes what a file of somebody's says for the server's word.
        """
        if self._is_drawn(start_line.path.partition("?")[0]) and _leads_up(start_line.path):
            return self.base
        return self.with_layout_kept(start_line, headers)

    def with_layout_kept(self, start_line: RequestStartLine, headers: Mapping[str, str]) -> str:
        """The path as it was asked for; led there by a page, without what takes or saves a layout.

        JupyterLab itself loads its page again, with such a word: some browsers name the page then that led to it first.
        A link on a page of the session need not be the person's own: notebooks have links, too. A file with a layout
        is opened from there, for JupyterLab asks before; other pages are led to the folder that it is in.
        """
        path, _, query = start_line.path.partition("?")
        is_read = start_line.method == "GET" and _is_document(headers) and not _has_token(headers)
        if not is_read or not self._is_drawn(path):
            return start_line.path
        is_by_link = headers.get("Sec-Fetch-Site") == "same-origin" and not is_again(headers)
        if not (is_by_link or is_from_elsewhere(headers)):
            return start_line.path
        parts = query.split("&")
        kept = [part for part in parts if not _is_of_layout(part)]
        if is_from_elsewhere(headers) or self.is_from_other_session(headers):
            kept = [part for part in kept if not _names_layout(unquote_plus(part))]
            path = self._without_layout(path)
        if path == start_line.path.partition("?")[0] and kept == parts:
            return start_line.path
        return "?".join(filter(None, (path, "&".join(kept))))

    def _is_of_drawn(self, below: str, headers: Mapping[str, str]) -> bool:
        """Whether a page of JupyterLab asks for this; where it does not say which it is, whether a file may say it."""
        try:
            referer = urlsplit(headers.get("Referer", "")).path
        except ValueError:
            referer = ""
        return self._is_drawn(referer) or below.startswith(RAW)

    def _is_drawn(self, path: str) -> bool:
        return path == self.base or self.below(path).startswith(DRAWN)

    def _without_layout(self, path: str) -> str:
        """The folder of a file with a layout, in JupyterLab; any other path as it is."""
        if not self.below(path).startswith(("lab", "doc")) or not _names_layout(path):
            return path
        above, _, name = path.rpartition("/")
        is_plain = _names_layout(name) and not _names_layout(above) and len(above) > len(self.base)
        return above.removesuffix(IN_FOLDERS.rstrip("/")) if is_plain else f"{self.base}lab"

    def below(self, path: str) -> str:
        """A path below that of the session; "" for one elsewhere."""
        return path.removeprefix(self.base) if path.startswith(self.base) else ""

    def is_tab(self, start_line: RequestStartLine, headers: Mapping[str, str]) -> bool:
        """Whether a person goes to a notebook as another format, in a tab."""
        is_read = start_line.method == "GET" and self.below(start_line.path).startswith(IN_A_TAB)
        return is_read and (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) == ("navigate", "document")


def _leads_up(address: str) -> bool:
    """Whether a part of an address does, decoded more often than the hub and a page do together."""
    for _ in range(DECODED):
        address = unquote(address)
        file = address.partition(IN_FOLDERS)[2].replace(IN_FOLDERS, "")
        if UP in (*BETWEEN.split(address), *BETWEEN.split(file)):
            return True
    return False


def _has_token(headers: Mapping[str, str]) -> bool:
    return bool(BY_TOKEN.match(headers.get("Authorization", "")))


def _is_document(headers: Mapping[str, str]) -> bool:
    return headers.get("Sec-Fetch-Dest", "document") == "document"


def _is_of_layout(part: str) -> bool:
    return unquote_plus(part.partition("=")[0]).lstrip("?") in OF_LAYOUT


def _names_layout(path: str) -> bool:
    """Whether a path, or a part of a query, has the name of a file with a layout in it, however it is written."""
    named = unquote(path).lower()
    return A_LAYOUT in named or A_LAYOUT in named.replace(IN_FOLDERS, "")
