"""The world outside of the hub: Slurm, how long its commands take, the nodes with the sessions' servers, other jobs."""

from __future__ import annotations

import asyncio
import contextvars
import json
import random
import traceback
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.session_state import Announcement
from portal.singleuser.server import REPEAT_EVERY_S
from portal.slurm.jobs import Phase, phase_of
from portal.slurm.runner import Result, RunError
from portal.testing.behaviours import Completes, Runs, Status
from portal.testing.cluster_parts import PARTITIONS, FakeJob, FakePartition
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import Outage
from portal.testing.simulated_time import SimulatedTimeLoop

HUB_ID = "abc123"
OURS = f"dsportal-{HUB_ID}"
SOCKET_TIMEOUT_S = 20  # how long a command waits that says "Socket timed out"
NODES_EVERY_S = 5.0
KEPT_JOBS_S = 2 * 3600.0  # what ended before is taken out of the double: only the portal's memory is measured

Tasks = dict[asyncio.Task[Any], None]  # in the order in which they were made: a run is the same each time
GROUP: contextvars.ContextVar[Tasks | None] = contextvars.ContextVar("group", default=None)


@dataclass(frozen=True)
class Server:
    """The server of one run of a session's job."""

    job: FakeJob
    run: int
    node: str
    port: int


class World:
    """Everything that lives on when a hub is killed.

    Attributes:
        slurm: the cluster.
        chance: where all chances come from.
        announce: tells the hub a port; answers the status, 0 where no hub answers. The faults put others here.
        refused: how many announcements the hub refused; ``wrong`` what was wrong, in words.
        story: the last things that happened, for who looks for a fault.
        foreign: people's own jobs.
        on_command: is told each command before it is done and before its answer is given.
        on_finish: is told the key and the job of each session that is finished, before it is.
    """

    def __init__(self, seed: int, partitions: Sequence[FakePartition] = PARTITIONS) -> None:
        self.chance = random.Random(seed)  # noqa: S311  a simulation
        self.slurm = FakeSlurm(partitions)
        self.slurm.completing_s = 2
        self.loop = SimulatedTimeLoop(lambda now: self.slurm.advance(now - self.slurm.clock()))
        self.loop.set_task_factory(_grouped)
        self.loop.set_exception_handler(self._failed)
        self.announce: Callable[[str, Announcement], Awaitable[int]] = _nobody
        self.on_command: Callable[[tuple[str, ...]], None] = lambda command: None
        self.on_finish: Callable[[str, str], None] = lambda key, job_id: None
        self.story: deque[str] = deque(maxlen=20_000)
        self.wrong: list[str] = []
        self.foreign: list[FakeJob] = []
        self.runaway: set[str] = set()  # names of jobs that slurmctld has lost
        self.servers: dict[tuple[str, int], Server] = {}
        self.asked: Counter[str] = Counter()  # since somebody took it
        self.late_s = 0.0  # how much later servers announce their ports
        self.loss = 0.0  # the chance that an announcement, or its answer, is lost
        self.ghosts = 0.02  # the chance that an announcement of a server comes after its end
        self._served: dict[int, tuple[FakeJob, int]] = {}  # the run of a job, by the job, whose server was started
        self._ports = 40_000

    def now(self) -> float:
        """Simulated seconds since the beginning."""
        return self.loop.time()

    def tell(self, text: str) -> None:
        """Something happened."""
        self.story.append(f"{self.now():9.2f} {text}")

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something that lives on when the hub is killed."""
        outside = contextvars.copy_context()
        outside.run(GROUP.set, None)
        return self.loop.create_task(work, context=outside)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        where = "".join(traceback.format_exception(error)[-12:]) if error else ""
        self.wrong.append(f"a task failed: {context.get('message')}: {error!r}\n{where}")

    # -- commands ---------------------------------------------------------------------------------------

    async def run(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """One command of the hub. Its process lives on when the hub is killed."""
        self.asked[_kind(argv)] += 1
        process = self.start(self._process(tuple(argv), stdin, env, timeout_s))
        process.add_done_callback(asyncio.Task.exception)  # nobody hears of it when the hub was killed
        return await asyncio.shield(process)

    async def _process(
        self, argv: tuple[str, ...], stdin: str, env: Mapping[str, str] | None, timeout_s: float
    ) -> Result:
        await asyncio.sleep(self.chance.uniform(0.01, 0.2))
        self.on_command(argv)
        if argv[0] == "sudo":
            self.slurm.next_job(Runs(after_s=self._wait_s()))
            request = json.loads(stdin)
            self.tell(f"portal-launch {argv[-3]}: {request['verb']} {request['key']} {request.get('job_id', '')}")
            if request["verb"] == "finish":
                self.on_finish(request["key"], request["job_id"])
        try:
            answer = await self.slurm(argv, stdin, env, timeout_s=timeout_s)
        except RunError:
            await asyncio.sleep(timeout_s)
            raise
        self.slurm.asked.clear()
        is_late = "Socket timed out" in f"{answer.stdout}{answer.stderr}"
        await asyncio.sleep(SOCKET_TIMEOUT_S if is_late else self.chance.uniform(0.01, 0.2))
        self.on_command(argv)
        return answer

    def _wait_s(self) -> float:
        """How long a job waits in the queue: often not at all, seldom for hours."""
        kind = self.chance.random()
        if kind < 0.5:
            return self.chance.uniform(0, 5)
        return self.chance.expovariate(1 / 120) if kind < 0.9 else self.chance.expovariate(1 / 3600)

    async def lasts(self, outage: Outage, seconds: float) -> None:
        """Something is wrong with the cluster for a while."""
        self.slurm.begin(outage)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.slurm.end(outage)

    # -- jobs -------------------------------------------------------------------------------------------

    def living(self) -> Iterator[tuple[FakeJob, Status]]:
        """The jobs of our sessions that wait or run."""
        for job, status in self.slurm.known():
            is_alive = phase_of(status.state) in (Phase.WAITING, Phase.RUNNING) and status.state != "COMPLETING"
            if is_alive and job.name.startswith(OURS) and len(job.name) == len(OURS) + 10:
                yield job, status

    async def nodes(self) -> None:
        """For ever: start the servers of jobs that run now, and take away what nobody asks for any more."""
        while True:
            for job, status in self.living():
                served = self._served.get(id(job))
                if status.is_running and (served is None or served[1] != status.run):
                    self._served[id(job)] = (job, status.run)
                    self.start(self._serve(job, status.run, job.node(status)))
            self._clean()
            await asyncio.sleep(NODES_EVERY_S)

    def _clean(self) -> None:
        self.servers = {where: server for where, server in self.servers.items() if self.is_up(server)}
        if int(self.now() / NODES_EVERY_S) % 100:
            return
        slurm = self.slurm
        for job in list(slurm.jobs.values()):
            status = job.status(slurm.now)
            if status.ended_s is not None or not status.state:
                ended_s = status.ended_s or 0
                if (slurm.now - job.submitted_at).total_seconds() - ended_s > KEPT_JOBS_S:
                    del slurm.jobs[job.id]
        left = {id(job) for job in slurm.jobs.values()}
        self._served = {one: served for one, served in self._served.items() if one in left}
        self.foreign = [job for job in self.foreign if id(job) in left]

    def is_up(self, server: Server) -> bool:
        """True while the server's own run of its job runs."""
        status = self.slurm.status(server.job)
        return status.is_running and status.run == server.run

    def listens(self, node: str, port: int) -> bool:
        """True when a server listens there."""
        server = self.servers.get((node, port))
        return server is not None and self.is_up(server)

    async def _serve(self, job: FakeJob, run: int, node: str) -> None:
        """The server of one run, as portal/singleuser/server.py does: announce until the hub takes it, or end."""
        key = job.name.removeprefix("dsportal-")
        token = self.slurm.environments.get(key, {}).get("JUPYTERHUB_API_TOKEN", "")
        await asyncio.sleep(self.chance.uniform(3, 20))
        self._ports = 40_000 + (self._ports - 39_999) % 20_000
        server = Server(job, run, node, self._ports)
        if not token:
            self._end(server, "without its environment")
            return
        self.servers[node, server.port] = server
        await asyncio.sleep(self.chance.uniform(0, self.late_s))
        announcement = Announcement(server.port, run - 1)
        refused = 0
        while self.is_up(server):
            status = await self._post(token, announcement)
            refused = 0 if 0 < status < 300 else refused + (0 < status < 500)
            if refused >= 60:
                self._end(server, "refused by the hub")
                return
            await asyncio.sleep(REPEAT_EVERY_S * self.chance.uniform(0.8, 1.2) if 0 < status < 300 else 2)
        if self.chance.random() < self.ghosts:
            await asyncio.sleep(self.chance.uniform(1, 300))
            await self._post(token, announcement)

    async def _post(self, token: str, announcement: Announcement) -> int:
        """One announcement; it, or its answer, may be lost."""
        if self.chance.random() < self.loss:
            return 0
        answer = self.start(_status(self.announce(token, announcement)))
        done, _ = await asyncio.wait([answer], timeout=10)
        return answer.result() if done and self.chance.random() >= self.loss else 0

    def _end(self, server: Server, why: str) -> None:
        self.tell(f"job {server.job.id} {server.job.name} ends itself, {why}")
        if self.is_up(server) and server.job in self.slurm.jobs.values():
            self.slurm.happens(server.job.id, Completes(after_s=0))

    async def other_jobs(self, people: Sequence[str]) -> None:
        """For ever: people submit jobs of their own, some with names that look like ours."""
        names = ("train", f"{OURS}", f"x\n7|alice|{OURS}0123456789", "dsportal-ffffff0123456789", "a b|c")
        while True:
            await asyncio.sleep(self.chance.expovariate(1 / 60))
            self.slurm.next_job(Completes(after_s=self.chance.uniform(60, 7200)))
            job = self.slurm.take(self.chance.choice(people), {"job-name": self.chance.choice(names), "time": "600"})
            self.foreign.append(job)


async def _nobody(token: str, announcement: Announcement) -> int:
    return 0


async def _status(answer: Awaitable[int]) -> int:
    return await answer


def _kind(argv: Sequence[str]) -> str:
    return "launcher" if argv[0] == "sudo" else argv[0]


def _grouped(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task, and remember it with those of its hub."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    group = context.get(GROUP) if context is not None else GROUP.get()
    if group is not None:
        group[task] = None
        task.add_done_callback(group.pop)
    return task
