"""A private folder for a while, where nobody else can put another one in its place.

Standard library only. Python takes the folder that one works in where /tmp is full (``tempfile.gettempdir``), and a
``TMPDIR`` may lie in a folder of a project: what a kernel is started by would lie where others can exchange it.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from portal.homes.held_place import is_own_all_the_way


def made(prefix: str, place: str = "") -> Path:
    """A new folder, mode 700, in ``place`` or where temporary files are; in the home where others can change that.

    Whoever asked for it removes it.

    Raises:
        OSError: it cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place or None))
    if is_own_all_the_way(folder):
        return folder
    with suppress(OSError):  # it is empty, or not ours any more
        folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=Path.home()))
