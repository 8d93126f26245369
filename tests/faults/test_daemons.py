"""Slurm's daemons stop, freeze or die: sessions go on, and a start says why it does not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest

from tests.faults.hubs import FaultHub, daemon
from tests.faults.table import Row, sized
from tests.faults.watch import hurry, token_of, watching
from tests.forms import LONG, of_long_form
from tests.hub.conftest import Person
from tests.inside import eventually, jobs_of, sh

SILENT = ("Slurm does not answer", "Slurm has not answered")
SAYS_WHY_WITHIN_S = 45
SETTLED_WITHIN_S = 60
DECIDED_WITHIN_S = 150  # sbatch itself tries for 45 s, then its job is looked for during a minute


@dataclass(frozen=True)
class Outage:
    """What is done to which daemon, for how long, and how it is undone."""

    fault: str
    begin: Callable[[], object]
    end: Callable[[], object]
    seconds: int
    with_start: bool = (
        True  # another person starts a session meanwhile; without an sbatch that ends that takes a minute
    )


def signalled(number: str, name: str) -> Callable[[], object]:
    """Send a signal to a daemon."""
    return lambda: sh("pkill", f"-{number}", "-x", name)


OUTAGES = (
    Outage(
        "slurmctld stopped",
        lambda: daemon("stop", "slurmctld"),
        lambda: daemon("start", "slurmctld"),
        sized(600, 20),
        LONG,
    ),
    Outage("slurmctld frozen", signalled("STOP", "slurmctld"), signalled("CONT", "slurmctld"), sized(120, 20)),
    Outage("munged dead", signalled("KILL", "munged"), lambda: daemon("start", "munged"), sized(60, 8), LONG),
)


@contextmanager
def during(outage: Outage) -> Iterator[float]:
    """The outage, for its time; what is done meanwhile is a part of it."""
    began = time.monotonic()
    outage.begin()
    try:
        yield began
        time.sleep(max(0.0, outage.seconds - (time.monotonic() - began)))  # the fault's own length
    finally:
        outage.end()


@pytest.mark.parametrize("outage", [of_long_form(OUTAGES[0]), *OUTAGES[1:]], ids=[outage.fault for outage in OUTAGES])
def test_a_session_goes_on_while_slurm_is_silent(
    hub: FaultHub, alice: Person, bob: Person, outage: Outage, row: Row
) -> None:
    row.fault = outage.fault
    job_id = alice.start(gpus="0")
    before, why, token = len(hub.log()), "", token_of(alice)
    with watching(alice) as seen:
        with during(outage) as began:
            hurry(token)
            if outage.with_start:
                assert bob.spawn(gpus="0").status_code == 200
                why = eventually(lambda: words_of_start(bob), "the start says why", within_s=SAYS_WHY_WITHIN_S)
            eventually(lambda: "Slurm does not answer" in hub.log()[before:], "the hub notices", within_s=60)
            assert alice.server()["ready"]
        back = time.monotonic()
        row.done = f"{back - began:.0f} s, a session runs{', another person starts one' * outage.with_start}"
        hurry(token)
        eventually(lambda: "Slurm answers again" in hub.log()[before:], "the hub knows the queue again", within_s=60)
        row.seconds = time.monotonic() - back
        if outage.with_start:
            eventually(lambda: bob.is_ready() or words_of_failure(bob), "Bob's start is decided", DECIDED_WITHIN_S)

    row.seen = f"{seen.good} of {seen.good + len(seen.bad)} requests answered{why and f'; the start: {why}'}"
    row.lost = int(jobs_of("alice") != [job_id])
    assert not seen.bad
    assert alice.is_ready()
    assert row.lost == 0
    eventually(
        lambda: orphans_of(bob) == 0, "a job that was taken after its start had given up is ended", SETTLED_WITHIN_S
    )
    row.orphans = orphans_of(bob)


def orphans_of(person: Person) -> int:
    """Jobs of a person that no session holds."""
    return len(jobs_of(person.name)) - int(bool(person.server()))


def words_of_start(person: Person) -> str:
    """Why a start does not go on, in the words of its page; '' while it only says that it goes on."""
    shown = [*progress(person), words_of_failure(person)]
    return next((words for words in reversed(shown) if any(silent in words for silent in SILENT)), "")


def progress(person: Person) -> list[str]:
    """What the page of a start shows within a second."""
    path = f"/hub/api/users/{person.name}/server/progress"
    found = []
    try:
        with person.http.stream("GET", path, timeout=1.5) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    found.append(str(json.loads(line.removeprefix("data: ")).get("message", "")))
    except httpx.TimeoutException:
        pass
    return found


def words_of_failure(person: Person) -> str:
    """The words of the page of a start that failed; '' when none did."""
    if person.server().get("pending"):
        return ""
    page = person.http.get(f"/hub/spawn-pending/{person.name}").text
    return next((line.strip() for line in page.splitlines() if any(silent in line for silent in SILENT)), "")


def test_without_accounting_sessions_start_run_and_end(hub: FaultHub, alice: Person, bob: Person, row: Row) -> None:
    seconds = sized(60, 5)
    row.fault, row.done = "slurmdbd dead", f"{seconds} s, a session runs, another one starts, one is cancelled"
    job_id = alice.start(gpus="0")
    began = time.monotonic()
    sh("pkill", "-KILL", "-x", "slurmdbd")
    try:
        with watching(alice) as seen:
            bob.start(gpus="0")
            row.seconds = time.monotonic() - began
            time.sleep(max(0.0, seconds - row.seconds))  # the fault's own length
        row.lost = int(jobs_of("alice") != [job_id])
        token = token_of(alice)
        sh("scancel", job_id)
        hurry(token)
        eventually(lambda: not alice.server(), "an end is noticed without accounting", within_s=30)
    finally:
        daemon("start", "slurmdbd")
    row.seen = f"{seen.good} of {seen.good + len(seen.bad)} requests answered; the new session was ready in that time"
    assert row.lost == 0
    assert not seen.bad
    assert "cancelled" in alice.http.get("/hub/home").text
