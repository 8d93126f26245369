"""Whether a folder is a person's own: what lies in another one, somebody else may have chosen."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def is_own(folder: str | Path) -> bool:
    """Whether nobody else can write into a folder."""
    try:
        found = Path(folder).stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
