"""A running session whose job Slurm starts again: which of the server's words count, and where it then is."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Job
from portal.testing.behaviours import Requeued
from portal.testing.fake_slurm import FakeSlurm
from spawners import requeue
from spawners.requeue import FollowsRequeue, place_of

FIRST, SECOND, THIRD = 40001, 40002, 40003


class Running(FollowsRequeue):
    """A session that runs on a fake Slurm; each look takes a second of the cluster's time."""

    log, _log_name = logging.getLogger("test"), "alice"

    def __init__(self, slurm: FakeSlurm, cluster: Cluster, job: Job) -> None:
        self.slurm, self.cluster, self.job_id = slurm, cluster, job.id
        self.server = SimpleNamespace(ip=job.node, port=FIRST)
        self._listens_at, self._place = FIRST, place_of(job)
        self.saved = 0

    async def _look(self, max_age_s: float) -> Job | None:
        self.slurm.advance(1)
        return (await self.cluster.queue(-1)).jobs.get(self.job_id)

    def _save(self) -> None:
        self.saved += 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No real time goes by."""
    monkeypatch.setattr(requeue, "LOOK_EVERY_S", 0)


@pytest.fixture
async def session(monkeypatch: pytest.MonkeyPatch) -> Running:
    """Alice's session runs on gpu01; after ten seconds its job waits for a minute, then it runs on gpu02."""
    slurm = FakeSlurm()
    monkeypatch.setattr(requeue.time, "time", lambda: slurm.now.timestamp())
    slurm.next_job(Requeued(after_s=10, wait_s=60))
    job_id = slurm.take("alice", {"partition": "sxm2"}).id
    slurm.advance(2)
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)
    job = (await cluster.queue(-1)).jobs[job_id]
    assert job.node == "gpu01"
    return Running(slurm, cluster, job)


async def waits_again(session: Running) -> Job:
    """The picture in which the job is back in the queue, as a poll sees it."""
    session.slurm.advance(9)
    job = await session._look(0)
    assert job is not None
    assert session.has_moved(job)
    session.requeued(job)
    return job


async def goes_on(session: Running) -> None:
    """Wait until the session has its new address."""
    async with asyncio.timeout(2):
        while session.following:  # noqa: ASYNC110  time goes by in the looks
            await asyncio.sleep(0)


async def test_the_session_goes_on_where_its_job_runs_now_at_the_port_it_tells(session: Running) -> None:
    await waits_again(session)
    session.slurm.advance(60)

    assert await session.take_port(SECOND)
    await goes_on(session)

    assert (session.server.ip, session.server.port) == ("gpu02", SECOND)
    assert session._listens_at == SECOND
    assert await session.take_port(SECOND), "the same word again is the same answer again"
    assert not await session.take_port(THIRD), "and another one is nobody's to say"
    assert session.server.port == SECOND


async def test_a_picture_that_is_behind_the_servers_word_moves_the_session_only_once(
    session: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may tell its port before the queue shows that the job runs again."""
    old = await waits_again(session)
    session.slurm.advance(60)

    look = session._look
    monkeypatch.setattr(session, "_look", AsyncMock(return_value=old))

    assert await session.take_port(SECOND)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not session.has_moved(old), "or it would wait for a word that was said already"
    monkeypatch.setattr(session, "_look", look)
    await goes_on(session)

    assert (session.server.ip, session.server.port) == ("gpu02", SECOND)


async def test_a_job_that_is_started_twice_before_it_is_seen_has_its_last_port(session: Running) -> None:
    await waits_again(session)
    assert await session.take_port(SECOND)
    session.slurm.advance(60)  # it was started again after that word: that server is gone
    for _ in range(20):
        await asyncio.sleep(0)
    assert session.following, "the old word is not believed"

    assert await session.take_port(THIRD)
    await goes_on(session)

    assert (session.server.ip, session.server.port) == ("gpu02", THIRD)


async def test_a_session_that_is_stopped_meanwhile_is_not_followed_any_more(session: Running) -> None:
    await waits_again(session)
    following = session.following
    assert following

    session.stop_following()
    await asyncio.wait([following], timeout=1)

    assert following.cancelled()
    assert session.following is None, "the next session of this person is a new one"


async def test_a_word_that_comes_before_the_hub_has_seen_the_requeue_is_taken(session: Running) -> None:
    session.slurm.advance(80)

    assert await session.take_port(SECOND)
    await goes_on(session)

    assert (session.server.ip, session.server.port) == ("gpu02", SECOND)
