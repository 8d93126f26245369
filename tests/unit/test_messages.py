"""What a person is told about a session."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from portal.request import SessionRequest
from portal.site import Site
from portal.slurm.accounting import JobEnd
from portal.slurm.jobs import Job
from portal.slurm.outlook import Outlook
from spawners import messages

WAITING = Job("8", "PENDING", "sxm2", "bob", reason="Resources", submitted_at=datetime(2026, 11, 21, 9).astimezone())


def test_a_waiting_job_says_why_and_when_at_the_earliest() -> None:
    later = replace(WAITING, starts_at=datetime(2026, 11, 21, 14, 20).astimezone())

    assert messages.view(WAITING).text == "Job 8 waits: all fitting GPUs, cores or memory are in use."
    assert messages.view(later).text.endswith(
        f"expects it to start at {later.starts_at:%H:%M %Z}, earlier if other jobs end before their limit."
    )


def test_a_waiting_job_says_its_place_what_is_free_and_what_maintenance_comes() -> None:
    maintenance = datetime(2026, 11, 23, 6).astimezone()
    outlook = Outlook(position=3, gpus_free=5, gpus_on_one_node=2, maintenance_at=maintenance)

    words = messages.view(WAITING, outlook=outlook).text

    assert "2 jobs are ahead of it." in words
    assert "Free GPUs now: 5, at most 2 on one node." in words
    assert f"A maintenance begins Monday 23 November, {maintenance:%H:%M %Z}" in words
    assert "No GPU is free now." in messages.view(WAITING, outlook=Outlook(gpus_free=0)).text
    assert "It is the next" in messages.view(WAITING, outlook=Outlook(position=1)).text
    held = replace(WAITING, reason="JobHeldAdmin")
    assert (
        messages.view(held, outlook=outlook).text == "Job 8 waits: an administrator holds the job until it is released."
    )


@pytest.mark.parametrize(("reason", "words"), [("JobHeldUser", "scontrol release"), ("JobHeldAdmin", "administrator")])
def test_a_held_job_has_words_and_no_expected_start(reason: str, words: str) -> None:
    held = replace(WAITING, reason=reason, starts_at=datetime(2026, 11, 21, 14, 20).astimezone())

    assert words in messages.view(held).text
    assert "expects" not in messages.view(held).text


def test_what_a_screen_reader_says_changes_with_state_place_and_reason_alone() -> None:
    early = datetime(2026, 11, 21, 14, 20).astimezone()
    few = Outlook(position=2, gpus_free=0, gpus_on_one_node=0)
    free = Outlook(position=2, gpus_free=8, gpus_on_one_node=4)

    heard = messages.view(WAITING, outlook=few).event["heard"]
    again = messages.view(replace(WAITING, starts_at=early), outlook=free).event

    assert again["heard"] == heard == "Job 8 waits: all fitting GPUs, cores or memory are in use. 1 job is ahead of it."
    assert again["message"] != heard
    assert messages.view(WAITING, outlook=Outlook(position=1)).event["heard"] != heard
    assert messages.view(WAITING, stale_s=12).event["heard"] == messages.view(WAITING, stale_s=14).event["heard"]
    assert messages.view(None).event["heard"] == messages.view(None).text


def test_a_reason_of_slurm_that_has_a_comma_is_shown_whole() -> None:
    reason = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"

    assert f"Slurm's reason: {reason}." in messages.view(replace(WAITING, reason=reason)).text


def test_a_suspended_job_is_told_as_such() -> None:
    assert "is suspended on gpu01" in messages.view(Job("8", "SUSPENDED", "sxm2", "bob", "gpu01")).text


@pytest.mark.parametrize(("ends_h", "hours"), [(8, 8), (12, 12), (2.5, 2.5)])
def test_a_time_limit_that_was_changed_is_shown(site: Site, ends_h: float, hours: float) -> None:
    begin = datetime(2026, 11, 21, 9).astimezone()
    job = Job("8", "RUNNING", "sxm2", "bob", "gpu01", starts_at=begin, ends_at=begin + timedelta(hours=ends_h))

    assert messages.facts(SessionRequest(hours=8), site, "8", job)["hours"] == hours


def test_the_start_that_slurm_expects_is_not_told_as_a_start(site: Site) -> None:
    later = replace(WAITING, starts_at=datetime(2026, 11, 21, 14, 20).astimezone())

    assert "started_at" not in messages.facts(SessionRequest(), site, "8", later)
    assert messages.facts(SessionRequest(), site, "8", later)["waits"]
    assert not messages.facts(SessionRequest(), site, "8", replace(later, state="RUNNING"))["waits"]


def test_a_reason_without_words_is_shown_as_slurm_calls_it() -> None:
    assert (
        "Slurm's reason: QOSMaxWallDurationPerJobLimit"
        in messages.view(replace(WAITING, reason="QOSMaxWallDurationPerJobLimit")).text
    )
    assert (
        "(UnavailableNodes:gpu01)"
        in messages.view(replace(WAITING, reason="ReqNodeNotAvail, UnavailableNodes:gpu01")).text
    )


def test_a_running_job_names_its_node_and_a_silent_slurm_its_silence() -> None:
    assert messages.view(replace(WAITING, state="RUNNING", node="gpu02")).text.startswith("Job 8 runs on gpu02")
    assert messages.view(WAITING, stale_s=12.4).text.startswith("Slurm has not answered for 12 s")
    assert messages.view(None, stale_s=float("inf")).text == "Slurm has not answered; the session keeps its place."
    assert messages.view(None).percent < messages.view(WAITING).percent


@pytest.mark.parametrize(
    ("end", "log", "words"),
    [
        (JobEnd("FAILED", "3:0"), "boom", "The session's job failed with exit code 3. Its last lines are below."),
        (JobEnd("FAILED", "0:9"), "", "The session's job failed by signal 9. It wrote no log: is your home full?"),
        (JobEnd("TIMEOUT"), "", "The session used up its hours."),
        (JobEnd("OUT_OF_MEMORY"), "", "The session used more memory than it had"),
        (JobEnd("CANCELLED", "0:15", "root"), "", "The session was cancelled by root."),
        (JobEnd("CANCELLED", "0:15"), "", "The session was cancelled."),
        (JobEnd("SOMETHING_NEW"), "", "The session ended with Slurm's state SOMETHING_NEW."),
    ],
)
def test_an_end_is_a_sentence(end: JobEnd, log: str, words: str) -> None:
    assert messages.ended(end, log).startswith(words)


def test_a_wait_ends_only_where_the_site_has_set_a_limit_and_says_so(site: Site) -> None:
    limited = site.model_copy(update={"session": site.session.model_copy(update={"wait_max_hours": 2})})
    early, late = datetime(2026, 11, 21, 10, 59).astimezone(), datetime(2026, 11, 21, 11, 1).astimezone()

    assert not messages.waits_too_long(WAITING, site, datetime(2027, 11, 21).astimezone())
    assert not messages.waits_too_long(WAITING, limited, early)
    assert messages.waits_too_long(WAITING, limited, late)
    assert not messages.waits_too_long(replace(WAITING, state="RUNNING"), limited, late)
    assert "here a session waits up to 2 h" in messages.submitted(SessionRequest("sxm2", 1, 8), limited)
    assert "waited 2 h" in messages.gave_up(limited)


def test_a_request_is_repeated_with_what_comes_with_it(site: Site) -> None:
    assert messages.submitted(SessionRequest("sxm2", 2, 8), site) == (
        "2 GPUs, 16 cores, 96 GB for 8 h in the partition sxm2"
    )
    assert messages.submitted(SessionRequest("sxm2", 0, 1), site).startswith("no GPU, 2 cores, 8 GB for 1 h")


@pytest.mark.parametrize("reason", ["AccountNotAllowed", "BadConstraints", "QOSMaxGRESPerJob", "InvalidQOS"])
def test_a_reason_that_does_not_end_by_itself_says_so_and_what_to_do(reason: str) -> None:
    text = messages.view(Job("7", "PENDING", "sxm2", "alice", reason=reason)).text

    assert f"(Slurm's reason: {reason})" in text
    assert "This does not end by itself: stop the session and choose otherwise" in text


def test_a_partition_that_is_closed_to_the_account_is_said_in_slurms_words_and_that_it_does_not_end() -> None:
    reason = "Job's account not known, so it can't use this partition (hipri allows vip)"  # Slurm 22.05.8

    text = messages.view(Job("7", "PENDING", "hipri", "alice", reason=reason)).text

    assert text.startswith(f"Job 7 waits: {reason}. This does not end by itself:")
