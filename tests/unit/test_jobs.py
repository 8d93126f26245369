"""Reading Slurm: what is understood is a value, what is not is never guessed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from portal.errors import SlurmUnavailable
from portal.slurm.accounting import JobEnd, parse_sacct, parse_show_job
from portal.slurm.jobs import (
    Phase,
    SessionJob,
    find_command,
    identify,
    is_session,
    owner,
    parse_find,
    parse_ping,
    parse_sessions,
    parse_squeue,
    sessions_command,
    squeue_command,
)
from tests.unit.recorded import VERSIONS, case

KEY = "abc1230000000001"
RUNNING = "7|RUNNING|sxm2|alice|gpu02|2026-11-21T09:00:00|2026-11-21T09:00:01|2026-11-21T17:00:01|4294901750|None|="
WAITING = "8|PENDING|sxm2|bob||2026-11-21T09:00:00|N/A|N/A|0|ReqNodeNotAvail, UnavailableNodes:gpu01|="


def test_a_queue_is_read_by_id_with_node_times_and_reason() -> None:
    jobs = parse_squeue(f"{RUNNING}\n{WAITING}\n")

    assert jobs["7"].node == "gpu02"
    assert jobs["7"].ends_at == datetime(2026, 11, 21, 17, 0, 1).astimezone()
    assert jobs["7"].reason == ""
    assert jobs["8"].reason == "ReqNodeNotAvail, UnavailableNodes:gpu01"
    assert jobs["8"].starts_at is None
    assert (jobs["7"].priority, jobs["8"].priority) == (4294901750, 0)
    assert (jobs["7"].phase, jobs["8"].phase) == (Phase.RUNNING, Phase.WAITING)


def test_a_time_in_seconds_is_a_moment_whatever_the_zone_of_this_host() -> None:
    jobs = parse_squeue(RUNNING.replace("2026-11-21T17:00:01", "1795280401"))

    assert jobs["7"].ends_at == datetime(2026, 11, 21, 17, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize("length", range(1, 12))
def test_a_listing_that_was_cut_off_in_its_last_line_is_refused(length: int) -> None:
    with pytest.raises(SlurmUnavailable):
        parse_squeue(f"{RUNNING}\n{WAITING}"[:-length])


def test_a_job_that_may_start_in_several_partitions_names_them() -> None:
    jobs = parse_squeue(WAITING.replace("sxm2", "sxm2,hipri"))

    assert jobs["8"].partitions == ("sxm2", "hipri")


def test_nothing_that_people_write_freely_is_listed() -> None:
    """%j and %k are names and comments; %b is the GPUs asked for, printed as typed even for a job that was refused."""
    (columns,) = (option for option in squeue_command() if option.startswith("--format="))

    assert not {"%j", "%k", "%b", "%f", "%x", "%Z", "%o"} & set(columns.removeprefix("--format=").split("|"))


@pytest.mark.parametrize("text", ["UNLIMITED", "2026-11-21", "2026-13-21T09:00:00", ""])
def test_a_time_that_is_none_of_slurms_is_refused(text: str) -> None:
    with pytest.raises(SlurmUnavailable) as caught:
        parse_squeue(RUNNING.replace("2026-11-21T09:00:01", text))

    assert "7|RUNNING" in caught.value.detail


@pytest.mark.parametrize("text", ["606594777708", "38522225045339308", "-62135596801", "195360-01-01T00:00:00"])
def test_a_job_that_shall_begin_when_no_calendar_has_a_name_for_it_has_no_start(text: str) -> None:
    jobs = parse_squeue(f"{WAITING.replace('N/A', text)}\n{RUNNING}")

    assert (jobs["8"].starts_at, jobs["8"].ends_at) == (None, None)
    assert jobs["7"].starts_at is not None


def test_a_job_that_is_listed_twice_makes_the_listing_worthless() -> None:
    with pytest.raises(SlurmUnavailable, match="cannot be read"):
        parse_squeue(f"{RUNNING}\n{RUNNING.replace('RUNNING', 'CANCELLED')}\n")


@pytest.mark.parametrize("job_id", ["12_3", "12_[4-9%2]", "12+1"])
def test_array_and_heterogeneous_jobs_of_others_are_read_too(job_id: str) -> None:
    assert job_id in parse_squeue(RUNNING.replace("7|", f"{job_id}|", 1))


@pytest.mark.parametrize(
    "text", ["hello", "7|RUNNING|sxm2", "|".join("abcdefghij"), RUNNING.replace("RUNNING", "running")]
)
def test_an_answer_that_is_not_as_asked_for_is_no_answer(text: str) -> None:
    with pytest.raises(SlurmUnavailable):
        parse_squeue(f"{WAITING}\n{text}\n")


def test_a_state_of_a_later_slurm_is_unknown_and_never_an_end() -> None:
    jobs = parse_squeue(RUNNING.replace("RUNNING", "TELEPORTING"))

    assert jobs["7"].phase is Phase.UNKNOWN


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("COMPLETING", Phase.RUNNING),
        ("REQUEUED", Phase.WAITING),
        ("PREEMPTED", Phase.ENDED),
        ("OUT_OF_MEMORY", Phase.ENDED),
    ],
)
def test_states_have_phases(state: str, phase: Phase) -> None:
    assert parse_squeue(RUNNING.replace("RUNNING", state))["7"].phase is phase


def test_the_end_of_a_job_is_read_from_scontrol_only_when_it_is_one() -> None:
    shown = "JobId=9 JobName=dsportal-0 UserId=a(1) JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0 Restarts=0"

    assert parse_show_job(shown) == JobEnd("FAILED", "3:0", reason="NonZeroExitCode")
    assert parse_show_job(shown.replace("FAILED", "COMPLETING")) is None
    assert parse_show_job("") is None
    assert parse_show_job(shown.replace("JobName=dsportal-0", "JobName=a b")) is None
    later = "JobState=COMPLETED Reason=None ExitCode=0:0"
    assert parse_show_job(f"{shown} Comment=x {later}") == JobEnd("FAILED", "3:0", reason="NonZeroExitCode")
    assert parse_show_job(f"{shown.replace('FAILED', 'RUNNING')} Comment=x {later}") is None


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("CANCELLED by 20001|0:15\n", JobEnd("CANCELLED", "0:15", cancelled_by="20001")),
        ("TIMEOUT|0:0\n", JobEnd("TIMEOUT", "0:0")),
        ("RUNNING|0:0\n", None),
        ("REQUEUED|0:15\n", None),
        ("FAILED|\n", None),
        ("NODE_FAIL|1:0\nRUNNING|0:0\n", None),
        ("", None),
    ],
)
def test_the_end_of_a_job_is_read_from_accounting(text: str, end: JobEnd | None) -> None:
    assert parse_sacct(text) == end


def test_a_key_finds_its_job_and_a_ping_tells_whether_the_controller_is_up() -> None:
    assert parse_find("41|alice\n", "alice") == "41"
    assert parse_find("\n", "alice") == ""
    assert parse_find("7_[1-3]|bob\n41|alice\n42|bob\n", "alice") == "41", "bob calls his jobs as he likes"
    assert parse_find("42|bob\n", "alice") == ""
    assert parse_find("41|1500\n", "alice") == "41", "an account that is gone"
    for text in ("41|alice\n42|alice\n", "41\n", "|alice\n", "41|\n", "x|alice\n"):
        with pytest.raises(SlurmUnavailable):
            parse_find(text, "alice")
    assert parse_ping("Slurmctld(primary) at head is UP\n")
    assert not parse_ping("Slurmctld(primary) at head is DOWN\n")
    assert find_command("0" * 16)[-2] == "--name=dsportal-0000000000000000"


def test_sessions_are_told_by_their_key_and_believed_only_with_slurmctlds_own_word() -> None:
    listing = "7|alice|dsportal-abc1230000000001\n8|bob|dsportal-fff1230000000001\n9|carol|dsportal-abc123\n1|eve|x\n"

    (job,) = parse_sessions(listing, "abc123")

    assert job == SessionJob("7", "alice", "abc1230000000001")
    shown = "JobId=7 JobName=dsportal-abc1230000000001 UserId=alice(20001) GroupId=x(1)"
    assert is_session(shown, job)
    assert is_session(shown.replace(" UserId", " SLUID=sCN1M7WZFXG000 UserId"), job)
    assert not is_session(shown.replace("alice", "bob"), job)
    forged = f"{shown.partition(' GroupId')[0]} x UserId=bob(20002) GroupId=x(1)"  # the name goes on after the key
    assert not is_session(forged, job)
    assert (identify(forged, job), owner(forged, job)) == (None, None)
    with pytest.raises(ValueError, match="six hexadecimal"):
        parse_sessions(listing, "")
    assert not is_session(f"JobId=7 JobName=x\n{shown}", job)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_column_with_a_width_is_cut_to_it(version: str) -> None:
    """squeue's own columns (%.8j: the name) on jobs with longer names: so lines in a name are cut off."""
    first, *lines = case(version, "squeue-all").stdout.splitlines()

    begin = first.index("NAME") - 4
    cut = {line[begin : begin + 8].strip() for line in lines if line[:begin].strip()}
    assert {"completi", "from-scr", "p-depend"} <= cut


def test_no_name_in_the_list_of_sessions_has_room_for_a_line_of_another_job() -> None:
    (columns,) = [word for word in sessions_command() if word.startswith("--format=")]
    width = len(f"dsportal-{KEY}")

    assert columns == f"--format=%i|%u|%.{width}j"
    assert len(f"\n1|a|dsportal-{KEY}") > width


@pytest.mark.parametrize("name", ["x\n7|alice|training", "a b", "", "dsportal-ffffffffffffffff"])
def test_a_job_with_another_name_is_another_job_whatever_the_name_holds(name: str) -> None:
    """A name is its owner's text, and may hold blanks and newlines (simulation, seed 3: a session that never ended)."""
    ours = SessionJob("3", "alice", "0123456789abcdef")

    assert identify(f"JobId=3 JobName={name} UserId=alice(20001) GroupId=hpc(20000)", ours) is False
