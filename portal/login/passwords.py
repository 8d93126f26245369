"""When the password of each person was set last: a login from before a new password is over."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from portal.directory.entries import is_later
from portal.site import Standing

FILE = "password_times.jsonl"  # below portal.state_folder; no password, and nothing made of one, is in it
LINES_MAX = 1000  # what is added later wins; then the file is written anew
NONE = "none"  # a directory shows no time before the first change: what counts then is when that was seen


class PasswordTimes:
    """What was known of each person's password when it was looked at last; it outlives the hub.

    Args:
        folder: the hub's state folder.
        now: the time of day.
    """

    def __init__(self, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._file = folder / FILE
        self._now = now
        self._times: dict[str, str] | None = None
        self._lines = LINES_MAX

    def new(self, standings: Mapping[str, Standing]) -> set[str]:
        """Those whose password was set anew since the last look; from now on this one counts."""
        times = self._read()
        seen = {name: self._next(times.get(name, ""), standing.password_set) for name, standing in standings.items()}
        changed = {name: now for name, now in seen.items() if now != times.get(name)}
        is_new = {name for name, now in changed.items() if _is_new(now, times.get(name, ""))}
        if changed:
            times |= changed
            self._write(times, changed)
        return is_new

    def _next(self, before: str, seen: str) -> str:
        """What is kept of somebody after a look that has shown ``seen``."""
        if not seen:
            return before or f"{NONE} {self._now():%Y%m%d%H%M%S}"
        is_other = before.split()[:1] != seen.split()[:1]
        return seen if is_other or is_later(seen, before) else before

    def _read(self) -> dict[str, str]:
        if self._times is None:
            try:
                lines = self._file.read_text().splitlines()
            except (OSError, ValueError):  # a new hub, or a file that is no help
                lines = []
            self._times = {str(name): str(when) for line in lines for name, when in _added(line).items()}
        return self._times

    def _write(self, times: dict[str, str], changed: dict[str, str]) -> None:
        """What has changed, at the end; or the whole, in one step."""
        if self._lines < LINES_MAX:
            with self._file.open("a") as file:
                file.write(json.dumps(changed) + "\n")
            self._lines += 1
            return
        unfinished = self._file.with_suffix(".new")
        unfinished.write_text(json.dumps(times) + "\n")
        unfinished.replace(self._file)
        self._lines = 1


def _added(line: str) -> dict[str, object]:
    """What one line adds; nothing when its end is missing, because the hub was killed or the disk was full."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_new(now: str, before: str) -> bool:
    """Whether what is kept tells of a new password."""
    if before.startswith(f"{NONE} "):
        when = now.split()[1].lstrip("0")
        return len(when) == len(before.split()[1]) and when > before.split()[1]
    return is_later(now, before)
