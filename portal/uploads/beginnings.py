"""Whose folders uploads were begun in: what began in one's own does not begin anew in somebody else's.

The Lab begins anew by itself where nothing is there of what it has sent. Who can put a folder of theirs in the place of
a private one, as in a folder of a project's, would get all of the file there.
"""

from __future__ import annotations

import os
from http import HTTPStatus
from threading import Lock

from portal.homes.own_folder import is_of_others
from portal.uploads.refused import UploadRefused

OTHERS = 0o077  # their part of a mode
KNOWN_MOST = 10_000  # those that were asked for last
EXCHANGED = (
    "The folder {} is another one than when this upload began, of somebody else or more open. Nothing more goes there. "
    "Look what that folder is, then cancel, and choose the file again."
)


class Beginnings:
    """Whose folder each upload was begun in, by its key: until it is cancelled, as long as this session's server runs.

    One that has its name is known further: where the answer to that was lost, the Lab asks once more.
    """

    def __init__(self) -> None:
        self._begun: dict[object, os.stat_result] = {}
        self._lock = Lock()  # parts are written in threads

    def check(self, upload: object, folder: int, name: str) -> None:
        """Note whose a folder is, by its descriptor, in which an upload begins or goes on.

        Raises:
            UploadRefused: it is another one than at the beginning, of somebody else, or more open to others.
        """
        found = os.fstat(folder)
        with self._lock:
            begun = self._begun[upload] = self._begun.pop(upload, found)
            while len(self._begun) > KNOWN_MOST:
                del self._begun[next(iter(self._begun))]
        is_more_open = found.st_mode & OTHERS & ~begun.st_mode and not os.path.samestat(begun, found)
        if (is_more_open and begun.st_uid == os.geteuid()) or (begun.st_uid != found.st_uid and is_of_others(found)):
            raise UploadRefused(HTTPStatus.FORBIDDEN, EXCHANGED.format(name))

    def forget(self, upload: object) -> None:
        """It was cancelled: chosen again, it begins wherever the person wants it."""
        with self._lock:
            self._begun.pop(upload, None)
