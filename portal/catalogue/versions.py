"""The versions of a module that a pattern stands for, each a kernel of its own: ``shared/tensorflow/*``.

The module system is asked (``-t avail NAME``; Environment Modules 5.2 and Lmod 8.6 print the names on standard error),
with the modules before it loaded, so that those of a hierarchical tree are found. What it loads without a version is
the default.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from portal.catalogue.loaded import loaded, system_of
from portal.errors import KernelError
from portal.kernels import module_output
from portal.kernels.delta import Environment
from portal.settings.kernel_tables import KernelTable
from portal.site import Site

MOST = 30  # kernels out of one pattern: more are no choice


@dataclass(frozen=True)
class KernelEntry:
    """One kernel of the site: a ``[[kernel]]``, or a version that its pattern stands for.

    Attributes:
        kernel: the settings of this one kernel.
        table: the name of the ``[[kernel]]`` that it comes from.
        shelf: the folder below ``kernels.folder`` that it is written into; "" where everybody sees it.
    """

    kernel: KernelTable
    table: str
    shelf: str


def resolved(kernel: KernelTable, site: Site) -> tuple[KernelEntry, ...]:
    """The kernels that a ``[[kernel]]`` stands for, the default version first, then the newest.

    The default one keeps the table's name, which notebooks remember; the others have their version behind it.

    Raises:
        KernelError: the module system fails, or has no such module, or too many.
    """
    if not kernel.pattern:
        return (KernelEntry(kernel, kernel.name, kernel.shelf),)
    *before, pattern = kernel.modules
    base = pattern.rpartition("/")[0]
    env = loaded(kernel.model_copy(update={"modules": tuple(before)}), site)
    found = [name for name in available(base, system_of(site).find_command(env), env) if fnmatchcase(name, pattern)]
    if not found or len(found) > MOST:
        there = f"{len(found)} modules" if found else "no module"
        raise KernelError(f"{there} {'are' if found else 'is'} called {pattern}; allowed are 1 to {MOST}.")
    found.sort(key=natural, reverse=True)
    default = _default(kernel, base, tuple(before), site)
    first = default if default in found else found[0]
    ordered = [first, *(name for name in found if name != first)]
    return tuple(_version(kernel, name, tuple(before), is_first=name == first, of=len(ordered)) for name in ordered)


def _version(kernel: KernelTable, module: str, before: tuple[str, ...], *, is_first: bool, of: int) -> KernelEntry:
    version = module.rpartition("/")[2]
    title = f"{kernel.title} {version}" + (" (default)" if is_first and of > 1 else "")
    name = kernel.name if is_first else f"{kernel.name}-{re.sub(r'[^A-Za-z0-9._-]+', '-', version)}"
    one = kernel.model_copy(update={"name": name, "title": title, "modules": (*before, module)})
    return KernelEntry(one, kernel.name, kernel.shelf)


def _default(kernel: KernelTable, base: str, before: tuple[str, ...], site: Site) -> str:
    """What is loaded where somebody names no version; "" where that fails."""
    try:
        env = loaded(kernel.model_copy(update={"modules": (*before, base)}), site)
    except KernelError:
        return ""
    names = env.get("LOADEDMODULES", "").split(":")
    return next((name for name in reversed(names) if name.startswith(f"{base}/")), "")


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which 2.9 comes before 2.21."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def parse_available(text: str) -> Sequence[str]:
    """The names of modules in a terse list, without what marks some of them, such as ``(default)``."""
    lines = (re.sub(r"\s*[(<].*$", "", line.strip()) for line in text.splitlines())
    return [line for line in lines if line and not line.endswith((":", "/")) and len(line.split()) == 1]


def available(name: str, command: str, env: Environment) -> Sequence[str]:
    """The modules whose names begin so, as this environment finds them.

    Raises:
        KernelError: the module command cannot be run, fails, or is silent.
    """
    shown = f"module avail {name}"
    if name.startswith("-"):
        raise KernelError(f"{name!r} is no name of a module. Allowed: names as `module avail` shows them.")
    done = module_output.asked(command, ("-t", "avail", name), env, shown)
    if done.returncode:
        raise module_output.failed(done, shown)
    return parse_available(done.stderr.decode(errors="replace"))
