"""`bench storm`: many people log in at the same time, against real slapd with StartTLS; then each starts a session."""

from __future__ import annotations

import asyncio
import math
import time
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlencode

from deploy.demo import people
from tests.bench import cluster_setup, counters
from tests.bench.compared_hubs import Hub, hubs
from tests.bench.http_client import Connection, each


@dataclass
class Seen:
    """What the people of a storm saw."""

    seconds: list[float] = field(default_factory=list)  # each login, from the form to the redirect after it
    answers: Counter[str] = field(default_factory=Counter)  # of what was no login
    errors: int = 0  # 5xx, connections that failed, and no answer


def run(options: Namespace) -> dict[str, object]:
    """Each hub, one after the other."""
    names = cluster_setup.prepare(options.users)
    with cluster_setup.answering():
        figures = {hub.name: measured(hub, names, options.at_once) for hub in hubs(options, stub=True)}
    return {"stock": {}, **figures}


def measured(hub: Hub, names: list[str], at_once: int) -> dict[str, object]:
    """One hub in the storm."""
    cluster_setup.say(f"{hub.name}: {len(names)} people log in, {at_once} at a time")
    try:
        hub.up()
        used = counters.cpu_s(hub.pid)
        seen, logins_s, driver_percent = asyncio.run(logins(hub, names, at_once))
        used = counters.cpu_s(hub.pid) - used
        cluster_setup.say(f"{hub.name}: {len(seen.seconds)} logins in {logins_s:.1f} s; now as many sessions")
        started, spawns_s, refused = asyncio.run(spawns(hub, names))
    finally:
        hub.down()
    return {
        "logins": len(seen.seconds),
        "logins_per_s": round(len(seen.seconds) / logins_s, 1),
        "p50_s": percentile(seen.seconds, 50),
        "p95_s": percentile(seen.seconds, 95),
        "errors": seen.errors + refused,
        "other_answers": dict(seen.answers),
        "spawns": started,
        "spawns_per_s": round(started / spawns_s, 1),
        "hub_ms_per_login": round(1000 * used / len(names), 1),
        "hub_cpu_percent": round(100 * used / logins_s),
        "driver_cpu_percent": driver_percent,
    }


def percentile(values: list[float], percent: int) -> float | None:
    """The smallest value that so many percent do not exceed, in seconds."""
    ordered = sorted(values)
    return round(ordered[math.ceil(len(ordered) * percent / 100) - 1], 3) if ordered else None


async def logins(hub: Hub, names: list[str], at_once: int) -> tuple[Seen, float, int]:
    """Everybody logs in; what was seen, the seconds it took, and the CPU of this driver, in percent of a core."""
    seen = Seen()
    started = time.monotonic()
    used = time.process_time()
    await each(names, lambda name: login(hub, name, seen), at_once)
    seconds = time.monotonic() - started
    return seen, seconds, round(100 * (time.process_time() - used) / seconds)


async def login(hub: Hub, name: str, seen: Seen) -> None:
    """One person: the form, then name and password, as a browser sends them."""
    started = time.monotonic()
    try:
        async with Connection(hub.port) as connection:
            await connection.request("GET", "/hub/login")
            form = urlencode({"username": name, "password": people.password(name)}).encode()
            path = f"/hub/login?{urlencode({'_xsrf': connection.cookies.get('_xsrf', '')})}"
            answer = await connection.request("POST", path, form, "application/x-www-form-urlencoded")
    except OSError as error:
        seen.errors += 1
        seen.answers[type(error).__name__] += 1
        return
    if answer.status == 302:
        seen.seconds.append(time.monotonic() - started)
        return
    seen.answers[str(answer.status)] += 1
    seen.errors += answer.status >= 500


async def spawns(hub: Hub, names: list[str]) -> tuple[int, float, int]:
    """Everybody asks for a session: how many ran, after how many seconds all did, and how many got an error."""
    started = time.monotonic()
    refused = 0
    options = hub.options(waits=False)

    async def start(name: str) -> None:
        nonlocal refused
        try:
            async with hub.direct() as connection:
                refused += (await hub.api(connection, "POST", f"/users/{name}/server", options)).status >= 400
        except OSError:
            refused += 1

    await each(names, start, 100)
    try:
        await hub.until_ready(names, within_s=120 + 3 * len(names))
    except TimeoutError as error:
        cluster_setup.say(str(error))
    return len(await hub.routes() & set(names)), time.monotonic() - started, refused
