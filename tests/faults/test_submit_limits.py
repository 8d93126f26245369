"""A Slurm that lets a person submit one job: a change of what waits needs a second one, is refused, and says so."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.hubs import FaultHub, daemon
from tests.forms import of_long_form
from tests.hub.conftest import Person
from tests.inside import eventually, jobs_of, sh

SLURM_CONF = Path("/cluster/etc/slurm.conf")
CHANGE = "/hub/dsportal/change/alice"
NONE = "-1"


@pytest.fixture(scope="module")
def enforced() -> Iterator[None]:
    """A Slurm that holds people to the limits of its accounting; of these people it knows alice."""
    text = SLURM_CONF.read_text()
    sacctmgr("add", "account", "ai")
    sacctmgr("add", "user", "alice", "account=ai")
    SLURM_CONF.write_text(f"{text}AccountingStorageEnforce=limits,qos\n")
    daemon("restart", "slurmctld")
    yield
    sh("scancel", "--user=alice")
    eventually(lambda: not jobs_of("alice"), "no job is left")
    SLURM_CONF.write_text(text)
    daemon("restart", "slurmctld")
    sacctmgr("delete", "user", "alice")
    sacctmgr("delete", "account", "ai")


def sacctmgr(*words: str) -> None:
    sh("sacctmgr", "--immediate", *words)


@pytest.fixture(scope="module")
def full(enforced: None) -> Iterator[None]:
    """What is submitted waits."""
    sh("scontrol", "update", "PartitionName=sxm2", "State=DOWN")
    yield
    sh("scontrol", "update", "PartitionName=sxm2", "State=UP")


def change(alice: Person) -> httpx.Response:
    """Ask for another number of hours while the job waits."""
    alice.http.get(CHANGE)
    wanted = {"partition": "sxm2", "gpus": "0", "hours": "2"}
    return alice.http.post(CHANGE, params={"_xsrf": alice.xsrf}, data=wanted)


@pytest.mark.parametrize(
    ("whose", "limit", "named"),
    [
        of_long_form("user", "MaxSubmitJobs", "AssocMaxSubmitJobLimit"),
        of_long_form("account", "GrpSubmitJobs", "AssocGrpSubmitJobsLimit"),
        ("qos", "MaxSubmitJobsPerUser", "QOSMaxSubmitJobPerUserLimit"),
    ],
)
def test_with_a_limit_of_one_job_the_one_that_waits_waits_on_and_the_page_says_why(
    hub: FaultHub, full: None, alice: Person, whose: str, limit: str, named: str
) -> None:
    name = {"user": "alice", "account": "ai", "qos": "normal"}[whose]
    sacctmgr("modify", whose, name, "set", f"{limit}=1")
    try:
        alice.spawn(gpus="0", partition="sxm2", hours="1")
        (job_id,) = eventually(lambda: jobs_of("alice"), "the job waits")
        eventually(lambda: alice.server().get("pending") == "spawn", "the start is known")

        answer = change(alice)
    finally:
        sacctmgr("modify", whose, name, "set", f"{limit}={NONE}")

    page = html.unescape(answer.text)
    assert answer.status_code == 400
    assert "Slurm lets you have no more jobs than you have now" in page
    assert "stop what waits, and start it anew" in page
    assert named in page, "Slurm's own words are below"
    assert jobs_of("alice") == [job_id]
    assert sh("squeue", "--noheader", f"--jobs={job_id}", "--format=%T %l").split() == ["PENDING", "1:00:00"]
    assert alice.server().get("pending") == "spawn"
