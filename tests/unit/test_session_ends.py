"""How a session's end is told: once, with what Slurm says of its job, whoever or whatever ended it."""

from __future__ import annotations

import asyncio

import pytest

from portal.errors import SessionEnded, SubmitRefused
from portal.history.record import EndedSession
from portal.site import Site
from portal.slurm.submission import Submission
from portal.testing.behaviours import (
    Behaviour,
    CancelledByAdmin,
    FailsWith,
    NodeFails,
    OutOfMemory,
    PendingForever,
    Preempted,
    TimeLimit,
)
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import NoOutage, SbatchRefuses, SlurmSilent
from spawners import messages
from spawners.ends.ending import SessionEnding
from tests.unit.test_session import KEY, SUBMISSION, Story

LATER_S = 400  # slurmctld has forgotten the job: accounting is asked


class Told:
    """Alice's session, and what was told of its end."""

    def __init__(self, slurm: FakeSlurm, site: Site, story: Story | None = None) -> None:
        self.slurm = slurm
        self.site = site
        self.story = story or Story(slurm, site)
        self.ends: list[EndedSession] = []
        self.session = self.story.session
        self.session.ending = SessionEnding(self.session, self.ends.append)

    @property
    def end(self) -> EndedSession:
        """The only session that has ended, as it was told last."""
        assert len({end.key for end in self.ends}) == 1
        assert len({end.reason for end in self.ends}) == 1
        return self.ends[-1]

    def after_a_restart(self) -> Told:
        """The same session in a hub that was killed and started anew."""
        return Told(self.slurm, self.site, self.story.after_a_restart(self.site))

    def at(self, seconds: float) -> int:
        """So many seconds after the cluster was made, in seconds since 1970."""
        return int(self.slurm.now.timestamp() - self.slurm.clock() + seconds)


@pytest.fixture
def slurm() -> FakeSlurm:
    """A cluster in which nothing is wrong."""
    return FakeSlurm()


@pytest.fixture
def told(slurm: FakeSlurm, site: Site) -> Told:
    """A session that is not submitted yet."""
    return Told(slurm, site)


ENDS = [
    (TimeLimit(after_s=60), "TIMEOUT", "used up its hours"),
    (OutOfMemory(after_s=60), "OUT_OF_MEMORY", "used more memory"),
    (NodeFails(after_s=60), "NODE_FAIL", "node of this session failed"),
    (Preempted(after_s=60), "PREEMPTED", "higher priority"),
    (CancelledByAdmin(after_s=60), "CANCELLED", "was cancelled"),
    (FailsWith(2, after_s=60), "FAILED", "failed with exit code 2"),
]


@pytest.mark.parametrize(("behaviour", "state", "words"), ENDS, ids=[state for _, state, _ in ENDS])
async def test_what_slurm_ends_is_told_once_with_node_times_and_log(
    told: Told, slurm: FakeSlurm, behaviour: Behaviour, state: str, words: str
) -> None:
    slurm.next_job(behaviour)
    slurm.logs[KEY] = "the last lines"
    await told.story.runs()
    slurm.advance(61)

    await told.session.cluster.queue(-1)
    assert await told.session.poll() is not None
    await told.story.when(lambda: told.end.log)
    for _ in range(2):  # JupyterHub asks three times
        await told.session.poll()

    assert (told.end.key, told.end.job_id, told.end.state) == (KEY, "1", state)
    assert words in told.end.reason
    assert (told.end.node, told.end.log) == ("gpu01", "the last lines")
    assert told.at(0) <= told.end.submitted_at <= told.end.started_at < told.end.ended_at <= told.at(61)
    assert [end.log for end in told.ends] == ["", "the last lines"], "it does not wait for the log, nor for a home"


@pytest.mark.parametrize("later_s", [0, LATER_S], ids=["slurmctld knows", "accounting alone knows"])
async def test_an_end_while_the_hub_was_away_is_told_with_slurms_own_times(
    told: Told, slurm: FakeSlurm, later_s: int
) -> None:
    slurm.next_job(TimeLimit(after_s=60))
    await told.story.runs()
    slurm.advance(61 + later_s)
    again = told.after_a_restart()

    assert await again.session.poll() is not None

    assert (again.end.state, again.end.node, again.end.job_id) == ("TIMEOUT", "gpu01", "1")
    assert again.end.ended_at <= told.at(61)
    assert told.ends == []


async def test_a_start_whose_job_ends_first_is_told_as_that(told: Told, slurm: FakeSlurm) -> None:
    slurm.next_job(FailsWith(3, after_s=2))
    slurm.logs[KEY] = "boom"

    with pytest.raises(SessionEnded):
        await told.story.start()
    await told.session.stop()  # as JupyterHub does after a start that failed

    assert told.end.reason == "The session's job failed with exit code 3."
    assert (told.end.state, told.end.log) == ("FAILED", "boom")


async def test_a_session_that_sbatch_refuses_is_told_with_its_words(told: Told, slurm: FakeSlurm) -> None:
    slurm.outage = SbatchRefuses()

    with pytest.raises(SubmitRefused):
        await told.session.submit(SUBMISSION, "token")
    slurm.outage = NoOutage()
    await told.session.stop()

    assert "Slurm did not accept the session" in told.end.reason
    assert (told.end.job_id, told.end.node, told.end.started_at, told.end.state) == ("", "", 0, "")


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("alice", "You stopped the session."),
        ("root", "The session was stopped by root."),
        ("", "The portal stopped the session."),
    ],
)
async def test_who_stops_a_session_is_told_and_not_that_slurm_cancelled_it(told: Told, who: str, words: str) -> None:
    await told.story.runs()
    told.session.ending.by = messages.stopped(who, "alice")

    await told.session.stop()
    await told.session.poll()
    told.session.clear()

    assert told.end.reason == words
    assert (told.end.node, told.end.job_id) == ("gpu01", "1")


async def test_what_ended_by_itself_before_it_could_be_stopped_is_told_as_that(told: Told, slurm: FakeSlurm) -> None:
    slurm.next_job(TimeLimit(after_s=60))
    await told.story.runs()
    slurm.advance(61)
    await told.session.cluster.queue(-1)
    told.session.ending.by = messages.stopped("alice", "alice")

    assert await told.session.poll() is not None  # JupyterHub asks before it stops

    assert told.end.state == "TIMEOUT"
    assert "used up its hours" in told.end.reason


async def test_a_session_that_is_stopped_while_it_waits_never_started(told: Told, slurm: FakeSlurm) -> None:
    slurm.next_job(PendingForever())
    starting = asyncio.ensure_future(told.story.start())
    await told.story.when(lambda: told.session.watched.job)

    await told.session.stop(now=True)
    starting.cancel()

    assert (told.end.node, told.end.started_at) == ("", 0)
    assert told.end.submitted_at


async def test_a_stop_that_a_start_waits_through_is_told_once_as_the_stop(told: Told, slurm: FakeSlurm) -> None:
    slurm.next_job(PendingForever())
    starting = asyncio.ensure_future(told.story.start())
    await told.story.when(lambda: told.session.watched.job)

    await told.session.stop(now=True)  # of somebody who left: the start sees the end of its job
    with pytest.raises(SessionEnded):
        await starting

    assert told.end.reason == "The portal stopped the session."


async def test_a_slurm_that_is_silent_does_not_keep_a_stop_from_being_told(told: Told, slurm: FakeSlurm) -> None:
    await told.story.runs()
    slurm.outage = SlurmSilent()

    await told.session.stop(now=True)

    assert told.end.reason == "The portal stopped the session."


async def test_the_log_of_a_session_that_is_over_is_not_told_of_the_next(told: Told, slurm: FakeSlurm) -> None:
    slurm.next_job(TimeLimit(after_s=60))
    slurm.logs[KEY] = "of the first"
    await told.story.runs()
    slurm.advance(61)
    await told.session.cluster.queue(-1)
    await told.session.poll()

    told.session.clear()
    other = KEY[:-1] + "f"
    await told.session.submit(Submission(other, (f"--job-name=dsportal-{other}", "--partition=sxm2"), {}), "next")
    await told.story.when(lambda: len(told.ends) == 2)
    await told.session.stop()

    assert [(end.key, end.log) for end in told.ends] == [(KEY, ""), (KEY, "of the first"), (other, "")]


async def test_the_sessions_own_token_is_not_in_the_log_that_is_told(told: Told, slurm: FakeSlurm) -> None:
    slurm.logs[KEY] = "GET /user/alice/api?x=0123456789abcdef\nBearer 0123456789abcdef"
    await told.session.submit(SUBMISSION, "0123456789abcdef")

    await told.session.stop()

    assert "0123456789abcdef" not in told.end.log
    assert told.end.log.startswith("GET /user/alice")


async def test_a_session_that_was_never_submitted_has_no_end(told: Told) -> None:
    await told.session.stop()
    told.session.note_end("nothing")

    assert told.ends == []
