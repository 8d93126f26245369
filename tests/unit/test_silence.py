"""What is silent outside costs the person concerned, and nobody else: name service, node addresses, launcher."""

from __future__ import annotations

import asyncio
import pwd
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from portal.errors import SlurmUnavailable
from portal.slurm import runner
from portal.slurm.accounting import JobEnd, with_name
from portal.slurm.cluster import Cluster
from portal.slurm.runner import Result, RunError
from portal.slurm.submission import Submission
from portal.testing.fake_slurm import FakeSlurm
from spawners.messages import HANDED_OVER_WITHIN_S, view

CANCELLED = JobEnd("CANCELLED", cancelled_by="20001")
SUBMISSION = Submission("abc1230123456789", ("--partition=sxm2",), {})


@pytest.fixture
def over() -> Iterator[threading.Event]:
    """Set at the end of a test: whoever hangs goes on."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def silent_names(monkeypatch: pytest.MonkeyPatch, over: threading.Event) -> None:
    """A name service that answers nobody."""

    def silent(_whom: object) -> Any:
        over.wait(20)
        raise KeyError("nobody")

    monkeypatch.setattr(pwd, "getpwuid", silent)
    monkeypatch.setattr(pwd, "getpwnam", silent)
    monkeypatch.setattr(runner, "NAME_WITHIN_S", 0.05)


@pytest.mark.usefixtures("silent_names")
async def test_an_end_is_told_with_a_number_where_the_name_service_is_silent(over: threading.Event) -> None:
    telling = asyncio.ensure_future(with_name(CANCELLED))
    await asyncio.wait([telling], timeout=5)
    over.set()

    assert telling.done(), "it waits for the name service"
    assert telling.result() == CANCELLED


async def test_an_end_is_told_with_the_name_of_who_cancelled_it() -> None:
    root = await with_name(JobEnd("CANCELLED", cancelled_by="0"))
    nobody_knows = await with_name(JobEnd("CANCELLED", cancelled_by="1999999999"))

    assert (root.cancelled_by, nobody_knows.cancelled_by) == ("root", "1999999999")


@pytest.mark.usefixtures("silent_names")
async def test_many_ends_at_a_silent_name_service_do_not_wait_for_each_other(
    over: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "NAME_WITHIN_S", 0.5)

    async with asyncio.timeout(20):  # one after the other they would take 50 s
        await asyncio.gather(*(with_name(CANCELLED) for _ in range(100)))

    over.set()


async def test_the_queue_is_read_while_everybody_waits_for_the_address_of_a_node(over: threading.Event) -> None:
    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    looking_up = loop.run_in_executor(None, over.wait, 20)  # as asyncio does for a name that DNS does not answer

    queue = asyncio.ensure_future(cluster.queue())
    nodes = asyncio.ensure_future(cluster.nodes())
    read, _ = await asyncio.wait([queue, nodes], timeout=5)
    over.set()
    await looking_up

    assert read == {queue, nodes}
    assert queue.result().error is None
    assert nodes.result().nodes


class SilentLauncher(FakeSlurm):
    """A cluster in which the launcher answers nobody: sudo waits for the name service, or the home is away."""

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """Nothing from sudo."""
        if argv[0] == "sudo":
            self.advance(timeout_s)
            raise RunError(f"sudo did not answer within {timeout_s:g} s")
        return await super().__call__(argv, stdin, env, timeout_s)


async def test_who_waits_for_a_silent_launcher_is_told_what_may_be_away_and_what_to_do() -> None:
    slurm = SilentLauncher()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)

    with pytest.raises(SlurmUnavailable) as told:
        await cluster.submit_or_find("alice", SUBMISSION)

    assert "your home, or the cluster's list of accounts, does not answer. Try again" in told.value.message
    assert told.value.detail == "sudo did not answer within 60 s"


def test_who_looks_on_while_the_launcher_is_silent_is_told_that_it_is_slow() -> None:
    soon = view(None, watched_for_s=1)
    later = view(None, watched_for_s=HANDED_OVER_WITHIN_S + 1)

    assert soon.text == "The job is handed to Slurm."
    assert "slow to answer" in later.text


@pytest.mark.usefixtures("silent_names")
async def test_an_account_is_not_taken_for_removed_by_a_name_service_that_is_silent(over: threading.Event) -> None:
    asking = asyncio.ensure_future(runner.is_account("alice"))
    await asyncio.wait([asking], timeout=5)
    over.set()

    assert asking.done(), "it waits for the name service"
    assert asking.result() is True


async def test_an_account_that_the_name_service_does_not_know_is_removed() -> None:
    assert await runner.is_account("root")
    assert not await runner.is_account("nobody-of-this-name")
