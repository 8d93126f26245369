"""The file with a session's environment, which the launcher left for it in the person's home: read with distrust."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from portal.homes.regular_file import open_regular
from portal.launcher import ENVIRONMENT_FILE

SIZE_MAX = 2**20
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read(folder: Path) -> dict[str, str]:
    """The variables of a session.

    Raises:
        SystemExit: the file is not the one that the launcher writes: the person's own, for nobody else to read.
    """
    path = folder / ENVIRONMENT_FILE
    try:
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
            text = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise SystemExit(f"[portal] {path}: {error.strerror}. Start the session anew from the portal.") from error
    if found.st_uid != os.getuid() or found.st_mode & OTHERS or len(text) > SIZE_MAX:
        raise SystemExit(
            f"[portal] {path} is not as the portal left it (owner {found.st_uid}, mode {stat.filemode(found.st_mode)}, "
            f"{found.st_size} bytes); allowed: yours alone (-rw-------), up to {SIZE_MAX} bytes. "
            "Look who may write in that folder, and start the session anew from the portal."
        )
    variables: dict[str, str] = json.loads(text)
    return variables
