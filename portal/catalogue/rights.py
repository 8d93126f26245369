"""With whose rights a program of a kernel is tried: who can change it gets none of root's by that.

Environments and images are often a group's own, and whoever can put another program in the place of theirs has it run
by who tries the kernel.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

ROOT = 0
NOBODY = 65534  # also who owns what a user namespace has no number for: user_namespaces(7)
FIRST_OF_PEOPLE = 1000  # groups below are the system's own, which root fills: login.defs(5), GID_MIN
LINKS_MOST = 40  # as the kernel follows: path_resolution(7)


class Rights(TypedDict, total=False):
    """What :func:`subprocess.run` is told; nothing = the rights of whoever asks, and their terminal."""

    user: int
    group: int
    extra_groups: list[int]
    start_new_session: bool


def stranger(*paths: Path) -> tuple[int, int] | None:
    """Who can change programs or images, or put others in their place, beside root and who asks.

    Returns:
        user and group, with no more than all of these have; :data:`NOBODY` for several; None where nobody can.
    """
    found = [one for path in paths for one in _on_the_way(path)]
    owners = {one.st_uid for one in found} - {ROOT, os.geteuid(), NOBODY}
    groups = {one.st_gid for one in found if _is_open(one, stat.S_IWGRP)} - {os.getegid()}
    groups = {group for group in groups if group >= FIRST_OF_PEOPLE}
    if any(_is_open(one, stat.S_IWOTH) for one in found) or len(groups) > 1 or len(owners) > 1:
        return NOBODY, NOBODY
    if groups:
        return NOBODY, groups.pop()
    return _person(owners.pop()) if owners else None


def _person(number: int) -> tuple[int, int]:
    """A person, and the group of that account: never the one that a file was given."""
    try:
        return number, pwd.getpwuid(number).pw_gid
    except KeyError:
        return number, NOBODY


def of_trial(*paths: Path) -> Rights:
    """The rights to try them with: root takes those of who can change them, without its own terminal."""
    other = stranger(*paths) if os.geteuid() == ROOT else None
    if other is None:
        return {}
    return {"user": other[0], "group": other[1], "extra_groups": [], "start_new_session": True}


def _on_the_way(path: Path) -> Iterator[os.stat_result]:
    """The program, all folders above it, and those of every link that leads to it."""
    for one in dict.fromkeys(part for link in _links(path.absolute()) for part in (link, *link.parents)):
        try:
            yield one.lstat()
        except OSError:
            continue


def _links(path: Path) -> Iterator[Path]:
    for _ in range(LINKS_MOST):
        yield path
        yield path.parent.resolve() / path.name
        if not path.is_symlink():
            break
        path = path.parent.resolve() / path.readlink()


def _is_open(found: os.stat_result, who: int) -> bool:
    """Whether the group, or everybody, can write there; into a sticky folder people put what is their own alone."""
    is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return bool(found.st_mode & who) and not stat.S_ISLNK(found.st_mode) and not is_sticky
