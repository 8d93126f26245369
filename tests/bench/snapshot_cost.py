"""Take snapshots of the queue with `portal.slurm.cluster` as the hub does; print the cost of one as a JSON object."""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import time
from typing import Any

from portal.slurm.cluster import Cluster
from portal.slurm.runner import run

SNAPSHOTS = 7
TICK_S = 0.002


def cpu_ms(whose: int) -> float:
    """User and system time so far."""
    used = resource.getrusage(whose)
    return 1000 * (used.ru_utime + used.ru_stime)


async def main() -> dict[str, object]:
    """The median of several snapshots, the first not counted."""
    read: list[int] = []

    async def counting(*arguments: Any, **named: Any) -> Any:
        result = await run(*arguments, **named)
        read.append(len(result.stdout))
        return result

    cluster = Cluster("/bin/false", run=counting)
    worst = [0.0]
    ticking = asyncio.create_task(tick(worst))
    costs: list[tuple[float, float, float, int]] = []
    jobs = 0
    for _ in range(SNAPSHOTS + 1):
        read.clear()
        worst[0] = 0.0
        before = cpu_ms(resource.RUSAGE_SELF), cpu_ms(resource.RUSAGE_CHILDREN)
        snapshot = await cluster.queue(0)
        if snapshot.error:
            raise snapshot.error
        jobs = len(snapshot.jobs)
        used = cpu_ms(resource.RUSAGE_SELF) - before[0], cpu_ms(resource.RUSAGE_CHILDREN) - before[1]
        await asyncio.sleep(0.05)
        costs.append((*used, worst[0], sum(read)))
    ticking.cancel()
    own, children, blocked, size = (statistics.median(column) for column in zip(*costs[1:], strict=True))
    figures = {"cpu_ms": own, "commands_cpu_ms": children, "loop_blocked_ms": blocked}
    return {"jobs": jobs, "bytes_read": int(size), **{name: round(value, 1) for name, value in figures.items()}}


async def tick(worst: list[float]) -> None:
    """Keep the longest time that the loop did not come back in, in ms."""
    while True:
        started = time.perf_counter()
        await asyncio.sleep(TICK_S)
        worst[0] = max(worst[0], 1000 * (time.perf_counter() - started - TICK_S))


if __name__ == "__main__":
    json.dump(asyncio.run(main()), sys.stdout)
