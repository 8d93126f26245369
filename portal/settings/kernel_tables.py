"""``[kernels]``, ``[[kernel]]``, ``[[tool]]``, ``[environments]``, ``[notebooks]``: what sessions have of the site."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from portal.settings.groups import labels
from portal.settings.values import (
    AbsolutePath,
    Badge,
    Group,
    Image,
    Name,
    OptionalPath,
    PersonsFolder,
    Table,
    Variables,
)

WILDCARDS = frozenset("*?[")


def is_pattern(module: str) -> bool:
    """Whether it stands for the versions of one module: ``NAME/*``, ``NAME/2.*``."""
    name, _, version = module.rpartition("/")
    return bool(name) and bool(version) and not WILDCARDS.intersection(name)


class KernelsTable(Table):
    """``[kernels]``: the module system, and where the kernelspecs are written."""

    folder: AbsolutePath = "/opt/dsportal/jupyter"
    module_path: tuple[AbsolutePath, ...] = ()
    module_command: OptionalPath = ""  # modulecmd.tcl or lmod; "" = the usual places
    environment: Variables = Field(default={})  # what modules find, such as LMOD_RC; for every [[kernel]]
    container_command: OptionalPath = ""  # apptainer, singularity or ch-run; "" = the first one that a node has
    debugger: bool = False  # it listens on the node for everybody there: only where a node is for one person alone


STARTED_BY_US = ("python", "R")


def _language(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9 .+#-]{0,39}", value):
        raise ValueError("a language as its kernel names itself, such as python, R, julia or ruby")
    return value


Language = Annotated[str, AfterValidator(_language)]


class KernelTable(Table):
    """``[[kernel]]``: a kernel that comes from modules, an environment, an image, or a path."""

    name: Name
    title: str
    language: Language = "python"
    modules: tuple[str, ...] = ()  # the last one may be a pattern, NAME/*: a kernel for each version of it
    environment: OptionalPath = ""  # the folder of a virtual or conda environment
    container: Image = ""
    binds: tuple[AbsolutePath, ...] = ()  # folders that are seen in the container, beside the home
    python: OptionalPath = ""  # "" = the python3 found after the modules are loaded
    argv: tuple[str, ...] = ()  # empty = the language's own start line
    groups: tuple[Group, ...] = ()  # who sees it; empty = everybody
    icon: OptionalPath = ""  # an SVG or PNG file; "" = the portal's own
    badge: Badge = ""  # a short word on the icon

    def is_open_to(self, groups: Collection[str]) -> bool:
        """Whether somebody with these groups sees it."""
        return not self.groups or not labels(self.groups).isdisjoint(groups)

    @property
    def pattern(self) -> str:
        """The last of its modules, where that is a pattern."""
        last = self.modules[-1] if self.modules else ""
        return last if WILDCARDS.intersection(last) else ""

    def contradictions(self) -> Iterator[str]:
        """What does not go together in it."""
        for module in self.modules:
            if WILDCARDS.intersection(module) and (module != self.pattern or not is_pattern(module)):
                yield f"modules: {module!r} is no name; allowed: one pattern NAME/*, as the last of them"
        if self.container and self.environment:
            yield "environment: it lies outside of the container; allowed: python = a Python in the image"
        if self.language not in STARTED_BY_US and not self.argv:
            yield f"argv: the portal has no start line for {self.language}; allowed: one with {{connection_file}}"
        if self.binds and not self.container:
            yield "binds: there is no container that could see them; allowed: only with container"
        if self.environment and (self.python or self.argv or self.language != "python"):
            yield "environment: it has a Python of its own; allowed: without python, argv and another language"

    @property
    def shelf(self) -> str:
        """The folder below ``kernels.folder`` that it is written into: one of its own where not everybody sees it."""
        return f"for/{self.name}" if self.groups else ""


class EnvironmentsTable(Table):
    """``[environments]``: where the environments lie that people make for themselves."""

    folder: PersonsFolder = "~/environments"


class NotebooksTable(Table):
    """``[notebooks]``: the site's own notebook templates, beside those of the portal."""

    folders: tuple[AbsolutePath, ...] = ()  # <folder>/<framework>/<name>.ipynb; every node sees them


TOOL_PLACEHOLDERS = ("socket", "base", "home")
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
    hands_out: tuple[Annotated[str, AfterValidator(_path)], ...] = ()  # what is in its paths to files, as they are
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
            if name not in TOOL_PLACEHOLDERS and name != "port":
                known = ", ".join(f"{{{one}}}" for one in TOOL_PLACEHOLDERS)
                yield f"command: {{{name}}} is not known; known: {known}"
        if "socket" not in named:
            yield f"command: {_SOCKET_ONLY}"
        elif "port" in named:
            yield f"command: {{port}} is not possible: {_SOCKET_ONLY}"
