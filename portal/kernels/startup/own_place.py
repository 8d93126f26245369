"""Says to ``sitecustomize``, beside which it lies, whose a folder is, and whose is what lies in it.

Written in what Python 3.6 knows.
"""

import os
import stat
from itertools import islice
from typing import Any

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
