"""``[kernels]``, ``[[kernel]]``, ``[environments]`` and ``[notebooks]``: modules, kernels, templates of a site."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from pydantic import Field

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


class KernelTable(Table):
    """``[[kernel]]``: a kernel that comes from modules, an environment, an image, or a path."""

    name: Name
    title: str
    language: Literal["python", "R"] = "python"
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
