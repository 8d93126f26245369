"""Files of the folders of templates: whoever writes there must not keep the reader waiting, or take its memory.

Standard library only: a session begins with it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

NOTEBOOK_MAX = 16 * 2**20  # bytes; pictures in its text make a notebook some MiB long
TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe does not keep us


def read_file(path: Path, most: int) -> bytes:
    """The whole file at ``path``; links are followed.

    Arguments:
        most: the bytes that it may have.

    Raises:
        OSError: it is no regular file, is too long, or cannot be read.
    """
    return content_of(os.open(path, TO_READ), most, str(path))


def content_of(descriptor: int, most: int, name: str) -> bytes:
    """What is in the file that is open, which is closed then; arguments and errors as above."""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", name)
        content = b""
        if found.st_size <= most:
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(most + 1)
    finally:
        os.close(descriptor)
    if max(found.st_size, len(content)) > most:
        raise OSError(errno.EFBIG, f"is longer than {most // 2**20} MiB", name)
    return content
