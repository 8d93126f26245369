"""The highest rate of queries that a model answers within a bound on its latency.

This is the server scenario of MLPerf's inference benchmark (Reddi and others, 2020, arXiv:1911.02549): queries of one
image each arrive at random, as from many people who know nothing of each other (a Poisson process). The latency of a
query runs from the moment at which it arrives, whether or not the model has time for it then, until it is answered. A
rate is good when 99 of 100 queries are answered within the bound. The highest good rate is found by binary search.

Nothing here knows a runtime: a model is a function that begins a query, and one that waits until all are answered.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

Done = Callable[[], None]
Begin = Callable[[int, Done], None]

PERCENT = 99.0
TRIES = 3  # of one rate, when something else than the queue was slow
CALM = 0.1  # a middle latency below this share of the bound: there was no queue to speak of
ROUNDS = 4  # how often the search starts again when a rate above the one it found turns out to be good
DOUBLINGS = 20
RETREATS = 12


class ScenarioError(Exception):
    """There is no highest rate to be found, in words for the person who asked for it."""


def arrivals(rate_per_s: float, count: int, seed: int) -> list[float]:
    """When ``count`` queries arrive, in seconds from the start: a Poisson process, the same for the same seed."""
    random = Random(seed)  # noqa: S311  a simulation
    return list(accumulate(random.expovariate(rate_per_s) for _ in range(count)))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of ``values`` that ``percent`` of them do not exceed (the nearest rank).

    Raises:
        ValueError: there are no values, or ``percent`` is not above 0 and at most 100.
    """
    if not values or not 0 < percent <= 100:
        raise ValueError(f"{percent}% of {len(values)} values: give some values, and from above 0 to 100 percent")
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


@dataclass(frozen=True)
class Load:
    """What one rate of queries did to the model.

    Arguments:
        rate_per_s: queries that arrived in a second, on average.
        latencies_s: of every query, from its arrival to its answer.
    """

    rate_per_s: float
    latencies_s: tuple[float, ...]

    @property
    def p50_s(self) -> float:
        return percentile(self.latencies_s, 50)

    @property
    def p99_s(self) -> float:
        return percentile(self.latencies_s, PERCENT)

    def disturbed(self, bound_s: float) -> bool:
        """Whether the bound is broken though there was no queue: then the machine was slow, not the model.

        In a queue that makes one of 100 queries wait for the bound, the middle one waits for 0.15 of it or more.
        """
        return self.p50_s < CALM * bound_s < bound_s < self.p99_s


def play(
    due_s: Sequence[float],
    begin: Begin,
    finish: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> list[float]:
    """The latency in seconds of every query, begun when it is due or, where the model holds us up, after that.

    Arguments:
        due_s: when the queries arrive, in seconds from now.
        begin: begins query number n, and calls the function that it gets when the query is answered.
        finish: returns when all queries are answered.

    Raises:
        ScenarioError: a query was never answered.
    """
    start, answered = clock(), [math.nan] * len(due_s)

    def done(number: int) -> None:
        answered[number] = clock() - start

    for number, due in enumerate(due_s):
        if (early := start + due - clock()) > 0:
            sleep(early)
        begin(number, lambda number=number: done(number))  # type: ignore[misc]
    finish()
    if lost := sum(map(math.isnan, answered)):
        raise ScenarioError(f"{lost} of {len(due_s)} queries were never answered: does the model still work?")
    return [end - due for end, due in zip(answered, due_s, strict=True)]


@dataclass(frozen=True)
class Step:
    """One rate that was tried: why, what it did, and whether the bound held."""

    why: str
    load: Load
    held: bool


@dataclass(frozen=True)
class Found:
    """The highest good rate: as it was seen to be good once more, and a clearly higher one that is not."""

    good: Load
    beyond: Load
    steps: tuple[Step, ...]

    @property
    def rate_per_s(self) -> float:
        return self.good.rate_per_s


@dataclass
class Search:
    """A binary search for the highest good rate.

    Arguments:
        measure: tries a rate, in queries per second.
        bound_s: what the 99th percentile of the latencies must not exceed.
        precision: how far the rate found may lie below the best, as a share of it.
        beyond: a rate so many times the one found must break the bound.
        tell: gets every step.
    """

    measure: Callable[[float], Load]
    bound_s: float
    precision: float = 0.05
    beyond: float = 1.5
    tell: Callable[[Step], None] = lambda step: None
    steps: list[Step] = field(default_factory=list)

    def run(self, start_per_s: float) -> Found:
        """The highest good rate, begun with a guess.

        Raises:
            ScenarioError: no rate is good, every rate is, or the machine is too busy with other things to tell.
        """
        rate_per_s = start_per_s
        for _ in range(ROUNDS):
            good = self._confirmed(self._bisected(*self._bracket(rate_per_s)))
            above = self._try("above it", good.rate_per_s * self.beyond)
            if not above.held:
                return Found(good, above.load, tuple(self.steps))
            rate_per_s = above.load.rate_per_s
        raise self._unsteady()

    def _try(self, why: str, rate_per_s: float) -> Step:
        """Whether a rate is good; one that something else disturbed is tried again."""
        for number in range(TRIES):
            load = self.measure(rate_per_s)
            step = Step("disturbed" if number else why, load, load.p99_s <= self.bound_s)
            self.steps.append(step)
            self.tell(step)
            if not load.disturbed(self.bound_s):
                break
        return step

    def _bracket(self, rate_per_s: float) -> tuple[float, float]:
        """A good rate and one twice as high that is not: doubled, or halved, until both are there."""
        first = self._try("first guess", rate_per_s)
        for _ in range(DOUBLINGS):
            rate_per_s *= 2 if first.held else 0.5
            step = self._try("twice" if first.held else "half", rate_per_s)
            if step.held != first.held:
                return (rate_per_s / 2, rate_per_s) if first.held else (rate_per_s, rate_per_s * 2)
        raise ScenarioError(
            f"The bound of {self.bound_s * 1e3:g} ms {'holds' if first.held else 'is broken'} even at "
            f"{rate_per_s:g} queries/s (99th percentile {step.load.p99_s * 1e3:.1f} ms): give another latency bound."
        )

    def _bisected(self, good: float, bad: float) -> float:
        """A good rate, not farther than the precision from one that is not."""
        while bad > good * (1 + self.precision):
            middle = math.sqrt(good * bad)
            if self._try("between", middle).held:
                good = middle
            else:
                bad = middle
        return good

    def _confirmed(self, rate_per_s: float) -> Load:
        """The first rate, from the one given downwards, that is good once more with other arrivals."""
        for _ in range(RETREATS):
            step = self._try("once more", rate_per_s)
            if step.held:
                return step.load
            rate_per_s /= 1 + self.precision
        raise self._unsteady()

    def _unsteady(self) -> ScenarioError:
        return ScenarioError(
            f"The same rate keeps the bound of {self.bound_s * 1e3:g} ms in one try and breaks it in the next: other "
            "work disturbs this machine; ask for cores of your own, or give a higher latency bound or more seconds."
        )
