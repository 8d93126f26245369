"""What somebody's last sessions show of a choice: that less would have done, where that was measured. Pure.

It is said of what is filled in the form, and only where each of the last sessions of that very shape was measured and
would have fitted. It is a sentence and a link; nothing is changed by it, and the check behind the form has the last
word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from portal.errors import RequestError
from portal.history.cure import Offered
from portal.history.receipt import Receipt, gb
from portal.history.record import EndedSession
from portal.language import amounts
from portal.language.texts import N_, _
from portal.request import SessionRequest, checked
from portal.settings.session_tables import PartitionTable

SESSIONS = 3
LONG_ENOUGH_S = 600  # shorter ones show nothing of what is usual
MEMORY_TO_SPARE = 1.5  # times the most that was seen: short peaks lie between two samples
CORES_TO_SPARE = 2.0  # times the average
BUSY_GPUS = N_(
    "In your last {sessions} sessions with {had} GPUs, these were together at most {percent} % busy "
    "(all of them are {all} %); {gpus} would have done."
)
NOT_HELD = N_("What they held in their own memory was not measured.")
BUSY_CORES = N_(
    "In your last {sessions} sessions like this one at most {busy} of {had} cores were busy on average "
    "(a short burst hardly shows in that)."
)


@dataclass(frozen=True)
class Advice:
    """What the last sessions show, what would do, and the options that ask for it."""

    fact: str
    less: str
    options: Mapping[str, object]


def advice(request: SessionRequest, ended: Iterable[EndedSession], offer: Offered) -> tuple[Advice, ...]:
    """What may be said of this choice; nothing where that is not certain.

    Arguments:
        ended: the person's sessions that have ended, the newest first.
    """
    partition = offer.partitions.get(request.partition)
    last = _last(request, ended, offer)
    if partition is None or len(last) < SESSIONS:
        return ()
    found = [_fewer_gpus(request, last, partition, offer)] if request.gpus else []
    found += [] if request.gpus else [_less_memory(request, last, offer), _fewer_cores(request, last, offer)]
    return tuple(_offered(found, offer))


def _last(request: SessionRequest, ended: Iterable[EndedSession], offer: Offered) -> list[Receipt]:
    """The receipts of the last sessions of this shape; fewer where one of them was not measured as a whole."""
    found: list[Receipt] = []
    for one in ended:
        if not one.started_at or one.ended_at - one.started_at < LONG_ENOUGH_S or not _is_alike(request, one, offer):
            continue
        if one.receipt is None or one.receipt.has_steps or one.state == "OUT_OF_MEMORY":
            return []
        found.append(one.receipt)
        if len(found) == SESSIONS:
            break
    return found


def _is_alike(request: SessionRequest, one: EndedSession, offer: Offered) -> bool:
    try:
        other = SessionRequest.from_options(one.options)
    except RequestError:
        return False
    return _shape(other, offer) == _shape(request, offer)


def _shape(request: SessionRequest, offer: Offered) -> tuple[object, ...]:
    kind = offer.site.kind(offer.partitions.get(request.partition), request.gpu) if request.gpus else ""
    return (request.partition, request.gpus, kind, *request.share(offer.site))


def _fewer_gpus(
    request: SessionRequest, last: Sequence[Receipt], partition: PartitionTable, offer: Offered
) -> Advice | None:
    """The fewest GPUs that could have done the same, and that bring memory and cores enough."""
    peaks = [one.gpu_busy_percent for one in last]
    memory = _most_memory(last)
    cores = _most_cores(last)
    busiest = max(peak or 0 for peak in peaks)
    if not all(peaks) or memory is None or cores is None:  # 0 may as well be a GPU that Slurm cannot look into
        return None
    for gpus in range(max(1, math.ceil(busiest / 100)), request.gpus):
        cores_there = offer.site.cores(gpus, partition, request.gpu)
        memory_there = offer.site.memory_mib(gpus, partition, request.gpu)
        if memory_there >= memory * MEMORY_TO_SPARE and cores_there >= cores * CORES_TO_SPARE:
            break
    else:
        return None
    held = [one.gpu_memory_peak_mib for one in last if one.gpu_memory_peak_mib]
    is_known = len(held) == len(last)
    busy = _(BUSY_GPUS).format(
        sessions=SESSIONS, had=request.gpus, percent=busiest, all=request.gpus * 100, gpus=amounts.gpus(gpus)
    )
    peak = _("What they held in their own memory was at most {memory} together.")
    memory_held = peak.format(memory=gb(max(held))) if is_known else _(NOT_HELD)
    return Advice(f"{busy} {memory_held}", amounts.gpus(gpus), replace(request, gpus=gpus).as_options())


def _less_memory(request: SessionRequest, last: Sequence[Receipt], offer: Offered) -> Advice | None:
    used = _most_memory(last)
    had = request.share(offer.site)[1]
    if used is None or "memory_gb" not in offer.fields:
        return None
    enough = math.ceil(used * MEMORY_TO_SPARE / 1024)
    if enough * 1024 * 2 > had:
        return None
    words = _("Your last {sessions} sessions like this one used at most {used} of their {had} of memory.")
    fact = words.format(sessions=SESSIONS, used=gb(used), had=gb(had))
    return Advice(fact, f"{enough} GB", replace(request, memory_gb=enough).as_options())


def _fewer_cores(request: SessionRequest, last: Sequence[Receipt], offer: Offered) -> Advice | None:
    busy = _most_cores(last)
    had = request.share(offer.site)[0]
    if busy is None or "cores" not in offer.fields:
        return None
    enough = max(1, math.ceil(busy * CORES_TO_SPARE))
    if enough * 2 > had:
        return None
    fact = _(BUSY_CORES).format(sessions=SESSIONS, busy=amounts.figure(f"{busy:.1f}"), had=had)
    return Advice(fact, amounts.cores(enough), replace(request, cores=enough).as_options())


def _most_memory(last: Sequence[Receipt]) -> int | None:
    found = [one.memory_peak_mib for one in last if one.memory_peak_mib is not None]
    return max(found) if len(found) == len(last) else None


def _most_cores(last: Sequence[Receipt]) -> float | None:
    found = [busy for one in last if (busy := one.cores_busy) is not None]
    return max(found) if len(found) == len(last) else None


def _offered(found: Iterable[Advice | None], offer: Offered) -> Iterable[Advice]:
    """Those that this person may really have."""
    for one in found:
        if one is None:
            continue
        try:
            yield replace(one, options=checked(one.options, offer.site, offer.identity).as_options())
        except RequestError:
            continue
