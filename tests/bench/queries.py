"""`bench queries`: what sessions cost that are simply there, and what one reading of a long queue costs."""

from __future__ import annotations

import asyncio
import json
import time
from argparse import Namespace
from dataclasses import asdict

from tests.bench import cluster_setup, counters
from tests.bench.compared_hubs import VENV, Hub, hubs

SETTLE_S = 20.0


def run(options: Namespace) -> dict[str, object]:
    """Each hub on the same cluster; and snapshots of the queue with ours."""
    names = cluster_setup.prepare(options.sessions + options.pending)
    running = names[: options.sessions]
    pending = names[options.sessions :]
    cluster_setup.close_partition("requestq")
    found: dict[str, object] = {"stock": {}}
    with cluster_setup.answering():
        for hub in hubs(options, stub=True):
            found[hub.name] = measured(hub, running, pending, options.minutes)
            if hub.name == "ours":
                found["queue"] = snapshot_cost(options.queue)
                cluster_setup.end_jobs()
    return found


def measured(hub: Hub, running: list[str], pending: list[str], minutes: float) -> dict[str, object]:
    """One hub with its sessions, watched while nothing else happens."""
    cluster_setup.say(f"{hub.name}: {len(running)} running, {len(pending)} pending sessions")
    try:
        hub.up()
        asyncio.run(fill(hub, running, pending))
        time.sleep(SETTLE_S)
        cluster_setup.say(f"{hub.name}: watched for {minutes:g} min")
        load = counters.watch(hub.pid, minutes * 60)
        kept = len(cluster_setup.jobs("--states=RUNNING")), len(cluster_setup.jobs("--states=PENDING"))
    finally:
        hub.down()
    return {**asdict(load), "running": kept[0], "pending": kept[1]}


async def fill(hub: Hub, running: list[str], pending: list[str]) -> None:
    """Start the sessions and wait for those that can start."""
    await hub.add_users([*running, *pending])
    await hub.fill(running)
    await hub.start_sessions(pending, waits=True)


def snapshot_cost(count: int) -> dict[str, object]:
    """The cost of one of the portal's snapshots of a queue of ``count`` jobs, taken by the hub's account."""
    if count:
        cluster_setup.fill_queue(count)
    argv = [
        "runuser",
        "-u",
        "portal",
        "--",
        str(VENV / "bin/python"),
        "-I",
        str(cluster_setup.HERE / "snapshot_cost.py"),
    ]
    found: dict[str, object] = json.loads(cluster_setup.run(*argv))
    return found
