"""Between the submission and the first answer: what a late or an early word of the server means."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from portal.errors import SessionEnded
from portal.site import Site
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Phase, squeue_command
from portal.testing.bad_answers import bad_answers
from portal.testing.behaviours import FailsWith, PendingForever, Requeued, Runs
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import NoOutage
from spawners import starting
from spawners.starting import AwaitsServer


class Starting(AwaitsServer):
    """The start loop on a fake Slurm; its server answers as soon as it is asked, and time goes by at each wait."""

    def __init__(self, slurm: FakeSlurm, site: Site) -> None:
        self.slurm, self.site = slurm, site
        self._cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)
        self.job_id = slurm.take("alice", {"partition": "sxm2"}).id
        self._submitted_at = self._changed_at = slurm.clock()
        self.asked: list[tuple[str, int]] = []
        self.log, self.server = SimpleNamespace(info=print, warning=print), None
        self.expect_port()

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    async def first_answer(self, host: str, port: int) -> None:
        self.asked.append((host, port))

    async def _something_happens(self) -> None:
        await asyncio.sleep(0)
        self.slurm.advance(1)

    async def _finish(self) -> str:
        return "the last lines"

    def _save(self) -> None:
        pass


@pytest.fixture
def slurm() -> FakeSlurm:
    """A cluster in which nothing is wrong."""
    return FakeSlurm()


async def started(session: Starting, within_s: float = 5) -> Any:
    async with asyncio.timeout(within_s):
        return await session._started()


async def test_a_word_of_the_server_that_comes_before_slurms_picture_is_kept(slurm: FakeSlurm, site: Site) -> None:
    slurm.next_job(Runs(after_s=2))
    session = Starting(slurm, site)
    await session._look(0)  # the picture still shows a job that waits
    session.accept_port(40123)

    assert await started(session) == ("gpu01", 40123)


@pytest.mark.parametrize(("told_s", "port"), [(5, 40123), (-15, 40123), (-60, 40456)])
async def test_a_port_told_to_a_hub_that_went_away_counts_unless_the_job_has_been_started_again_since(
    slurm: FakeSlurm, site: Site, told_s: float, port: int
) -> None:
    slurm.next_job(Runs(after_s=4))
    session = Starting(slurm, site)
    session._told = [40123, slurm.now.timestamp() + told_s]
    running = asyncio.ensure_future(started(session))
    while not session._running_since:  # noqa: ASYNC110  time goes by in the loop itself
        await asyncio.sleep(0)
    if not session.announced:
        session.accept_port(port)

    assert await running == ("gpu01", port)


async def test_a_job_that_slurm_takes_back_while_it_starts_is_waited_for_at_its_new_port(
    slurm: FakeSlurm, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "LOOK_EVERY_S", 0.5)
    slurm.next_job(Requeued(after_s=3, wait_s=4))
    session = Starting(slurm, site)
    silent: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def first_answer(host: str, port: int) -> None:
        session.asked.append((host, port))
        if port == 40123:
            await silent  # it ends before it answers

    session.first_answer = first_answer  # type: ignore[method-assign]
    session.accept_port(40123)
    running = asyncio.ensure_future(started(session))
    while not (session._job and session._job.node == "gpu02"):  # noqa: ASYNC110  time goes by in the loop itself
        await asyncio.sleep(0)
    session.accept_port(40456)

    assert await running == ("gpu02", 40456)
    assert session.asked == [("gpu01", 40123), ("gpu02", 40456)]


async def test_a_job_that_ends_before_its_server_answers_ends_the_start_with_its_reason(
    slurm: FakeSlurm, site: Site
) -> None:
    slurm.next_job(FailsWith(3, after_s=2))

    with pytest.raises(SessionEnded, match="failed with exit code 3"):
        await started(Starting(slurm, site))


async def test_a_picture_that_shows_a_job_as_ended_is_believed_only_when_slurmctld_says_so_too(
    slurm: FakeSlurm, site: Site
) -> None:
    slurm.next_job(Runs(after_s=1))
    session = Starting(slurm, site)
    slurm.advance(2)
    listing = (await slurm(squeue_command())).stdout
    slurm.outage = bad_answers(listing, session.job_id)["shown as preempted"]
    running = asyncio.ensure_future(started(session))
    while not (session._job and session._job.phase is Phase.ENDED):  # noqa: ASYNC110  time goes by in the loop itself
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert not running.done()

    slurm.outage = NoOutage()
    session.accept_port(40123)
    assert await running == ("gpu01", 40123)


async def test_a_wait_has_no_end_but_the_sites(slurm: FakeSlurm, site: Site) -> None:
    slurm.next_job(PendingForever())

    with pytest.raises(TimeoutError):
        await started(Starting(slurm, site), within_s=0.3)


async def test_slurm_is_asked_seldom_while_a_session_only_waits(slurm: FakeSlurm, site: Site) -> None:
    slurm.next_job(PendingForever())
    session = Starting(slurm, site)
    until = slurm.clock() + 620

    async def something() -> None:
        await asyncio.sleep(0)
        slurm.advance(1)
        if slurm.clock() > until:
            raise KeyError("ten minutes")

    session._something_happens = something  # type: ignore[method-assign]
    with pytest.raises(KeyError):
        await session._started()

    asked = [command for command in slurm.asked if command[0] == "squeue"]
    assert len(asked) <= 20 + 600 / 12
