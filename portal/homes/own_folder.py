"""Whether a folder is a person's own, and making one: what lies in another one, somebody else may have chosen."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

ROOT = 0
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_own(folder: str | Path) -> bool:
    """Whether nobody else can write into a folder."""
    try:
        found = Path(folder).stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE


def is_own_file(path: Path) -> bool:
    """Whether a regular file, and no link, lies there that is the person's, or root's."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid in (ROOT, os.geteuid())


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
