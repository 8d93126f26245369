"""A private folder for a while, where nobody else can put another one in its place.

Standard library only. Python takes the folder that one works in where /tmp is full (``tempfile.gettempdir``), and a
``TMPDIR`` may lie in a folder of a project: what a kernel is started by would lie where others can exchange it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from portal.homes.held_place import is_own_all_the_way

USUAL = ("/tmp", "/var/tmp")  # noqa: S108  both are looked at


def made(prefix: str, place: str = "") -> Path:
    """A new folder, mode 700, in ``place`` or where temporary files are; in the home where others can change all those.

    Whoever asked for it removes it.

    Raises:
        OSError: it cannot be made.
    """
    for one in dict.fromkeys(_places(place)):
        with suppress(OSError):  # it is full, or not there
            private = Path(tempfile.mkdtemp(prefix=prefix, dir=one))
            if is_own_all_the_way(private):
                return private
            private.rmdir()  # it is empty, or not ours any more
    return Path(tempfile.mkdtemp(prefix=prefix_in_home(prefix), dir=Path.home()))


def _places(first: str) -> Iterator[str]:
    with suppress(FileNotFoundError):  # Python finds none that can be written
        yield first or tempfile.gettempdir()
    yield from USUAL


def prefix_in_home(prefix: str) -> str:
    """How its name begins in the home, which other nodes see: there a lock may say nothing of a program here.

    Without the domain of the node: a socket's path has 107 bytes (unix(7)).
    """
    return f".{prefix}{os.uname().nodename.partition('.')[0]}-"


@contextmanager
def folder(prefix: str, place: str = "") -> Iterator[Path]:
    """One for a block, as :func:`made` makes it."""
    private = made(prefix, place)
    try:
        yield private
    finally:
        shutil.rmtree(private, ignore_errors=True)


def made_until_exit(prefix: str) -> Path:
    """One that goes with this program.

    Raises:
        OSError: it cannot be made.
    """
    private = made(prefix)
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return private
