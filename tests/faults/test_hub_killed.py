"""The hub is killed again and again, at rest, in the middle of clicks, and while it comes back."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import pytest

from tests.faults.census import Census, Name, take
from tests.faults.hubs import StubHub
from tests.faults.table import Row, sized
from tests.inside import eventually, sh

PEOPLE = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy")
OPEN, CLOSED = "sxm2", "requestq"
BACK_WITHIN_S = 10.0
SETTLED_WITHIN_S = 150.0  # an sbatch that was cut off is looked for during a minute
MOMENTS_S = 2.5


@dataclass
class Clicks:
    """What people asked for while the hub was being killed, as far as they got an answer."""

    started: set[Name] = field(default_factory=set)
    stopped: set[Name] = field(default_factory=set)
    unanswered: set[Name] = field(default_factory=set)

    def start(self, stubs: StubHub, name: Name, partition: str = OPEN) -> None:
        """Press Start. 201: it runs; 202: it is on its way."""
        if self._ask(stubs, "POST", name, {"gpus": 0, "hours": 1, "partition": partition}) in (201, 202):
            self.started.add(name)

    def stop(self, stubs: StubHub, name: Name) -> None:
        """Press Stop. 204: it is gone; 202: it is on its way, which a hub that dies may forget."""
        status = self._ask(stubs, "DELETE", name, None)
        self.started.discard(name)
        if status == 204:
            self.stopped.add(name)

    def _ask(self, stubs: StubHub, method: str, name: Name, body: object) -> int:
        user, server = name
        path = f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"
        try:
            with stubs.client() as client:
                status = client.request(method, path, json=body).status_code
        except httpx.HTTPError:
            status = 0
        if status not in (201, 202, 204):
            self.unanswered.add(name)
        return status


@pytest.fixture
def closed() -> Iterator[None]:
    """A partition in which every job waits."""
    sh("scontrol", "update", f"PartitionName={CLOSED}", "State=DOWN")
    yield
    sh("scontrol", "update", f"PartitionName={CLOSED}", "State=UP")


@pytest.fixture
def running() -> list[Name]:
    """Sessions that run: the first of each person, then named ones."""
    return [(PEOPLE[number % 10], f"r{number}" if number >= 10 else "") for number in range(sized(20, 5))]


@pytest.fixture
def waiting() -> list[Name]:
    """Sessions that wait."""
    return [(PEOPLE[number % 10], f"w{number}") for number in range(sized(20, 5))]


def test_a_hub_that_is_killed_at_any_moment_loses_no_session_and_leaves_no_job(
    stubs: StubHub, client: httpx.Client, closed: None, running: list[Name], waiting: list[Name], row: Row
) -> None:
    kills = sized(50, 4)
    seed = secrets.randbelow(10**6)
    chance = random.Random(seed)  # noqa: S311  moments, not secrets
    row.fault = "hub killed (kill -9)"
    row.done = f"{kills} kills, {len(running)} running + {len(waiting)} waiting, clicks meanwhile; seed {seed}"
    clicks = Clicks()
    begin(stubs, client, clicks, running, waiting)
    before = take(client, stubs.number).jobs([*running, *waiting])

    seconds = [
        one_kill(stubs, client, clicks, number, chance, before=before, running=running) for number in range(kills)
    ]

    row.seconds = max(seconds)
    census = settled(client, stubs.number, clicks)
    row.lost, row.orphans = len(census.lost(clicks.started)), len(census.orphans())
    row.doubles = len(census.doubles())
    row.seen = f"median {sorted(seconds)[len(seconds) // 2]:.1f} s back; {len(clicks.unanswered)} clicks unanswered"
    assert not census.lost(clicks.started)
    assert not census.orphans()
    assert not census.doubles()
    assert not clicks.stopped & set(census.held), "what was stopped is back"
    assert census.jobs(before) == before, "every session has its first job"
    assert max(seconds) <= BACK_WITHIN_S, seconds
    sh("scontrol", "update", f"PartitionName={CLOSED}", "State=UP")
    eventually(lambda: all_ready(client, stubs, waiting), "what waited is ready when there is room", within_s=60)


def begin(stubs: StubHub, client: httpx.Client, clicks: Clicks, running: list[Name], waiting: list[Name]) -> None:
    """Start everything, and wait until what should run runs and what should wait waits."""
    for user in PEOPLE:
        client.post(f"/users/{user}")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: clicks.start(stubs, name), running))
        list(pool.map(lambda name: clicks.start(stubs, name, CLOSED), waiting))
    assert clicks.started == {*running, *waiting}
    eventually(lambda: all_ready(client, stubs, running), "the sessions run", within_s=90)
    eventually(lambda: not take(client, stubs.number).lost(clicks.started), "the jobs wait")


def one_kill(
    stubs: StubHub,
    client: httpx.Client,
    clicks: Clicks,
    number: int,
    chance: random.Random,
    *,
    before: dict[Name, list[str]],
    running: list[Name],
) -> float:
    """Clicks, and a kill in the middle of them; every third time another one while the hub comes back.

    Answers the seconds from the last start until every session is there again.
    """
    new = [(chance.choice(PEOPLE), f"x{number}{letter}") for letter in "ab"]
    old = [name for name in clicks.started if name[1].startswith(f"x{number - 1}")]
    with ThreadPoolExecutor(4) as pool:
        for name in new:
            pool.submit(clicks.start, stubs, name)
        for name in old:
            pool.submit(clicks.stop, stubs, name)
        time.sleep(chance.uniform(0, MOMENTS_S))
        stubs.kill()
    if number % 3 == 2:
        stubs.begin()
        time.sleep(chance.uniform(0, 2 * MOMENTS_S))
        stubs.kill()
    started = time.monotonic()
    stubs.start()
    eventually(lambda: is_back(client, stubs, before, running), "every session is back", within_s=60, every_s=0.1)
    return time.monotonic() - started


def is_back(client: httpx.Client, stubs: StubHub, before: dict[Name, list[str]], running: list[Name]) -> bool:
    """True when the hub holds every session with its first job, and all that ran answer."""
    return take(client, stubs.number).jobs(before) == before and all_ready(client, stubs, running)


def all_ready(client: httpx.Client, stubs: StubHub, names: list[Name]) -> bool:
    """True when the hub calls them ready and they answer through the proxy."""
    held = take(client, stubs.number).held
    return all(name in held and held[name].ready for name in names) and all(answers(stubs, name) for name in names)


def answers(stubs: StubHub, name: Name) -> bool:
    """True when a session answers through the proxy."""
    user, server = name
    path = f"/user/{user}/{server}/api" if server else f"/user/{user}/api"
    answer = httpx.get(f"{stubs.url}{path}", trust_env=False)
    return answer.status_code == 200 and "version" in answer.json()


def settled(client: httpx.Client, number: str, clicks: Clicks) -> Census:
    """The census once hub and Slurm agree; the last one when they never do."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while True:
        census = take(client, number)
        agreed = not (census.lost([*clicks.started, *census.held]) or census.orphans() or census.doubles())
        if agreed or time.monotonic() > deadline:
            return census
        time.sleep(1)
