"""The server scenario: arrivals, latencies and the search, on models whose best rate is known."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.lessons import module_of


@pytest.fixture(scope="module")
def scenario() -> Iterator[ModuleType]:
    with module_of("inference/server_scenario.py") as module:
        yield module


class Desk:
    """A model with its own time: it answers one query after the other, each in ``service_s``."""

    def __init__(self, service_s: float) -> None:
        self.service_s, self.now_s, self.free_s = service_s, 0.0, 0.0
        self.answers: list[tuple[float, int, Callable[[], None]]] = []

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        end = self.now_s + seconds
        self.answer_until(end)
        self.now_s = end

    def answer_until(self, end_s: float) -> None:
        while self.answers and self.answers[0][0] <= end_s:
            self.now_s, _, done = heapq.heappop(self.answers)
            done()

    def begin(self, number: int, done: Callable[[], None]) -> None:
        self.free_s = max(self.free_s, self.now_s) + self.service_s
        heapq.heappush(self.answers, (self.free_s, number, done))

    def finish(self) -> None:
        self.answer_until(math.inf)

    def load(self, scenario: ModuleType, rate_per_s: float, count: int = 4_000, seed: int = 1) -> Any:
        due = scenario.arrivals(rate_per_s, count, seed)
        latencies = scenario.play(due, self.begin, self.finish, self.clock, self.sleep)
        return scenario.Load(rate_per_s, tuple(latencies))


def fresh(scenario: ModuleType, service_s: float = 0.01) -> Callable[[float], Any]:
    """A measurement of a desk of its own; each with other arrivals."""
    seeds = iter(range(1_000))
    return lambda rate_per_s: Desk(service_s).load(scenario, rate_per_s, seed=next(seeds))


def test_queries_arrive_at_the_rate_and_at_random(scenario: ModuleType) -> None:
    times = scenario.arrivals(50.0, 20_000, seed=3)
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert statistics.mean(gaps) == pytest.approx(1 / 50, rel=0.03)
    # A Poisson process: the spread of the gaps is as large as their mean, 1 - 1/e of them are shorter than it.
    assert statistics.stdev(gaps) == pytest.approx(1 / 50, rel=0.03)
    assert sum(gap < 1 / 50 for gap in gaps) / len(gaps) == pytest.approx(1 - 1 / math.e, abs=0.02)


def test_the_same_seed_gives_the_same_arrivals(scenario: ModuleType) -> None:
    assert scenario.arrivals(10.0, 5, seed=1) == scenario.arrivals(10.0, 5, seed=1)
    assert scenario.arrivals(10.0, 5, seed=1) != scenario.arrivals(10.0, 5, seed=2)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        (range(1, 101), 99, 99),
        (range(1, 101), 50, 50),
        (range(1, 101), 100, 100),
        ([3, 1, 2], 50, 2),
        ([7], 99, 7),
        ([1, 2], 1, 1),
    ],
)
def test_a_percentile_is_the_value_of_the_nearest_rank(
    scenario: ModuleType, values: Any, percent: float, expected: float
) -> None:
    assert scenario.percentile(list(values), percent) == expected


@pytest.mark.parametrize(("values", "percent"), [([], 99), ([1.0], 0), ([1.0], 101)])
def test_a_percentile_of_nothing_is_refused(scenario: ModuleType, values: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match=f"{percent}% of {len(values)} values"):
        scenario.percentile(values, percent)


def test_a_latency_runs_from_the_arrival_not_from_the_begin(scenario: ModuleType) -> None:
    desk = Desk(service_s=1.0)
    latencies = scenario.play([0.0, 0.25, 5.0], desk.begin, desk.finish, desk.clock, desk.sleep)
    assert latencies == pytest.approx([1.0, 1.75, 1.0])


def test_time_that_the_model_holds_us_up_counts(scenario: ModuleType) -> None:
    desk = Desk(service_s=0.0)

    def begin(number: int, done: Callable[[], None]) -> None:
        desk.now_s += 2.0  # it takes no second query while it is at the first
        done()

    assert scenario.play([0.0, 1.0], begin, desk.finish, desk.clock, desk.sleep) == [2.0, 3.0]


def test_a_query_that_is_never_answered_is_named(scenario: ModuleType) -> None:
    desk = Desk(service_s=1.0)
    with pytest.raises(scenario.ScenarioError, match="2 of 2 queries were never answered"):
        scenario.play([0.0, 1.0], desk.begin, lambda: None, desk.clock, lambda seconds: None)


def test_it_plays_on_the_real_clock(scenario: ModuleType) -> None:
    latencies = scenario.play(scenario.arrivals(2_000, 50, 0), lambda number, done: done(), lambda: None)
    assert len(latencies) == 50
    assert min(latencies) >= 0


@pytest.fixture(scope="module")
def best_rate(scenario: ModuleType) -> float:
    """The highest good rate of a desk of 10 ms under a bound of 50 ms, by trying many with many queries."""
    loads = (Desk(0.01).load(scenario, float(rate), 10_000, seed=9) for rate in range(40, 80, 2))
    return max(float(load.rate_per_s) for load in loads if load.p99_s <= 0.05)


@pytest.mark.parametrize("start_per_s", [1.0, 40.0, 5_000.0])
def test_the_search_finds_the_best_rate_from_any_guess(
    scenario: ModuleType, best_rate: float, start_per_s: float
) -> None:
    found = scenario.Search(fresh(scenario), bound_s=0.05).run(start_per_s)
    assert found.rate_per_s == pytest.approx(best_rate, rel=0.12)
    assert found.good.p99_s <= 0.05 < found.beyond.p99_s
    assert found.beyond.rate_per_s == pytest.approx(1.5 * found.rate_per_s)


def test_a_looser_bound_gives_a_higher_rate_but_never_more_than_the_model_can_do(scenario: ModuleType) -> None:
    rates = [scenario.Search(fresh(scenario), bound_s=bound).run(10.0).rate_per_s for bound in (0.02, 0.05, 0.5)]
    assert rates == sorted(rates)
    assert rates[0] < 0.6 * rates[2]
    assert rates[2] < 1.15 / 0.01


def test_every_step_is_told_with_its_reason(scenario: ModuleType) -> None:
    told: list[Any] = []
    found = scenario.Search(fresh(scenario), bound_s=0.05, tell=told.append).run(30.0)
    assert found.steps == tuple(told)
    assert [step.why for step in told[:2]] == ["first guess", "twice"]
    assert told[-1].why == "above it"
    assert told[-2].why == "once more"
    assert all(step.held == (step.load.p99_s <= 0.05) for step in told)
    assert told[-2].load == found.good


def test_the_rate_found_is_the_finer_the_more_precision_is_asked_for(scenario: ModuleType) -> None:
    def sharp(rate_per_s: float) -> Any:
        return scenario.Load(rate_per_s, (0.01 if rate_per_s <= 777 else 1.0,))

    for precision in (0.2, 0.05, 0.01):
        found = scenario.Search(sharp, 0.05, precision=precision).run(10.0)
        assert 777 / (1 + precision) <= found.rate_per_s <= 777


def test_one_disturbed_measurement_does_not_hide_the_best_rate(scenario: ModuleType) -> None:
    calls = iter(range(1_000))

    def disturbed(rate_per_s: float) -> Any:
        slow = rate_per_s > 777 or next(calls) == 3  # 80 queries/s, seen as too many once
        return scenario.Load(rate_per_s, (1.0 if slow else 0.01,))

    assert scenario.Search(disturbed, 0.05).run(10.0).rate_per_s == pytest.approx(777, rel=0.05)


def test_a_disturbed_measurement_is_told_and_made_again(scenario: ModuleType) -> None:
    told: list[Any] = []

    def stalls_once(rate_per_s: float) -> Any:  # 3 of 100 queries met a pause of the machine, the others no queue
        slow = 0.2 if len(told) == 1 else 0.001
        return scenario.Load(rate_per_s, (*[0.001] * 97, *[slow] * 3) if rate_per_s <= 50 else (1.0,))

    found = scenario.Search(stalls_once, 0.05, tell=told.append).run(25.0)
    assert [(step.why, step.held) for step in told[:4]] == [
        ("first guess", True),
        ("twice", False),
        ("disturbed", True),
        ("twice", False),
    ]
    assert found.rate_per_s == pytest.approx(50, rel=0.05)


def test_a_real_queue_is_not_taken_for_a_disturbance(scenario: ModuleType) -> None:
    for rate in (70.0, 80.0, 95.0, 150.0):
        load = Desk(0.01).load(scenario, rate)
        assert load.p99_s > 0.05
        assert not load.disturbed(0.05)


def test_a_rate_that_was_good_by_luck_is_not_the_answer(scenario: ModuleType) -> None:
    tries: list[float] = []

    def lucky(rate_per_s: float) -> Any:
        tries.append(rate_per_s)
        return scenario.Load(rate_per_s, (0.01 if rate_per_s <= 777 or len(tries) == 8 else 1.0,))

    found = scenario.Search(lucky, 0.05).run(10.0)
    assert tries[7] > 777
    assert 600 < found.rate_per_s <= 777


def test_a_bound_below_the_time_of_one_query_is_refused(scenario: ModuleType) -> None:
    with pytest.raises(scenario.ScenarioError, match=r"The bound of 5 ms is broken even at .* 10\.0 ms"):
        scenario.Search(fresh(scenario), bound_s=0.005).run(10.0)


def test_a_bound_that_nothing_breaks_is_refused(scenario: ModuleType) -> None:
    with pytest.raises(scenario.ScenarioError, match="holds even at"):
        scenario.Search(lambda rate: scenario.Load(rate, (0.0,)), bound_s=1.0).run(1.0)


def test_a_machine_too_unsteady_to_tell_is_named(scenario: ModuleType) -> None:
    told: list[Any] = []

    def moody(rate_per_s: float) -> Any:  # good while searching, bad when asked once more
        confirming = len(told) >= 4
        return scenario.Load(rate_per_s, (0.01 if rate_per_s <= 100 and not confirming else 1.0,))

    with pytest.raises(scenario.ScenarioError, match="other work disturbs this machine"):
        scenario.Search(moody, 0.05, precision=0.2, tell=told.append).run(60.0)
