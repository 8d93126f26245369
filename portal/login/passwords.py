"""When the password of each person was set last: a login from before a new password is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
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

    @property
    def known(self) -> Mapping[str, str]:
        """What is known now, and stays as it is; for :meth:`is_since`."""
        return self._kept.words()

    def is_since(self, name: str, before: Mapping[str, str]) -> bool:
        """Whether a new password of somebody was seen since, or the first one, which may have been set just then."""
        now = self.known.get(name, NONE)
        if now.startswith(NONE):
            return False
        return _is_new(now, before[name]) if name in before else not self._is_old(now)

    def _is_old(self, kept: str) -> bool:
        """Whether a password was set a day and more before now, so that no directory's clock can be that wrong."""
        day_ago = f"{self._now() - timedelta(days=1):%Y%m%d%H%M%S}"
        when = kept.split()[1].lstrip("0")
        return len(when) == len(day_ago) and when < day_ago

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
        """What is kept of somebody after a look that has shown ``seen``: the attribute, its time, when that was new."""
        moment = f"{self._now():%Y%m%d%H%M%S}"
        if not seen:
            return before or f"{NONE} {moment}"
        told = before.split()
        is_other = told[:1] != seen.split()[:1]
        if is_other or is_later(seen, " ".join(told[:2])):
            return f"{seen} {moment}"
        return before if len(told) > 2 else f"{before} {moment}"  # as an earlier version kept it


def _is_new(now: str, before: str) -> bool:
    """Whether what is kept tells of a new password.

    Where another attribute tells than before, it has to be of after that look: an entry that was brought along may have
    a ``shadowLastChange`` that no change touches.
    """
    shown = now.split()
    told = before.split()
    if told and told[0] != shown[0]:
        when = shown[1].lstrip("0")
        return len(when) == len(told[-1]) and when > told[-1]
    return is_later(" ".join(shown[:2]), " ".join(told[:2]))
