"""The hub's watch over all running sessions: one that is asked about in vain delays no other one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from portal.hub.app import PortalHub
from portal.slurm.cluster import Cluster
from portal.slurm.snapshot import QueueSnapshot
from portal.testing.fake_slurm import FakeSlurm


class EndingSession:
    """A running session that the snapshot does not show; it answers at once, never, or with an error."""

    ready = True

    def __init__(self, silent: bool = False, error: Exception | None = None) -> None:
        self.silent = silent
        self.error = error
        self.polls = 0

    def notice(self, queue: QueueSnapshot) -> None:
        """Nothing to notice."""

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


@pytest.fixture
def cluster() -> Cluster:
    """A cluster in which nothing is wrong."""
    slurm = FakeSlurm()
    return Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)


def hub_with(*sessions: EndingSession, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A hub in which these sessions run."""
    hub = PortalHub(log=logging.getLogger("hub"))
    monkeypatch.setattr(hub, "_running", lambda: list(sessions))
    return hub


async def test_a_session_whose_home_is_silent_keeps_the_watch_from_no_other_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, other = EndingSession(silent=True), EndingSession()
    hub = hub_with(silent, other, monkeypatch=monkeypatch)

    for _ in range(3):
        await asyncio.wait_for(hub.watch(cluster), timeout=5)
        await asyncio.sleep(0)

    assert other.polls == 3
    assert silent.polls == 1, "it is not asked about again while it is still asked about"


async def test_a_session_that_cannot_be_asked_about_is_logged_and_asked_about_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faulty = EndingSession(error=RuntimeError("the database is locked"))
    hub = hub_with(faulty, monkeypatch=monkeypatch)

    for _ in range(2):
        await asyncio.wait_for(hub.watch(cluster), timeout=5)
        await asyncio.sleep(0)

    assert faulty.polls == 2
    assert "Not done, and tried again: a session's poll" in caplog.text
