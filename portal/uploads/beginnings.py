"""Whose folders uploads were begun in: what began in one's own does not begin anew in somebody else's.

The Lab begins anew by itself where nothing is there of what it has sent. Who can put a folder of theirs in the place of
a private one, as in a folder of a project's, would get all of the file there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from threading import Lock

from portal.homes.held_files import own_known_file, replaced
from portal.homes.held_place import FilePlace
from portal.homes.own_folder import is_of_others
from portal.homes.readers import NOBODY, KnownFile, Readers
from portal.uploads.refused import UploadRefused

PART = 0o200  # the mode of what has come: who could open it could lock it, too; and it may replace a private file
PART_OF_CLOSED = 0o300  # the same of what replaces a file that nobody else could read: a later session has to know that
KNOWN_MOST = 10_000  # those that were asked for last
EXCHANGED = (
    "The folder {} is another one than when this upload began, of somebody else or more open. Nothing more goes there. "
    "Look what that folder is, then cancel, and choose the file again."
)


@dataclass
class Begun:
    """How an upload was begun.

    Attributes:
        folder: the one that it goes to.
        passed: who came there through what others can exchange.
        replaced: the person's own file that had its name.
        part: what was made for it, or found, in this session.
        is_cancelled: it begins anew next time.
    """

    folder: os.stat_result
    passed: Readers
    replaced: KnownFile | None = None
    part: KnownFile | None = None
    is_cancelled: bool = False

    def mark(self, now: KnownFile | None) -> int:
        """The mode of what comes, by what has the name that it will have."""
        known, _ = replaced(now, self.replaced)
        return PART_OF_CLOSED if known and NOBODY.include(known.readers) else PART

    def may_be(self, known: KnownFile, place: FilePlace) -> bool:
        """Whether a file of the person's own was made by an upload, and in this session by this one.

        Where a file system has no modes its birth alone tells it.
        """
        if place.is_private:
            return True
        if self.part and not self.part.is_same(known):
            return False
        return _has_mark(known) or bool(self.part and not _has_mark(self.part))


def _has_mark(known: KnownFile) -> bool:
    return known.found is not None and stat.S_IMODE(known.found.st_mode) in (PART, PART_OF_CLOSED)


class Beginnings:
    """How each upload was begun, by its key: as long as this session's server runs.

    One that has its name is known further: where the answer to that was lost, the Lab asks once more.

    Arguments:
        opened: what the session has opened or saved at a path: others may have exchanged that since.
    """

    def __init__(self, opened: Callable[[Path], KnownFile | None] = lambda _: None) -> None:
        self._opened = opened
        self._begun: dict[object, Begun] = {}
        self._parts: dict[tuple[object, ...], str] = {}  # which upload's each file is
        self._lock = Lock()  # parts are written in threads

    def check(self, upload: object, place: FilePlace, path: Path) -> Begun:
        """Note how an upload begins, by the place of what it makes, or that it goes on.

        Arguments:
            path: by which the person sees it.

        Raises:
            UploadRefused: it is another one than at the beginning, of somebody else, or more open to others.
        """
        found = os.fstat(place.folder)
        there = own_known_file(place.folder, place.name)
        opened = None if place.is_private else self._opened(path)
        now = Begun(found, place.passed, opened.with_(there) if opened and there else opened or there)
        with self._lock:
            begun = self._begun.pop(upload, now)
            if begun.is_cancelled:
                begun = replace(now, replaced=begun.replaced or now.replaced)
            self._begun[upload] = begun
            while len(self._begun) > KNOWN_MOST:
                del self._begun[next(iter(self._begun))]
        is_more_open = not os.path.samestat(begun.folder, found) and not begun.passed.include(now.passed)
        if is_more_open or (begun.folder.st_uid != found.st_uid and is_of_others(found)):
            raise UploadRefused(HTTPStatus.FORBIDDEN, EXCHANGED.format(path.parent.name))
        return begun

    def cancel(self, upload: object) -> None:
        """It was cancelled: chosen again, it begins wherever the person wants it; what it replaces is as closed then.

        Somebody else may have brought it to that, and taken away what was to be replaced.
        """
        with self._lock:
            if begun := self._begun.get(upload):
                begun.is_cancelled = True
                begun.part = None

    def known(self, upload: object) -> Begun | None:
        """How it began, while that is known."""
        return self._begun.get(upload)

    def made(self, name: str, part: KnownFile) -> None:
        """Note that the upload whose part has a name has just made it; its number may have been an earlier one's."""
        with self._lock:
            self._note(name, part)

    def is_of(self, name: str, part: KnownFile) -> bool:
        """Whether a file is not what another upload has made, or found, in this session: that shows it to others.

        Also where the other one was cancelled: somebody may have moved it, so that it was not taken away.
        """
        with self._lock:
            is_of = self._parts.get(_which(part), name) == name
            if is_of:
                self._note(name, part)
            return is_of

    def _note(self, name: str, part: KnownFile) -> None:
        self._parts.pop(_which(part), None)
        self._parts[_which(part)] = name
        while len(self._parts) > KNOWN_MOST:
            del self._parts[next(iter(self._parts))]


def _which(part: KnownFile) -> tuple[object, ...]:
    return (part.found.st_dev, part.found.st_ino, part.born) if part.found else ()
