"""Files with holes, which are long and take up no place. Standard library only."""

from __future__ import annotations

import errno
import os


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
    while (at := _next_data(source, at, size)) < size:
        end = min(size, os.lseek(source, at, os.SEEK_HOLE))
        os.lseek(copy, at, os.SEEK_SET)
        while at < end and (sent := os.sendfile(copy, source, at, end - at)):
            at += sent
    os.ftruncate(copy, size)


def _next_data(source: int, at: int, size: int) -> int:
    """Where the next bytes are that the file has (lseek(2)); ``size`` where there are none."""
    try:
        return os.lseek(source, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        raise
