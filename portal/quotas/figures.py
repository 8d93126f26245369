"""The quota of one folder: what a command printed, and how a page says it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from portal.language import amounts
from portal.language.texts import _

LONGEST = 10**18  # bytes: more is no folder
GIB = 1024**3
_LINE = re.compile(r"([0-9]{1,19})[ \t]+([0-9]{1,19}|-)")


@dataclass(frozen=True)
class Quota:
    """How full one folder is.

    Attributes:
        name: as people know the folder.
        used: bytes; ``None`` while it is not known.
        limit: bytes; 0 where there is none.
    """

    name: str
    used: int | None = None
    limit: int = 0

    @property
    def is_known(self) -> bool:
        """Whether the command has said it."""
        return self.used is not None

    @property
    def words(self) -> str:
        """``45 GB of 100 GB``."""
        if self.used is None:
            return _("not known")
        of = _("{used} of {limit}").format(used=_gb(self.used), limit=_gb(self.limit))
        return of if self.limit else _("{used}, without a limit").format(used=_gb(self.used))

    @property
    def is_nearly_full(self) -> bool:
        """Nine tenths are used."""
        return self.used is not None and 0 < self.limit * 9 <= self.used * 10

    def as_json(self) -> dict[str, object]:
        """What the REST API says of it."""
        limit = self.limit if self.used is not None and self.limit else None
        return {"name": self.name, "used_bytes": self.used, "limit_bytes": limit, "is_known": self.is_known}


def parse(name: str, stdout: str) -> Quota | None:
    """What a command printed: one line, used and limit in bytes; ``None`` where it printed nothing: no quota here.

    Raises:
        ValueError: it is neither.
    """
    text = stdout.strip()
    if not text:
        return None
    found = _LINE.fullmatch(text)
    if not found:
        raise ValueError(f"it printed {text[:100]!r}; allowed: one line with two numbers, the bytes used and the limit")
    used = int(found[1])
    limit = 0 if found[2] == "-" else int(found[2])
    if max(used, limit) > LONGEST:
        raise ValueError(f"it printed {text[:100]!r}; allowed: up to {LONGEST} bytes")
    return Quota(name, used, limit)


def _gb(count: int) -> str:
    """Bytes, a GB being 1024 MB as everywhere in the portal."""
    if count >= 1024 * GIB:
        return amounts.figure(f"{count / 1024 / GIB:.1f} TB")
    return amounts.figure(f"{count / GIB:.1f} GB" if count < 10 * GIB else f"{count / GIB:.0f} GB")
