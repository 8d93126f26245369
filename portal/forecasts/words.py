"""Forecasts in words: texts with moments in them, which each page writes in its reader's own zone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from portal.forecasts.places import Closure
from portal.forecasts.starts import Start, StartState
from portal.language import amounts
from portal.language.texts import N_, _, ngettext
from portal.request import SessionRequest

Text = tuple[str | datetime, ...]
SOON = timedelta(minutes=1)
LATE = N_("Not counted in time: it comes in a moment, or when the page is loaded again.")

_ALONE = {
    StartState.NOW: N_("starts now"),
    StartState.NEVER: N_("no node has so much"),
    StartState.TOO_LONG: N_("longer than Slurm takes"),
    StartState.CLOSED: N_("closed at the moment"),
    StartState.UNKNOWN: N_("not known"),
}


def start(of: Start) -> Text:
    """When something would start, short."""
    ahead = ngettext("{number} job ahead", "{number} jobs ahead", of.ahead).format(number=of.ahead)
    behind = f", {ahead}" if of.ahead else ""
    if of.state in _ALONE:
        return (_(_ALONE[of.state]),)
    if of.state is StartState.ROOM:
        return (_("room now, {ahead}").format(ahead=ahead),)
    if of.at and of.state is StartState.AT:
        return (_("about "), of.at) if not behind else (_("about "), of.at, behind)
    if of.at and of.state is StartState.AFTER:
        what = _("not before the maintenance ends, ") if of.is_maintenance else _("not before a reservation ends, ")
        return (what, of.at, *filter(None, [behind]))
    return (_("waits: {ahead}").format(ahead=ahead) if of.ahead else _("waits until jobs end"),)


def gpus(first: int, last: int) -> str:
    """``no GPU``, ``1 GPU``, ``0–2 GPUs``."""
    if first == last:
        return amounts.gpus_or_none(first)
    return f"{first}–{last} GPUs"


def choice(request: SessionRequest, of: Start) -> Text:
    """What is chosen and when it would start, as one sentence."""
    what = gpus(request.gpus, request.gpus)
    words = _("{gpus} for {hours} h in {partition}: ")
    chosen = words.format(gpus=f"{what[0].upper()}{what[1:]}", hours=request.hours, partition=request.partition)
    return (chosen, *start(of), ".")


def of_slurm(at: datetime, now: datetime) -> Text:
    """When Slurm itself says that it would start."""
    return (_(" Slurm itself says: "), at, ".") if at - now > SOON else (_(" Slurm itself says: now."),)


def fewer(request: SessionRequest, number: int) -> str:
    """That a smaller number would start now."""
    words = _("{gpus} in {partition} would start now.")
    return words.format(gpus=gpus(number, number), partition=request.partition)


def free(of: Sequence[tuple[str, tuple[int, int] | None]]) -> str:
    """``3 of 12 GPUs free``, of each kind where there are several."""
    return " · ".join(f"{title}: {_free(counts)}" if title else _free_gpus(counts) for title, counts in of)


def _free(counts: tuple[int, int] | None) -> str:
    return _("{free} of {all} free").format(free=counts[0], all=counts[1]) if counts else _("free not known")


def _free_gpus(counts: tuple[int, int] | None) -> str:
    return _("{free} of {all} GPUs free").format(free=counts[0], all=counts[1]) if counts else _("free GPUs not known")


def as_of(age_s: int | None, is_known: bool, is_silent: bool) -> str:
    """How old a picture is."""
    age = "" if age_s is None else time_ago(age_s)
    if is_known:
        return _("As of {age}.").format(age=age)
    if is_silent:
        last = _("Slurm does not answer; its last answer was {age}.").format(age=age)
        return last if age else _("Slurm does not answer.")
    return _("Slurm has not answered since {age}.").format(age=age) if age else _("Slurm has not answered yet.")


def time_ago(seconds: int) -> str:
    """``5 s ago``, ``3 min ago``, ``2 h ago``."""
    if seconds < 100:
        return _("{number} s ago").format(number=seconds)
    if seconds < 7200:
        return _("{number} min ago").format(number=seconds // 60)
    return _("{number} h ago").format(number=seconds // 3600)


def time(minutes: int) -> str:
    """``4 h``, or ``90 min`` where it is not whole."""
    return f"{minutes} min" if minutes % 60 else f"{minutes // 60} h"


def closing(partition: str, hours: int, closure: Closure, now: datetime) -> Text:
    """Why so many hours, and no more, end before a maintenance."""
    is_maintenance = closure.is_maintenance
    if closure.starts_at <= now:
        closes = (
            _("A maintenance closes {partition} until ")
            if is_maintenance
            else _("A reservation closes {partition} until ")
        )
        return (closes.format(partition=partition), closure.ends_at, _(": sessions wait for its end."))
    if not hours:
        none = (
            _("In {partition} no session can end before the maintenance that begins ")
            if is_maintenance
            else _("In {partition} no session can end before the reservation that begins ")
        )
        return (none.format(partition=partition), closure.starts_at, ".")
    most = _(", at most {hours} h in {partition}; a longer session waits until it is over, ")
    return (
        _("To start before the maintenance that begins ")
        if is_maintenance
        else _("To start before the reservation that begins "),
        closure.starts_at,
        most.format(hours=hours, partition=partition),
        closure.ends_at,
        ".",
    )


def as_json(text: Iterable[str | datetime]) -> list[object]:
    """The parts of a text; a moment is ``{"at": ISO 8601}``."""
    return [{"at": part.isoformat()} if isinstance(part, datetime) else part for part in text]
