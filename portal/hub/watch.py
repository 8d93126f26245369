"""What the hub does for all its sessions together: one look at the queue for all, and the end of jobs nobody holds.

It needs no JupyterHub: :class:`~portal.hub.app.PortalHub` hands it the spawners and the rows of its database, and the
simulation (tests/simulation) hands it others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from portal.errors import SlurmUnavailable
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import SessionJob
from portal.slurm.snapshot import QueueSnapshot

SETTLE_AT_ONCE = 8
SETTLE_WAIT_S = 5.0  # then the next look is due in its time; what takes longer goes on beside it
SETTLED_PER_PERSON = 8  # in one look: anybody may submit jobs that are called like sessions
Log = logging.Logger | logging.LoggerAdapter[logging.Logger]


class WatchedSpawner(Protocol):
    """What the hub's watch needs of a spawner of sessions in Slurm."""

    @property
    def ready(self) -> bool:
        """True while the session runs, and nothing is being done to it."""

    def notice(self, queue: QueueSnapshot) -> None:
        """See a new snapshot of the queue."""

    def needs_poll(self, queue: QueueSnapshot) -> bool:
        """True when the snapshot does not show the session's job where it was."""

    async def poll_and_notify(self) -> object:
        """Ask Slurm about the session's job, and tell the hub when it has ended."""


@dataclass(frozen=True)
class SessionWatch:
    """The two looks of one hub.

    Attributes:
        cluster: the one view of Slurm.
        hub_id: six hexadecimal digits that every session key of this hub begins with.
        spawners: all spawners now, whatever they do.
        held_keys: the session keys that the database holds now.
        said: what the log was told last of a job that could not be ended.
        polls: the spawners, by their id(), that are just being asked about.
        settling: the people whose lost jobs are just being ended.
        turns: the number of the job that was asked about last, of each person with lost jobs.
    """

    cluster: Cluster
    hub_id: str
    spawners: Callable[[], Iterable[WatchedSpawner]]
    held_keys: Callable[[], set[str]]
    log: Log
    said: dict[str, str] = field(default_factory=dict)
    polls: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    settling: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    few: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SETTLE_AT_ONCE))

    async def for_ever(self, every_s: float, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do one of them again and again; a failure is logged, and the next time is soon."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await work()
            except SlurmUnavailable as error:
                self.log.warning("Not done, and tried again: %s: %s", name, error.detail)
            except Exception:  # a locked database, for one
                self.log.exception("Not done, and tried again: %s", name)

    async def watch(self, max_age_s: float) -> None:
        """One query of the queue for all sessions; those whose job is not where it was are asked about."""
        running = [spawner for spawner in self.spawners() if spawner.ready]
        if not running:
            return
        queue = await self.cluster.queue(max_age_s)
        if queue.error:
            return
        for spawner in running:
            try:
                self._look(spawner, queue)
            except Exception:  # as in for_ever
                self.log.exception("Not done, and tried again: a session's look at its job")

    def _look(self, spawner: WatchedSpawner, queue: QueueSnapshot) -> None:
        spawner.notice(queue)
        if spawner.ready and spawner.needs_poll(queue) and id(spawner) not in self.polls:
            self.polls[id(spawner)] = asyncio.ensure_future(self._poll(spawner))

    async def _poll(self, spawner: WatchedSpawner) -> None:
        """Ask about one session. Its home may be silent for a minute: the watch goes on meanwhile, without it."""
        try:
            await spawner.poll_and_notify()
        except Exception:  # as in for_ever
            self.log.exception("Not done, and tried again: a session's poll")
        finally:
            del self.polls[id(spawner)]

    async def settle(self) -> None:
        """End the jobs of this hub that no session holds, and remove what sessions that are over have left.

        Each person's come one after the other, beside those of all others: nobody waits for another one's home.
        """
        jobs = await self.cluster.sessions(self.hub_id)
        held = self.held_keys() if jobs else set()
        lost: dict[str, list[SessionJob]] = {person: [] for person in self.cluster.unfinished.values()}
        for job in jobs:
            if job.key not in held:
                lost.setdefault(job.user, []).append(job)
        for gone in self.said.keys() - {job.id for job in jobs}:
            del self.said[gone]
        for person in self.turns.keys() - lost.keys():
            del self.turns[person]
        for person, theirs in lost.items():
            if person not in self.settling:
                few = in_turn(theirs, self.turns.get(person, 0))
                self.settling[person] = asyncio.ensure_future(self._settle_person(person, few))
        if self.settling:
            await asyncio.wait(self.settling.values(), timeout=SETTLE_WAIT_S)

    async def _settle_person(self, person: str, jobs: Iterable[SessionJob]) -> None:
        try:
            for job in jobs:
                self.turns[person] = int(job.id)
                await self._settle(job)
            for key in [key for key, owner in self.cluster.unfinished.items() if owner == person]:
                await self.cluster.clean_up(person, key)
        except Exception:  # as in for_ever
            self.log.exception("Not done, and tried again: the jobs of %s that no session holds", person)
        finally:
            del self.settling[person]

    async def _settle(self, job: SessionJob) -> None:
        try:
            async with self.few:
                is_ours = await self.cluster.confirmed(job)
            if is_ours:
                async with self.cluster.clean_ups.of(job.user):
                    await self.cluster.finish(job.user, job.key, job.id)
                self.log.warning("Job %s of %s had no session any more; it was cancelled", job.id, job.user)
        except SlurmUnavailable as error:
            said = f"Job {job.id} of {job.user} has no session and could not be ended: {error.detail}"
            if self.said.get(job.id) != said:  # not every minute the same
                self.log.warning("%s", said)
            self.said[job.id] = said


def in_turn(jobs: Iterable[SessionJob], last: int) -> list[SessionJob]:
    """The few that are next, by their numbers, after the one that was asked about last: each has its turn."""
    return sorted(jobs, key=lambda job: (int(job.id) <= last, int(job.id)))[:SETTLED_PER_PERSON]
