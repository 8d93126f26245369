"""Hours of many sessions with faults of all kinds, in minutes: what must be true after each of them.

``DSPORTAL_SEED`` runs one seed again; ``DSPORTAL_FORM=long`` is the long form: 1,000 people, 24 hours.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.site import Site, parse
from portal.testing.behaviours import Completes, PendingForever
from tests.faults.table import FOLDER, Row, sized, table
from tests.forms import LONG
from tests.simulation.faults import FAULTS
from tests.simulation.story import InvariantBroken, Plan, Simulation

EXAMPLE = Path(__file__).parents[2] / "deploy" / "site" / "site.toml.example"
SEED = 51
GROWTH = 1.15  # of Python's objects, between the first hours and the last ones


@pytest.fixture
def site() -> Site:
    """The example site."""
    return parse(tomllib.loads(EXAMPLE.read_text()))


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that fails on purpose fills no log, and its people have accounts."""

    async def has_account(name: str) -> bool:
        return True

    monkeypatch.setattr("portal.slurm.submission.is_account", has_account)
    logging.getLogger("portal").setLevel(logging.CRITICAL)


def seed() -> int:
    """The seed that was given; else always the same one in `make test`, and a new one in the long form."""
    return int(os.environ.get("DSPORTAL_SEED") or (secrets.randbelow(10**6) if LONG else SEED))


def test_whatever_fails_every_session_has_its_one_job_and_every_job_its_session(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(sized(1000, 100), sized(24, 3), seed(), longest_s=sized(1200, 300))
    with capsys.disabled():
        print(f"\nsimulation: DSPORTAL_SEED={plan.seed}, {plan.people} people, {plan.hours} hours", flush=True)
    simulation = Simulation(plan, site, _shown(capsys) if LONG else _unseen)
    began = time.process_time()

    seen = simulation.run()

    assert set(seen.faults) == set(FAULTS), f"seed {plan.seed}: each fault has its turn"
    assert seen.sessions > plan.people
    assert seen.checks > 100
    assert simulation.growth() < GROWTH, f"seed {plan.seed}: {seen.objects}"
    row = Row(
        f"{seen.faults.total()} faults in {plan.hours} simulated hours",
        f"{plan.people} people, {seen.sessions} sessions, {seen.kills} kills of the hub",
        lost=0,
        orphans=0,
        doubles=0,
        seconds=seen.longest_s,
        seen=f"seed {plan.seed}, {time.process_time() - began:.0f} s, {seen.most_queries_per_min} queries/min at most",
        result="as promised",
    )
    (FOLDER / "simulation.txt").write_text(f"The simulation, {'long' if LONG else 'short'} form\n\n{table([row])}")
    with capsys.disabled():
        print(table([row]))


def _shown(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    began = time.monotonic()

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    return show


def _unseen(line: str) -> None:
    pass


def test_a_run_with_the_same_seed_is_the_same_run(site: Site) -> None:
    first = Simulation(Plan(10, 1, 7), site)
    second = Simulation(Plan(10, 1, 7), site)

    first.run()
    second.run()

    assert list(first.world.story) == list(second.world.story)
    assert (first.seen.queries, first.seen.sessions) == (second.seen.queries, second.seen.sessions)


def test_a_job_that_nobody_holds_is_told_with_the_seed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariants see what they are there for: a hub that settles nothing."""
    monkeypatch.setattr("portal.hub.watch.SessionWatch._settle", _nothing)
    simulation = Simulation(Plan(5, 1, 1, faults=["accounting is dead"]), site)
    simulation.world.start(_orphan(simulation))

    with pytest.raises(
        InvariantBroken, match=r"(?s)seed 1, 5 people.*orphan abc1230000000001: the job 1 belongs to no"
    ):
        simulation.run()


async def _nothing(*_: object) -> None:
    return


async def _orphan(simulation: Simulation) -> None:
    slurm = simulation.world.slurm
    slurm.next_job(PendingForever())  # one that runs ends itself when the hub refuses it
    slurm.take("person0001", {"job-name": "dsportal-abc1230000000001", "partition": "sxm2", "time": "600"})


def test_somebodys_own_job_that_is_cancelled_is_told(site: Site) -> None:
    simulation = Simulation(Plan(2, 0.2, 1, faults=["accounting is dead"]), site)
    world = simulation.world
    job = world.slurm.take("person0001", {"job-name": "training"})
    world.slurm.happens(job.id, Completes(after_s=3600))
    world.foreign.append(job)
    world.start(_cancel(simulation, job.id))

    with pytest.raises(InvariantBroken, match="person0001's own job 1 'training' was cancelled"):
        simulation.run()


async def _cancel(simulation: Simulation, job_id: str) -> None:
    request = f'{{"verb": "finish", "key": "abc1230000000001", "job_id": "{job_id}"}}'
    simulation.world.slurm.jobs[job_id].options = {"job-name": "dsportal-abc1230000000001"}
    await simulation.world.slurm(("sudo", "--user", "person0001"), request)
    simulation.world.slurm.jobs[job_id].options = {"job-name": "training"}
