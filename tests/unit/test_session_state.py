"""What the hub keeps of a session: read again whole, also as the version before wrote it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from portal.session_state import Announcement, Place, SessionState

RECORDED = json.loads((Path(__file__).with_name("states_before_0_1_0.json")).read_text())
RUNNING = SessionState(
    "abc1230123456789", "17", "token", 40123, Announcement(40123, 1), Place("gpu01", 1795250001), 1, 1795250000
)


@pytest.mark.parametrize("state", [SessionState(), SessionState(last_end="It ended."), SessionState("abc123"), RUNNING])
def test_what_is_written_is_read_again(state: SessionState) -> None:
    assert SessionState.from_json(json.loads(json.dumps(state.to_json()))) == state


def test_without_a_session_nothing_is_kept_but_why_the_last_one_ended() -> None:
    assert SessionState().to_json() == {}
    assert SessionState(last_end="It ended.").to_json() == {"last_end": "It ended."}


@pytest.mark.parametrize(("name", "waits"), [("running", False), ("waiting", True), ("requeued", True)])
def test_a_state_saved_by_a_version_before_is_read_and_what_is_written_is_understood_there(
    name: str, waits: bool
) -> None:
    """So sessions go on through an upgrade, and through the way back: there only the run of the job is not known."""
    saved = RECORDED[name]

    state = SessionState.from_json(saved)

    assert state.is_waiting is waits
    assert (state.key, state.job_id, state.port) == (saved["key"], saved["job_id"], saved["port"])
    written = state.to_json()
    assert {name: written.get(name) for name in saved} == {**saved, "place": None, "told": None}


def test_the_local_time_of_a_run_is_a_moment_now() -> None:
    state = SessionState.from_json(RECORDED["running"])

    assert state.place
    assert datetime.fromtimestamp(state.place.started).isoformat() == RECORDED["running"]["place"][1]


def test_a_state_saved_before_sbatch_answered_waits() -> None:
    state = SessionState.from_json(RECORDED["submitting"])

    assert state.is_waiting
    assert state.job_id == ""
