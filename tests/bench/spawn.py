"""`bench spawn`: from the click to a server that answers, in steps; beside it a bare JupyterLab in a batch job."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from deploy.demo import services
from tests.bench import cluster_setup
from tests.bench.compared_hubs import VENV, Hub, expect, hubs
from tests.bench.http_client import Connection

POLL_S = 0.02
LIMIT_S = 120.0
BARE_PORT = 7998
PERSON = {"ours": "alice", "stock": "bob", "bare": "dave"}
STEPS = ("sbatch_returned_s", "job_started_s", "port_announced_s", "hub_says_ready_s", "click_to_ready_s")
# What the hubs' logs say at each step; the times in them have milliseconds. {job} is a number.
SUBMITTED = {"ours": r"Job {job} submitted for", "stock": r"Job submitted\. .*\b{job}\b"}
ANNOUNCED = {"ours": r"20\d POST /hub/api/dsportal/ready", "stock": r"20\d POST /hub/api/batchspawner"}
READY = r"User {person} took [\d.]+ seconds to start"
BARE_SCRIPT = """#!/bin/sh
exec {venv}/bin/jupyter-lab --no-browser --ip=0.0.0.0 --port={port} --IdentityProvider.token=bare
"""


def run(options: Namespace) -> dict[str, object]:
    """Rounds of bare, ours and stock, in an order that turns; the first round is not counted."""
    cluster_setup.prepare(0)
    measured = hubs(options, stub=False)
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in ("bare", *(hub.name for hub in measured))}
    try:
        for hub in measured:
            hub.up()
            asyncio.run(hub.add_users([PERSON[hub.name]]))
        for number in range(options.runs + 1):
            for name, times in asyncio.run(one_round(measured, number)).items():
                taken[name] += [times] if number else []
    finally:
        for hub in measured:
            hub.down()
    return figures(taken)


def figures(taken: dict[str, list[dict[str, float]]]) -> dict[str, object]:
    """Medians, and the ratio to the bare start."""
    bare_s = median([times["click_to_ready_s"] for times in taken["bare"]])
    found: dict[str, object] = {"stock": {}}
    for name in [name for name in taken if name != "bare"]:
        steps = {step: median([times[step] for times in taken[name] if step in times]) for step in STEPS}
        ready = [times["click_to_ready_s"] for times in taken[name]]
        ratio = round((steps["click_to_ready_s"] or 0) / bare_s, 2) if bare_s else None
        extremes = {"fastest_s": round(min(ready), 3), "slowest_s": round(max(ready), 3)}
        found[name] = {**steps, **extremes, "bare_s": bare_s, "ratio": ratio}
    return found


def median(values: list[float]) -> float | None:
    """The median in seconds, or ``None`` of nothing."""
    return round(statistics.median(values), 3) if values else None


async def one_round(measured: list[Hub], number: int) -> dict[str, dict[str, float]]:
    """One start of each."""
    starts: list[tuple[str, Callable[[], Awaitable[dict[str, float]]]]] = [("bare", bare)]
    starts += [(hub.name, lambda hub=hub: through(hub)) for hub in measured]  # type: ignore[misc]
    turn = number % len(starts)
    times = {}
    for name, start in starts[turn:] + starts[:turn]:
        times[name] = await start()
        cluster_setup.say(f"round {number or 'for warming up'}: {name} {times[name]['click_to_ready_s']:.2f} s")
    return times


async def bare() -> dict[str, float]:
    """`sbatch jupyter-lab` by hand, until its API answers."""
    person = PERSON["bare"]
    script = Path("/home", person, "bare.sh")
    await asyncio.to_thread(script.write_text, BARE_SCRIPT.format(venv=VENV, port=BARE_PORT))
    clicked = time.time()
    argv = ["runuser", "-u", person, "--", "sbatch", "--parsable", "--cpus-per-task=2", "--mem=8192M", "--time=60"]
    cluster_setup.run(*argv, f"--chdir=/home/{person}", f"--output=/home/{person}/bare.log", str(script))
    await until_200(BARE_PORT, "/api/status", "bare")
    ready = time.time()
    cluster_setup.end_jobs()
    return {"click_to_ready_s": ready - clicked}


async def through(hub: Hub) -> dict[str, float]:
    """A session by a hub, until its API answers through the proxy; then it is stopped."""
    person = PERSON[hub.name]
    token = await new_token(hub, person)
    log_start = hub.log.stat().st_size
    clicked = time.time()
    await hub.start_sessions([person])
    await until_routed(hub, person)  # before that the hub itself would answer, and be kept busy by it
    await until_200(hub.port, f"/user/{person}/api/status", token)
    ready = time.time()
    (job,) = cluster_setup.jobs(f"--user={person}")
    times = steps(hub, job, log_start)
    async with hub.direct() as connection:
        expect(await hub.api(connection, "DELETE", f"/users/{person}/server"), (202, 204), "stop")
        while json.loads((await hub.api(connection, "GET", f"/users/{person}")).body).get("servers"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    cluster_setup.until(lambda: not cluster_setup.jobs(f"--user={person}"), "the job has ended", 60)
    return {**{step: at - clicked for step, at in times.items()}, "click_to_ready_s": ready - clicked}


async def new_token(hub: Hub, person: str) -> str:
    """A token of the person's own, as a browser's login would be."""
    async with hub.direct() as connection:
        answer = await hub.api(connection, "POST", f"/users/{person}/tokens", {"note": "bench"})
    expect(answer, 201, "token")
    return str(json.loads(answer.body)["token"])


async def until_routed(hub: Hub, person: str) -> None:
    """Wait until the proxy leads to the person's session."""
    async with asyncio.timeout(LIMIT_S):
        while person not in await hub.routes():  # noqa: ASYNC110  another process knows
            await asyncio.sleep(POLL_S)


async def until_200(port: int, path: str, token: str) -> None:
    """Ask until the answer is 200.

    Raises:
        TimeoutError: it never was.
    """
    deadline = time.monotonic() + LIMIT_S
    async with Connection(port, {"Authorization": f"token {token}"}) as connection:
        while time.monotonic() < deadline:
            try:
                if (await connection.request("GET", path)).status == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(POLL_S)
    raise TimeoutError(f"port {port}: {path} did not answer 200 within {LIMIT_S:g} s")


def steps(hub: Hub, job: str, log_start: int) -> dict[str, float]:
    """When each step was, out of the hub's log and slurmd's; a step without a line is left out."""
    log = hub.log.read_bytes()[log_start:].decode(errors="replace")
    found = {
        "sbatch_returned_s": when(SUBMITTED[hub.name].format(job=job), log),
        "job_started_s": job_start(job),
        "port_announced_s": when(ANNOUNCED[hub.name], log),
        "hub_says_ready_s": when(READY.format(person=PERSON[hub.name]), log),
    }
    return {step: at for step, at in found.items() if at is not None}


def when(pattern: str, log: str) -> float | None:
    """The time of the first line of JupyterHub's log with ``pattern``."""
    found = re.search(rf"^\[\w (\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) [^\]]*\] .*(?:{pattern})", log, re.MULTILINE)
    return datetime.fromisoformat(found[1]).timestamp() if found else None


def job_start(job: str) -> float | None:
    """When slurmd launched the batch script."""
    for node in services.NODES:
        log = services.LOGS / f"slurmd-{node}.log"
        if found := re.search(rf"^\[([\dT:.-]+)\].*Launching batch job {job} ", log.read_text(), re.MULTILINE):
            return datetime.fromisoformat(found[1]).timestamp()
    return None
