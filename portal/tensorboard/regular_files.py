"""TensorBoard reads regular files alone: a pipe in a folder that others can change would keep a board waiting for ever.

TensorBoard 2.21 opens whatever is called like a file of events, in the one thread that reads all runs. Where TensorFlow
is not installed, as in the portal's own environment, it reads through a file system that can be registered (gfile.py).
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from tensorboard.compat.tensorflow_stub import compat, errors
from tensorboard.compat.tensorflow_stub.io import gfile

from portal.homes.regular_file import without_waiting

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

    def read(
        self, filename: Any, binary_mode: bool = False, size: int | None = None, continue_from: Any = None
    ) -> tuple[Any, dict[str, int]]:
        """What ``LocalFileSystem.read`` answers: data, and where to go on.

        Raises:
            NotFoundError: no regular file is there, whatever was there a moment ago.
        """
        path = compat.as_text(filename)
        if not self.exists(path):
            raise errors.NotFoundError(None, None, f"Not Found: {path}")
        mode, encoding = ("rb", None) if binary_mode else ("r", "utf8")
        with open(path, mode, encoding=encoding, opener=_opened) as file:
            if continue_from is not None:
                file.seek(continue_from["opaque_offset"])
            return file.read(-1 if size is None else size), {"opaque_offset": file.tell()}


def _opened(path: str, flags: int) -> int:
    try:
        return without_waiting(path, flags)
    except OSError as error:
        raise errors.NotFoundError(None, None, f"{path}: {error.strerror}") from error
