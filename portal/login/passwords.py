"""When the password of each person was set last: a login from before a new password is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from portal.directory.entries import is_later
from portal.login.kept import Kept
from portal.site import Standing

FILE = "password_times.jsonl"  # below portal.state_folder; no password, and nothing made of one, is in it
End = Callable[[str], None]
NONE = "none"  # a directory shows no time before the first change: what counts then is when that was seen


class PasswordTimes:
    """What was known of each person's password when it was looked at last; it outlives the hub.

    Args:
        folder: the hub's state folder.
        now: the time of day.
    """

    def __init__(self, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._kept = Kept(folder / FILE)
        self._now = now

    def new(self, standings: Mapping[str, Standing], end: End = lambda _name: None) -> set[str]:
        """Those whose password was set anew since the last look.

        Arguments:
            end: ends the logins of one of them. Only then the new password counts: what ``end`` raises comes from
                here, and the next look tells of that person again.
        """
        times = self._kept.words()
        seen = {name: self._next(times.get(name, ""), standing.password_set) for name, standing in standings.items()}
        changed = {name: now for name, now in seen.items() if now != times.get(name)}
        is_new = {name for name, now in changed.items() if _is_new(now, times.get(name, ""))}
        self._kept.keep({name: now for name, now in changed.items() if name not in is_new})
        failed: list[Exception] = []
        for name in sorted(is_new):
            try:
                end(name)
            except Exception as error:  # the others are ended all the same
                failed.append(error)
            else:
                self._kept.keep({name: changed[name]})
        if failed:
            raise failed[0]
        return is_new

    def _next(self, before: str, seen: str) -> str:
        """What is kept of somebody after a look that has shown ``seen``."""
        if not seen:
            return before or f"{NONE} {self._now():%Y%m%d%H%M%S}"
        is_other = before.split()[:1] != seen.split()[:1]
        return seen if is_other or is_later(seen, before) else before


def _is_new(now: str, before: str) -> bool:
    """Whether what is kept tells of a new password."""
    if before.startswith(f"{NONE} "):
        when = now.split()[1].lstrip("0")
        return len(when) == len(before.split()[1]) and when > before.split()[1]
    return is_later(now, before)
