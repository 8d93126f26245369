"""Names of modules that somebody chose. Pure."""

from __future__ import annotations

import re
from typing import Any

from portal.errors import RequestError

MOST = 100
ALLOWED = "names of modules, as `module avail` shows them"
_NAME = re.compile(r"[^\s:-][^\s:]{0,199}\Z")  # a colon parts the modules in LOADEDMODULES


def of_tree(name: str) -> str:
    """A name of a module that the cluster's trees have.

    A path is none: both module systems would take it for a modulefile of whoever wrote it, and run that.

    Raises:
        RequestError: it is no name, or leads out of the trees.
    """
    (name,) = checked([name])
    if name.startswith(("/", "~")) or not {".", ".."}.isdisjoint(name.split("/")):
        raise RequestError("modules", name, ALLOWED)
    return name


def checked(value: Any) -> tuple[str, ...]:
    """A list of names as it was given, each looked at.

    Raises:
        RequestError: it is no list, or one of it is no name.
    """
    if not isinstance(value, list | tuple) or len(value) > MOST:
        raise RequestError("modules", value, f"a list of {ALLOWED}")
    for name in value:
        if not isinstance(name, str) or not _NAME.match(name) or not name.isprintable():
            raise RequestError("modules", name, ALLOWED)
    return tuple(value)
