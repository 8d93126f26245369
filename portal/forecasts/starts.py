"""When a session of a size would start, by one picture of the cluster: an estimate, and no promise. Pure.

"Now" is said only where one node has room for all of it, nothing closes that node before the session is over, and no
job waits in line for the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from portal.forecasts.places import Ask, Closure, NodePlace


class StartState(StrEnum):
    """What is known of a start."""

    NOW = "now"
    ROOM = "room"  # there is room, but other jobs are ahead in line
    AT = "at"  # when running jobs have ended
    AFTER = "after"  # when a maintenance is over
    WAITS = "waits"  # nobody knows how long
    NEVER = "never"  # no node is large enough
    TOO_LONG = "too_long"  # longer than Slurm lets a job of the partition run
    CLOSED = "closed"  # the partition starts no jobs
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Start:
    """When one session would start; ``ahead`` are the jobs that wait for the same nodes."""

    state: StartState
    at: datetime | None = None
    ahead: int = 0
    is_maintenance: bool = True  # of AFTER: or else another reservation


PRESSES_START_WITHIN = timedelta(minutes=2)  # who reads that a session would start now
UNKNOWN = Start(StartState.UNKNOWN)


@dataclass(frozen=True)
class Opening:
    """Room on some nodes that the same reservations close.

    Attributes:
        at: from when on; ``is_now`` where it is there already, and no job has to end first.
        gaps: when no reservation closes them: from, until, and whether a maintenance is over then.
    """

    at: datetime
    is_now: bool
    gaps: tuple[tuple[datetime, datetime | None, bool], ...]

    def start(self, time: timedelta) -> Start | None:
        """The first start of a session that long, as if nobody were ahead; ``None`` where it fits in no gap."""
        for since, until, is_maintenance in self.gaps:
            at = max(since, self.at)
            if until is not None and at + time > until:
                continue
            if at > self.at:
                return Start(StartState.AFTER, at, is_maintenance=is_maintenance)
            return Start(StartState.NOW if self.is_now else StartState.AT, at)
        return None


def openings(places: Iterable[NodePlace], ask: Ask, now: datetime) -> tuple[Opening, ...]:
    """The rooms for what is asked: of the nodes with the same reservations, the first one."""
    found: dict[object, Opening] = {}
    for place in places:
        known = found.get(place.closures)
        if known and known.is_now:
            continue  # nothing is sooner
        at = place.room_at(ask, now)
        if at is None:
            continue
        is_now = place.has_room(ask)
        if known is None or (at, not is_now) < (known.at, not known.is_now):
            found[place.closures] = Opening(at, is_now, tuple(_gaps(place, now)))
    return tuple(found.values())


def _gaps(place: NodePlace, now: datetime) -> Iterator[tuple[datetime, datetime | None, bool]]:
    since = now
    follows_maintenance = False
    for closure in place.closures:
        if closure.starts_at > since:
            yield since, closure.starts_at, follows_maintenance
        if closure.ends_at > since:
            since = closure.ends_at
            follows_maintenance = closure.is_maintenance
    yield since, None, follows_maintenance


def hours_before(places: Iterable[NodePlace], ask: Ask, now: datetime) -> tuple[int, Closure] | None:
    """The whole hours that a session may have before all nodes for it are closed, and what closes the last of them.

    ``None`` where a node stays open, or where there is no node for it.
    """
    first: Closure | None = None
    for place in places:
        if place.holds(ask):
            if not place.closures:
                return None
            first = max(filter(None, (first, place.closures[0])), key=lambda one: one.starts_at)
    if first is None:
        return None
    return max(0, int((first.starts_at - now - PRESSES_START_WITHIN) / timedelta(hours=1))), first


def start(rooms: Iterable[Opening], *, is_held: bool, hours: int, ahead: int, now: datetime) -> Start:
    """When a session of so many hours would start.

    Arguments:
        rooms: see :func:`openings`.
        is_held: whether a node is large enough at all.
        ahead: the jobs that wait for the same nodes.
    """
    if not is_held:
        return Start(StartState.NEVER)
    found = [one for room in rooms if (one := room.start(timedelta(hours=hours) + PRESSES_START_WITHIN))]
    if not found:
        return Start(StartState.WAITS, ahead=ahead)
    first = min(found, key=lambda one: (one.at or now, one.state is not StartState.NOW))
    if first.state is StartState.NOW and ahead:
        return Start(StartState.ROOM, first.at, ahead)
    return replace(first, at=max(first.at or now, now), ahead=ahead)
