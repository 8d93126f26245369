"""The folders of a person's sessions of before: their logs are kept for a while, and then taken away."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from itertools import islice
from pathlib import Path

KEPT_LOGS = 20
KEPT_UNFINISHED = 60  # several times as many as somebody may have at a time
ENVIRONMENT_FILE = "environment.json"  # it goes with the session's end
SEEN_LOGS = 1000  # of a home with more, the rest is looked at another time
KEY = re.compile(r"[0-9a-f]{16}\Z")


def remove_old(sessions: Path) -> None:
    """Keep the newest logs only, and no environment file of a session that is long over.

    A session that has not ended may wait for longer than many others last. What else is called like a session (a file,
    a link that leads nowhere) goes in its turn, and stops nothing.
    """
    if not sessions.is_dir():
        return
    with os.scandir(sessions) as entries:
        found = [entry for entry in islice(entries, SEEN_LOGS) if KEY.match(entry.name)]
    found.sort(key=_changed_at)
    unfinished = [entry for entry in found if Path(entry.path, ENVIRONMENT_FILE).is_file()]
    over = [entry for entry in found if entry not in unfinished]
    for entry in (*over[:-KEPT_LOGS], *unfinished[:-KEPT_UNFINISHED]):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
            continue
        with contextlib.suppress(OSError):
            Path(entry.path).unlink()


def _changed_at(entry: os.DirEntry[str]) -> float:
    """When it was changed, no link followed; 0 for what is gone by now."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0
