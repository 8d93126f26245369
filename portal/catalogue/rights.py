"""With whose rights a program of a kernel is tried: who can change it gets none of root's by that.

Environments and images are often a group's own, and whoever can put another program in the place of theirs has it run
by who tries the kernel. Who can is said by owner and mode, and by a list of POSIX.1e where there is one: acl(5). Root
tries nothing with its own rights: what a program loads is more than can be looked at.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from portal.homes.on_the_way import on_the_way, without_number

ROOT = 0
NOBODY = 65534
FIRST_OF_PEOPLE = 1000  # groups below are the system's own, which root fills: login.defs(5), GID_MIN
USERS = 100  # but for this one, which may be that of everybody: useradd(8), and openSUSE
WRITE = 2  # of the three bits of a permission
# How Linux hands a list out: a version, then entries of tag, permission and number (uapi/linux/posix_acl_xattr.h).
LIST = "system.posix_acl_access"
LIST_HEAD = struct.Struct("<I")
LIST_ENTRY = struct.Struct("<HHI")
LIST_VERSION = 2
NAMED_USER = 0x02  # the tags of entries
OWNING_GROUP = 0x04
NAMED_GROUP = 0x08
MASK = 0x10
NO_LIST = (errno.ENODATA, errno.EOPNOTSUPP)


class Rights(TypedDict, total=False):
    """What :class:`subprocess.Popen` is told; nothing = the rights of whoever asks."""

    user: int
    group: int
    extra_groups: list[int]


def stranger(*paths: Path) -> tuple[int, int] | None:
    """Who can change programs or images, or put others in their place, beside root and who asks.

    Returns:
        user and group, with no more than all of these have; :data:`NOBODY` for several; None where nobody can.
    """
    found = [_writers(one) for one in dict.fromkeys(one for path in paths for one in on_the_way(path))]
    owners = {user for one in found for user in one.users} - {ROOT, os.geteuid(), *without_number()}
    groups = {group for one in found for group in one.groups} - {os.getegid()}
    groups = {group for group in groups if _is_of_people(group)}
    if any(one.is_everybody for one in found) or len(groups) > 1 or len(owners) > 1:
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
    """The rights to try them with: root takes those of who can change them, else nobody's."""
    if os.geteuid() != ROOT:
        return {}
    other = stranger(*paths)
    if other is None:
        return {"user": NOBODY, "group": NOBODY, "extra_groups": _that_may_pass(paths[0])}
    user, group = other
    return {"user": user, "group": group, "extra_groups": [one for one in _that_may_pass(paths[0]) if _has(user, one)]}


def _is_of_people(group: int) -> bool:
    return group >= FIRST_OF_PEOPLE or group == USERS


def _that_may_pass(path: Path) -> list[int]:
    """The groups without which a program cannot be run, as one that is licensed to some."""
    groups = set()
    for part in on_the_way(path):
        with contextlib.suppress(OSError):
            found = part.stat()
            if not found.st_mode & stat.S_IXOTH and found.st_mode & stat.S_IXGRP and found.st_gid != ROOT:
                groups.add(found.st_gid)
    return sorted(groups)


def _has(user: int, group: int) -> bool:
    """Whether an account is in a group."""
    try:
        person = pwd.getpwuid(user)
    except KeyError:
        return False
    return group in os.getgrouplist(person.pw_name, person.pw_gid)


@dataclass(frozen=True)
class _Writers:
    """Who can write to a file, or put something else into a folder: by number, the owner among them."""

    users: frozenset[int] = frozenset()
    groups: frozenset[int] = frozenset()
    is_everybody: bool = False


def _writers(path: Path) -> _Writers:
    """Who can change what lies there, a link itself; into a sticky folder people put what is their own alone."""
    try:
        found = path.lstat()
    except OSError:
        return _Writers()
    owner = frozenset({found.st_uid})
    is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if stat.S_ISLNK(found.st_mode) or is_sticky:
        return _Writers(owner)
    group = frozenset({found.st_gid} if found.st_mode & stat.S_IWGRP else ())
    of_mode = _Writers(owner, group, bool(found.st_mode & stat.S_IWOTH))
    try:
        entries = _entries(os.getxattr(path, LIST, follow_symlinks=False))
    except OSError as error:  # where it cannot be known, everybody may be in it
        return of_mode if error.errno in NO_LIST else _Writers(owner, is_everybody=True)
    except ValueError:
        return _Writers(owner, is_everybody=True)
    return _with_list(of_mode, found.st_gid, entries)


def _entries(text: bytes) -> list[tuple[int, int, int]]:
    """Tag, permission and number of each entry of a list.

    Raises:
        ValueError: it is of another form.
    """
    rest = text[LIST_HEAD.size :]
    if text[: LIST_HEAD.size] != LIST_HEAD.pack(LIST_VERSION) or len(rest) % LIST_ENTRY.size:
        raise ValueError("a list of another form")
    return list(LIST_ENTRY.iter_unpack(rest))


def _with_list(of_mode: _Writers, group: int, entries: list[tuple[int, int, int]]) -> _Writers:
    """Who is in the list, as far as its mask lets them; where there is one, the mode's group bits are the mask."""
    mask = next((permission for tag, permission, _ in entries if tag == MASK), WRITE)
    writing = [(tag, number) for tag, permission, number in entries if permission & mask & WRITE]
    users = frozenset(number for tag, number in writing if tag == NAMED_USER)
    groups = frozenset(number for tag, number in writing if tag == NAMED_GROUP)
    own = frozenset({group} if any(tag == OWNING_GROUP for tag, _ in writing) else ())
    return _Writers(of_mode.users | users, groups | own, of_mode.is_everybody)
