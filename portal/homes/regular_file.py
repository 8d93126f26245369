"""A file where a person, or others, may have put anything: nobody waits for it. Standard library only."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import IO


def open_regular(path: Path) -> IO[bytes]:
    """A file, for reading; no link is followed.

    Raises:
        OSError: there is none, or it is no regular file.
    """
    return open(path, "rb", opener=lambda name, flags: without_waiting(name, flags | os.O_NOFOLLOW))


def without_waiting(path: str, flags: int, folder: int | None = None) -> int:
    """Open a regular file, as :func:`open` has it done (``opener``): a pipe or somebody's lease does not keep us.

    Arguments:
        folder: a descriptor, where the path is relative to that folder.

    Raises:
        BlockingIOError: somebody has a lease on it (fcntl(2), ``F_SETLEASE``), and was asked to give it back.
        OSError: there is none, or it is no regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "is no regular file", str(path))


def regular(descriptor: int, name: str) -> os.stat_result:
    """What is open.

    Raises:
        PermissionError: it is no regular file.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(errno.EACCES, "is no regular file", name)
    return found


def put_back(descriptor: int, size: int, kept: IO[bytes] | None) -> None:
    """Make a file as it was: as long as before, or with what was kept of it."""
    os.ftruncate(descriptor, size)
    if kept:
        kept.seek(0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "wb", closefd=False) as file:
            shutil.copyfileobj(kept, file)


def tail(path: Path, most: int) -> str:
    """The last bytes of a text; ``""`` of what cannot be read."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""
