"""What helps a session that ended for want of something: the same once more, with more of it. Pure.

It is computed from what was asked and how it ended, and is offered only where the site gives it to this person: the
check behind the form (:func:`portal.request.checked`) stands behind it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from portal.errors import RequestError
from portal.history.record import EndedSession
from portal.language import amounts
from portal.language.texts import _
from portal.request import SessionRequest, checked, fields_of
from portal.settings.session_tables import PartitionTable
from portal.site import Identity, Site

TIMES_MORE = 2
NEARLY_AN_HOUR_S = 3500


@dataclass(frozen=True)
class Cure:
    """What happened, what the next session would have, and the options that ask for it."""

    fact: str
    more: str
    options: Mapping[str, object]


@dataclass(frozen=True)
class Offered:
    """What the site offers one person now, looked up once for all sessions of a page."""

    site: Site
    identity: Identity
    fields: tuple[str, ...]
    partitions: Mapping[str, PartitionTable]

    @classmethod
    def of(cls, site: Site, identity: Identity) -> Offered:
        """What this site offers this person."""
        return cls(site, identity, fields_of(site, identity), {one.name: one for one in site.offered_to(identity)})


def again(ended: EndedSession, offer: Offered) -> dict[str, object]:
    """The options of the same session once more: those that this person has to choose from now."""
    return {key: value for key, value in ended.options.items() if key in offer.fields}


def cure_of(ended: EndedSession, offer: Offered) -> Cure | None:
    """What helps; ``None`` where nothing is known to, or the site has no more for this person."""
    more = _MORE.get(ended.state)
    partition = offer.partitions.get(str(ended.options.get("partition")))
    if more is None or partition is None:
        return None
    try:
        found = more(ended, SessionRequest.from_options(again(ended, offer)), partition, offer.site)
        if found is None:
            return None
        there = offer.site.with_partitions([partition])
        return replace(found, options=checked(found.options, there, offer.identity).as_options())
    except RequestError:  # what was asked for then is not offered any more
        return None


def _more_memory(ended: EndedSession, request: SessionRequest, partition: PartitionTable, site: Site) -> Cure | None:
    """Memory by itself where it may be chosen, else that of more GPUs."""
    had = ended.memory_mib
    if had <= 0:
        return None
    fact = _("It had asked for {memory} of memory, and was killed when that was full").format(memory=_gb(had))
    most = 0 if request.gpus else (partition.memory_gb_max or 0) * 1024
    chosen = min(had * TIMES_MORE, most)
    if chosen > had:
        options = replace(request, memory_gb=chosen // 1024).as_options()
        return Cure(fact, _gb(chosen), options)
    gpus, memory_mib = _gpus_for(had, request, partition, site)
    if not gpus:
        return None
    options = replace(request, gpus=gpus, cores=0, memory_gb=0).as_options()
    more = _("{gpus} and {memory}").format(gpus=amounts.gpus(gpus), memory=_gb(memory_mib))
    return Cure(fact, more, options)


def _gpus_for(had: int, request: SessionRequest, partition: PartitionTable, site: Site) -> tuple[int, int]:
    """The fewest GPUs that bring twice the memory, else the most that bring more; 0 where none do."""
    kind = site.kind(partition, request.gpu)
    most = site.gpus_max(partition, kind)
    shares = [(gpus, site.memory_mib(gpus, partition, request.gpu)) for gpus in range(request.gpus + 1, most + 1)]
    larger = [share for share in shares if share[1] > had]
    enough = [share for share in larger if share[1] >= had * TIMES_MORE]
    return next(iter(enough or larger[-1:]), (0, 0))


def _more_hours(ended: EndedSession, request: SessionRequest, partition: PartitionTable, site: Site) -> Cure | None:
    hours = min(request.hours * TIMES_MORE, site.hours_max(partition))
    was_shortened = ended.started_at and ended.ended_at - ended.started_at < request.hours * NEARLY_AN_HOUR_S
    if hours <= request.hours or was_shortened:  # by an administrator: more hours would not have helped
        return None
    return Cure(
        _("It had asked for {hours} h, and they were over").format(hours=request.hours),
        f"{hours} h",
        replace(request, hours=hours).as_options(),
    )


def _gb(memory_mib: int) -> str:
    return amounts.figure(f"{memory_mib / 1024:.3g} GB") if memory_mib < 1024 * 1000 else f"{memory_mib // 1024} GB"


_MORE: Mapping[str, Callable[[EndedSession, SessionRequest, PartitionTable, Site], Cure | None]] = {
    "OUT_OF_MEMORY": _more_memory,
    "TIMEOUT": _more_hours,
}
