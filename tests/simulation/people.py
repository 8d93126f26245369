"""People who start sessions, wait, use them, stop them or leave them, and start again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from portal.testing.behaviours import Completes
from tests.simulation.hub import PersonsServer
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.story import Simulation

LOOKS_EVERY_S = 60.0
IDLE_S = 3600.0
USES_S = 5400.0
PATIENCE_S = 7200.0
DEAD_PAGE_S = 900.0  # after so long without an answer of the server a person presses Stop


class Person:
    """One person, who looks at her page about once a minute."""

    def __init__(self, name: str, simulation: Simulation) -> None:
        self.name = name
        self.sessions = 0
        self._simulation = simulation
        self._starts_at = 0.0
        self._leaves_at = 0.0
        self._gives_up_at = 0.0
        self._dead_since: float | None = None

    @property
    def world(self) -> World:
        """Where she lives."""
        return self._simulation.world

    async def live(self) -> None:
        """For ever."""
        chance = self.world.chance
        self._starts_at = chance.expovariate(1 / IDLE_S)
        while True:
            await asyncio.sleep(LOOKS_EVERY_S * chance.uniform(0.5, 1.5))
            hub = self._simulation.hub
            if hub.is_dead:
                continue
            server = hub.servers[self.name]
            if server.active:
                self._looks(server)
            elif self.world.now() > self._starts_at:
                self._starts(server)

    def _starts(self, server: PersonsServer) -> None:
        chance = self.world.chance
        now = self.world.now()
        self.sessions += 1
        self._gives_up_at = now + chance.expovariate(1 / PATIENCE_S)
        self._leaves_at = now + chance.expovariate(1 / USES_S)
        self._dead_since = None
        server.click_start(hours=chance.choice((1, 1, 2, 4, 8)))

    def _looks(self, server: PersonsServer) -> None:
        now = self.world.now()
        self._starts_at = now + self.world.chance.expovariate(1 / IDLE_S)
        if not server.ready:
            if server.spawning and now > self._gives_up_at:
                self._stops(server)
            return
        if self.world.listens(*server.address):
            self._dead_since = None
        elif self._dead_since is None:
            self._dead_since = now
        elif now - self._dead_since > DEAD_PAGE_S:
            self._stops(server)
        if now > self._leaves_at:
            self._leaves(server)

    def _stops(self, server: PersonsServer) -> None:
        self._simulation.served.discard(server.session.state.key)
        server.hub.task(server.click_stop())

    def _leaves(self, server: PersonsServer) -> None:
        """By Stop, by "Shut down" in Lab, or without a word: then the session uses up its hours."""
        how = self.world.chance.random()
        self._leaves_at = self.world.now() + USES_S
        found = self.world.servers.get(server.address)
        if how < 0.5:
            self._stops(server)
        elif how < 0.7 and found and self.world.is_up(found):
            self.world.slurm.happens(found.job.id, Completes(after_s=0))
