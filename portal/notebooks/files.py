"""Files of the folders of templates: whoever writes there must not keep the reader waiting, or take its memory.

Nor does the reader, who may be any person, bring in what is that person's own: a link may lead to another file of the
templates, and nowhere else. Standard library only: a session begins with it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NOTEBOOK_MAX = 4 * 2**20  # bytes; pictures in its text make a notebook some MiB long
TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe does not keep us


def real_roots(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Where folders of templates really are: a site may have a whole one behind a link."""
    return tuple(folder.resolve() for folder in folders)


def is_below(place: Path, roots: Sequence[Path]) -> bool:
    """Whether what ``place`` leads to is in one of the folders that are really at ``roots``."""
    try:
        real = place.resolve()
    except (OSError, RuntimeError):  # links in a circle: RuntimeError before Python 3.13
        return False
    return _is_in(real, roots)


def _is_in(real: Path, roots: Sequence[Path]) -> bool:
    return any(real.is_relative_to(root) for root in roots)


def read_file(path: Path, most: int, roots: Sequence[Path] | None = None) -> bytes:
    """The whole file at ``path``; links are followed.

    Arguments:
        most: the bytes that it may have.
        roots: where it has to be (:func:`real_roots`); None: anywhere.

    Raises:
        OSError: it is no regular file, is too long, is elsewhere, or cannot be read.
    """
    with opened(path, roots) as descriptor:
        return content_of(descriptor, most, str(path))


@contextmanager
def opened(path: Path, roots: Sequence[Path] | None = None) -> Iterator[int]:
    """The descriptor of what is at ``path``; arguments and errors as above."""
    descriptor = os.open(path, TO_READ)
    try:
        # What is open is asked for its place, for a link may have another target by now: /proc/PID/fd in proc(5).
        if roots is not None and not _is_in(Path(f"/proc/self/fd/{descriptor}").readlink(), roots):
            raise OSError(errno.EPERM, "leads out of the folders of templates", str(path))
        yield descriptor
    finally:
        os.close(descriptor)


def content_of(descriptor: int, most: int, name: str) -> bytes:
    """What is in the file that is open, and stays open; arguments and errors as above."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "is no regular file", name)
    content = b""
    if found.st_size <= most:
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(most + 1)
    if max(found.st_size, len(content)) > most:
        raise OSError(errno.EFBIG, f"is longer than {most // 2**20} MiB", name)
    return content
