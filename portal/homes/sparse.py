"""Files with holes, which are long and take up no place. Standard library only."""

from __future__ import annotations

import errno
import os

PART = 2**20  # bytes
UNKNOWN = (errno.EINVAL, errno.ENOTSUP)  # of a file system that knows no holes


def copy_content(source: int, copy: int, size: int) -> None:
    """Copy the first bytes of a file, and its holes as holes.

    Written out, a hole that costs others nothing would fill the disk of whoever copies it; and who copied until the end
    would follow a file that grows.

    Arguments:
        source: a descriptor of the file.
        copy: one of an empty file, to be written.
        size: so many bytes; where there are fewer by now, the rest is a hole.

    Raises:
        OSError: it cannot be read or written.
    """
    at = 0
    while (at := _next(source, at, os.SEEK_DATA, size)) < size:
        end = _next(source, at, os.SEEK_HOLE, size)
        while at < end:
            part = os.pread(source, min(PART, end - at), at)
            if not part:  # there is less than it said
                os.ftruncate(copy, size)
                return
            at += os.pwrite(copy, part, at)
    os.ftruncate(copy, size)


def _next(source: int, at: int, what: int, size: int) -> int:
    """Where the next bytes are that the file has, or its next hole (lseek(2)); ``size`` where there are none."""
    try:
        return min(size, os.lseek(source, at, what))
    except OSError as error:
        if error.errno == errno.ENXIO:  # it ends before
            return size
        if error.errno in UNKNOWN:
            return at if what == os.SEEK_DATA else size
        raise
