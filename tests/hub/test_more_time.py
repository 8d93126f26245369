"""More time for a session that runs, on real Slurm: what its limit really is, and who cannot move it."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.hub.conftest import Hub, Person
from tests.inside import VENV_BIN, eventually, sh

EXTENDER = str(VENV_BIN / "portal-extend")
HOUR_S = 3600


def limit_of(job_id: str) -> str:
    """The time limit of a job, as Slurm writes it."""
    return shown(job_id, "TimeLimit")


def shown(job_id: str, field: str) -> str:
    """One field of what Slurm says of a job."""
    found = re.search(rf"\b{field}=(\S+)", sh("scontrol", "show", "job", job_id))
    return found[1] if found else ""


def as_hub(request: dict[str, object]) -> Any:
    """What portal-extend answers to the hub's account."""
    command = f"echo '{json.dumps(request)}' | sudo -n -H -u slurm -- {EXTENDER}"
    return json.loads(sh("sh", "-c", command, user="portal"))


def session(person: Person, method: str, path: str, body: object = None) -> Any:
    """An address of the person's session: status and JSON."""
    cookies = [cookie for cookie in person.http.cookies.jar if cookie.name == "_xsrf"]
    xsrf = next((cookie.value or "" for cookie in cookies if f"/user/{person.name}" in cookie.path), "")
    address = f"/user/{person.name}/dsportal/api/{path}"
    answer = person.http.request(method, address, json=body, headers={"X-XSRFToken": xsrf})
    return answer.status_code, answer.json()


@pytest.fixture
def job_id(alice: Person) -> str:
    """Alice's session of one hour."""
    return alice.start(gpus="0", hours="1", partition="sxm2")


def test_the_limit_of_the_job_is_another_one_for_slurm_the_hub_and_the_session(
    alice: Person, job_id: str, hub: Hub
) -> None:
    assert session(alice, "GET", "time")[1]["may_extend"]
    offer = alice.api("GET", "/dsportal/extend/alice").json()
    assert (offer["minutes"], offer["times_left"]) == (240, 2)

    given = alice.api("POST", "/dsportal/extend/alice", {"minutes": 120})

    assert given.status_code == 200, given.text
    assert limit_of(job_id) == "03:00:00"
    assert shown(job_id, "AdminComment") == "dsportal-extended=1"
    assert given.json()["ends_at"] == offer["ends_at"] + 2 * HOUR_S
    assert f"Job {job_id} of alice got 120 min more, asked for by alice" in hub.log()
    home_page = alice.http.get("/hub/home").text
    assert "Time limit</dt><dd>3 h<" in home_page, "the hub knows the new end at once"

    status, told = session(alice, "POST", "extend", {"minutes": 60})  # what the Lab's button does

    assert (status, limit_of(job_id), told["times_left"]) == (200, "04:00:00", 0)
    assert session(alice, "GET", "time")[1]["ends_at"] == told["ends_at"] == offer["ends_at"] + 3 * HOUR_S
    status, told = session(alice, "POST", "extend", {"minutes": 60})
    assert (status, limit_of(job_id)) == (409, "04:00:00")
    assert "as often as this site allows (2 times). Save your work" in told["message"]


def test_more_than_is_allowed_is_refused_with_what_is(alice: Person, job_id: str) -> None:
    for body, words in (
        ({"minutes": 241}, "Allowed: up to 4 h more. Ask for less."),
        ({"minutes": -5}, "the body is"),
        ({"minutes": "60 AdminComment=dsportal-extended=0"}, "the body is"),
        ({"minutes": 60, "job_id": "1"}, "the body is"),
        ([], "the body is"),
    ):
        answer = alice.api("POST", "/dsportal/extend/alice", body)
        assert (answer.status_code, words in answer.json()["message"]) == (400, True), answer.text
    assert limit_of(job_id) == "01:00:00"


@pytest.mark.long
def test_a_reservation_of_the_node_is_not_run_into(alice: Person, job_id: str) -> None:
    node = sh("squeue", "-h", "-j", job_id, "-o", "%N").strip()
    ends_at = alice.api("GET", "/dsportal/extend/alice").json()["ends_at"]
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(ends_at + 1800))
    what = ("Users=root", f"Nodes={node}", "Flags=MAINT,IGNORE_JOBS", f"StartTime={start}", "Duration=60")
    sh("scontrol", "create", "reservation", "ReservationName=maintenance", *what)
    try:
        offer = alice.api("GET", "/dsportal/extend/alice").json()
        refused = alice.api("POST", "/dsportal/extend/alice", {"minutes": 60})
    finally:
        sh("scontrol", "delete", "ReservationName=maintenance")
    assert offer["minutes"] == 30
    assert (refused.status_code, limit_of(job_id)) == (400, "01:00:00")


def test_nobody_moves_the_end_in_another_way(people: dict[str, Person], job_id: str) -> None:
    alice, bob = people["alice"], people["bob"]
    with pytest.raises(AssertionError, match="denied"):
        sh("scontrol", "update", f"JobId={job_id}", "TimeLimit=300", user="alice")
    with pytest.raises(AssertionError, match=r"denied|Only"):
        sh("scontrol", "update", f"JobId={job_id}", "AdminComment=dsportal-extended=0", user="alice")
    assert bob.api("POST", "/dsportal/extend/alice", {"minutes": 60}).status_code in (403, 404)
    assert alice.http.post("/hub/api/dsportal/extend", json={"minutes": 60}).status_code == 403
    asked = json.dumps({"verb": "look", "person": "alice", "key": "0" * 16, "job_id": job_id})
    answer = json.loads(sh("sh", "-c", f"echo '{asked}' | {EXTENDER}", user="alice"))
    assert "this runs as alice" in answer["message"]
    assert limit_of(job_id) == "01:00:00"


def test_the_hubs_account_moves_the_end_of_sessions_alone(people: dict[str, Person], job_id: str) -> None:
    key = shown(job_id, "JobName").removeprefix("dsportal-")
    ours: dict[str, object] = {"verb": "extend", "person": "alice", "key": key, "job_id": job_id, "minutes": 60}
    command = (
        "sbatch",
        "--parsable",
        "--partition=sxm2",
        "--mem=100",
        "--time=60",
        "--output=/dev/null",
        "--wrap=sleep 60",
    )
    others = sh(*command, user="alice").strip()
    eventually(lambda: "RUNNING" in sh("squeue", "-h", "-j", others, "-o", "%T"), "the other job runs")

    assert as_hub({**ours, "job_id": others})["refused"] == "other"
    assert as_hub({**ours, "person": "bob"})["refused"] == "other"
    assert as_hub({**ours, "minutes": 6000})["refused"] == "asked"
    assert "the verbs are" in as_hub({**ours, "verb": "submit"})["message"]
    assert (limit_of(job_id), limit_of(others)) == ("01:00:00", "01:00:00")
