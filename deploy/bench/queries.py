"""`bench queries`: what sessions that are simply there cost, and what one look at a long queue costs."""

from __future__ import annotations

import asyncio
import json
import time
from argparse import Namespace
from dataclasses import asdict

import ground
import measure
from hubs import VENV, Hub, Ours, Stock

SETTLE_S = 20.0


def run(options: Namespace) -> dict[str, object]:
    """Ours, then stock, on the same cluster; then looks at the queue with ours."""
    names = ground.prepare(options.sessions + options.pending)
    running, pending = names[: options.sessions], names[options.sessions :]
    ground.close_partition("requestq")
    with ground.answering():
        ours = measured(Ours(stub=True), running, pending, options.minutes)
        look = looks(options.queue)
        ground.end_jobs()
        stock = measured(Stock(stub=True), running, pending, options.minutes)
    return {"ours": ours, "stock": stock, "queue": look}


def measured(hub: Hub, running: list[str], pending: list[str], minutes: float) -> dict[str, object]:
    """One hub with its sessions, watched while nothing else happens."""
    ground.say(f"{hub.name}: {len(running)} running, {len(pending)} pending sessions")
    try:
        hub.up()
        asyncio.run(fill(hub, running, pending))
        time.sleep(SETTLE_S)
        ground.say(f"{hub.name}: watched for {minutes:g} min")
        load = measure.watch(hub.pid, minutes * 60)
        kept = len(ground.jobs("--states=RUNNING")), len(ground.jobs("--states=PENDING"))
    finally:
        hub.down()
    return {**asdict(load), "running": kept[0], "pending": kept[1]}


async def fill(hub: Hub, running: list[str], pending: list[str]) -> None:
    """Start the sessions and wait for those that can start."""
    await hub.add_users([*running, *pending])
    await hub.fill(running)
    await hub.start_sessions(pending, waits=True)


def looks(count: int) -> dict[str, object]:
    """Several looks of the portal's own picture at a queue of ``count`` jobs, by the hub's account."""
    if count:
        ground.fill_queue(count)
    argv = ["runuser", "-u", "portal", "--", str(VENV / "bin/python"), "-I", str(ground.HERE / "look.py")]
    found: dict[str, object] = json.loads(ground.sh(*argv))
    return found
