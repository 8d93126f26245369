"""What the form of the instance options costs with a long queue and many nodes, beside wrapspawner's list."""

from __future__ import annotations

import asyncio
import statistics
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from batchspawner import SlurmSpawner
from traitlets.config import Config
from wrapspawner import ProfilesSpawner

from portal.forecasts.shared_look import SharedLook
from portal.request import SessionRequest
from portal.site import Identity, Site, parse
from portal.slurm.cluster import Cluster
from portal.slurm.runner import Result, RunError
from spawners import form
from spawners.choosing.offer import Offer
from tests.bench.snapshot_cost import tick

PARTITIONS = 5
GPUS = 8
HANGS_S = 15.0


class GeneratedSlurm:
    """A cluster of that size as Slurm prints it: half of the jobs run, half wait."""

    def __init__(self, jobs: int = 10_000, nodes: int = 1000) -> None:
        self.hangs = False
        self._queue = "".join(_job(number, nodes) for number in range(1, jobs + 1))
        self._nodes = "".join(_node(number) for number in range(1, nodes + 1))

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """One answer."""
        if self.hangs:
            await asyncio.sleep(HANGS_S)
            raise RunError("no answer")
        shown = {
            "node": self._nodes,
            "partition": "".join(_partition(number) for number in range(1, PARTITIONS + 1)),
            "reservation": "No reservations in the system\n",
            "ping": "Slurmctld(primary) at head is UP\n",
        }
        return Result(0, self._queue if argv[0] == "squeue" else shown[argv[-1]], "")


def _job(number: int, nodes: int) -> str:
    partition = f"p{number % PARTITIONS + 1}"
    begins = 1_795_000_000 + number
    if number % 2:
        return f"{number}|PENDING|{partition}|u{number % 1000}||{begins}|N/A|N/A|{number}|Priority|=\n"
    node = f"gn{number % nodes + 1:04}"
    return f"{number}|RUNNING|{partition}|u{number % 1000}|{node}|{begins}|{begins}|{begins + 90_000}|{number}|None|=\n"


def _node(number: int) -> str:
    used = number % 9
    return (
        f"NodeName=gn{number:04} CPUAlloc={used * 8 + number % 7} CPUEfctv=128 Gres=gpu:a100:8"
        f" GresUsed=gpu:a100:{used}(IDX:0-7) RealMemory=1000000 AllocMem={used * 100_000 + number} State=MIXED"
        f" Partitions=p{number % PARTITIONS + 1},p{(number + 1) % PARTITIONS + 1}\n"
    )


def _partition(number: int) -> str:
    return f"PartitionName=p{number} Default=NO Hidden=NO MaxTime=1-00:00:00 State=UP TotalNodes=400\n"


def site() -> Site:
    """Five partitions with sessions of up to eight GPUs."""
    partitions = tuple({"name": f"p{number}", "gpu": "a100"} for number in range(1, PARTITIONS + 1))
    gpu = {"name": "a100", "title": "NVIDIA A100", "gres": "gpu:a100"}
    return parse({"session": {"gpus_max": GPUS}, "gpu": (gpu,), "partition": partitions})


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    """Note the time of what is done, in ms."""
    began = time.perf_counter()
    yield
    times.append(1000 * (time.perf_counter() - began))


def run(options: Namespace) -> dict[str, object]:
    """Ours, and the list of profiles that stock parts show: it asks Slurm nothing, and says nothing of it."""
    ours = asyncio.run(measured(options.jobs, options.nodes, options.forms))
    return {"ours": ours, "stock": {} if options.only else stock(options.forms)}


def stock(forms: int) -> dict[str, Any]:
    """wrapspawner's form with a profile for each number of GPUs in each partition."""
    profiles: list[tuple[str, str, Any, dict[str, Any]]] = [
        (f"{gpus} GPUs in p{number}", f"p{number}-{gpus}", SlurmSpawner, {})
        for number in range(1, PARTITIONS + 1)
        for gpus in range(GPUS + 1)
    ]
    times: list[float] = []
    for _ in range(forms):
        with timed(times):
            html = ProfilesSpawner(config=Config(), profiles=profiles).options_form
    return {"fresh_ms": round(statistics.median(times), 1), "fresh_most_ms": round(max(times), 1), "bytes": len(html)}


async def measured(jobs: int, nodes: int, forms: int) -> dict[str, Any]:
    """The first form, forms while snapshots are taken anew, and forms while Slurm hangs."""
    slurm = GeneratedSlurm(jobs, nodes)
    shift = [0.0]
    cluster = Cluster("/bin/false", run=slurm, clock=lambda: time.monotonic() + shift[0])
    look = SharedLook(cluster)
    settings = site()
    person = Identity("alice")
    worst = [0.0]
    ticking = asyncio.create_task(tick(worst))

    without = [0]
    session = SimpleNamespace(state=SimpleNamespace(job_id=""))
    spawner: Any = SimpleNamespace(site=settings, user=None, context=SimpleNamespace(look=look), session=session)
    offer = Offer(spawner)

    async def shown() -> str:
        chosen = form.offered(SessionRequest("p1", 4, 8), settings, settings.offered_to(person))
        outlook = await offer.outlook_in_time(settings, person, chosen, None, is_typed=True)
        without[0] += outlook.is_late
        return form.render(settings, person, saved=chosen, outlook=outlook)

    kinds: dict[str, list[float]] = {"first": [], "fresh": [], "slurm_hangs": []}
    with timed(kinds["first"]):
        await shown()
    await asyncio.sleep(2)
    worst[0] = 0.0
    for _ in range(forms):
        shift[0] += 4  # a snapshot is too old for every fourth
        with timed(kinds["fresh"]):
            html = await shown()
        await asyncio.sleep(0.1)
    blocked_ms = worst[0]
    came_without = without[0]
    slurm.hangs = True
    for _ in range(forms // 3):
        shift[0] += 1
        with timed(kinds["slurm_hangs"]):
            await shown()
    ticking.cancel()
    figures = {f"{name}_ms": round(statistics.median(times), 1) for name, times in kinds.items()}
    most = {f"{name}_most_ms": round(max(times), 1) for name, times in kinds.items()}
    return {"bytes": len(html), **figures, **most, "without": came_without, "loop_blocked_ms": round(blocked_ms, 1)}
