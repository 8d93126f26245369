"""How the bounds of one look at a folder of templates are shared: what somebody puts there takes no room of others'.

Each owner of frameworks has an equal part, and each framework a part of that. Those that others may write into are
apart from those of the same owner that nobody else changes; so are links. Of what one leaves, the others have more.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

ROUNDS = 5  # in which what is left is handed on
_T = TypeVar("_T")
_Room = TypeVar("_Room", bound=Hashable)


def parts(frameworks: Collection[Path], whole: int) -> dict[Path, int]:
    """The part of each framework in so many bytes, files or names."""
    return _parts(_groups(frameworks), whole)


def _parts(groups: Mapping[Hashable, list[Path]], whole: int) -> dict[Path, int]:
    return {one: whole // (len(groups) * len(theirs)) for theirs in groups.values() for one in theirs}


def dealt(files: Collection[Path], whole: int, take: Callable[[Path, int], int | None]) -> list[Path]:
    """Hand out room for files of several frameworks; answers those that are over.

    Each framework has its part first. What is over there has room in what the frameworks of its owner have left of
    theirs, and then, by turns, in what the owners have left.

    Arguments:
        take: has one file, if it needs no more than so much room, and answers how much it took; None: it needs more.
    """
    groups = _groups(dict.fromkeys(one.parent for one in files))
    own = _parts(groups, whole)
    over = _deal(files, own, {one: one for one in own}, take)
    theirs = {owner: sum(own[one] for one in frameworks) for owner, frameworks in groups.items()}
    over = _deal(over, theirs, {one: owner for owner, frameworks in groups.items() for one in frameworks}, take)
    return _deal(over, {None: sum(theirs.values())}, dict.fromkeys(own), take)


def _deal(
    files: Iterable[Path],
    rooms: dict[_Room, int],
    room_of: Mapping[Path, _Room],
    take: Callable[[Path, int], int | None],
) -> list[Path]:
    over = []
    for file in in_turns(files):
        room = room_of[file.parent]
        taken = take(file, rooms[room])
        if taken is None:
            over.append(file)
        else:
            rooms[room] -= taken
    return over


def listed(
    frameworks: Sequence[Path], most: int, first: Callable[[Path, int], Sequence[_T]]
) -> dict[Path, Sequence[_T]]:
    """What is in each framework, ``most`` names in all; ``first`` answers so many of one."""
    found: dict[Path, Sequence[_T]] = dict.fromkeys(frameworks, ())
    waiting = list(frameworks)
    for _round in range(ROUNDS):
        left = most - sum(map(len, found.values()))
        rooms = {one: len(found[one]) + room for one, room in parts(waiting, left).items() if room}
        for one, room in rooms.items():
            found[one] = first(one, room)
        waiting = [one for one, room in rooms.items() if len(found[one]) >= room]
    return found


def in_turns(notebooks: Iterable[Path]) -> list[Path]:
    """Notebooks of several frameworks, so that no framework and no owner comes first with many."""
    by_framework: dict[Path, list[Path]] = {}
    for one in notebooks:
        by_framework.setdefault(one.parent, []).append(one)
    groups = _groups(by_framework)
    return list(_turns([list(_turns([by_framework[one] for one in theirs])) for theirs in groups.values()]))


def of_each_owner(frameworks: Sequence[Path], most: int) -> list[Path]:
    """The first so many frameworks, of each owner an equal part."""
    return list(frameworks) if len(frameworks) <= most else list(_turns(_groups(frameworks).values()))[:most]


def _turns(rows: Iterable[Sequence[Path]]) -> Iterator[Path]:
    for turn in zip_longest(*rows):
        yield from filter(None, turn)


def _groups(frameworks: Iterable[Path]) -> Mapping[Hashable, list[Path]]:
    groups: dict[Hashable, list[Path]] = {}
    for one in frameworks:
        groups.setdefault(_whose(one), []).append(one)
    return groups


def _whose(framework: Path) -> Hashable:
    try:
        status = framework.lstat()  # a link is its maker's, and counts as one that others may write into
    except OSError:
        return None
    return status.st_uid, bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
