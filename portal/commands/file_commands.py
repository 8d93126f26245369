"""``portal chmod``: rights of all that is in a folder, also where others exchange it meanwhile."""

from __future__ import annotations

import argparse
import os
import re
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

from portal.errors import RequestError, printable
from portal.homes.held_place import LOOK, held
from portal.homes.own_folder import ROOT

_CHANGE = re.compile(r"([ugoa]+)([+-])([rwX]+)")
_WHO = {"u": 6, "g": 3, "o": 0}
_RIGHTS = {"r": 4, "w": 2}
_OPEN = "/proc/self/fd/{}"
_ALLOWED = "changes such as g+rwX or go-w,o+rX: of u, g, o and a, + or -, of r, w and X"
TOLD_MAX = 10
DEPTH_MAX = 200


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of ``portal``."""
    words = "change the rights of all that is in a folder, as chmod -R: no link is followed, whatever others put there"
    change = commands.add_parser("chmod", help=words)
    change.add_argument("changes", metavar="CHANGES", help="such as g+rwX or go-w,o+rX")
    change.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    change.set_defaults(command=_chmod)


def _chmod(arguments: argparse.Namespace) -> int:
    changes = parsed(arguments.changes)
    walk = Walk(changes)
    try:
        for folder in arguments.folders:
            walk.go(folder)
    finally:
        _tell(walk)
    return int(walk.left > 0)


def _tell(walk: Walk) -> None:
    if not walk.seen:  # no folder was found: the error says which
        return
    print(f"portal: {walk.changed:,} of {walk.seen:,} files and folders have other rights now")
    for line in walk.told:
        print(printable(f"portal: left as it is: {line}"), file=sys.stderr)
    if walk.left > TOLD_MAX:
        print(f"portal: and {walk.left - TOLD_MAX:,} more", file=sys.stderr)


@dataclass(frozen=True)
class Change:
    """One part of a symbolic mode: whose rights, whether they are given, which."""

    who: str
    is_given: bool
    rights: str

    def applied(self, mode: int, *, is_folder: bool) -> int:
        """The mode after it; ``X`` is execute of a folder, and of a file that somebody may execute."""
        passes = "X" in self.rights and (is_folder or mode & 0o111)
        bits = sum(value for right, value in _RIGHTS.items() if right in self.rights) + bool(passes)
        of_all = sum(bits << place for one, place in _WHO.items() if one in self.who or "a" in self.who)
        return mode | of_all if self.is_given else mode & ~of_all


def parsed(text: str) -> list[Change]:
    """A symbolic mode.

    Raises:
        RequestError: it has another part than these.
    """
    found = [_CHANGE.fullmatch(part) for part in text.split(",")]
    changes = [Change(one[1], one[2] == "+", one[3]) for one in found if one]
    if len(changes) < len(found):
        raise RequestError("changes", text, _ALLOWED)
    return changes


@dataclass
class Walk:
    """How much of some folders was changed, and how much was left; the first of it is told, with the reason.

    Each file and folder is held while it is looked at and changed: what somebody puts in its place is not met.
    """

    changes: list[Change]
    seen: int = 0
    changed: int = 0
    left: int = 0
    told: list[str] = field(default_factory=list)

    def go(self, folder: Path) -> None:
        """Change a folder and all that is in it.

        Raises:
            RequestError: there is no such folder, or a link leads there that others made, or may have put there.
        """
        try:
            with held(folder.absolute(), moved=False) as place:
                top = os.open(place.name, LOOK | os.O_DIRECTORY, dir_fd=place.folder)
        except OSError as error:
            allowed = f"a folder that is there, by no link of others or that they can rename ({error.strerror})"
            raise RequestError("folder", str(folder), allowed) from error
        try:
            self._go(top, str(folder), 0)
        finally:
            os.close(top)

    def _go(self, descriptor: int, shown: str, depth: int) -> None:
        self._change(descriptor, shown)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return
        if depth > DEPTH_MAX:
            self._leave(shown, f"it is more than {DEPTH_MAX} folders deep")
            return
        try:
            listed = os.open(_OPEN.format(descriptor), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self._leave(shown, f"what is in it cannot be read: {error.strerror}")
            return
        try:
            names = os.listdir(listed)  # noqa: PTH208  of a descriptor
            for name in names:
                self._go_in(listed, name, f"{shown}/{name}", depth + 1)
        except OSError as error:
            self._leave(shown, f"what is in it cannot be read: {error.strerror}")
        finally:
            os.close(listed)

    def _go_in(self, folder: int, name: str, shown: str, depth: int) -> None:
        try:
            descriptor = os.open(name, LOOK, dir_fd=folder)
        except FileNotFoundError:  # it is gone by now
            return
        except OSError as error:
            self._leave(shown, error.strerror or str(error))
            return
        try:
            self._go(descriptor, shown, depth)
        finally:
            os.close(descriptor)

    def _leave(self, shown: str, why: str) -> None:
        self.left += 1
        if self.left <= TOLD_MAX:
            self.told.append(f"{shown}: {why}")

    def _change(self, descriptor: int, shown: str) -> None:
        found = os.fstat(descriptor)
        is_folder = stat.S_ISDIR(found.st_mode)
        if not is_folder and not stat.S_ISREG(found.st_mode):
            return
        self.seen += 1
        before = mode = stat.S_IMODE(found.st_mode)
        for change in self.changes:
            mode = change.applied(mode, is_folder=is_folder)
        if mode == before:
            return
        is_taken = not mode & ~before and os.geteuid() != ROOT  # of one's own: nobody gets anything by another name
        if not is_folder and found.st_nlink > 1 and not is_taken:
            self._leave(shown, "it has another name, too, which may be elsewhere")
            return
        try:
            Path(_OPEN.format(descriptor)).chmod(mode)
        except OSError as error:
            self._leave(shown, error.strerror or str(error))
        else:
            self.changed += 1
