"""``[kernels]``, ``[[kernel]]`` and ``[notebooks]``: modules, the kernels out of them, the templates of the site."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from portal.settings.values import AbsolutePath, Name, OptionalPath, Table, Variables


class KernelsTable(Table):
    """``[kernels]``: the module system, and where the kernelspecs are written."""

    folder: AbsolutePath = "/opt/dsportal/jupyter"
    module_path: tuple[AbsolutePath, ...] = ()
    module_command: OptionalPath = ""  # modulecmd.tcl or lmod; "" = the usual places
    environment: Variables = Field(default={})  # what modules find, such as LMOD_RC; for every [[kernel]]
    debugger: bool = False  # it listens on the node for everybody there: only where a node is for one person alone


class KernelTable(Table):
    """``[[kernel]]``: a kernel that comes from modules (or from a path)."""

    name: Name
    title: str
    language: Literal["python", "R"] = "python"
    modules: tuple[str, ...] = ()
    python: OptionalPath = ""  # "" = the python3 found after the modules are loaded
    argv: tuple[str, ...] = ()  # empty = the language's own start line


class NotebooksTable(Table):
    """``[notebooks]``: the site's own notebook templates, beside those of the portal."""

    folders: tuple[AbsolutePath, ...] = ()  # <folder>/<framework>/<name>.ipynb; every node sees them
