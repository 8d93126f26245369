"""Single jobs in JSON: the same job in the shapes of each Slurm, and answers that are not whole."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

import pytest

from portal import slurm_json
from portal.errors import SlurmUnavailable
from portal.slurm import Phase

START = 1_795_194_704


def set_to(number: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": number}


NOT_SET = {"set": False, "infinite": False, "number": 0}
NO_LIMIT = {"set": False, "infinite": True, "number": 0}
OLD = {
    "job_id": 7,
    "job_state": "FAILED",
    "name": "dsportal-0",
    "user_name": "alice",
    "partition": "sxm2",
    "nodes": "gpu01",
    "tres_alloc_str": "cpu=8,mem=48G,node=1,billing=8,gres/gpu=1,gres/gpu:v100=1",
    "tres_req_str": "cpu=8,gres/gpu=1",
    "exit_code": 768,
    "state_reason": "NonZeroExitCode",
    "state_description": "",
    "comment": "",
    "submit_time": START,
    "start_time": START + 1,
    "end_time": START + 61,
    "time_limit": 60,
}
LATER = OLD | {
    "job_state": ["FAILED"],
    "exit_code": {
        "status": ["ERROR"],
        "return_code": set_to(3),
        "signal": {"id": NOT_SET, "name": ""},
    },
    "submit_time": set_to(START),
    "start_time": set_to(START + 1),
    "end_time": set_to(START + 61),
    "time_limit": set_to(60),
}
PLAIN = LATER | {  # +complex
    "exit_code": {"status": ["ERROR"], "return_code": 3, "signal": {"id": None, "name": None}},
    "submit_time": START,
    "start_time": START + 1,
    "end_time": START + 61,
    "time_limit": 60,
    "comment": None,
}


def answer(*jobs: dict[str, Any], release: str = "24.05.8", **more: Any) -> str:
    meta = {"Slurm" if release < "23.11" else "slurm": {"release": release}}
    return json.dumps({"meta": meta, "errors": [], "warnings": [], "jobs": list(jobs)} | more)


def only(job: dict[str, Any], **changes: Any) -> slurm_json.JsonJob:
    (found,) = slurm_json.jobs_of_json(answer(job | changes)).values()
    return found


@pytest.mark.parametrize(
    "job", [OLD, OLD | {"exit_code": set_to(768)}, LATER, PLAIN], ids=["22.05", "23.02", "24.05", "+complex"]
)
def test_a_job_reads_the_same_in_every_shape(job: dict[str, Any]) -> None:
    assert only(job) == slurm_json.JsonJob(
        id="7",
        states=("FAILED",),
        name="dsportal-0",
        user="alice",
        partition="sxm2",
        node="gpu01",
        gpus=1,
        exit_code="3:0",
        reason="NonZeroExitCode",
        comment="",
        submitted_at=datetime.fromtimestamp(START),
        starts_at=datetime.fromtimestamp(START + 1),
        ends_at=datetime.fromtimestamp(START + 61),
    )


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (None, None),
        (set_to(3), 3),
        (NOT_SET, None),
        (NO_LIMIT, math.inf),
        ("Infinity", math.inf),
        (0.5, 0.5),
    ],
)
def test_a_number_has_four_shapes(value: object, number: float | None) -> None:
    assert slurm_json.number(value) == number


@pytest.mark.parametrize("value", ["3", [3], True, {"set": True}, {"number": 3}])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(SlurmUnavailable) as caught:
        only(OLD, start_time=value)

    assert "squeue --json" in caught.value.detail


@pytest.mark.parametrize(
    ("states", "state", "phase"),
    [
        (["CANCELLED", "COMPLETING"], "COMPLETING", Phase.RUNNING),
        (["RUNNING", "CONFIGURING"], "CONFIGURING", Phase.WAITING),
        (["PENDING", "SPECIAL_EXIT"], "SPECIAL_EXIT", Phase.WAITING),
        ("COMPLETING", "COMPLETING", Phase.RUNNING),
        (["COMPLETED"], "COMPLETED", Phase.ENDED),
        (["COMPLETED", "TELEPORTING"], "COMPLETED", Phase.UNKNOWN),
    ],
)
def test_of_several_states_the_one_that_squeue_prints_counts(states: object, state: str, phase: Phase) -> None:
    job = only(LATER, job_state=states)

    assert (job.state, job.phase) == (state, phase)


@pytest.mark.parametrize("states", [[], None, "", [1], {"RUNNING": True}])
def test_a_job_without_a_state_is_refused(states: object) -> None:
    with pytest.raises(SlurmUnavailable):
        only(LATER, job_state=states)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0:0"),
        (253, "0:125"),
        (4021, "0:53"),
        (set_to(11), "0:11"),
        ({"status": ["SIGNALED"], "return_code": NOT_SET, "signal": {"id": set_to(125), "name": "125"}}, "0:125"),
    ],
)
def test_exit_codes_are_written_as_scontrol_writes_them(value: object, text: str) -> None:
    assert only(OLD, exit_code=value).exit_code == text


@pytest.mark.parametrize("unknown", [0, set_to(0), NOT_SET, None])
def test_a_time_of_zero_is_not_known(unknown: object) -> None:
    assert only(LATER, start_time=unknown).starts_at is None


@pytest.mark.parametrize("limit", [None, NO_LIMIT, "Infinity"])
def test_a_job_without_a_limit_has_no_end_until_it_has_ended(limit: object) -> None:
    assert only(LATER, job_state=["RUNNING"], time_limit=limit).ends_at is None
    assert only(LATER, time_limit=limit).ends_at is not None


def test_the_long_reason_is_taken_where_there_is_one() -> None:
    assert only(OLD, state_reason="RaisedSignal", state_description="RaisedSignal:11(x)").reason == "RaisedSignal:11(x)"
    assert only(OLD, state_reason="None").reason == ""


def test_gpus_are_those_given_or_else_those_asked_for() -> None:
    assert only(OLD, tres_alloc_str="", tres_req_str="cpu=1,gres/gpu=12").gpus == 12
    assert only(OLD, tres_alloc_str="cpu=1,gres/gpu:v100=4", tres_req_str="gres/gpu=4").gpus == 0


QOS = {"source": "slurmdb_qos_get", "description": "Slurmdb query failed"}


@pytest.mark.parametrize(
    ("release", "errors", "is_believed"),
    [
        ("22.05.8", [{"source": "slurm_load_jobs"}], False),
        ("23.02.8", [QOS], False),
        ("23.11.11", [QOS], True),
        ("24.05.8", [QOS, QOS], True),
        ("24.05.8", [QOS, {"source": "slurm_load_jobs"}], False),
        ("24.05.8", [{"description": "no source"}], False),
    ],
)
def test_an_answer_with_errors_is_believed_only_where_all_jobs_are_known_to_be_there(
    release: str, errors: list[dict[str, str]], is_believed: bool
) -> None:
    text = answer(LATER, release=release, errors=errors)

    if is_believed:
        assert slurm_json.job_of_json(text, "7") is not None
    else:
        with pytest.raises(SlurmUnavailable) as caught:
            slurm_json.job_of_json(text, "7")
        assert json.dumps(errors) in caught.value.detail


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[]",
        "{}",
        answer(OLD)[:-20],
        answer(OLD, OLD),
        answer(OLD, jobs=None),
        answer(OLD, errors=None),
        answer(OLD, errors=[QOS], meta={}),
        answer({"job_id": 7}),
        answer(OLD | {"job_id": None}),
        answer(OLD | {"name": 7}),
        answer(OLD | {"end_time": 1e300}),
    ],
)
def test_an_answer_that_cannot_be_read_is_refused_and_never_an_empty_queue(text: str) -> None:
    with pytest.raises(SlurmUnavailable):
        slurm_json.jobs_of_json(text)


def test_a_whole_answer_without_the_job_says_that_it_is_not_there() -> None:
    assert slurm_json.job_of_json(answer(OLD), "8") is None
    assert slurm_json.jobs_of_json(answer()) == {}


def test_one_job_is_asked_for_with_its_end() -> None:
    assert slurm_json.job_json_command("7")[-2:] == ("--states=all", "--jobs=7")
    assert "--json" in slurm_json.queue_json_command()
