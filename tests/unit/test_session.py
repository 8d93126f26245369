"""One session on FakeSlurm, whose clock goes by whenever something is waited for: start, requeue, resume, end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from portal.errors import SessionEnded, SlurmUnavailable, SubmitRefused
from portal.session_state import Announcement, Place, SessionState
from portal.site import Site
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Job, Phase, squeue_command
from portal.slurm.runner import Result
from portal.slurm.submission import Submission
from portal.slurm.watched_job import place_of
from portal.testing.bad_answers import bad_answers
from portal.testing.behaviours import FailsWith, PendingForever, Requeued, Runs
from portal.testing.cluster_parts import FakeJob
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import (
    ControllerDown,
    NoOutage,
    Outage,
    SbatchAnswerLost,
    SbatchRefuses,
    SbatchSays,
    SlurmSilent,
)
from spawners.session import Session

KEY = "abc1230123456789"
SUBMISSION = Submission(KEY, (f"--job-name=dsportal-{KEY}", "--partition=sxm2"), {})
FIRST, SECOND, THIRD = 40001, 40002, 40003


class Story:
    """Alice's session, what was saved of it, and which servers were asked; they answer at once."""

    def __init__(self, slurm: FakeSlurm, site: Site) -> None:
        self.slurm = slurm
        self.saved: list[SessionState] = []
        self.asked: list[tuple[str, int]] = []
        self.moved: list[tuple[str, int]] = []
        cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
        self.session = Session(
            cluster,
            site,
            "alice",
            self.saved.append,
            logging.getLogger("test"),
            moved=lambda node, port: self.moved.append((node, port)),
        )

    async def first_answer(self, node: str, port: int) -> None:
        """A server that answers at once."""
        self.asked.append((node, port))

    async def start(self, first_answer: Callable[[str, int], Awaitable[None]] | None = None) -> tuple[str, int]:
        """Submit, and wait until the server has answered."""
        await self.session.submit(SUBMISSION, "token")
        return await self.wait(first_answer)

    async def wait(self, first_answer: Callable[[str, int], Awaitable[None]] | None = None) -> tuple[str, int]:
        """Wait for a session that was submitted."""
        async with asyncio.timeout(5):
            return await self.session.wait_until_ready(first_answer or self.first_answer)

    async def runs(self, port: int = FIRST) -> None:
        """Start it, to the end."""
        starting = asyncio.ensure_future(self.start())
        await self.when(lambda: self.session.state.job_id)
        assert await self.announce(port)
        await starting

    async def announce(self, port: int, restarts: int = 0) -> bool:
        """The server of a run of the job announces its port."""
        return await self.session.address.announce(Announcement(port, restarts))

    async def when(self, condition: Callable[[], Any]) -> None:
        """Let the others have their turn until something is true."""
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110  time goes by in the session's own waits
                await asyncio.sleep(0)

    def after_a_restart(self, site: Site) -> Story:
        """The same session in a hub that was started anew on what was saved."""
        again = Story(self.slurm, site)
        again.session.load(SessionState.from_json(self.saved[-1].to_json()))
        return again


@pytest.fixture
def slurm() -> FakeSlurm:
    """A cluster in which nothing is wrong."""
    return FakeSlurm()


@pytest.fixture
def story(slurm: FakeSlurm, site: Site) -> Story:
    """A session that is not submitted yet."""
    return Story(slurm, site)


# -- start ----------------------------------------------------------------------------------------------


async def test_a_session_is_ready_where_its_server_has_answered(story: Story, slurm: FakeSlurm) -> None:
    slurm.next_job(Runs(after_s=2))
    starting = asyncio.ensure_future(story.start())
    await story.when(lambda: story.session.state.job_id)
    assert story.saved[-1].is_waiting
    assert await story.announce(FIRST)

    assert await starting == ("gpu01", FIRST)

    assert story.asked == [("gpu01", FIRST)]
    assert (story.saved[-1].port, story.saved[-1].place.node if story.saved[-1].place else "") == (FIRST, "gpu01")
    assert not await story.announce(SECOND), "where it listens is nobody's to say any more"


async def test_the_key_is_saved_before_sbatch_runs_and_the_job_with_its_answer(story: Story) -> None:
    await story.session.submit(SUBMISSION, "token")

    first, last = story.saved
    assert (first.key, first.job_id, first.token) == (KEY, "", "token")
    assert (last.key, last.job_id) == (KEY, "1")


async def test_an_announcement_is_saved_before_the_server_hears_that_we_know(story: Story, slurm: FakeSlurm) -> None:
    await story.session.submit(SUBMISSION, "token")
    before = len(story.saved)

    assert await story.announce(FIRST)

    (saved,) = story.saved[before:]
    assert saved.announcement == Announcement(FIRST, 0)


async def test_a_port_that_is_announced_before_slurms_snapshot_shows_that_the_job_runs_is_kept(
    story: Story, slurm: FakeSlurm
) -> None:
    slurm.next_job(Runs(after_s=2))
    await story.session.submit(SUBMISSION, "token")
    waiting = await story.session.query(0)
    assert waiting is not None
    assert waiting.phase is Phase.WAITING
    assert await story.announce(FIRST)

    assert await story.wait() == ("gpu01", FIRST)


async def test_a_job_that_slurm_takes_back_while_it_starts_is_waited_for_at_its_new_port(
    story: Story, slurm: FakeSlurm
) -> None:
    slurm.next_job(Requeued(after_s=3, wait_s=121))
    silent: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def first_answer(node: str, port: int) -> None:
        story.asked.append((node, port))
        if port == FIRST:
            await silent  # it ends before it answers

    starting = asyncio.ensure_future(story.start(first_answer))
    await story.when(lambda: story.session.state.job_id)
    await story.announce(FIRST)
    await story.when(lambda: story.session.watched.job and story.session.watched.job.node == "gpu02")
    assert not await story.announce(FIRST), "the server of before lives on, on a node that Slurm has given up"
    assert await story.announce(SECOND, 1)

    assert await starting == ("gpu02", SECOND)
    assert story.asked == [("gpu01", FIRST), ("gpu02", SECOND)]


async def test_a_job_that_ends_before_its_server_answers_ends_the_start_with_its_reason(
    story: Story, slurm: FakeSlurm
) -> None:
    slurm.next_job(FailsWith(3, after_s=2))
    slurm.logs[KEY] = "the last lines"

    with pytest.raises(SessionEnded, match="failed with exit code 3") as caught:
        await story.start()

    assert caught.value.log == "the last lines"
    assert slurm.environments == {}, "its secrets are removed"


async def test_a_server_that_does_not_answer_in_the_sites_time_on_its_node_is_given_up(
    story: Story, slurm: FakeSlurm, site: Site
) -> None:
    slurm.next_job(Runs(after_s=3600))

    with pytest.raises(SessionEnded, match="did not answer within 10 minutes of its start on gpu01"):
        await story.start()

    assert 3600 + 600 < slurm.clock() < 3600 + 700, "the hour in the queue does not count"
    assert "did not answer within 10 minutes" in story.session.state.last_end
    story.session.clear()
    assert "did not answer within 10 minutes" in story.session.state.last_end, "for the server page"


async def test_a_snapshot_that_shows_a_job_as_ended_is_believed_only_when_slurmctld_says_so_too(
    story: Story, slurm: FakeSlurm
) -> None:
    await story.session.submit(SUBMISSION, "token")
    slurm.advance(2)
    listing = (await slurm(squeue_command())).stdout
    slurm.outage = bad_answers(listing, story.session.state.job_id)["shown as preempted"]
    starting = asyncio.ensure_future(story.wait())
    await story.when(lambda: story.session.watched.job and story.session.watched.job.phase is Phase.ENDED)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not starting.done()

    slurm.outage = NoOutage()
    await story.announce(FIRST)
    assert await starting == ("gpu01", FIRST)


async def test_a_wait_has_no_end_but_the_sites_and_slurm_is_asked_seldom(story: Story, slurm: FakeSlurm) -> None:
    slurm.next_job(PendingForever())
    starting = asyncio.ensure_future(story.start())
    await story.when(lambda: slurm.clock() > 620)
    assert not starting.done()
    starting.cancel()

    asked = [command for command in slurm.asked if command[0] == "squeue"]
    assert len(asked) <= 20 + 600 / 12


async def test_the_site_may_limit_the_wait(slurm: FakeSlurm, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = site.model_copy(update={"session": site.session.model_copy(update={"wait_max_hours": 1})})
    monkeypatch.setattr("spawners.startup.datetime", _ClockOf(slurm))
    story = Story(slurm, limited)
    slurm.next_job(PendingForever())

    with pytest.raises(SessionEnded, match="waited 1 h in the queue"):
        await story.start()
    assert "waited 1 h in the queue" in story.session.state.last_end

    assert 3600 < slurm.clock() < 3700
    assert not [job for job in slurm.jobs.values() if slurm.status(job).state == "PENDING"]


class _ClockOf:
    """Stands for ``datetime``: the local time is that of the cluster."""

    def __init__(self, slurm: FakeSlurm) -> None:
        self._slurm = slurm

    def now(self, zone: Any) -> Any:
        return self._slurm.now.astimezone(zone)


# -- submission -----------------------------------------------------------------------------------------


async def test_a_job_whose_sbatch_gave_no_answer_is_found_by_its_key(story: Story, slurm: FakeSlurm) -> None:
    slurm.outage = SbatchAnswerLost()

    await story.session.submit(SUBMISSION, "token")

    assert story.saved[-1].job_id == "1"


async def test_what_slurm_refuses_is_told_in_its_own_words(story: Story, slurm: FakeSlurm) -> None:
    slurm.outage = SbatchRefuses("Invalid account")

    with pytest.raises(SubmitRefused, match="Invalid account"):
        await story.session.submit(SUBMISSION, "token")

    assert "Invalid account" in story.session.state.last_end


@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_start_that_is_cancelled_still_learns_of_its_job_and_the_stop_cancels_it(
    story: Story, slurm: FakeSlurm, is_silent: bool
) -> None:
    slurm.outage = SbatchAnswerLost() if is_silent else NoOutage()
    starting = asyncio.ensure_future(story.start())
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])

    await story.session.stop()

    assert [slurm.status(job).state for job in slurm.jobs.values()] == ["CANCELLED"]


# -- a job that Slurm starts again ----------------------------------------------------------------------


@pytest.fixture
async def running(story: Story, slurm: FakeSlurm) -> Story:
    """Alice's session runs on gpu01; after ten seconds its job waits for a minute, then it runs on gpu02."""
    slurm.next_job(Requeued(after_s=10, wait_s=60))
    await story.runs()
    assert slurm.clock() < 9
    return story


async def waits_again(story: Story) -> None:
    """A poll sees the job back in the queue."""
    story.slurm.advance(12 - story.slurm.clock())
    await story.session.cluster.queue(-1)
    assert await story.session.poll() is None
    assert story.session.address.following
    assert story.saved[-1].port == 0


async def follows(story: Story) -> None:
    """Wait until the session has its new address."""
    await story.when(lambda: story.session.address.following is None)


async def test_the_session_continues_where_its_job_runs_now_at_the_port_it_announces(running: Story) -> None:
    await waits_again(running)
    running.slurm.advance(70)

    assert await running.announce(SECOND, 1)
    await follows(running)

    assert running.moved == [("gpu02", SECOND)]
    assert running.saved[-1].port == SECOND
    assert await running.announce(SECOND, 1), "the same again is the same answer again"
    assert not await running.announce(THIRD, 1), "and another one is nobody's to say"
    assert not await running.announce(THIRD, 2), "not without Slurm's word"
    assert not await running.announce(FIRST), "nor that of the server of before, should it live on"
    assert running.moved == [("gpu02", SECOND)]


async def test_a_snapshot_that_is_behind_the_servers_announcement_moves_the_session_only_once(running: Story) -> None:
    """The server may announce its port before the queue shows that the job runs again."""
    await waits_again(running)
    running.slurm.advance(70)
    running.slurm.outage = SlurmSilent()

    assert await running.announce(SECOND, 1)
    before = running.slurm.clock()
    await running.when(lambda: running.slurm.clock() > before + 5)
    assert running.session.address.following, "the snapshot still shows the job that waits"
    running.slurm.outage = NoOutage()
    await follows(running)

    assert running.moved == [("gpu02", SECOND)]


async def test_a_job_that_is_started_twice_before_it_is_seen_has_the_port_of_its_last_run(running: Story) -> None:
    await waits_again(running)
    running.slurm.happens("1", Requeued(after_s=65, wait_s=60))
    running.slurm.advance(62)
    running.slurm.outage = SlurmSilent()
    assert await running.announce(SECOND, 1)
    running.slurm.advance(70)
    running.slurm.outage = NoOutage()

    assert await running.announce(THIRD, 2)
    assert not await running.announce(SECOND, 1)
    await follows(running)

    assert running.moved == [("gpu03", THIRD)]


async def test_announcements_that_are_not_so_ask_slurm_once_in_a_moment(running: Story) -> None:
    """Whoever has the token of a session may send thousands."""
    before = len(running.slurm.asked)

    for number in range(100):
        assert not await running.announce(THIRD, 2 + number)

    assert len(running.slurm.asked) - before <= 2


async def test_a_job_that_was_started_once_more_than_we_saw_is_followed_by_slurms_own_count(running: Story) -> None:
    """The announcement of one run met a snapshot of the next one."""
    await waits_again(running)
    running.slurm.happens("1", Requeued(after_s=65, wait_s=60))
    running.slurm.advance(135)
    assert await running.announce(SECOND, 1)
    await follows(running)

    assert await running.announce(THIRD, 2)
    await follows(running)

    assert running.moved == [("gpu03", SECOND), ("gpu03", THIRD)]


async def test_a_requeued_job_that_dies_between_its_announcement_and_the_next_snapshot_is_not_followed_for_ever(
    running: Story,
) -> None:
    await waits_again(running)
    following = running.session.address.following
    assert following
    running.slurm.happens("1", FailsWith(1, after_s=61))
    running.slurm.advance(60)
    running.slurm.outage = SlurmSilent()
    assert await running.announce(SECOND, 1)
    running.slurm.advance(10)
    running.slurm.outage = NoOutage()

    await asyncio.wait([following], timeout=5)

    assert following.cancelled()
    assert await running.session.poll() == 1


async def test_a_session_that_is_stopped_meanwhile_is_not_followed_any_more(running: Story) -> None:
    await waits_again(running)
    following = running.session.address.following
    assert following

    await running.session.stop()
    await asyncio.wait([following], timeout=1)

    assert following.cancelled()
    assert running.session.address.following is None, "the next session of this person is a new one"


async def test_a_session_that_ends_meanwhile_is_not_followed_any_more(running: Story) -> None:
    """JupyterHub does not stop what has ended: it only clears it."""
    await waits_again(running)
    following = running.session.address.following
    assert following

    running.session.clear()
    await asyncio.wait([following], timeout=1)

    assert following.cancelled()


async def test_an_announcement_that_comes_before_the_hub_has_seen_the_requeue_is_taken(running: Story) -> None:
    running.slurm.advance(82 - running.slurm.clock())

    assert await running.announce(SECOND, 1)
    await follows(running)

    assert running.moved == [("gpu02", SECOND)]


# -- a hub that was restarted ---------------------------------------------------------------------------


async def test_a_session_that_waited_is_resumed_with_the_very_job(story: Story, slurm: FakeSlurm, site: Site) -> None:
    slurm.next_job(Runs(after_s=300))
    await story.session.submit(SUBMISSION, "token")
    again = story.after_a_restart(site)
    again.session.clear()  # JupyterHub does so before each start
    assert again.session.can_resume

    assert await again.session.resume()
    waiting = asyncio.ensure_future(again.wait())
    await again.when(lambda: slurm.clock() > 301)
    await again.announce(FIRST)

    assert await waiting == ("gpu01", FIRST)
    assert (again.saved[-1].job_id, again.saved[-1].token, len(slurm.jobs)) == ("1", "token", 1)


async def test_a_session_whose_hub_was_killed_while_sbatch_ran_finds_its_job_by_the_key(
    story: Story, slurm: FakeSlurm, site: Site
) -> None:
    await story.session.submit(SUBMISSION, "token")
    story.saved.pop()  # the answer of sbatch never reached the database
    again = story.after_a_restart(site)

    assert await again.session.resume()

    assert again.saved[-1].job_id == "1"


async def test_a_session_whose_hub_was_killed_before_sbatch_ran_is_submitted_anew(slurm: FakeSlurm, site: Site) -> None:
    story = Story(slurm, site)
    story.session.load(SessionState(key=KEY, token="token"))

    assert not await story.session.resume()

    assert slurm.clock() >= 60, "Slurm was asked for a while: the job may come late"
    assert not story.session.can_resume


async def test_the_secrets_of_a_session_whose_job_never_came_are_removed_before_the_next_one(
    story: Story, slurm: FakeSlurm, site: Site
) -> None:
    """The launcher had written them when the hub was killed (simulation, seed 26)."""
    slurm.outage = ControllerDown()
    starting = asyncio.ensure_future(story.start())
    await story.when(lambda: slurm.environments)
    starting.cancel()
    again = story.after_a_restart(site)
    slurm.outage = NoOutage()

    assert not await again.session.resume()

    assert not slurm.environments


async def test_nothing_of_a_session_that_was_never_submitted_is_in_the_next_one(story: Story) -> None:
    story.session.load(SessionState("abc1230000000000", "", "old", 0, Announcement(FIRST, 0), Place("gpu01")))
    assert not await story.session.resume()

    await story.session.submit(SUBMISSION, "token")

    assert story.saved[-1] == SessionState(KEY, "1", "token", tls=False)


async def test_a_silent_slurm_is_waited_for_by_a_session_that_is_resumed(
    story: Story, slurm: FakeSlurm, site: Site
) -> None:
    await story.session.submit(SUBMISSION, "token")
    story.saved.pop()
    again = story.after_a_restart(site)
    slurm.outage = _SilentFor(slurm, 300)

    assert await again.session.resume()
    assert slurm.clock() >= 300


class _SilentFor(SlurmSilent):
    """A slurmctld that answers again after a while."""

    def __init__(self, slurm: FakeSlurm, seconds: float) -> None:
        super().__init__()
        object.__setattr__(self, "until_s", seconds)

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Any:
        is_over = since_s > self.__dict__["until_s"]
        return None if is_over else super().answer(command, since_s, timeout_s)


async def test_a_port_announced_to_a_hub_that_went_away_counts(slurm: FakeSlurm, site: Site) -> None:
    slurm.next_job(Runs(after_s=4))
    story = Story(slurm, site)
    await story.session.submit(SUBMISSION, "token")
    slurm.advance(5)
    assert await story.announce(FIRST)
    again = story.after_a_restart(site)
    assert await again.session.resume()

    assert await again.wait() == ("gpu01", FIRST)


async def test_where_the_job_was_started_again_while_the_hub_was_away_its_new_server_says_so(
    slurm: FakeSlurm, site: Site
) -> None:
    slurm.next_job(Requeued(after_s=10, wait_s=60))
    story = Story(slurm, site)
    await story.session.submit(SUBMISSION, "token")
    assert await story.announce(FIRST)
    again = story.after_a_restart(site)
    slurm.advance(90)
    assert await again.session.resume()
    nobody: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def first_answer(node: str, port: int) -> None:
        again.asked.append((node, port))
        if port == FIRST:
            await nobody

    waiting = asyncio.ensure_future(again.wait(first_answer))
    await again.when(lambda: again.asked)
    assert await again.announce(SECOND, 1)

    assert await waiting == ("gpu02", SECOND)


async def test_a_lost_announcement_comes_again_and_nothing_ends_meanwhile(slurm: FakeSlurm, site: Site) -> None:
    """A restored backup: the session waited when it was made, and its server has been ready since."""
    story = Story(slurm, site)
    await story.session.submit(SUBMISSION, "token")
    again = story.after_a_restart(site)
    slurm.advance(600)
    assert await again.session.resume()
    waiting = asyncio.ensure_future(again.wait())
    await again.when(lambda: slurm.clock() > 600 + 1800)
    assert not waiting.done(), "Slurm says that the job lives"

    assert await again.announce(FIRST)

    assert await waiting == ("gpu01", FIRST)


async def test_a_backup_of_before_a_requeue_is_followed_to_where_the_job_runs_now(
    running: Story, slurm: FakeSlurm, site: Site
) -> None:
    again = running.after_a_restart(site)
    slurm.advance(100)

    assert await again.session.poll() is None
    assert again.saved[-1].port == 0
    assert await again.announce(SECOND, 1)
    await follows(again)

    assert again.moved == [("gpu02", SECOND)]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
async def test_a_changed_time_zone_moves_nothing(
    story: Story, site: Site, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await story.runs()
    again = story.after_a_restart(site)
    epochs = int(story.slurm.jobs["1"].submitted_at.timestamp())
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        shift = epochs - int(story.slurm.jobs["1"].submitted_at.timestamp())
        story.slurm.now += timedelta(seconds=shift)  # the cluster's clock is right: it prints another local time now
        for job in story.slurm.jobs.values():
            job.submitted_at += timedelta(seconds=shift)

        assert await again.session.poll() is None

        assert again.session.state == story.session.state
        assert again.session.address.following is None
    finally:
        monkeypatch.undo()
        time.tzset()


# -- a job is ours by its name, never by its number alone ------------------------------------------------


async def test_a_job_of_the_same_number_and_person_is_not_the_session(story: Story, slurm: FakeSlurm) -> None:
    """slurmctld lost its state, and counts from 1 again: the number is a batch job of the same person now."""
    await story.runs()
    slurm.lose_state()
    own = slurm.take("alice", {"job-name": "training", "partition": "sxm2"})
    assert own.id == story.session.state.job_id
    queue = await story.session.cluster.queue(-1)
    assert story.session.needs_poll(queue)

    assert await story.session.poll() == 1
    assert "lost its record" in story.session.state.last_end
    assert story.session.watched.job is None
    await story.session.stop()

    assert slurm.status(own).state == "RUNNING"


async def test_a_stop_leaves_a_job_of_another_name_alone(story: Story, slurm: FakeSlurm) -> None:
    await story.runs()
    slurm.lose_state()
    own = slurm.take("alice", {"job-name": "training", "partition": "sxm2"})

    await story.session.stop()

    assert slurm.status(own).state == "RUNNING"


async def test_a_stop_ends_the_sessions_job_whatever_its_owner_calls_it_by_now(story: Story, slurm: FakeSlurm) -> None:
    await story.runs()
    job = slurm.jobs[story.session.state.job_id]
    job.options = {**job.options, "job-name": "training"}

    await story.session.stop()

    assert slurm.status(job).state == "CANCELLED"


async def test_a_wrong_number_from_sbatch_is_not_believed(story: Story, slurm: FakeSlurm) -> None:
    other = slurm.take("alice", {"job-name": "training", "partition": "sxm2"})
    slurm.outage = SbatchSays(other.id)

    starting = asyncio.ensure_future(story.start())
    await story.when(lambda: story.session.state.job_id == "2")
    assert await story.announce(FIRST)

    assert await starting == ("gpu01", FIRST)
    assert slurm.status(other).state == "RUNNING"
    assert story.saved[-1].job_id == "2"


async def test_a_session_with_a_wrong_number_is_found_by_its_key(story: Story, slurm: FakeSlurm, site: Site) -> None:
    await story.runs()
    other = slurm.take("alice", {"job-name": "training", "partition": "sxm2"})
    story.saved.append(replace(story.saved[-1], job_id=other.id))
    again = story.after_a_restart(site)

    assert await again.session.poll() is None
    assert await again.session.poll() is None

    assert again.session.state.job_id == "1"


@pytest.mark.parametrize(("number", "status"), [(20001, None), (20002, 1)])
async def test_a_person_whom_slurm_spells_otherwise_is_known_by_her_number(
    story: Story, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, number: int, status: int | None
) -> None:
    """As with an Active Directory; and somebody else's job of the same number and name is not hers."""

    async def uid_of(name: str) -> int:
        return 20001

    await story.runs()
    monkeypatch.setattr("portal.slurm.accounting.uid_of", uid_of)
    monkeypatch.setattr("portal.testing.output.uid", lambda user: str(number))
    spelled(slurm.jobs["1"], "CLUSTER\\alice")

    for _ in range(3):
        slurm.advance(12)
        await story.session.cluster.queue(-1)
        assert await story.session.poll() == status

    shown = [command for command in slurm.asked if command[:4] == ("scontrol", "--oneliner", "show", "job")]
    assert len(shown) <= 4, "one answer is enough"


def spelled(job: FakeJob, user: str) -> None:
    """From now on Slurm shows the owner so."""
    job.user = user
    job.printed = None


async def test_a_job_whose_person_has_only_a_number_just_now_is_kept(story: Story, slurm: FakeSlurm) -> None:
    """The name service of the hub's host hangs: squeue and scontrol print numbers."""
    await story.runs()
    job = slurm.jobs["1"]
    spelled(job, "20001")
    await story.session.cluster.queue(-1)

    assert await story.session.poll() is None


async def test_a_session_that_runs_is_found_running(story: Story, site: Site) -> None:
    await story.runs()
    again = story.after_a_restart(site)

    assert await again.session.poll() is None
    assert not again.session.can_resume
    assert again.session.state == story.session.state


# -- the end --------------------------------------------------------------------------------------------


async def test_an_end_is_noticed_with_its_reason_and_its_secrets_are_removed(story: Story, slurm: FakeSlurm) -> None:
    slurm.next_job(FailsWith(2, after_s=60))
    await story.runs()
    slurm.advance(61)
    queue = await story.session.cluster.queue(-1)
    assert story.session.needs_poll(queue)

    assert await story.session.poll() == 1

    assert story.session.state.last_end == "The session's job failed with exit code 2."
    await story.when(lambda: not slurm.environments)
    for _ in range(2):  # JupyterHub asks three times
        assert await story.session.poll() == 1
    assert len([command for command in slurm.asked if command[0] == "sudo"]) == 2, "one submission, one clean-up"
    story.session.clear()
    assert story.session.state == SessionState(last_end="The session's job failed with exit code 2.")


@pytest.mark.parametrize("outage", [SlurmSilent(), SbatchRefuses()])
async def test_silence_ends_nothing(story: Story, slurm: FakeSlurm, outage: Outage) -> None:
    await story.runs()
    slurm.outage = outage
    slurm.advance(600)

    assert await story.session.poll() is None


async def test_a_stop_waits_until_slurm_says_that_the_job_is_gone(story: Story, slurm: FakeSlurm) -> None:
    slurm.completing_s = 5
    await story.runs()
    began = slurm.clock()

    await story.session.stop()

    assert 5 <= slurm.clock() - began < 10
    assert slurm.environments == {}


async def test_a_stop_goes_on_without_a_slurm_that_is_silent(story: Story, slurm: FakeSlurm) -> None:
    await story.runs()
    slurm.outage = SlurmSilent()
    began = slurm.clock()

    await story.session.stop()

    assert slurm.clock() - began >= 30


async def test_a_lost_submission_that_is_found_nowhere_is_told_as_such(story: Story, slurm: FakeSlurm) -> None:
    slurm.outage = SlurmSilent()

    with pytest.raises(SlurmUnavailable):
        await story.session.submit(SUBMISSION, "token")

    assert story.session.state.key == KEY, "the settling of jobs without a session finds it, should it come"


def test_a_place_is_one_run_of_a_job() -> None:
    job = Job("1", "RUNNING", "sxm2", "alice", "gpu01", starts_at=datetime(2026, 11, 21, 9, tzinfo=UTC))
    assert place_of(job) == Place("gpu01", 1795251600)
    assert place_of(Job("1", "RUNNING", "sxm2", "alice", "gpu01")) == Place("gpu01", 0)


# -- what comes late: the session was stopped meanwhile, and perhaps the next one was started ----------------


class SlowOnce:
    """A Slurm whose answer to one command, the first that holds a word, comes when it is let go."""

    def __init__(self, slurm: FakeSlurm, word: str) -> None:
        self._slurm = slurm
        self._word = word
        self.is_asked = False
        self.go_on = asyncio.Event()

    async def __call__(self, argv: Sequence[str], *given: Any, **options: Any) -> Result:
        if self._word in argv and not self.is_asked:
            self.is_asked = True
            await self.go_on.wait()
        return await self._slurm(argv, *given, **options)


async def test_a_late_answer_about_a_session_that_was_stopped_does_not_end_the_next_one(
    story: Story, slurm: FakeSlurm
) -> None:
    """Its secrets were removed, and JupyterHub was told that it had ended (simulation, seed 36)."""
    await story.runs()
    await story.session.stop()
    await story.session.cluster.queue(-1)
    slow = SlowOnce(slurm, "show")
    story.session.cluster._run = slow
    polling = asyncio.ensure_future(story.session.poll())
    await story.when(lambda: slow.is_asked)

    story.session.clear()
    other = KEY[:-1] + "f"
    await story.session.submit(Submission(other, (f"--job-name=dsportal-{other}", "--partition=sxm2"), {}), "next")
    slow.go_on.set()

    assert await polling is None
    assert await story.session.poll() is None
    assert list(slurm.environments) == [other]
    assert story.session.state.last_end == ""


async def test_a_port_that_is_announced_while_its_session_is_stopped_is_refused(story: Story, slurm: FakeSlurm) -> None:
    """It was an error 500 (simulation, seed 546497)."""
    await story.runs()
    slow = SlowOnce(slurm, "squeue")
    story.session.cluster._run = slow
    announcing = asyncio.ensure_future(story.session.address.announce(Announcement(SECOND, 1)))
    await story.when(lambda: slow.is_asked)

    story.session.clear()
    slow.go_on.set()

    assert not await announcing
