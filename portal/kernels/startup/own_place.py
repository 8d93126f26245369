"""Says to ``sitecustomize``, beside which it lies, whose a folder is, and whose is what lies in it.

And what finds modules in one where others may have left some.

Written in what Python 3.6 knows.
"""

import os
import stat
import sys
from itertools import islice
from typing import Any

NEVER = ("sitecustomize", "usercustomize", "pip")  # which an environment may not have, and nobody means those of others
LOOKED_AT_MOST = 2000  # the kernel's start waits for each, also on a file server that is slow


def is_alone(folder: str) -> bool:
    """Whether a folder is the person's own, and nothing in it is of others.

    They may have left files in one that was shared, and closed later. Of very many files that is not asked.
    """
    if not is_own(folder):
        return False
    try:
        with os.scandir(folder) as entries:
            looked_at = list(islice(entries, LOOKED_AT_MOST + 1))
        return len(looked_at) <= LOOKED_AT_MOST and not any(map(_is_of_others, looked_at))
    except OSError:
        return False


def has_own(folder: str, name: str) -> bool:
    """Whether a folder is the person's own, and a file of it, where there is one, nobody else's to change.

    With umask 002 a group may write them all; where it does not come to the folder, it has a link at most.
    """
    try:
        found = os.lstat(os.path.join(folder, name))  # noqa: PTH118  as light as sitecustomize
        is_reached = os.stat(folder).st_mode & 0o011  # noqa: PTH116  as above
    except OSError:
        return is_own(folder)
    is_open = stat.S_ISREG(found.st_mode) and found.st_mode & 0o022
    can_change = is_open and (is_reached or found.st_nlink > 1)
    return not can_change and found.st_uid in (0, os.geteuid()) and is_own(folder)


def _is_of_others(entry: Any) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_uid not in (0, os.geteuid())
    except FileNotFoundError:  # it was there for a moment
        return False


def is_own(folder: str) -> bool:
    """As ``is_own_all_the_way`` of :mod:`portal.homes.held_place`, which the kernel's Python does not have.

    Nobody else can change the folder, or put another one in its place, or in that of one on the way.
    """
    try:
        found = os.stat(folder)  # noqa: PTH116  as light as sitecustomize
        is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        return is_private and _stays(os.path.abspath(folder))  # noqa: PTH100  as above
    except (OSError, RecursionError):  # the latter of realpath, where others exchange links meanwhile
        return False


def _stays(path: str) -> bool:
    """Whether nobody else can rename a part of a path, or of where a link leads: in a sticky folder one's own stays."""
    places = [path]
    for place in places:  # which grow meanwhile, without an end where others exchange links for a circle
        found = os.lstat(place)
        is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX and not stat.S_ISLNK(found.st_mode)
        if is_open or found.st_uid not in (0, os.geteuid()) or len(places) > 1000:
            return False
        above = os.path.dirname(place)  # noqa: PTH120  as above
        places += [above] * (above != place)
        if stat.S_ISLNK(found.st_mode):
            places.append(os.path.join(os.path.realpath(above), os.readlink(place)))  # noqa: PTH115, PTH118
    return True


class Last:
    """Finds modules in such a folder, in what a kernel starts there: by ``-m`` and ``-c`` what no other folder has.

    Python looks there first then: what a library starts, as multiprocessing does, would begin with others' files. A
    program finds what lies beside it as ever.
    """

    def __init__(self, folder: str, beside: Any, make: Any) -> None:
        self._folder = folder
        self._beside = beside
        self._make = make
        self._finder: Any = None
        self._is_program: Any = None

    def find_spec(self, name: str, target: Any = None) -> Any:
        """The module; None where the environment has one of that name."""
        if self._is_program is None:
            self._is_program = getattr(sys, "argv", [""])[:1] not in ([], [""], ["-c"], ["-m"])
        if not self._is_program and (name in NEVER or self._is_elsewhere(name)):
            return None
        self._finder = self._finder or self._make(self._folder)
        return self._finder.find_spec(name, target)

    def invalidate_caches(self) -> None:
        """Look anew."""
        self._finder = None

    def _is_elsewhere(self, name: str) -> bool:
        """Whether another folder of the path has a module."""
        from importlib.machinery import PathFinder

        others = [folder for folder in sys.path if os.path.abspath(folder) not in self._beside]  # noqa: PTH100  as above
        return PathFinder.find_spec(name, others) is not None
