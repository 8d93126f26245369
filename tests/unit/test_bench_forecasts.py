"""The simulated day of `portal bench forecasts`: a scheduler that keeps to its rules, and both sides seen alike."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

import pytest

from tests.bench import contention, driver, forecasts
from tests.bench.contention import Day, DayJob, events, work


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four nodes."""
    monkeypatch.setattr(contention, "NODES", 4)


def job(number: int, gpus: int, limit_h: float, runs_h: float = 0.0) -> DayJob:
    limit_s = int(limit_h * 3600)
    return DayJob(number, 0, gpus, max(1, gpus), limit_s, int(runs_h * 3600) or limit_s, number, is_session=True)


def test_no_node_has_more_jobs_than_room_and_no_job_runs_before_it_is_asked_for() -> None:
    day = Day()
    jobs = work(3, 40)
    for _ in events(day, jobs):
        for number, (gpus, shares) in enumerate(day.free):
            here = [one for one in day.running if one.node == number]
            assert sum(one.gpus for one in here) == contention.GPUS - gpus <= contention.GPUS
            assert sum(one.shares for one in here) == contention.SHARES - shares <= contention.SHARES

    assert all(one.started >= one.submitted for one in jobs)
    assert any(one.started > one.submitted + 600 for one in jobs), "there was contention"


def test_where_jobs_use_all_of_their_hours_and_nobody_comes_later_the_plan_is_what_happens() -> None:
    jobs = [job(number, 4, 1 + number % 5) for number in range(1, 30)]  # a node each: it does not matter which
    planned = {one.number: minute for one, (minute, _) in Day(waiting=list(jobs)).plan().items()}
    for _ in events(Day(), jobs):
        pass

    assert {one.number: round(one.started / 60) for one in jobs} == pytest.approx(planned, abs=1)


def test_a_gap_is_filled_without_delaying_what_is_first_in_line() -> None:
    long, blocked, short, too_long = job(1, 4, 4), job(2, 4, 4), job(3, 0, 2), job(4, 0, 9)
    contention_free = [[0, 2], [0, 0], [0, 0], [0, 0]]
    day = Day(waiting=[blocked, replace(short), replace(too_long)], free=contention_free)
    long.node, long.started = 0, 0
    day.running.append(long)
    for number in range(1, 4):
        other = job(10 + number, 4, 20)
        other.node, other.started, other.shares = number, 0, 6
        day.running.append(other)

    starts = [minute for minute, _ in day.plan().values()]

    assert starts == [240, 0, 0]  # two shares beside four GPUs are free all the time


def test_the_same_seed_is_the_same_day_and_both_sides_are_seen_of_the_same_starts() -> None:
    options = Namespace(seed=5, days=1, sessions=30, only="")
    figures = forecasts.run(options)

    assert figures == forecasts.run(options)
    ours, slurms = figures["ours"], figures["stock"]
    assert isinstance(ours, dict)
    assert isinstance(slurms, dict)
    assert (ours["starts"], ours["waited"], ours["count_both"]) == (
        slurms["starts"],
        slurms["waited"],
        slurms["count_both"],
    )
    assert ours["starts"] == 30


def test_a_bench_without_a_cluster_needs_no_root_and_prints_its_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    assert driver.run("forecasts", {"sessions": 10, "days": 1, "seed": 2}, as_json=False) == 0
    assert driver.run("form", {"jobs": 50, "nodes": 10, "forms": 4}, as_json=False) == 0

    out = capsys.readouterr().out
    assert "forecasts: sessions 10, days 1, seed 2;" in out
    assert out.split("\n")[2].split() == ["ours", "Slurm", "aim"]
    assert "a form while listings are read, median, ms" in out
