"""Whether a folder is a person's own, and making one: what lies in another one, somebody else may have chosen.

One that was shared may still hold what others put there: a right that is taken away takes nothing out.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

ROOT = 0
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
OTHERS_PASS = stat.S_IXGRP | stat.S_IXOTH
LOOKED_AT_MOST = 2000  # as in portal/kernels/startup/own_place.py: a kernel's start waits for them
TOO_MANY = f"more than {LOOKED_AT_MOST} files"  # of which some may be of others
UNSEEN = "something that cannot be seen"


def is_own(folder: str | Path) -> bool:
    """Whether nobody else can write into a folder."""
    try:
        found = Path(folder).stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE


def of_others_in(folder: str | Path, begin: str = "") -> str:
    """What lies directly in a folder and belongs neither to the person nor to root; ``""`` where there is nothing.

    Arguments:
        begin: of the names that are looked at; without one more than :data:`LOOKED_AT_MOST` count as others', too.
    """
    try:
        with os.scandir(folder) as entries:
            most = None if begin else LOOKED_AT_MOST + 1
            looked_at = list(islice((one for one in entries if one.name.startswith(begin)), most))
    except OSError:
        return UNSEEN
    if len(looked_at) > LOOKED_AT_MOST and not begin:
        return TOO_MANY
    return next((entry.name for entry in looked_at if _was_left_by_others(entry)), "")


def _was_left_by_others(entry: os.DirEntry[str]) -> bool:
    try:
        return is_of_others(entry.stat(follow_symlinks=False))
    except FileNotFoundError:  # it was there for a moment
        return False


def are_own(folder: str | Path, names: Iterable[str]) -> bool:
    """Whether nobody else has made, or can change, the files of these names in a folder, where there are any.

    With umask 002 a group may write them all; where it does not come to the folder, it has a link at most.
    """
    is_reached = Path(folder).stat().st_mode & OTHERS_PASS
    for name in names:
        place = Path(folder, name)
        with contextlib.suppress(FileNotFoundError):
            found = place.lstat()
            is_open = stat.S_ISREG(found.st_mode) and found.st_mode & OTHERS_WRITE
            if (is_open and (is_reached or found.st_nlink > 1)) or is_of_others(found):
                return False
    return True


def is_of_others(found: os.stat_result) -> bool:
    """Whether a file belongs neither to the person nor to root."""
    return found.st_uid not in (ROOT, os.geteuid())


def is_closed(folder: os.stat_result) -> bool:
    """Nobody but the person and root puts something there."""
    return not is_of_others(folder) and not folder.st_mode & OTHERS_WRITE


def is_roots_alone(folder: os.stat_result) -> bool:
    """Whether root alone puts something into a folder, whoever it belongs to then; of root's own folders it is not."""
    return folder.st_uid == ROOT != os.geteuid() and is_closed(folder)


def is_own_file(path: Path) -> bool:
    """Whether a regular file, and no link, lies there that is the person's, or root's."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and not is_of_others(found)


def make_own(folder: Path, mode: int = 0o700) -> None:
    """Make a folder, with those that are missing on the way, which ``parents=True`` would leave to the umask.

    Where that, or a default access list of the folder above in its place (acl(5)), lets others write, they could put
    another folder in the place of the one that is meant. One that is there stays as it is (:func:`is_own` tells).
    """
    missing = [one for one in folder.parents if not one.exists()]
    for one in (*reversed(missing), folder):
        one.mkdir(mode, exist_ok=True)


def close(folder: Path) -> None:
    """Take away others' right to write into a folder of ours; what they have put there stays, and is not looked at."""
    with contextlib.suppress(OSError):
        found = folder.stat()
        if found.st_uid == os.geteuid() and found.st_mode & OTHERS_WRITE:
            folder.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS_WRITE)
