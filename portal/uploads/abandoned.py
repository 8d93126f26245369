"""Uploads that nobody goes on with."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

PARTIAL = re.compile(r"\.upload-[0-9a-f]{32}\.part")
KEPT_S = 14 * 86_400
TO_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def remove_abandoned(folder: int) -> None:
    """Remove those of the person in a folder, after :data:`KEPT_S`."""
    with suppress(OSError):
        entries = os.open(".", TO_LIST, dir_fd=folder)
        try:
            for name in filter(PARTIAL.fullmatch, os.listdir(entries)):  # noqa: PTH208  no path, but what is open
                found = os.stat(name, dir_fd=entries, follow_symlinks=False)
                if found.st_uid == os.geteuid() and time.time() - found.st_mtime > KEPT_S:
                    os.unlink(name, dir_fd=entries)
        finally:
            os.close(entries)
