"""A private folder for a while, where nobody else can put another one in its place.

Standard library only. Where /tmp is full Python takes the folder that one works in (``tempfile.gettempdir``), which is
a project's, or the home, and is never taken here. And a ``TMPDIR`` may lie in a folder of a project: what a kernel is
started by would lie where others can exchange it.

What cleans /tmp may take the folder of a program that runs away, and then anybody can make one of its name. So a folder
is held: what follows tmpfiles.d(5) leaves it, and before it is used again :func:`check` tells it from another one.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from portal.homes.held_place import is_own_all_the_way

NAMED_BY = ("TMPDIR", "TEMP", "TMP")  # as in Python
USUAL = ("/tmp", "/var/tmp")  # noqa: S108  both are looked at
RANDOM = "[a-z0-9_]{8}"  # how a name ends (tempfile.mkdtemp, Python 3.3 to 3.14)
ROOM = 2**16  # bytes that a new folder must have room for: a full disk still lets empty ones be made
GONE = "the private folder of this session or command was taken away, as by what cleans /tmp; start a new one"
_held: dict[Path, int] = {}  # each folder of this program, and what keeps it open
_exchanged: set[Path] = set()  # of them, those that lie where others make folders, too


def made(prefix: str, place: str = "") -> Path:
    """A new folder, mode 700, in ``place`` or where temporary files are; else in the home, hidden.

    That is where those are full, or others can change them.

    Whoever asked for it removes it.

    Raises:
        OSError: it cannot be made.
    """
    for one in dict.fromkeys((place, *USUAL)) if place else places():
        with suppress(OSError):  # it is full, or not there
            private = Path(tempfile.mkdtemp(prefix=prefix if one == place else prefix_in(one, prefix), dir=one))
            if is_own_all_the_way(private) and _has_room(private):
                return private
            private.rmdir()  # it is empty, or not ours any more
    return Path(tempfile.mkdtemp(prefix=prefix_in_home(prefix), dir=Path.home()))


def places() -> list[str]:
    """Where temporary folders are: what the environment names, and the usual ones; never the folder one works in."""
    named = (os.environ.get(name, "") for name in NAMED_BY)
    return list(dict.fromkeys([*filter(os.path.isabs, named), *USUAL]))


def _has_room(private: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=private) as trial:
            trial.write(bytes(ROOM))
    except OSError:
        return False
    return True


def made_in(place: str, prefix: str) -> Iterator[Path]:
    """What has a name there as :func:`made` gives it, on this node; people may have folders of such names."""
    name = re.compile(re.escape(prefix_in(place, prefix)) + RANDOM)
    with suppress(OSError):  # it is not there
        yield from (one for one in Path(place).iterdir() if name.fullmatch(one.name))


def prefix_in(place: str, prefix: str) -> str:
    """How a name begins in one of the places: a ``TMPDIR`` may be the home, or lie in it."""
    return prefix_in_home(prefix) if _is_in_home(place) else prefix


def _is_in_home(place: str) -> bool:
    home = os.path.expanduser("~")  # noqa: PTH111  without an error where nobody has one
    if place in USUAL:
        return Path(place).is_relative_to(home)  # not looked up: the file server of the home may be away
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(home))


def prefix_in_home(prefix: str) -> str:
    """How its name begins in the home, which other nodes see: there a lock may say nothing of a program here.

    Without the domain of the node: a socket's path has 107 bytes (unix(7)).
    """
    return f".{prefix}{os.uname().nodename.partition('.')[0]}-"


def hold(private: Path) -> None:
    """Keep a folder of this program, and know it again."""
    descriptor = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held[private] = descriptor
    if any(one.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) for one in private.parents):  # a job's own in /tmp, too
        _exchanged.add(private)


def held(private: Path) -> Path:
    """A folder that is held, by its descriptor: this program, and no other, finds it there whatever has its name."""
    return Path(f"/proc/self/fd/{_held[private]}")


def remove(private: Path) -> None:
    """Remove a folder that is held, and nothing in another one of its name."""
    if all(map(_has_its_name, _above(private))):
        shutil.rmtree(private, ignore_errors=True)


def is_held(place: Path) -> bool:
    """Whether the folder in which a place lies is the one that was held, by that very path; so it is where none was.

    It is asked with each message. Of a folder that nobody else can exchange, as one in the home, that is not looked at:
    a file server may be away.
    """
    return all(_has_its_name(private) for private in _above(place) if private in _exchanged)


def _above(place: Path) -> list[Path]:
    """The folders of this program in which a place lies."""
    return [private for private in [place, *place.parents] if private in _held]


def check(place: Path) -> None:
    """Look whether the folder in which a place lies is still the one that was held.

    Raises:
        OSError: something else has its name, or nothing (``ESTALE``).
    """
    if not all(map(_has_its_name, _above(place))):
        raise OSError(errno.ESTALE, GONE, str(place))


def _has_its_name(private: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(_held[private]), private.lstat())
    except OSError:  # nothing has it, or the file system is away
        return False


@contextmanager
def folder(prefix: str, place: str = "") -> Iterator[Path]:
    """One for a block, as :func:`made` makes it."""
    private = made(prefix, place)
    try:
        hold(private)
    except OSError:  # this program has no file left to open
        private.rmdir()
        raise
    try:
        yield private
    finally:
        remove(private)
        _exchanged.discard(private)
        os.close(_held.pop(private))


def made_until_exit(prefix: str) -> Path:
    """One that goes with this program.

    Raises:
        OSError: it cannot be made.
    """
    private = made(prefix)
    atexit.register(remove, private)
    hold(private)
    return private
