"""A part of a file that grows: what fits is kept."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus

from portal.uploads.refused import UploadRefused, in_words

FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your quota is used up",
    errno.EFBIG: "files here end at that size",
}


class OpenPartial:
    """A part of a file that grows.

    Attributes:
        offset: how many bytes are there.
    """

    def __init__(self, descriptor: int, name: str, size: int, offset: int) -> None:
        self._descriptor = descriptor
        self._name = name
        self._size = size
        self.offset = offset

    def write(self, data: bytes | bytearray) -> None:
        """Write further; what fits stays where the rest does not.

        Raises:
            UploadRefused: it is more than the file has, or there is no room.
        """
        if self.offset + len(data) > self._size:
            message = f"More came than the {self._size} bytes of {self._name}."
            raise UploadRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, self.offset)
        rest = memoryview(data)
        with full_in_words(self._name, self):
            while rest:
                written = os.pwrite(self._descriptor, rest, self.offset)
                self.offset += written
                rest = rest[written:]

    def close(self) -> None:
        """Let others write it; a file server that says only here that there is no room is heard, too.

        What was written goes to the disk from now on, and its pages do not fill the job's memory (posix_fadvise(2)).
        """
        with suppress(OSError):
            os.posix_fadvise(self._descriptor, 0, self.offset, os.POSIX_FADV_DONTNEED)
        with full_in_words(self._name, self):
            os.close(self._descriptor)


@contextmanager
def full_in_words(name: str, partial: OpenPartial | None = None) -> Iterator[None]:
    """Say of what cannot be written why, and what is there.

    Raises:
        UploadRefused: in the place of an error of the file system.
    """
    try:
        yield
    except OSError as error:
        there = f"{in_words(partial.offset)} of {name} are there and stay" if partial else f"{name} waits"
        if why := FULL.get(error.errno or 0):
            message = f"No more fits: {why}. {there}. Make room, then go on."
            raise UploadRefused(HTTPStatus.INSUFFICIENT_STORAGE, message) from error
        message = f"{name} cannot be written: {error.strerror}."
        raise UploadRefused(HTTPStatus.INTERNAL_SERVER_ERROR, message) from error
