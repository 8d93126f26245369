"""The words of a start, for all the pages that follow it: one look for all of them, and so many pages at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest
from tornado import web

from portal.site import Site
from portal.slurm import forecast
from portal.slurm.cluster import Cluster
from portal.slurm.submission import Submission
from portal.testing.behaviours import PendingForever
from portal.testing.fake_slurm import FakeSlurm
from spawners import messages, timings
from spawners.session import Session
from spawners.startup import progress

KEY = "abc1230123456789"
SUBMISSION = Submission(KEY, (f"--job-name=dsportal-{KEY}", "--partition=sxm2"), {})


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A cluster whose next job waits; its pages look again at once, and time goes by when we say so."""
    monkeypatch.setattr(timings, "LIVELY_EVERY_S", 0.0)
    made = FakeSlurm()
    made.next_job(PendingForever())
    return made


@pytest.fixture
async def session(slurm: FakeSlurm, site: Site) -> Session:
    """A session that waits in the queue."""
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    made = Session(cluster, site, "alice", lambda state: None, logging.getLogger("test"))
    await made.submit(SUBMISSION, "token")
    assert await made.query(0.0)
    return made


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partition of each count of what is free."""
    partitions: list[str] = []
    count = forecast.free

    def free(nodes: object, partition: str) -> forecast.Free:
        partitions.append(partition)
        return count(nodes, partition)  # type: ignore[arg-type]

    monkeypatch.setattr(forecast, "free", free)
    return partitions


class Page:
    """One page that follows a start."""

    def __init__(self, session: Session) -> None:
        self.told: list[messages.View] = []
        self.is_closed = False
        self.task = asyncio.ensure_future(self._follow(progress(session, lambda: "")))

    async def _follow(self, stream: AsyncIterator[messages.View]) -> None:
        try:
            async for words in stream:
                self.told.append(words)
        except web.Finish:
            self.is_closed = True


async def when(condition: Callable[[], object]) -> None:
    """Let the others have their turn until something is true."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  the pages' own turns
            await asyncio.sleep(0)


async def turns(number: int = 300) -> None:
    """Let everybody look again, many times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_many_pages_of_one_start_have_the_queue_looked_at_once_in_a_second(
    session: Session, slurm: FakeSlurm, counted: list[str]
) -> None:
    pages = [Page(session) for _ in range(8)]
    await when(lambda: all(page.told for page in pages))
    await turns()
    assert counted == ["sxm2"]

    slurm.advance(1.5)
    await when(lambda: len(counted) > 1)
    await turns()

    assert counted == ["sxm2", "sxm2"]
    assert {page.told[0].text for page in pages} == {pages[0].told[0].text}
    for page in pages:
        page.task.cancel()


async def test_of_many_pages_the_newest_are_told_what_happens_and_the_oldest_look_again_later(session: Session) -> None:
    pages = [Page(session) for _ in range(timings.FOLLOWED_AT_ONCE + 12)]
    await when(lambda: all(page.told for page in pages))
    await when(lambda: sum(page.is_closed for page in pages) == 12)
    await turns()

    assert [page.is_closed for page in pages] == [True] * 12 + [False] * timings.FOLLOWED_AT_ONCE
    assert all(page.told[-1].event["later"] is True for page in pages[:12])
    assert "8 windows" in pages[0].told[-1].text
    assert not any("later" in words.event for page in pages[12:] for words in page.told)
    for page in pages:
        page.task.cancel()


async def test_a_page_that_was_closed_makes_room_for_another_one(session: Session) -> None:
    pages = [Page(session) for _ in range(timings.FOLLOWED_AT_ONCE)]
    await when(lambda: all(page.told for page in pages))
    pages[3].task.cancel()
    await turns()

    pages.append(Page(session))
    await when(lambda: pages[-1].told)
    await turns()

    assert not any(page.is_closed for page in pages)
    for page in pages:
        page.task.cancel()
