"""The private folder of one session on its node: it goes with the session, or, after a kill, with the next one."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from portal.homes import temporary
from portal.homes.held_place import is_own_all_the_way

OF_JUPYTER = "JUPYTER_RUNTIME_DIR"
VARIABLE = "PORTAL_RUNTIME_DIR"  # where lessons find it, which look whose it is
PREFIX = "dsp-"  # short: socket paths begin here
PRIVATE = 0o700
LOCK = "lock"  # held as long as the session's process lives
MARK = b"of a session of the Data Scientist Portal\n"  # in it: people have folders with a file of that name
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
    os.environ[OF_JUPYTER] = str(runtime)
    return runtime


def hand_on_none(environ: MutableMapping[str, str]) -> None:
    """Let no program of Jupyter's that the session starts put its own files there: a job may be one.

    It runs on another node, or when this session is gone, where somebody else can have made a folder of that name.
    """
    environ[VARIABLE] = environ.pop(OF_JUPYTER, "")


def _locked_folder() -> Path:
    folder = temporary.made(PREFIX)
    lock = (folder / LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.write(MARK.decode())
    lock.flush()
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
    for place in dict.fromkeys((*temporary.places(), str(Path.home()))):
        yield from temporary.made_in(place, PREFIX)


def _remove_left(folder: Path, descriptor: int) -> None:
    """Remove one that is as it was made: one that others may write in, or exchange, may be here from elsewhere.

    And the person may have made one: its name alone does for those in the home, which have the node's in it.
    Jupyter makes it sticky with the first kernel (jupyter_client 8.10, ``connect.py``).
    """
    found = os.fstat(descriptor)
    if is_own_all_the_way(folder) and stat.S_IMODE(found.st_mode) in (PRIVATE, PRIVATE | stat.S_ISVTX):
        lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.read(lock, len(MARK) + 1) in ((MARK, b"") if folder.name.startswith(".") else (MARK,)):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
