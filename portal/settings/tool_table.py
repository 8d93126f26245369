"""``[[tool]]``: a web tool that a module brings, such as an editor or a page of experiments. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from portal.settings.groups import labels
from portal.settings.values import Group, Name, OptionalPath, Table, Variables

PLACEHOLDERS = ("socket", "base", "home")
_BRACES = re.compile(r"\{([^{}]*)\}")
_SOCKET_ONLY = (
    "a port of a node is open to everybody on it, so a tool listens on a Unix socket; "
    "allowed: the option of the tool that takes one, with {socket} in it"
)


def _path(value: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._~/?=&%-]*", value):
        raise ValueError("a path below the tool's own address, such as / or /health")
    return value


class ToolTable(Table):
    """``[[tool]]``: what is started, and how it is seen that it answers."""

    name: Name
    title: str
    modules: tuple[str, ...] = ()  # loaded in this order before it starts
    command: tuple[str, ...]  # program and arguments, never a shell's line; {socket}, {base} and {home} are put in
    environment: Variables = Field(default={})
    ready: Annotated[str, AfterValidator(_path)] = "/"  # what answers when it has started
    whole_path: bool = False  # whether it wants the whole path of a request, {base} too
    icon: OptionalPath = ""  # an SVG or PNG file; "" = two letters of its title
    groups: tuple[Group, ...] = ()  # who sees it; empty = everybody

    def is_open_to(self, groups: Collection[str]) -> bool:
        """Whether somebody with these groups sees it."""
        return not self.groups or not labels(self.groups).isdisjoint(groups)

    def contradictions(self) -> Iterator[str]:
        """What is not possible in it."""
        if not self.title.strip():
            yield "title: it is empty; allowed: the words on its tile"
        for module in self.modules:
            if not re.fullmatch(r"[^\s*?\[\]\x00-\x1f\x7f-][^\s*?\[\]\x00-\x1f\x7f]*", module):
                yield f"modules: {module!r} is no name; allowed: names as `module avail` shows them"
        if not self.command or "{" in self.command[0]:
            yield "command: it names no program; allowed: a list, first the program, then its arguments"
            return
        if any(re.search(r"[\x00-\x1f\x7f]", word) for word in self.command):
            yield "command: a word holds a control character; allowed: each word on one line"
        named = [name for word in self.command for name in _BRACES.findall(word)]
        for name in named:
            if name not in PLACEHOLDERS and name != "port":
                known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
                yield f"command: {{{name}}} is not known; known: {known}"
        if "socket" not in named:
            yield f"command: {_SOCKET_ONLY}"
        elif "port" in named:
            yield f"command: {{port}} is not possible: {_SOCKET_ONLY}"
