"""A node dies under a session: Slurm puts the job back, and the same session goes on at another node."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.faults.hubs import FaultHub, daemon
from tests.faults.table import Row
from tests.forms import LONG
from tests.hub.conftest import Person
from tests.inside import eventually, jobs_of, sh, start_again

NOTICED_WITHIN_S = 120.0  # SlurmdTimeout is 30 s here, and Slurm looks every now and then
BACK_WITHIN_S = 60.0


@pytest.fixture
def broken() -> Iterator[list[str]]:
    """The nodes that a test breaks; they are whole again afterwards."""
    nodes: list[str] = []
    yield nodes
    for node in nodes:
        daemon("start", f"slurmd-{node}")
        sh("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        eventually(partial(is_up, node), f"{node} is up again", within_s=60)


def test_a_session_whose_node_crashes_goes_on_at_another_node(
    hub: FaultHub, alice: Person, broken: list[str], row: Row
) -> None:
    row.fault = "node crash, requeue"
    row.done = "kill -9 of slurmd, slurmstepd and all processes of the node" + ("" if LONG else "; set down by hand")
    job_id = alice.start(gpus="0")
    node, before = node_of(job_id), len(hub.log())

    broken.append(node)
    crash(node, job_id)
    if not LONG:
        sh("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=crashed")
    eventually(lambda: "was requeued" in hub.log()[before:], "the hub notices", within_s=NOTICED_WITHIN_S)
    assert alice.server(), "the session is kept while it waits"
    start_again(job_id)
    requeued = time.monotonic()
    eventually(lambda: "continues at" in hub.log()[before:], "the session has a new address", within_s=BACK_WITHIN_S)
    eventually(alice.is_ready, "the session answers there", within_s=BACK_WITHIN_S)

    row.seconds, row.lost = time.monotonic() - requeued, int(jobs_of("alice") != [job_id])
    row.orphans = len(jobs_of("alice")) - 1
    row.seen = f"the same job {job_id} on {node_of(job_id)} instead of {node}; seconds without Slurm's own two minutes"
    assert row.lost == 0
    assert node_of(job_id) != node


def node_of(job_id: str) -> str:
    """Where a job runs."""
    return sh("squeue", "--noheader", f"--jobs={job_id}", "--format=%N").strip()


def state_of(node: str) -> str:
    """A node's state."""
    return sh("sinfo", "--noheader", f"--nodes={node}", "--format=%t").split()[0]


def is_up(node: str) -> bool:
    return state_of(node).strip("*") in ("idle", "mix")


def crash(node: str, job_id: str) -> None:
    """kill -9 of a node's slurmd and of everything of its job, as if the power were gone."""
    sh("pkill", "-KILL", "-f", f"^slurmd -D -N {node}$")
    steps = [int(pid) for pid in sh("pgrep", "-f", rf"^slurmstepd: \[{job_id}\.").split()]
    for pid in with_children(steps):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def with_children(pids: list[int]) -> list[int]:
    """These processes and all below them."""
    parents = [tuple(map(int, line.split())) for line in sh("ps", "-e", "-o", "pid=,ppid=").splitlines()]
    children = [pid for pid, parent in parents if parent in pids]
    return [*pids, *(with_children(children) if children else [])]
