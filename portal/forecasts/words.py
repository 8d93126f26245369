"""Forecasts in words: texts with moments in them, which each page writes in its reader's own zone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from portal.forecasts.places import Closure
from portal.forecasts.starts import Start, StartState
from portal.request import SessionRequest

Text = tuple[str | datetime, ...]
SOON = timedelta(minutes=1)
LATE = "Not counted in time: it comes in a moment, or when the page is loaded again."

_ALONE = {
    StartState.NOW: "starts now",
    StartState.NEVER: "no node has so much",
    StartState.TOO_LONG: "longer than Slurm takes",
    StartState.CLOSED: "closed at the moment",
    StartState.UNKNOWN: "not known",
}


def start(of: Start) -> Text:
    """When something would start, short."""
    ahead = "1 job ahead" if of.ahead == 1 else f"{of.ahead} jobs ahead"
    behind = f", {ahead}" if of.ahead else ""
    if of.state in _ALONE:
        return (_ALONE[of.state],)
    if of.state is StartState.ROOM:
        return (f"room now, {ahead}",)
    if of.at and of.state is StartState.AT:
        return ("about ", of.at) if not behind else ("about ", of.at, behind)
    if of.at and of.state is StartState.AFTER:
        what = "the maintenance" if of.is_maintenance else "a reservation"
        return (f"not before {what} ends, ", of.at, *filter(None, [behind]))
    return (f"waits: {ahead}" if of.ahead else "waits until jobs end",)


def gpus(first: int, last: int) -> str:
    """``no GPU``, ``1 GPU``, ``0–2 GPUs``."""
    if first == last:
        return {0: "no GPU", 1: "1 GPU"}.get(first, f"{first} GPUs")
    return f"{first}–{last} GPUs"


def choice(request: SessionRequest, of: Start) -> Text:
    """What is chosen and when it would start, as one sentence."""
    what = gpus(request.gpus, request.gpus)
    return (f"{what[0].upper()}{what[1:]} for {request.hours} h in {request.partition}: ", *start(of), ".")


def of_slurm(at: datetime, now: datetime) -> Text:
    """When Slurm itself says that it would start."""
    return (" Slurm itself says: ", at, ".") if at - now > SOON else (" Slurm itself says: now.",)


def fewer(request: SessionRequest, number: int) -> str:
    """That a smaller number would start now."""
    return f"{gpus(number, number)} in {request.partition} would start now."


def free(of: Sequence[tuple[str, tuple[int, int] | None]]) -> str:
    """``3 of 12 GPUs free``, of each kind where there are several."""
    texts = [f"{title}: {_free(counts)}" if title else f"{_free(counts, ' GPUs')}" for title, counts in of]
    return " · ".join(texts)


def _free(counts: tuple[int, int] | None, unit: str = "") -> str:
    return f"{counts[0]} of {counts[1]}{unit} free" if counts else f"free{unit} not known"


def as_of(age_s: int | None, is_known: bool, is_silent: bool) -> str:
    """How old a picture is."""
    age = "" if age_s is None else time_ago(age_s)
    if is_known:
        return f"As of {age}."
    if is_silent:
        return f"Slurm does not answer; its last answer was {age}." if age else "Slurm does not answer."
    return "Slurm has not answered yet." if age_s is None else f"Slurm has not answered since {age}."


def time_ago(seconds: int) -> str:
    """``5 s ago``, ``3 min ago``, ``2 h ago``."""
    if seconds < 100:
        return f"{seconds} s ago"
    return f"{seconds // 60} min ago" if seconds < 7200 else f"{seconds // 3600} h ago"


def time(minutes: int) -> str:
    """``4 h``, or ``90 min`` where it is not whole."""
    return f"{minutes} min" if minutes % 60 else f"{minutes // 60} h"


def closing(partition: str, hours: int, closure: Closure, now: datetime) -> Text:
    """Why so many hours, and no more, end before a maintenance."""
    what = "maintenance" if closure.is_maintenance else "reservation"
    if closure.starts_at <= now:
        return (f"A {what} closes {partition} until ", closure.ends_at, ": sessions wait for its end.")
    if not hours:
        return (f"In {partition} no session can end before the {what} that begins ", closure.starts_at, ".")
    return (
        f"To start before the {what} that begins ",
        closure.starts_at,
        f", at most {hours} h in {partition}; a longer session waits until it is over, ",
        closure.ends_at,
        ".",
    )


def as_json(text: Iterable[str | datetime]) -> list[object]:
    """The parts of a text; a moment is ``{"at": ISO 8601}``."""
    return [{"at": part.isoformat()} if isinstance(part, datetime) else part for part in text]
