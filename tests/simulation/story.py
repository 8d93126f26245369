"""The simulation as a whole: people, a hub, a cluster, faults one after the other or together, and the invariants."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from portal.site import Site
from portal.testing.cluster_parts import FakePartition
from tests.simulation.faults import FAULTS
from tests.simulation.hub import Row, Rows, SimulatedHub
from tests.simulation.invariants import CHECK_EVERY_S, Auditor
from tests.simulation.people import Person
from tests.simulation.world import World

QUIET_S = (330.0, 600.0)  # between two faults: longer than what is wrong may stay wrong
QUERIES_PER_MIN = 400  # a snapshot each second, five in the moment of a start; the rest are questions about single jobs
PARTITION = FakePartition("sxm2", tuple(f"gpu{n:02}" for n in range(1, 41)))


class InvariantBroken(AssertionError):
    """Something stayed wrong: the seed, the time, what, and what had happened."""


@dataclass(frozen=True)
class Plan:
    """How much is simulated: people, hours, and the faults by name; ``longest_s`` is the longest that one lasts."""

    people: int
    hours: float
    seed: int
    longest_s: float = 1200
    faults: Sequence[str] = tuple(FAULTS)


@dataclass
class Seen:
    """What a run saw."""

    faults: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    kills: int = 0
    checks: int = 0
    longest_s: float = 0.0
    queries: int = 0
    most_queries_per_min: int = 0
    objects: list[int] = field(default_factory=list)  # of Python's, once per simulated half-hour


class Simulation:
    """One run.

    Attributes:
        hub: the one that lives, or the one that was killed last.
        rows: what its database holds.
        quiet_since: when the last fault was over; ``None`` while one lasts.
        forgotten: keys of sessions that are over, whose secrets neither hub nor database know of any more.
        served: keys of sessions that were ready, and that only their person, their job's end or a backup may end.
    """

    def __init__(self, plan: Plan, site: Site, progress: Callable[[str], None] = lambda line: None) -> None:
        self.plan = plan
        self.site = site
        self._progress = progress
        self.world = World(plan.seed, [PARTITION])
        self.seen = Seen()
        self.log = logging.Logger("simulation", logging.INFO)  # one for each run
        self.log.addHandler(_Told(self.world))
        self.people = [Person(f"person{n:04}", self) for n in range(plan.people)]
        self.served: set[str] = set()
        self.rows: Rows = {person.name: Row() for person in self.people}
        self.hub = SimulatedHub(self.world, site, self.rows, self.log, self._is_ready)
        self.quiet_since: float | None = 0.0
        self.forgotten: set[str] = set()
        self._auditor = Auditor(self)
        self.world.on_finish = self._finishes

    def _is_ready(self, key: str) -> None:
        self.served.add(key)

    def _finishes(self, key: str, job_id: str) -> None:
        """A session is finished: where it was ready and nobody has stopped it, its job must be over."""
        job = self.world.slurm.jobs.get(job_id)
        if key in self.served and job and job.name.endswith(key) and job in [job for job, _ in self.world.living()]:
            self.world.wrong.append(f"the hub ends the session {key}, whose job {job_id} runs")
        self.served.discard(key)

    def start_hub(self) -> None:
        """A new hub, with what the database holds; where one lives already it is the one."""
        if not self.hub.is_dead:
            return
        self.world.tell("the hub starts")
        self.hub = SimulatedHub(self.world, self.site, self.rows, self.log, self._is_ready)
        self.hub.start()

    async def kill_hub(self) -> None:
        """As ``kill -9``."""
        if not self.hub.is_dead:
            self.seen.kills += 1
            self.world.tell("the hub is killed")
            await self.hub.kill()
            self._forgets()

    def _forgets(self) -> None:
        """Secrets that the launcher could not remove are known to nobody but a living hub, as those of jobs that
        never came are to nobody but the database.
        """
        held = {row.state.get("key") for row in self.rows.values()}
        self.forgotten |= self.world.slurm.environments.keys() - held

    def lasts(self, *choices: float) -> float:
        """How many seconds something lasts: about one of these."""
        return min(self.world.chance.choice(choices) * self.world.chance.uniform(0.5, 1.5), self.plan.longest_s)

    def rolled_back(self, backup: Rows) -> None:
        """The database is that of a backup."""
        self.world.tell("the database is rolled back")
        self.rows = copy.deepcopy(backup)
        self._forgets()
        self.served.clear()

    def run(self) -> Seen:
        """All of it.

        Raises:
            InvariantBroken: with the seed, to see it again.
        """
        with asyncio.Runner(loop_factory=lambda: self.world.loop) as runner:
            runner.run(self._run())
        self.seen.sessions = sum(person.sessions for person in self.people)
        self.seen.checks = self._auditor.checks
        self.seen.longest_s = self._auditor.longest_s
        return self.seen

    async def _run(self) -> None:
        self.hub.start()
        names = [person.name for person in self.people]
        lives = [self.world.nodes(), self.world.other_jobs(names), self._faults()]
        living = [self.world.start(life) for life in (*lives, *(person.live() for person in self.people))]
        minute = 0
        while self.world.now() < self.plan.hours * 3600:
            await asyncio.sleep(CHECK_EVERY_S)
            self._check()
            if self.world.now() // 60 > minute:
                minute = int(self.world.now() // 60)
                self._count(minute)
            for life in living:
                if life.done():
                    life.result()
        await self.hub.kill()
        for life in living:
            life.cancel()
        await asyncio.wait(living)

    async def _faults(self) -> None:
        chance = self.world.chance
        await asyncio.sleep(300)
        left: list[str] = []
        while True:
            count = min(chance.choice((1, 1, 1, 2, 3)), len(self.plan.faults))
            if len(left) < count:
                left = chance.sample(list(self.plan.faults), k=len(self.plan.faults)) + left  # all come equally often
            names = [left.pop() for _ in range(count)]
            self.quiet_since = None
            self.seen.faults.update(names)
            self.world.tell(f"faults: {', '.join(names)}")
            await asyncio.gather(*(FAULTS[name](self) for name in names))
            self.world.tell("faults are over")
            self.start_hub()
            self.quiet_since = self.world.now()
            await asyncio.sleep(chance.uniform(*QUIET_S))

    # -- checks -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        wrong = self.world.wrong + [f"{what} {who}: {text}" for (what, who), text in self._auditor.look().items()]
        wrong += [
            f"{job.user}'s own job {job.id} {job.name!r} was cancelled"
            for job in self.world.foreign
            if job.status(self.world.slurm.now).state == "CANCELLED"
        ]
        for server in self.hub.servers.values():
            wrong += [f"a session of {server.person} ended without a reason" for told in server.told if not told]
            server.told.clear()
        if wrong:
            raise InvariantBroken(self._text(wrong))

    def _text(self, wrong: list[str]) -> str:
        words = {word for text in wrong[:3] for word in text.replace(":", " ").split() if len(word) > 8}
        told = [line for line in self.world.story if "fault" in line or "hub" in line or any(w in line for w in words)]
        return "\n".join(
            [
                f"seed {self.plan.seed}, {self.plan.people} people, after {self.world.now():.0f} s:",
                *wrong[:10],
                "what happened:",
                *told[-60:],
            ]
        )

    def _count(self, minute: int) -> None:
        asked = self.world.asked
        queries = sum(count for kind, count in asked.items() if kind != "launcher")
        asked.clear()
        self.seen.queries += queries
        self.seen.most_queries_per_min = max(self.seen.most_queries_per_min, queries)
        limit = QUERIES_PER_MIN + 6 * self.plan.people
        if queries > limit:
            raise InvariantBroken(
                self._text([f"{queries} queries of Slurm in minute {minute}, at most {limit} expected"])
            )
        if minute % 30 == 0:
            gc.collect()
            self.seen.objects.append(len(gc.get_objects()))
            sessions = sum(person.sessions for person in self.people)
            self._progress(
                f"{minute / 60:g} of {self.plan.hours:g} hours: {sessions} sessions,"
                f" {self.seen.faults.total()} faults, {self.seen.kills} kills, {self.seen.objects[-1]} objects"
            )

    def growth(self) -> float:
        """How many times more objects there are at the end than when everybody had come."""
        half_hours = self.seen.objects
        part = max(2, len(half_hours) // 8)
        return statistics.median(half_hours[-part:]) / statistics.median(half_hours[part : 2 * part])


class _Told(logging.Handler):
    """The hub's log is a part of the story."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.tell(f"{record.levelname}: {record.getMessage()}")
        if record.exc_info:
            self._world.wrong.append(f"the hub's log has an error: {record.getMessage()}: {record.exc_info[1]!r}")
