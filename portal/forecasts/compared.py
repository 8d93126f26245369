"""Forecasts beside what happened: how far off they were, theirs and Slurm's own. Pure."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from portal.forecasts.starts import StartState
from portal.language import amounts

HELD_WITHIN_S = 60  # "starts now" held when the session started so soon after it was asked for


@dataclass(frozen=True)
class ComparedStart:
    """One session that a forecast was told for. Times are in seconds since 1970; 0 where there was none.

    Attributes:
        state: what the form said; ``at`` is its moment.
        slurm_at: the first start that Slurm itself planned while the session waited.
        started_at: when its job started; 0 = it ended, or was stopped, at ``ended_at`` before that.
    """

    state: str
    at: int
    submitted_at: int
    slurm_at: int = 0
    started_at: int = 0
    ended_at: int = 0

    def to_text(self) -> str:
        """JSON in plain ASCII."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> ComparedStart:
        """What :meth:`to_text` wrote, in this version, one before it or one after it."""
        saved: dict[str, Any] = json.loads(text)
        return cls(**{one.name: saved[one.name] for one in fields(cls) if one.name in saved})

    @property
    def moment(self) -> int:
        """When the form said that it would start; 0 where it named no moment. What is past is now."""
        if self.state == StartState.NOW:
            return self.submitted_at
        return max(self.at, self.submitted_at) if self.state in (StartState.AT, StartState.AFTER) else 0

    @property
    def slurms_moment(self) -> int:
        """When Slurm said so; 0 where it named none before the start."""
        return max(self.slurm_at, self.submitted_at) if self.slurm_at else 0


@dataclass(frozen=True)
class ErrorFigures:
    """How far off the forecasts of some starts were, in seconds: the median, and what 90 of 100 are within."""

    starts: int
    median_s: int = 0
    within_s: int = 0

    @property
    def words(self) -> tuple[str, str, str]:
        """The three of them; dashes where there is no start."""
        if not self.starts:
            return "0", "–", "–"
        return amounts.figure(f"{self.starts:,}"), duration(self.median_s), duration(self.within_s)


@dataclass(frozen=True)
class Comparison:
    """What an administrator reads of the forecasts.

    Attributes:
        ours: of all starts for which the form named a moment; ``ours_beside`` of those for which Slurm did, too.
        slurms: Slurm's own estimates, of these same starts.
        now: how many sessions "starts now" was said of; ``held`` of them started within a minute.
        without_moment: starts for which the form could name no moment.
        given_up: sessions that ended or were stopped while they waited; ``given_up_late`` of them after the moment.
    """

    ours: ErrorFigures
    ours_beside: ErrorFigures
    slurms: ErrorFigures
    now: int
    held: int
    without_moment: int
    given_up: int
    given_up_late: int

    @property
    def held_words(self) -> str:
        """``97 %``."""
        return f"{math.floor(100 * self.held / self.now)} %" if self.now else "–"

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show yet."""
        return not (self.ours.starts or self.without_moment or self.given_up)


def figures(errors: Sequence[float]) -> ErrorFigures:
    """The figures of some errors, in seconds."""
    if not errors:
        return ErrorFigures(0)
    ordered = sorted(errors)
    within = ordered[math.ceil(0.9 * len(ordered)) - 1]
    return ErrorFigures(len(ordered), round(statistics.median(ordered)), round(within))


def compared(all_of: Iterable[ComparedStart]) -> Comparison:
    """What there is to say of them."""
    known = list(all_of)
    started = [one for one in known if one.started_at]
    named = [one for one in started if one.moment]
    both = [one for one in named if one.slurms_moment]
    now = [one for one in started if one.state == StartState.NOW]
    left = [one for one in known if not one.started_at]
    return Comparison(
        ours=figures([abs(one.started_at - one.moment) for one in named]),
        ours_beside=figures([abs(one.started_at - one.moment) for one in both]),
        slurms=figures([abs(one.started_at - one.slurms_moment) for one in both]),
        now=len(now),
        held=sum(one.started_at - one.submitted_at <= HELD_WITHIN_S for one in now),
        without_moment=len(started) - len(named),
        given_up=len(left),
        given_up_late=sum(0 < one.moment < one.ended_at for one in left),
    )


def duration(seconds: int) -> str:
    """``40 s``, ``12 min``, ``3 h 5 min``."""
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(filter(None, (f"{hours} h" if hours else "", f"{minutes} min" if minutes or not hours else "")))
