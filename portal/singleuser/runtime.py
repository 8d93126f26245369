"""The private folder of one session on its node: it goes with the session, or, after a kill, with the next one."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from portal.homes import temporary
from portal.homes.held_place import is_own_all_the_way

PREFIX = "dsp-"  # short: socket paths begin here
PRIVATE = 0o700
LOCK = "lock"  # held as long as the session's process lives
_held: list[IO[str]] = []


def runtime_folder() -> Path:
    """A new private folder for sockets, keys and Jupyter's own files of this session; it goes with the session.

    It is held (:func:`portal.homes.temporary.hold`).
    """
    runtime = _locked_folder()
    while not (runtime / LOCK).exists():  # another session that starts took it for a leftover, just before the lock
        runtime = _locked_folder()
    temporary.hold(runtime)
    atexit.register(temporary.remove, runtime)
    os.environ["JUPYTER_RUNTIME_DIR"] = str(runtime)
    return runtime


def _locked_folder() -> Path:
    folder = temporary.made(PREFIX)
    lock = (folder / LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _held.append(lock)
    return folder


def remove_leftovers() -> None:
    """Remove this person's folders whose session is gone: a server that is killed cannot do it itself."""
    for folder in _left():
        with suppress(OSError):  # a link, one that lives, one without a lock, or none any more
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _remove_left(folder, descriptor)
            finally:
                os.close(descriptor)


def _left() -> Iterator[Path]:
    yield from Path(tempfile.gettempdir()).glob(f"{PREFIX}*")
    yield from Path.home().glob(f"{temporary.prefix_in_home(PREFIX)}*")


def _remove_left(folder: Path, descriptor: int) -> None:
    """Remove one that is as it was made: one that others may write in, or exchange, may be here from elsewhere.

    Jupyter makes it sticky with the first kernel (jupyter_client 8.10, ``connect.py``).
    """
    found = os.fstat(descriptor)
    if is_own_all_the_way(folder) and stat.S_IMODE(found.st_mode) in (PRIVATE, PRIVATE | stat.S_ISVTX):
        with open(LOCK, "r+", opener=lambda name, flags: os.open(name, flags, dir_fd=descriptor)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
