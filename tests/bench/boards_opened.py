"""`bench tensorboard`: in Chromium, from the click on TensorBoard in JupyterLab to scalars drawn.

Beside it plain ``tensorboard`` out of the same environment, opened directly: cold from the start of its process, warm
from the opening of its address. Cold means that no TensorBoard runs for that folder and the browser's cache is empty of
it; warm, that it runs and was opened before. Then the same by a pointer that rests on the tile before it presses.
"""

from __future__ import annotations

import asyncio
import math
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from playwright.async_api import Browser, BrowserContext, Page, async_playwright
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from tests.bench import boards_ahead, cluster_setup
from tests.bench.browser import CHROMIUM, LIMIT_MS, forget
from tests.bench.browser import stop as stop_session
from tests.bench.compared_hubs import Hub, hubs
from tests.bench.spawn import median
from tests.inside import NOTHING_AHEAD

PERSON = "alice"
RUNS = ("train", "validation")
TAGS = ("loss", "accuracy", "learning_rate")
STEPS = 500
AHEAD = ("comes", *(f"rest_{rest_ms}" for rest_ms in boards_ahead.RESTS_MS))
DRAWN = "line-chart .series-view canvas, line-chart .series-view svg path"
TILE = ".jp-LauncherCard:has-text('TensorBoard')"


def run(options: Namespace) -> dict[str, object]:
    """Rounds of ours and plain in turns, each cold and then warm; the first round is not counted."""
    cluster_setup.prepare(0)
    write_runs(Path("/home", PERSON, "logs"))
    (hub,) = hubs(Namespace(only="ours"), stub=False)
    try:
        hub.up()
        taken = asyncio.run(rounds(hub, options))
    finally:
        hub.down()
    return figures(taken)


def figures(taken: dict[str, list[float]]) -> dict[str, object]:
    """Medians and slowest, and the ratios of ours to plain."""
    found: dict[str, dict[str, float | None]] = {"ours": {}, "stock": {}}
    for kind, name in (("ours", "ours"), ("plain", "stock")):
        for state in ("cold", "warm"):
            seconds = taken[f"{kind}_{state}"]
            found[name] |= {f"{state}_s": median(seconds), f"{state}_slowest_s": max(seconds)} if seconds else {}
    for key in AHEAD:
        found["ours"][f"{key}_s"] = median(taken[key])
    for state in ("cold", "warm") if found["stock"] else ():
        found["ours"][f"ratio_{state}"] = round(
            (found["ours"][f"{state}_s"] or 0) / (found["stock"][f"{state}_s"] or 1), 2
        )
    return dict(found)


async def rounds(hub: Hub, options: Namespace) -> dict[str, list[float]]:
    """All rounds, in one session."""
    keys = [f"{kind}_{state}" for kind in ("ours", "plain") for state in ("cold", "warm")]
    taken: dict[str, list[float]] = {key: [] for key in (*keys, *AHEAD)}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for number in range(options.runs + 1):
            kinds = [("ours", ours), ("plain", plain)][: 1 if options.only else 2]
            for kind, measure in kinds[:: -1 if number % 2 else 1]:
                cold_s, warm_s = await measure(hub, browser)
                cluster_setup.say(f"round {number}, {kind}: {cold_s:.2f} s, {warm_s:.2f} s")
                if number:
                    taken[f"{kind}_cold"].append(cold_s)
                    taken[f"{kind}_warm"].append(warm_s)
            rested = await boards_ahead.rested(hub, PERSON, DRAWN)
            cluster_setup.say(f"round {number}: " + ", ".join(f"{key}: {s:.2f} s" for key, s in rested.items()))
            for key, seconds in rested.items() if number else ():
                taken[key].append(seconds)
        await stop_session(hub, PERSON)
        await browser.close()
    return taken


async def ours(hub: Hub, browser: Browser) -> tuple[float, float]:
    """A click on the launcher's tile, twice; the board is stopped before the first."""
    context = await browser.new_context(base_url=f"http://127.0.0.1:{hub.port}")
    context.set_default_timeout(LIMIT_MS)
    await context.add_init_script(NOTHING_AHEAD)
    page = await in_lab(context)
    await page.evaluate(STOP_BOARDS)
    times = [await clicked(context, page) for _ in range(2)]
    await context.close()
    return times[0], times[1]


STOP_BOARDS = """async () => {
  const base = JSON.parse(document.getElementById('jupyter-config-data').textContent).baseUrl;
  const headers = { 'X-XSRFToken': /\\b_xsrf=([^;]*)/.exec(document.cookie)?.[1] ?? '' };
  const { tensorboards } = await (await fetch(`${base}dsportal/api/tensorboards`, { headers })).json();
  for (const { id } of tensorboards) {
    await fetch(`${base}dsportal/api/tensorboards/${id}`, { method: 'DELETE', headers });
  }
}"""


async def in_lab(context: BrowserContext) -> Page:
    """JupyterLab of a session that runs; it is started first where there is none."""
    forget(Path("/home", PERSON))
    page = await context.new_page()
    await page.goto("/hub/login?next=%2Fhub%2Fspawn%3Fgpus%3D0")
    await page.fill("[name=username]", PERSON)
    await page.fill("[name=password]", f"{PERSON}-demo")
    await page.click("#login_submit")
    await page.wait_for_selector("#spawn_form button[type=submit], .jp-LauncherCard")
    if await page.query_selector("#spawn_form"):
        await page.click("#spawn_form button[type=submit]")
    await page.wait_for_selector(TILE)
    await page.wait_for_load_state("networkidle")
    return page


async def clicked(context: BrowserContext, page: Page) -> float:
    """Seconds from the click on the tile to scalars drawn."""
    began = time.monotonic()
    async with context.expect_page() as opened:
        await page.click(TILE)
    return await drawn(await opened.value, began)


async def drawn(tab: Page, began: float) -> float:
    """Seconds until scalars are drawn; the tab is closed then."""
    await tab.wait_for_selector(DRAWN, state="attached")
    seconds = time.monotonic() - began
    await tab.close()
    return seconds


async def plain(hub: Hub, browser: Browser) -> tuple[float, float]:
    """The command as a person types it on a laptop, its address opened as soon as it answers; then once more."""
    context = await browser.new_context()
    context.set_default_timeout(LIMIT_MS)
    began = time.monotonic()
    with tensorboard() as address:
        await asyncio.to_thread(cluster_setup.until, lambda: answers(address), "tensorboard answers", 60, 0.01)
        times = []
        for number in range(2):
            began = began if number == 0 else time.monotonic()
            tab = await context.new_page()
            await tab.goto(address, wait_until="commit")
            times.append(await drawn(tab, began))
    await context.close()
    return times[0], times[1]


@contextmanager
def tensorboard() -> Iterator[str]:
    """Plain TensorBoard as that person; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    account = pwd.getpwnam(PERSON)
    program = Path(sys.executable).with_name("tensorboard")
    process = subprocess.Popen(
        [str(program), "--logdir", f"{account.pw_dir}/logs", "--port", str(port)],
        env={"HOME": account.pw_dir, "PATH": os.defpath, "LANG": "C.UTF-8"}, cwd="/", stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=account.pw_uid, group=account.pw_gid,
        extra_groups=[],
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


def answers(address: str) -> bool:
    """Whether it answers."""
    with suppress(OSError), build_opener(ProxyHandler({})).open(address, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def write_runs(folder: Path) -> None:
    """Two runs with three tags each, as a training writes them."""
    shutil.rmtree(folder, ignore_errors=True)
    for number, run_name in enumerate(RUNS, start=1):
        writer = EventFileWriter(str(folder / run_name))
        for step in range(STEPS):
            values = [math.exp(-step / STEPS * number), 1 - math.exp(-step / STEPS * 3), 0.1 / (1 + step)]
            summary = Summary(
                value=[Summary.Value(tag=tag, simple_value=value) for tag, value in zip(TAGS, values, strict=True)]
            )
            writer.add_event(Event(step=step, wall_time=1_700_000_000 + step, summary=summary))
        writer.close()
    account = pwd.getpwnam(PERSON)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)
