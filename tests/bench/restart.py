"""`bench restart`: a hub that is killed while many sessions run, among many more people that it knows."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace

from tests.bench import cluster_setup
from tests.bench.compared_hubs import Hub, hubs
from tests.bench.http_client import Connection

GIVE_UP_S = 600.0
POLL_S = 0.1


def run(options: Namespace) -> dict[str, object]:
    """Each hub, one after the other."""
    names = cluster_setup.prepare(options.sessions)
    others = [f"known{number:05}" for number in range(options.users - len(names))]
    with cluster_setup.answering():
        figures = {hub.name: measured(hub, names, others) for hub in hubs(options, stub=True)}
    return {"stock": {}, **figures}


def measured(hub: Hub, names: list[str], others: list[str]) -> dict[str, object]:
    """One hub: fill it, kill it, start it."""
    cluster_setup.say(f"{hub.name}: {len(names)} sessions, {len(names) + len(others)} people")
    try:
        hub.up()
        asyncio.run(fill(hub, names, others))
        hub.kill()
        cluster_setup.say(f"{hub.name}: killed; started again")
        hub.start()
        figures = asyncio.run(watched(hub, set(names), time.monotonic()))
        kept = len(cluster_setup.jobs("--states=RUNNING"))
    finally:
        hub.down()
    return {**figures, "sessions_kept": kept}


async def fill(hub: Hub, names: list[str], others: list[str]) -> None:
    """Make the hub know everybody, and start the sessions."""
    await hub.add_users([*names, *others])
    await hub.fill(names)


async def watched(hub: Hub, wanted: set[str], started: float) -> dict[str, object]:
    """Seconds from the start of the process to the first login page, and until every session is in the proxy."""
    first_page_s = routes_s = None
    there = 0
    while routes_s is None and time.monotonic() - started < GIVE_UP_S:
        if first_page_s is None and await has_login_page(hub):
            first_page_s = round(time.monotonic() - started, 2)
        there = await routed(hub, wanted)
        if first_page_s is not None and there == len(wanted):
            routes_s = round(time.monotonic() - started, 2)
        await asyncio.sleep(POLL_S)
    return {"first_page_s": first_page_s, "routes_s": routes_s, "routes": there}


async def has_login_page(hub: Hub) -> bool:
    """Whether the login page comes through the proxy."""
    try:
        async with Connection(hub.port) as connection:
            return (await connection.request("GET", "/hub/login")).status == 200
    except OSError:
        return False


async def routed(hub: Hub, wanted: set[str]) -> int:
    """How many of the sessions the proxy knows: ours lives on with all of them, that of the stock hub is a new one."""
    try:
        return len(wanted & await hub.routes())
    except OSError:
        return 0
