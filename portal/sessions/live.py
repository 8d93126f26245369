"""The sessions of one person that run, wait, start or stop, as the home page lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from portal.language.texts import _
from portal.sessions import names


@dataclass(frozen=True)
class Live:
    """One of them.

    Attributes:
        name: ``""`` of the session without one.
        left: how long it lasts at most from now on; ``""`` where that is not known.
    """

    name: str
    server: Any
    left: str


@dataclass(frozen=True)
class Several:
    """All of them, and what may be started beside them.

    Attributes:
        most: how many this person may have at a time.
        suggested: a name for a new one: what was typed and refused with ``fault``, or one that is not in use.
        entered: which administrator entered one that has ended since, in words.
    """

    sessions: tuple[Live, ...]
    most: int
    suggested: str
    fault: str
    entered: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(one.name for one in self.sessions)

    @property
    def is_full(self) -> bool:
        """Whether one has to end before another one can be started."""
        return len(self.sessions) >= self.most


def shown(user: Any, fault: str = "", typed: str = "") -> Several | None:
    """The sessions of somebody; ``None`` where nobody has more than the one without a name."""
    several = getattr(user.spawner, "several", None)
    if several is None or not (may_name(several) or (several.is_own_rule and any(several.held))):
        return None
    now = datetime.now(UTC)
    found = [user.spawners[name] for name in several.known if name in several.held or _is_active(user, name)]
    sessions = tuple(Live(one.name, one, _left(one, now)) for one in found)
    suggested = typed if fault else names.unused(several.known)
    over = [name for name in several.known if name not in {one.name for one in sessions}]
    return Several(sessions, several.most, suggested, fault, tuple(_entered(user, over)))


def _entered(user: Any, over: Iterable[str]) -> Iterator[str]:
    """Who entered these sessions, which have ended: their person reads it until the next one of that name."""
    for name in over:
        if (user.orm_spawners[name].state or {}).get("entered"):
            for words in user.spawners[name].session_facts["entries"]:
                yield _("Session “{name}”: {words}").format(name=name, words=words) if name else words


def may_name(several: Any) -> bool:
    """Whether this person may have more than one session, so that they need names."""
    return bool(several.is_offered and several.most > 1)


def _is_active(user: Any, name: str) -> bool:
    return name in user.spawners and bool(user.spawners[name].active)


def _left(spawner: Any, now: datetime) -> str:
    facts = getattr(spawner, "session_facts", None)
    ends_at = facts.get("ends_at") if isinstance(facts, Mapping) and facts.get("started_at") else ""
    return names.left(str(ends_at or ""), now)
