"""``portal modules``: look for modules and at them, and make a kernel out of some, as the person who types."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import TYPE_CHECKING

from portal.commands.environment_commands import own_desk, tell_made
from portal.errors import printable

if TYPE_CHECKING:  # `portal` starts without what only this needs
    from portal.modules.desk import ModuleDesk

_ROWS = ("file", "summary", "before", "needs", "conflicts", "sets")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of ``portal``."""
    modules = commands.add_parser("modules", help="the cluster's modules, and kernels out of them")
    verbs = modules.add_subparsers(required=True)
    search = verbs.add_parser("search", help="the modules with these words in their name, or in their line about them")
    search.add_argument("words", nargs="*", help="without any: all modules")
    search.set_defaults(command=_search)
    show = verbs.add_parser("show", help="what a module is, needs, excludes and sets")
    show.add_argument("name", help="its name, as `portal modules search` shows it")
    show.set_defaults(command=_show)
    kernel = verbs.add_parser("kernel", help="make a kernel of yours out of modules; portal env remove takes it away")
    kernel.add_argument("name", help="small letters, digits, '.', '_' and '-'")
    kernel.add_argument("modules", nargs="+", help="loaded in this order")
    kernel.add_argument("--title", help="what the launcher shows; by default the name")
    kernel.set_defaults(command=_kernel)


def _desk() -> ModuleDesk:
    from portal.modules.desk import ModuleDesk

    return ModuleDesk(os.environ)


def _search(arguments: argparse.Namespace) -> int:
    found = asyncio.run(_desk().search(" ".join(arguments.words)))
    for module in found.modules:
        default = " (default)" if module.is_default else ""
        print(printable(f"{module.name + default:<40} {module.summary}").rstrip())
    if found.total > len(found.modules):
        print(f"… and {found.total - len(found.modules)} more: name some words.")
    if not found.total:
        print("No module has these words: portal modules search lists all.")
    return int(not found.total)


def _show(arguments: argparse.Namespace) -> int:
    module = asyncio.run(_desk().show(arguments.name))
    print(printable(f"{'name':<10} {module.name}"))
    for row in _ROWS:
        value = getattr(module, row)
        for text in (value,) if isinstance(value, str) else value:
            if text:
                print(printable(f"{row:<10} {text}"))
    if module.help:
        print(printable(f"\n{module.help}"))
    return 0


def _kernel(arguments: argparse.Namespace) -> int:
    from portal.environments.order import Tool, order_of

    given = {"name": arguments.name, "title": arguments.title, "modules": arguments.modules, "tool": Tool.MODULES}
    return tell_made(asyncio.run(own_desk().make(order_of(given))))
