"""What the hub does for all sessions together: the watch, and the end of what no session holds."""

from __future__ import annotations

import asyncio
import getpass
import logging
from dataclasses import dataclass, field

import pytest

from portal.errors import SlurmUnavailable
from portal.hub.watch import SessionWatch
from portal.slurm.cluster import Cluster
from portal.slurm.snapshot import QueueSnapshot
from portal.slurm.submission import Submission
from portal.testing.behaviours import Completes
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import LauncherFails, NoOutage, SlurmSilent

HUB_ID = "abc123"
KEY = f"{HUB_ID}0123456789"
PERSON = getpass.getuser()
OTHER = f"{HUB_ID}9999999999"


@dataclass
class WatchedJobs:
    """A spawner whose job is gone where it does not run."""

    job_id: str
    ready: bool = True
    noticed: list[QueueSnapshot] = field(default_factory=list)
    polled: int = 0

    def notice(self, queue: QueueSnapshot) -> None:
        self.noticed.append(queue)

    def needs_poll(self, queue: QueueSnapshot) -> bool:
        return queue.jobs[self.job_id].state != "RUNNING"

    async def poll_and_notify(self) -> None:
        self.polled += 1


class House:
    """One hub on FakeSlurm."""

    def __init__(self) -> None:
        self.slurm = FakeSlurm()
        self.cluster = Cluster("/opt/portal-launch", run=self.slurm, clock=self.slurm.clock, pause=self.slurm.pause)
        self.spawners: list[WatchedJobs] = []
        self.held: set[str] = set()
        self.watch = SessionWatch(
            self.cluster, HUB_ID, lambda: self.spawners, lambda: self.held, logging.getLogger("test")
        )

    async def submit(self, key: str = KEY, name: str = "") -> str:
        """A job of somebody who has an account here."""
        options = (f"--job-name={name or f'dsportal-{key}'}", "--partition=sxm2")
        return await self.cluster.submit(PERSON, Submission(key, options, {"JUPYTERHUB_API_TOKEN": "s3"}))

    def state(self, job_id: str) -> str:
        return self.slurm.status(self.slurm.jobs[job_id]).state


@pytest.fixture
def house() -> House:
    """A hub without sessions."""
    return House()


async def test_one_query_is_made_for_all_and_only_those_whose_job_is_gone_are_asked_about(house: House) -> None:
    house.slurm.next_job(Completes(after_s=5))
    gone = WatchedJobs(await house.submit())
    runs = WatchedJobs(await house.submit(OTHER))
    starts = WatchedJobs(gone.job_id, ready=False)
    house.spawners = [gone, runs, starts]
    house.slurm.advance(6)
    house.slurm.asked.clear()

    await house.watch.watch(6)
    await asyncio.sleep(0)

    assert [command[0] for command in house.slurm.asked] == ["squeue"]
    assert (gone.polled, runs.polled, starts.polled) == (1, 0, 0)
    assert (len(gone.noticed), len(runs.noticed), len(starts.noticed)) == (1, 1, 0)


async def test_nobody_is_asked_about_while_slurm_is_silent_or_nothing_runs(house: House) -> None:
    await house.watch.watch(6)
    assert not house.slurm.asked
    session = WatchedJobs(await house.submit())
    house.spawners = [session]
    house.slurm.outage = SlurmSilent()

    await house.watch.watch(6)

    assert (session.polled, session.noticed) == (0, [])


async def test_a_job_that_no_session_holds_is_ended_and_no_other(house: House) -> None:
    orphan = await house.submit()
    held = await house.submit(OTHER)
    other_hub = await house.submit("fff" + KEY[3:])
    house.held = {OTHER}

    await house.watch.settle()

    assert [house.state(job) for job in (orphan, held, other_hub)] == ["CANCELLED", "RUNNING", "RUNNING"]


async def test_a_job_whose_name_only_looks_like_a_sessions_is_left_alone(house: House) -> None:
    """A name may hold a newline, and a line that names another job."""
    victim = house.slurm.take(PERSON, {"job-name": "training"})
    house.slurm.take(PERSON, {"job-name": f"x\n{victim.id}|{PERSON}|dsportal-{KEY}"})

    await house.watch.settle()

    assert house.state(victim.id) == "RUNNING"


async def test_secrets_that_a_failing_launcher_left_in_a_home_are_removed_when_it_works_again(house: House) -> None:
    job_id = await house.submit()
    house.slurm.happens(job_id, Completes(after_s=0))
    house.slurm.outage = LauncherFails()
    with pytest.raises(SlurmUnavailable):
        await house.cluster.finish(PERSON, KEY, job_id)
    await house.watch.settle()
    assert KEY in house.slurm.environments

    house.slurm.outage = NoOutage()
    await house.watch.settle()

    assert not house.slurm.environments
    house.slurm.asked.clear()
    await house.watch.settle()
    assert not [command for command in house.slurm.asked if command[0] == "sudo"], "once is enough"


async def test_a_look_that_fails_is_logged_and_done_again(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [SlurmUnavailable("no", detail="slurmctld is away"), ValueError("the database is locked")]
    done = asyncio.Event()

    async def look() -> None:
        if failures:
            raise failures.pop(0)
        done.set()

    looking = asyncio.ensure_future(house.watch.for_ever(0, "look", look))
    async with asyncio.timeout(5):
        await done.wait()
    looking.cancel()

    assert "Not done, and tried again: look: slurmctld is away" in caplog.text
    assert "the database is locked" in caplog.text


# -- a session that cannot be asked about ----------------------------------------------------------------


class EndingSession:
    """A running session that the snapshot does not show; it answers at once, never, or with an error."""

    ready = True

    def __init__(self, silent: bool = False, error: Exception | None = None, unnoticed: bool = False) -> None:
        self.silent = silent
        self.error = error
        self.unnoticed = unnoticed
        self.polls = 0

    def notice(self, queue: QueueSnapshot) -> None:
        """Nothing to notice, or what it cannot keep."""
        if self.unnoticed:
            raise RuntimeError("the database is locked")

    def needs_poll(self, queue: QueueSnapshot) -> bool:
        """It is not where it was."""
        return True

    async def poll_and_notify(self) -> None:
        """As a session whose secrets are removed by a launcher that may not answer."""
        self.polls += 1
        if self.silent:
            await asyncio.Event().wait()
        if self.error:
            raise self.error


def watch_over(*sessions: EndingSession) -> SessionWatch:
    """A hub in which these sessions run."""
    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    return SessionWatch(cluster, HUB_ID, lambda: sessions, set, logging.getLogger("test"))


async def test_a_session_whose_home_is_silent_keeps_the_watch_from_no_other_one() -> None:
    silent = EndingSession(silent=True)
    other = EndingSession()
    watch = watch_over(silent, other)

    for _ in range(3):
        await asyncio.wait_for(watch.watch(6), timeout=5)
        await asyncio.sleep(0)

    assert other.polls == 3
    assert silent.polls == 1, "it is not asked about again while it is still asked about"


async def test_a_session_that_cannot_be_asked_about_is_logged_and_asked_about_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faulty = EndingSession(error=RuntimeError("the database is locked"))
    watch = watch_over(faulty)

    for _ in range(2):
        await asyncio.wait_for(watch.watch(6), timeout=5)
        await asyncio.sleep(0)

    assert faulty.polls == 2
    assert "Not done, and tried again: a session's poll" in caplog.text


async def test_a_session_that_cannot_take_note_of_its_job_keeps_the_watch_from_no_other_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faulty = EndingSession(unnoticed=True)
    other = EndingSession()
    watch = watch_over(faulty, other)

    await asyncio.wait_for(watch.watch(6), timeout=5)
    await asyncio.sleep(0)

    assert other.polls == 1
    assert "Not done, and tried again: a session's look" in caplog.text
