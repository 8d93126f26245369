"""A squeue that answers nonsense: a session that runs and one that waits are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from portal.slurm.jobs import squeue_command
from portal.testing.bad_answers import bad_answers
from tests.faults.hubs import FaultHub
from tests.faults.table import Row
from tests.faults.watch import hurry, token_of, watching
from tests.forms import LONG
from tests.hub.conftest import Person
from tests.inside import eventually, jobs_of, sh

POLLS = 2
EVERY = 1 if LONG else 8  # the short form takes each eighth of them
CLOSED = "requestq"


@pytest.fixture
def waiting(bob: Person) -> Iterator[str]:
    """Bob's session waits. The id of its job."""
    sh("scontrol", "update", f"PartitionName={CLOSED}", "State=DOWN")
    bob.spawn(gpus="0", partition=CLOSED)
    (job_id,) = eventually(lambda: jobs_of("bob"), "Bob's job waits")
    yield job_id
    sh("scontrol", "update", f"PartitionName={CLOSED}", "State=UP")


def test_no_bad_answer_of_squeue_ends_a_session(
    hub: FaultHub, alice: Person, bob: Person, waiting: str, row: Row
) -> None:
    running = alice.start(gpus="0")
    answers = list(bad_answers(sh(*squeue_command(), user="portal"), running).items())[::EVERY]
    row.fault, row.done = "squeue answers nonsense", f"{len(answers)} canned answers, each at least {POLLS} times"
    assert len(answers) >= 25 // EVERY
    held = {"alice": running, "bob": waiting}
    slowest, lost, token = 0.0, [], token_of(alice)
    with watching(alice) as seen:
        for name, answer in answers:
            with hub.squeue.says(answer):
                enough = hub.squeue.asked() + POLLS
                eventually(partial(asked, hub, token, enough), f"{name}: asked", within_s=60)
            started = time.monotonic()
            lost += [f"{name}: {person.name}" for person in (alice, bob) if not is_held(person, held)]
            eventually(lambda: answers_again(hub, token), f"the hub knows the queue after {name}", within_s=30)
            slowest = max(slowest, time.monotonic() - started)

    row.lost, row.seconds = len(lost), slowest
    row.orphans = len([*jobs_of("alice"), *jobs_of("bob")]) - len(held)
    row.seen = f"{seen.good} of {seen.good + len(seen.bad)} requests to the session answered"
    assert not lost
    assert not seen.bad
    assert (jobs_of("alice"), jobs_of("bob")) == ([running], [waiting])
    sh("scontrol", "update", f"PartitionName={CLOSED}", "State=UP")
    eventually(bob.is_ready, "Bob's session starts when there is room", within_s=60)


def is_held(person: Person, jobs: dict[str, str]) -> bool:
    """True when the hub shows the session as it was: Alice's runs, Bob's waits, each with its job."""
    server = person.server()
    as_before = server.get("ready") if person.name == "alice" else server.get("pending") == "spawn"
    return bool(as_before) and jobs_of(person.name) == [jobs[person.name]]


def asked(hub: FaultHub, token: str, times: int) -> bool:
    """True when the hub has got bad answers so often."""
    hurry(token)
    return hub.squeue.asked() >= times


def answers_again(hub: FaultHub, token: str) -> bool:
    """True when the last thing that the hub logged about Slurm is that it answers."""
    hurry(token)
    words = [line for line in hub.log().splitlines() if "Slurm does not answer" in line or "Slurm answers" in line]
    return not words or "Slurm answers again" in words[-1]
