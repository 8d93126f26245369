"""What environment somebody wants: the same checks for the command line, for REST and for the Lab. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from portal.errors import RequestError
from portal.modules import names

NAME_FORM = r"[a-z0-9][a-z0-9._-]{0,39}"  # Jupyter's names of kernels have no capitals (jupyter_client, kernelspec.py)
NAME_ALLOWED = "1 to 40 small letters, digits, '.', '_' and '-', the first one a letter or digit"
PACKAGES_MOST = 100
PACKAGE_ALLOWED = (
    "a package with its version as pip writes it, such as tqdm, 'torch==2.9.1' or 'dask[array]>=2025'; no option, "
    "no file and no address"
)
_PACKAGE_LENGTH = 200
_TITLE = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,60}\Z")
_PYTHON = re.compile(r"3\.[0-9]{1,2}\Z")
# A name that ends like this is a file for pip, where there is one of that name (pip 26.1, req/constructors.py).
_ARCHIVES = (".whl", ".zip", ".tar", ".gz", ".tgz", ".tbz", ".bz2", ".xz", ".txz", ".tlz", ".lz", ".lzma")


class Tool(StrEnum):
    """What makes an environment; ``MODULES`` makes none: a kernel out of modules alone."""

    VENV = "venv"
    UV = "uv"
    CONDA = "conda"
    MAMBA = "mamba"
    MODULES = "modules"


OF_CONDA = (Tool.CONDA, Tool.MAMBA)


@dataclass(frozen=True)
class EnvironmentOrder:
    """An environment that somebody wants.

    Attributes:
        name: what it is called, and its folder.
        title: what the launcher shows.
        tool: what makes it.
        modules: loaded before it is made, and at each start of its kernel; its Python is theirs, and it sees their
            packages.
        packages: what pip installs into it, as requirements (PEP 508).
        python: the version of Python that conda or mamba takes, such as ``3.12``; "" = their usual one.
    """

    name: str
    title: str
    tool: Tool = Tool.VENV
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    python: str = ""

    @property
    def kernel(self) -> str:
        """The name of its kernel: no kernel of a site begins so by chance."""
        return f"env-{self.name}"


OPTIONS = tuple(field.name for field in fields(EnvironmentOrder))


def order_of(given: Mapping[str, Any]) -> EnvironmentOrder:
    """An order out of options by name (:data:`OPTIONS`); one that is None or empty is as if it were not there.

    Raises:
        RequestError: one that is not known, or a value that is not allowed.
    """
    for option, value in given.items():
        if option not in OPTIONS:
            raise RequestError(option, value, f"the options {', '.join(OPTIONS)}")
    chosen = {option: value for option, value in given.items() if value not in (None, "", [], ())}
    name = checked_name(chosen.get("name", ""))
    tool = _tool(chosen.get("tool", Tool.VENV))
    python = chosen.get("python", "")
    if python and not (tool in OF_CONDA and isinstance(python, str) and _PYTHON.match(python)):
        raise RequestError(
            "python", python, "a version such as 3.12, with conda or mamba; others take that of a module"
        )
    modules = names.checked(chosen.get("modules", ()))
    packages = _packages(chosen.get("packages", ()))
    if tool is Tool.MODULES and packages:
        raise RequestError("packages", list(packages), "none: a kernel out of modules alone has what they bring")
    if tool is Tool.MODULES and not modules:
        raise RequestError("modules", [], f"one or more {names.ALLOWED}")
    return EnvironmentOrder(name, _title(chosen.get("title", name)), tool, modules, packages, python)


def checked_name(name: Any) -> str:
    """A name of an environment.

    Raises:
        RequestError: it is none.
    """
    if not isinstance(name, str) or not re.fullmatch(NAME_FORM, name):
        raise RequestError("name", name, NAME_ALLOWED)
    return name


def _title(title: Any) -> str:
    if not isinstance(title, str) or not _TITLE.match(title) or not title.strip():
        raise RequestError("title", title, "one line of up to 60 letters")
    return title.strip()


def _tool(tool: Any) -> Tool:
    if not isinstance(tool, str) or tool not in tuple(Tool):
        raise RequestError("tool", tool, ", ".join(Tool))
    return Tool(tool)


def _packages(packages: Any) -> tuple[str, ...]:
    if not isinstance(packages, list | tuple) or len(packages) > PACKAGES_MOST:
        raise RequestError("packages", packages, f"a list of up to {PACKAGES_MOST}, each {PACKAGE_ALLOWED}")
    return tuple(_package(text) for text in packages)


def _package(text: Any) -> str:
    """A requirement as pip understands it and nothing else: no option, no file, no address of anything."""
    if not isinstance(text, str) or len(text) > _PACKAGE_LENGTH or not text.isprintable():
        raise RequestError("packages", text, PACKAGE_ALLOWED)
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        raise RequestError("packages", text, PACKAGE_ALLOWED) from None
    if requirement.url or requirement.name.lower().endswith(_ARCHIVES):
        raise RequestError("packages", text, PACKAGE_ALLOWED)
    return str(requirement)
