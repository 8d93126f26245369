"""A cluster with more work than room, by discrete events: jobs end before their limits, and a scheduler fills gaps.

What it is like: Slurm's main scheduler (in the order of priority, until one does not fit) at each event, and its
backfill (sched/backfill: each job of the queue is planned at the first time at which it fits by all time limits, behind
what was planned before it, within a day, minute by minute). Every job runs on one node of one partition; a GPU brings
cores. The order is that of submission, moved by each person's share. Nothing in it knows of the portal's forecasts.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

GPUS = 4
SHARES = 6  # of a node's cores: one comes with each GPU
NODES = 80
PLANNED_MIN = 1440  # bf_window
PLANNED_JOBS = 100  # bf_max_job_test
PLANS_EVERY_S = 60
DAY_S = 86_400
WARM_UP_S = DAY_S // 2
LOAD = 0.97  # what all jobs together use, as a part of all GPUs of the cluster
SHARE_S = 4 * 3600  # how far a person's share moves a job in line, at most
ALL_TIME = (1 << PLANNED_MIN) - 1


@dataclass(eq=False)
class DayJob:
    """One job. Times are in seconds since the beginning; ``node`` is -1 while it waits."""

    number: int
    submitted: float
    gpus: int
    shares: int
    limit_s: int
    runs_s: int
    rank: float
    is_session: bool
    started: float = -1
    node: int = -1


class NodePlan:
    """What one node has free in each of the coming minutes: a bit mask of minutes for each number of units."""

    def __init__(self, gpus: int, shares: int) -> None:
        self.gpus = [ALL_TIME if units <= gpus else 0 for units in range(GPUS + 1)]
        self.shares = [ALL_TIME if units <= shares else 0 for units in range(SHARES + 1)]

    @staticmethod
    def _move(levels: list[int], units: int, window: int) -> list[int]:
        most = len(levels) - 1
        moved = [
            (levels[level] & ~window) | ((levels[min(most, level + units)] if level + units <= most else 0) & window)
            for level in range(1, most + 1)
        ]
        return [ALL_TIME, *moved]

    def take(self, job: DayJob, window: int) -> None:
        """A job has its part in these minutes."""
        self.gpus = self._move(self.gpus, job.gpus, window)
        self.shares = self._move(self.shares, job.shares, window)

    def first(self, job: DayJob) -> int:
        """The first minute at which a job fits for its whole limit; ``PLANNED_MIN`` where none is in sight."""
        fits = self.gpus[job.gpus] & self.shares[job.shares]
        fits |= ~ALL_TIME & ((1 << (PLANNED_MIN + _minutes(job.limit_s))) - 1)  # what lies behind is open
        done = 1
        wanted = _minutes(job.limit_s)
        while done < wanted and fits:
            step = min(done, wanted - done)
            fits &= fits >> step
            done += step
        return (fits & -fits).bit_length() - 1 if fits else PLANNED_MIN


def _minutes(seconds: float) -> int:
    return max(1, math.ceil(seconds / 60))


@dataclass
class Day:
    """The cluster and its queue. ``jobs`` wait or run; ``now`` is in seconds since the beginning."""

    now: float = 0
    waiting: list[DayJob] = field(default_factory=list)
    running: list[DayJob] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=lambda: [[GPUS, SHARES] for _ in range(NODES)])

    def plan(self, wanted: DayJob | None = None) -> dict[DayJob, tuple[int, int]]:
        """The minute and the node at which each job of the queue is planned; no further than to the wanted one."""
        nodes = [NodePlan(GPUS, SHARES) for _ in range(NODES)]
        for job in self.running:
            left = _minutes(job.started + job.limit_s - self.now)
            nodes[job.node].take(job, (1 << min(left, PLANNED_MIN)) - 1)
        found: dict[DayJob, tuple[int, int]] = {}
        for job in self.waiting[:PLANNED_JOBS]:
            minute = PLANNED_MIN
            place = -1
            for number, node in enumerate(nodes):
                at = node.first(job)
                if at < minute:
                    minute = at
                    place = number
                    if at == 0:
                        break
            if place >= 0:
                nodes[place].take(job, (((1 << _minutes(job.limit_s)) - 1) << minute) & ALL_TIME)
                found[job] = minute, place
            if job is wanted:
                break
        return found

    def start(self, job: DayJob, node: int) -> None:
        """A job begins on a node."""
        job.started = self.now
        job.node = node
        self.free[node][0] -= job.gpus
        self.free[node][1] -= job.shares
        self.waiting.remove(job)
        self.running.append(job)

    def end(self, job: DayJob) -> None:
        """A job is over."""
        self.running.remove(job)
        self.free[job.node][0] += job.gpus
        self.free[job.node][1] += job.shares

    def room(self, job: DayJob) -> int:
        """The fullest node with room for a job; -1 = there is none."""
        fits = [
            (gpus, number)
            for number, (gpus, shares) in enumerate(self.free)
            if gpus >= job.gpus and shares >= job.shares
        ]
        return min(fits)[1] if fits else -1


def work(seed: int, sessions: int) -> list[DayJob]:
    """The jobs of three days, by their times: as many sessions a day, and so much else that the load is as it is said.

    Sessions are asked for at daytime, other jobs at all hours. People ask for more hours than they use: a session uses
    between a twentieth and all of them, a third in the median; another job half of them.
    """
    dice = random.Random(seed)  # noqa: S311  a day, and no secret
    people = {number: dice.uniform(0, SHARE_S) for number in range(200)}
    made: list[DayJob] = []

    def add(at: float, *, is_session: bool) -> float:
        gpus = dice.choices((0, 1, 2, 4), (15, 55, 20, 10) if is_session else (10, 30, 30, 30))[0]
        limit_s = dice.choice((1, 2, 4, 8, 8, 12, 24) if is_session else (1, 4, 8, 12, 24)) * 3600
        part = min(1.0, max(0.05, dice.lognormvariate(-1.1 if is_session else -0.7, 0.8)))
        rank = at - people[dice.randrange(200)]
        runs_s = max(30, int(limit_s * part))
        made.append(DayJob(len(made) + 1, at, gpus, max(1, gpus), limit_s, runs_s, rank, is_session))
        return gpus * runs_s

    days = 3
    used = 0.0
    for day in range(days):
        for _ in range(sessions):
            used += add((day + min(0.999, max(0.0, dice.gauss(0.55, 0.16)))) * DAY_S, is_session=True)
    while used < LOAD * NODES * GPUS * DAY_S * days:
        used += add(dice.uniform(0, days * DAY_S), is_session=False)
    return sorted(made, key=lambda job: job.submitted)


def events(day: Day, jobs: list[DayJob]) -> Iterator[DayJob]:
    """Let the days pass; each session comes out in the moment in which it is asked for, before it is in the queue."""
    ends: list[tuple[float, int, DayJob]] = []
    arrivals = iter(jobs)
    coming = next(arrivals, None)
    next_plan = 0.0
    while coming or ends:
        times = [coming.submitted if coming else math.inf, ends[0][0] if ends else math.inf]
        if day.waiting:
            times.append(max(next_plan, day.now))
        day.now = min(times)
        if coming and coming.submitted <= day.now:
            if coming.is_session:
                yield coming
            day.waiting.append(coming)
            day.waiting.sort(key=lambda job: job.rank)
            coming = next(arrivals, None)
        while ends and ends[0][0] <= day.now:
            day.end(heapq.heappop(ends)[2])
        before = len(day.running)
        _start_in_order(day)
        if day.waiting and day.now >= next_plan:
            _fill_gaps(day)
            next_plan = day.now + PLANS_EVERY_S
        for job in day.running[before:]:
            heapq.heappush(ends, (day.now + job.runs_s, job.number, job))


def _start_in_order(day: Day) -> None:
    while day.waiting and (node := day.room(day.waiting[0])) >= 0:
        day.start(day.waiting[0], node)


def _fill_gaps(day: Day) -> None:
    for job, (minute, node) in day.plan().items():
        if minute == 0:
            day.start(job, node)
