"""Clocks that are an hour off, and jump back: of the hub, of the controller, of a node. No session moves or ends."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.hubs import FaultHub, daemon
from tests.faults.table import Row
from tests.faults.test_node_crash import node_of
from tests.forms import LONG
from tests.hub.conftest import Person
from tests.inside import eventually, jobs_of, sh, start_again

LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
OFFSETS = ("+3600", "-3600") if LONG else ("+3600",)


def off_by(seconds: str) -> dict[str, str]:
    """The variables with which a process has another time of day; how fast time goes stays the same."""
    return {"LD_PRELOAD": LIBRARY, "FAKETIME": seconds, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.mark.parametrize("offset", ["-3600", "+3600"] if LONG else ["-3600"])
def test_a_hub_whose_clock_is_an_hour_off_keeps_follows_and_starts_sessions(
    hub: FaultHub, alice: Person, bob: Person, offset: str, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    row.fault = f"clock of the hub {offset} s"
    row.done = "restarted with it; a session runs, is requeued, another one starts; restarted with the right time"
    job_id = alice.start(gpus="0")
    hub.stop()
    before = len(hub.log())
    with monkeypatch.context() as there:
        for name, value in off_by(offset).items():
            there.setenv(name, value)
        hub.start()
    eventually(alice.is_ready, "the session is there", within_s=60)
    assert "was requeued" not in hub.log()[before:]
    other = bob.start(gpus="0")

    began = time.monotonic()
    sh("scontrol", "requeue", job_id)
    eventually(lambda: "was requeued" in hub.log()[before:], "the hub notices", within_s=60)
    start_again(job_id)
    eventually(lambda: "continues at" in hub.log()[before:], "the session has a new address", within_s=60)
    row.seconds = time.monotonic() - began
    hub.stop()
    before = len(hub.log())
    hub.start()
    eventually(alice.is_ready, "the session is there", within_s=60)

    row.lost = int((jobs_of("alice"), jobs_of("bob")) != ([job_id], [other]))
    assert "was requeued" not in hub.log()[before:]
    assert row.lost == 0


@pytest.mark.long
@pytest.mark.parametrize("offset", OFFSETS)
def test_a_controller_whose_clock_is_an_hour_off_moves_no_session(
    hub: FaultHub, alice: Person, offset: str, row: Row
) -> None:
    row.fault = f"clock of slurmctld {offset} s"
    row.done = "restarted with it, then with the right time; a session runs"
    job_id = alice.start(gpus="0")
    before = len(hub.log())
    with other_clock("slurmctld", ["runuser", "-u", "slurm", "--"], ["slurmctld", "-D"], offset):
        eventually(lambda: "UP" in sh("scontrol", "ping", check=False), "slurmctld answers", within_s=60)
        hub.kill()
        hub.start()
        eventually(alice.is_ready, "the session is there", within_s=60)
    hub.kill()
    hub.start()
    eventually(alice.is_ready, "the session is there", within_s=60)

    row.lost = int(jobs_of("alice") != [job_id] or "was requeued" in hub.log()[before:])
    assert row.lost == 0


@pytest.mark.long
@pytest.mark.parametrize("offset", OFFSETS)
def test_a_node_whose_clock_is_an_hour_off_moves_no_session(
    hub: FaultHub, alice: Person, offset: str, row: Row
) -> None:
    row.fault = f"clock of a node {offset} s"
    row.done = "its slurmd restarted with it, then with the right time; a session runs there"
    job_id = alice.start(gpus="0")
    node = node_of(job_id)
    before = len(hub.log())
    with other_clock(f"slurmd-{node}", [], ["slurmd", "-D", "-N", node], offset):
        eventually(lambda: sh("sinfo", "-h", f"-n{node}", "-o%t").strip() in ("mix", "alloc"), "it is up", within_s=60)
        hub.kill()
        hub.start()
        eventually(alice.is_ready, "the session is there", within_s=60)

    row.lost = int(jobs_of("alice") != [job_id] or "was requeued" in hub.log()[before:])
    assert row.lost == 0


@contextmanager
def other_clock(name: str, as_account: list[str], command: list[str], offset: str) -> Iterator[None]:
    """Meanwhile a daemon runs with another time of day; then with the right one again."""
    daemon("stop", name)
    variables = [f"{key}={value}" for key, value in off_by(offset).items()]
    process = subprocess.Popen([*as_account, "env", *variables, *command], cwd="/", env=dict(os.environ))
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)
        daemon("start", name)
