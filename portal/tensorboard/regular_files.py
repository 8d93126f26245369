"""TensorBoard reads regular files alone: a pipe in a folder that others can change would keep a board waiting for ever.

Nor does it read as many bytes at once as such a file says: one that has nothing but its length fills the memory.

TensorBoard 2.21 opens whatever is called like a file of events, in the one thread that reads all runs. Where TensorFlow
is not installed, as in the portal's own environment, it reads through a file system that can be registered (gfile.py).
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from tensorboard.compat.tensorflow_stub import compat, errors
from tensorboard.compat.tensorflow_stub.io import gfile

from portal.homes.regular_file import without_waiting

LONGEST_PART = 64 << 20  # bytes; TensorBoard has a record of a file of events four times in memory
LONGEST_WHOLE = 512 << 20  # bytes of a file that is read in one piece, such as the vectors of the page Projector
TOO_LONG = "%s is read no further: no more than %s MB of it are read in one piece"
TOLD_MOST = 1000  # lines of the board's log about what cannot be read
LOG = logging.getLogger(__name__)
_told: set[str] = set()
LOCAL = ""  # the prefix of a path without one


def read_no_others() -> None:
    """From now on TensorBoard opens nothing else."""
    gfile.register_filesystem(LOCAL, RegularFiles())


class RegularFiles(gfile.LocalFileSystem):  # type: ignore[misc]
    """The local file system without pipes, sockets and devices: they are not there."""

    def exists(self, filename: Any) -> bool:
        """Whether a file or a folder is there; a reader of events passes by what is not."""
        try:
            found = Path(compat.as_text(filename)).stat()
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)

    def listdir(self, dirname: Any) -> list[str]:
        """What is in a folder; names that are no text (UTF-8) have no place in TensorBoard.

        Raises:
            NotFoundError: it is none, or may not be read.
        """
        try:
            return [name for name in super().listdir(dirname) if is_text(name)]
        except OSError as error:
            raise errors.NotFoundError(None, None, f"{dirname}: {error.strerror}") from error

    def read(
        self, filename: Any, binary_mode: bool = False, size: int | None = None, continue_from: Any = None
    ) -> tuple[Any, dict[str, int]]:
        """What ``LocalFileSystem.read`` answers: data, and where to go on.

        Raises:
            NotFoundError: no regular file is there, whatever was there a moment ago.
            DataLossError: so much at once is not read.
        """
        path = compat.as_text(filename)
        if not self.exists(path):
            raise errors.NotFoundError(None, None, f"Not Found: {path}")
        mode, encoding = ("rb", None) if binary_mode else ("r", "utf8")
        with open(path, mode, encoding=encoding, opener=_opened) as file:
            begin = 0 if continue_from is None else continue_from["opaque_offset"]
            most = LONGEST_WHOLE if size is None else LONGEST_PART
            left = os.fstat(file.fileno()).st_size - begin
            if (left if size is None else min(left, size)) > most:
                self._leave_out(path, most)
            file.seek(begin)
            return file.read(most if size is None else min(most, size)), {"opaque_offset": file.tell()}

    @staticmethod
    def _leave_out(path: str, most: int) -> NoReturn:
        words = TOO_LONG % (path, most >> 20)
        tell(words)
        raise errors.DataLossError(None, None, words)


def tell(words: str) -> None:
    """Say in the board's log what cannot be read: once, as TensorBoard tries again every few seconds."""
    if words not in _told and len(_told) < TOLD_MOST:
        _told.add(words)
        LOG.warning(words)


def is_text(name: str) -> bool:
    """Whether a name is UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _opened(path: str, flags: int) -> int:
    try:
        return without_waiting(path, flags)
    except OSError as error:
        raise errors.NotFoundError(None, None, f"{path}: {error.strerror}") from error
