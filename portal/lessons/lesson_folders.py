"""Folders that are a person's alone: nobody else reads them, changes them, or puts one of theirs in their place.

``private("ray-cluster")`` makes a folder, or takes one that is there; ``unshared("runs")`` does so for one that others
may read; ``temporary("ray-")`` makes one for a while. All refuse a place that somebody else can exchange: whoever may
change a folder on the way to it, as in a project of a group, may swap what lies below at any time. So the way is walked
from the root, and a link on it is followed that is the person's own or root's, where nobody else can have put it, or
anybody's where root has. What was found so is found again: nobody but the person and root can change it.

The rights of a POSIX ACL show among those of the group, so whom one lets write is somebody else here, too.

It runs in the kernels' own Pythons, with the standard library alone. The original is in portal/lessons; the copies
beside lessons are the same file, which ``portal notebooks check`` looks after.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = 0
LINKS_MAX = 40  # as many as Linux follows
IN_HOME = "name a folder in your home"
NEW_ONE = "name a new folder, or one that only you may enter"
OWN_TMPDIR = "let the variable TMPDIR name a folder that only you and root can change, or a sticky one of root's"


class FolderOfOthers(ValueError):
    """Somebody else can read or change a folder, or put another one there: one sentence that says what to do."""


def private(folder: Any, make: bool = True) -> Path:
    """The place of a folder that nobody else may enter, without links; with ``make`` it is made where there is none.

    Raises:
        FolderOfOthers: others may enter it, or can exchange it or a folder on the way.
    """
    place = own(folder, make)
    if place.lstat().st_mode & 0o077:
        raise FolderOfOthers(f"{place} is open to others: {NEW_ONE}.")
    return place


def own(folder: Any, make: bool = True, advice: str = IN_HOME) -> Path:
    """The same for a folder that is the person's, and that others may read or change as its rights say."""
    here = _walked(folder, make, advice)
    if here.lstat().st_uid != os.geteuid():
        raise FolderOfOthers(f"{here} belongs to somebody else: {advice}.")
    return here


def unshared(folder: Any, make: bool = True) -> Path:
    """The same for a folder that nobody else can write into: what is run or removed there is the person's."""
    place = own(folder, make)
    if place.lstat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FolderOfOthers(f"Somebody else can change what lies in {place}: {NEW_ONE}, or chmod go-w {place}.")
    for entry in place.iterdir():  # from when others could write into it: a lesson would write through their links
        with suppress(FileNotFoundError):  # it was there for a moment
            if _is_of_others(entry.lstat()):
                raise FolderOfOthers(f"{entry} is somebody else's: remove it, or name a new folder.")
    return place


def temporary(prefix: str, place: str = "", advice: str = OWN_TMPDIR) -> Path:
    """A new private folder for a while, in ``place`` or where temporary files are; whoever asked for it removes it.

    Raises:
        FolderOfOthers: others can exchange it.
    """
    around = _walked(place or tempfile.gettempdir(), False, advice)
    _refuse_others(around, None, advice)  # before anything of the person's is there
    made = tempfile.mkdtemp(prefix=prefix, dir=place or None)
    try:
        own(made, False, advice)
    except FolderOfOthers:
        Path(made).rmdir()
        raise
    keep(made)
    return Path(made)


def keep(folder: Any) -> None:
    """Have what cleans /tmp leave a folder as long as this program runs (tmpfiles.d(5)): its name would be free."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with suppress(OSError):  # it is kept already, or the file system has no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _walked(folder: Any, make: bool, advice: str) -> Path:
    """The place of a folder of anybody's, without links; nobody else can put another one there."""
    here = Path("/")
    todo = _parts(Path(folder).absolute())
    links = 0
    while todo:
        name = todo.pop(0)
        if name == "..":  # of a folder, never of a link: those have been followed
            here = here.parent
            continue
        found = _found(here, name, make, advice)
        if stat.S_ISLNK(found.st_mode):
            # In a folder that nobody else can change, too: one may have moved it there. In root's only root has.
            if _is_of_others(found) and not ROOT == here.lstat().st_uid != os.geteuid():
                raise FolderOfOthers(f"{here / name} is somebody else's link: {advice}.")
            links += 1
            if links > LINKS_MAX:
                raise FolderOfOthers(f"{folder} leads through more than {LINKS_MAX} links: {advice}.")
            target = (here / name).readlink()
            here = Path("/") if target.is_absolute() else here
            todo = _parts(target) + todo
            continue
        here = here / name
        if not stat.S_ISDIR(found.st_mode):
            raise FolderOfOthers(f"{here} is no folder: {advice}.")
    return here


def _found(here: Path, name: str, make: bool, advice: str) -> os.stat_result:
    """What is there; nobody else can put another thing in its place."""
    place = here / name
    if make and not place.exists() and not place.is_symlink():
        _refuse_others(here, None, advice)
        with suppress(FileExistsError):  # somebody was first: it is looked at as any other
            place.mkdir(mode=0o700)
    try:
        found = place.lstat()
    except FileNotFoundError as error:
        raise FolderOfOthers(f"{place} is not on this node: name a folder that every node sees.") from error
    _refuse_others(here, found, advice)
    return found


def _refuse_others(here: Path, found: Any, advice: str) -> None:
    """Raise where others can exchange what was found in a folder, or will be made there."""
    around = here.lstat()
    is_open = around.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # In a sticky folder, as /tmp is, they cannot exchange what belongs to the person or root; but move the person's own
    # link there, from a folder of a group, under any name.
    is_moved = found and stat.S_ISLNK(found.st_mode) and found.st_uid != ROOT
    stays = around.st_mode & stat.S_ISVTX and not (found and _is_of_others(found)) and not is_moved
    if _is_of_others(around) or (is_open and not stays):
        mend = f", or take that right away: chmod go-w {here}" if around.st_uid == os.geteuid() else ""
        raise FolderOfOthers(f"Somebody else can change {here}, and exchange what lies below it: {advice}{mend}.")


def _is_of_others(found: os.stat_result) -> bool:
    return found.st_uid not in (ROOT, os.geteuid())


def _parts(path: Path) -> list[str]:
    return [part for part in path.parts if part != path.root]
