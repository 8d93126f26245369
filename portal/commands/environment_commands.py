"""``portal env``: environments of one's own, each a kernel, as the person who types."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from portal.errors import printable
from portal.session_settings import SessionSettings

if TYPE_CHECKING:  # `portal` starts without what only this needs
    from portal.environments.desk import EnvironmentDesk, EnvironmentView
    from portal.environments.order import EnvironmentOrder

FOLLOW_EVERY_S = 0.3
_MB = 1_000_000


class _AnyOrder(argparse.ArgumentParser):
    """Takes options between its arguments, too: ``new NAME --module M PACKAGE``, which Python before 3.13 refuses."""

    _is_asked = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As its own, which does it in two steps and calls this for each."""
        if self._is_asked:
            return super().parse_known_args(args, namespace)
        self._is_asked = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_asked = False


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of ``portal``."""
    whole = commands.add_parser("env", help="environments of your own, each a kernel")
    env = whole.add_subparsers(required=True, parser_class=_AnyOrder)
    new = env.add_parser("new", help="make one, and its kernel")
    new.add_argument("name", help="small letters, digits, '.', '_' and '-'")
    new.add_argument("packages", nargs="*", help="what pip installs into it, such as tqdm or 'torch==2.9.1'")
    new.add_argument("--title", help="what the launcher shows; by default the name")
    new.add_argument("--module", action="append", dest="modules", metavar="M", help="on top of it; may be repeated")
    new.add_argument(
        "--tool", metavar="TOOL", help="venv (the default), uv, conda, mamba, or modules: a kernel out of them alone"
    )
    new.add_argument("--python", metavar="VERSION", help="with conda or mamba: the version of Python, such as 3.12")
    new.set_defaults(command=_new)
    env.add_parser("list", help="your environments: where they lie, and how big they are").set_defaults(command=_list)
    for name, text, act in (
        ("log", "what its making has said", _log),
        ("remove", "take one away, and its kernel; one that is being made is stopped", _remove),
    ):
        parser = env.add_parser(name, help=text)
        parser.add_argument("name", help="its name, as `portal env list` shows it")
        parser.set_defaults(command=act)


def own_desk() -> EnvironmentDesk:
    """The environments of who types."""
    from portal.environments.desk import EnvironmentDesk

    return EnvironmentDesk(os.environ, SessionSettings.from_environment(os.environ).environments)


def _new(arguments: argparse.Namespace) -> int:
    from portal.environments.order import OPTIONS, order_of

    order = order_of({name: getattr(arguments, name) for name in OPTIONS})
    return tell_made(asyncio.run(_made(own_desk(), order)))


def tell_made(view: EnvironmentView) -> int:
    """Print what was made, or why it was not; the exit status."""
    if view.state != "ready":
        print(printable(f"{view.order.name}: {view.words}"), file=sys.stderr)
        return 1
    print(printable(f"{_line(view)}\nIts kernel is {view.order.title!r} in the launcher."))
    return 0


async def _made(desk: EnvironmentDesk, order: EnvironmentOrder) -> EnvironmentView:
    """Make it and print what that says; Ctrl-C stops it, and leaves nothing."""
    begun = await desk.make(order)
    if begun.state == "ready":
        return begun
    try:
        await _print_log(desk, order.name, follows=True)
    except asyncio.CancelledError:
        await desk.remove(order.name)
        raise
    return await desk.one(order.name)


async def _print_log(desk: EnvironmentDesk, name: str, *, follows: bool) -> None:
    start = 0
    while True:
        part = await desk.log(name, start)
        sys.stdout.write(printable(part.text))
        sys.stdout.flush()
        if part.is_over or (not follows and part.next == start):
            return
        if part.next == start:
            await asyncio.sleep(FOLLOW_EVERY_S)
        start = part.next


def _list(arguments: argparse.Namespace) -> int:
    views = asyncio.run(own_desk().all())
    for view in views:
        print(printable(_line(view)))
    if not views:
        print("You have no environments: portal env new NAME [PACKAGE…].")
    return 0


def _log(arguments: argparse.Namespace) -> int:
    asyncio.run(_print_log(own_desk(), arguments.name, follows=False))
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    asyncio.run(own_desk().remove(arguments.name))
    print(f"{arguments.name} is removed")
    return 0


def _line(view: EnvironmentView) -> str:
    order = view.order
    size = f"{max(1, round(view.size_bytes / _MB))} MB" if view.size_bytes else ""
    upon = f"[{' '.join(order.modules)}]" if order.modules else ""
    words = ["ready" if view.state == "ready" else f"{view.state}: {view.words}", size, view.path, upon]
    return f"{order.name:<20} {'  '.join(filter(None, words))}"
