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

_CHANGE = re.compile(r"([ugoa]+)([+-])([rwX]+)")
_WHO = {"u": 6, "g": 3, "o": 0}
_RIGHTS = {"r": 4, "w": 2}
_OPEN = "/proc/self/fd/{}"
_ALLOWED = "changes such as g+rwX or go-w,o+rX: of u, g, o and a, + or -, of r, w and X"
TOLD_MAX = 10


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
    for folder in arguments.folders:
        walk.go(folder)
    print(f"portal: {walk.changed:,} of {walk.seen:,} files and folders have other rights now")
    for line in walk.left[:TOLD_MAX]:
        print(printable(f"portal: left as it is: {line}"), file=sys.stderr)
    if len(walk.left) > TOLD_MAX:
        print(f"portal: and {len(walk.left) - TOLD_MAX:,} more", file=sys.stderr)
    return int(bool(walk.left))


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
    """What of some folders was changed, and what was left, with the reason.

    Each file and folder is held while it is looked at and changed: what somebody puts in its place is not met.
    """

    changes: list[Change]
    seen: int = 0
    changed: int = 0
    left: list[str] = field(default_factory=list)

    def go(self, folder: Path) -> None:
        """Change a folder and all that is in it.

        Raises:
            RequestError: there is no such folder, or a link of others leads there.
        """
        try:
            with held(folder.absolute()) as place:
                top = os.open(place.name, LOOK | os.O_DIRECTORY, dir_fd=place.folder)
        except OSError as error:
            allowed = f"a folder that is there, and to which no link of others leads ({error.strerror})"
            raise RequestError("folder", str(folder), allowed) from error
        try:
            self._change(top, str(folder))
            for here, folders, files, descriptor in os.fwalk(".", dir_fd=top, onerror=self._unread):
                for name in (*folders, *files):
                    self._change_in(descriptor, name, str(folder / here / name))
        except OSError as error:
            self._unread(error)
        finally:
            os.close(top)

    def _unread(self, error: OSError) -> None:
        self.left.append(f"{error.filename}: {error.strerror}")

    def _change_in(self, folder: int, name: str, shown: str) -> None:
        try:
            descriptor = os.open(name, LOOK, dir_fd=folder)
        except OSError:  # it is gone by now
            return
        try:
            self._change(descriptor, shown)
        finally:
            os.close(descriptor)

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
        if not is_folder and found.st_nlink > 1:
            self.left.append(f"{shown}: it has another name, too, which may be elsewhere")
            return
        try:
            Path(_OPEN.format(descriptor)).chmod(mode)
        except OSError as error:
            self.left.append(f"{shown}: {error.strerror}")
        else:
            self.changed += 1
