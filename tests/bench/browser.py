"""`bench browser`: in Chromium, from the click on Start to a drawn launcher, and to the first cell's output."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.bench import cluster_setup
from tests.bench.compared_hubs import Hub, expect, hubs
from tests.bench.spawn import median

PERSON = {"ours": "alice", "stock": "bob"}
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
CHOOSES_S = 6.0  # for so long a person looks at the page before the click, at either portal
LIMIT_MS = 120_000
MODULES = Path("/cm/shared/modulefiles")  # of the demo's environments
SLOW = {"offline": False, "latency": 20, "downloadThroughput": 10e6 / 8, "uploadThroughput": 10e6 / 8}
NETWORKS = {"loopback": None, "slow": SLOW}
START = {"ours": "#spawn_form button[type=submit]", "stock": "#start"}
# The moment in which a card of the launcher can be seen and nothing lies over it, in seconds since the epoch. Who asks
# from outside gets its turn up to 0.3 s later, at either portal.
DRAWN = """(() => {
  const look = () => {
    const card = document.querySelector(".jp-LauncherCard");
    const isCovered = document.querySelector("#jupyterlab-splash")?.getBoundingClientRect().width;
    const isThere = card?.getBoundingClientRect().width && !isCovered;
    if (isThere) window.drawnAt = (performance.timeOrigin + performance.now()) / 1000;
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""
PLACE = {"ours": "/hub/spawn?gpus=0", "stock": "/hub/home"}


@dataclass
class Wire:
    """The bytes that came over the network since the visit began, headers included."""

    total: int = 0

    async def watch(self, page: Page, conditions: dict[str, float] | None) -> None:
        """Count a tab's bytes, and make its network slow."""
        session = await page.context.new_cdp_session(page)
        await session.send("Network.enable")
        if conditions:
            await session.send("Network.emulateNetworkConditions", conditions)
        session.on("Network.loadingFinished", self._add)

    def _add(self, event: dict[str, float]) -> None:
        self.total += int(event["encodedDataLength"])


def run(options: Namespace) -> dict[str, object]:
    """Rounds of ours and stock in turns: a loopback, then a slow network; each with an empty cache, then a full one."""
    if not MODULES.is_dir():
        raise SystemExit("bench: a session here has no kernel to open; first run `make environments`")
    cluster_setup.prepare(0)
    measured = hubs(options, stub=False)
    taken: dict[str, dict[str, list[float]]] = {hub.name: {} for hub in measured}
    try:
        for hub in measured:
            hub.up()
        for number in range(options.runs):
            for hub in measured[number % 2 :] + measured[: number % 2]:
                for key, value in asyncio.run(visits(hub)).items():
                    taken[hub.name].setdefault(key, []).append(value)
                first_s = taken[hub.name]["launcher_cold_loopback_s"][-1]
                cluster_setup.say(f"round {number + 1} of {hub.name}: {first_s} s")
    finally:
        for hub in measured:
            hub.down()
    return figures(taken)


def figures(taken: dict[str, dict[str, list[float]]]) -> dict[str, object]:
    """Medians, and the ratio of ours to stock with an empty cache."""
    found = {name: {key: median(values) for key, values in kinds.items()} for name, kinds in taken.items()}
    ours = found["ours"]
    for network in NETWORKS if "stock" in found else ():
        key = f"launcher_cold_{network}_s"
        ours[f"ratio_{network}"] = round((ours[key] or 0) / (found["stock"][key] or 1), 2)
    return {"stock": {}, **found}


async def visits(hub: Hub) -> dict[str, float]:
    """Both networks, each with an empty cache and with the one that the first visit has filled."""
    found: dict[str, float] = {}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for network, conditions in NETWORKS.items():
            async with context_of(browser, hub) as context:
                for cache in ("cold", "warm"):
                    times = await visit(hub, context, conditions)
                    found |= {f"{key}_{cache}_{network}{unit}": value for (key, unit), value in times.items()}
        await browser.close()
    return found


@asynccontextmanager
async def context_of(browser: Browser, hub: Hub) -> AsyncIterator[BrowserContext]:
    """A browser with an empty cache."""
    context = await browser.new_context(base_url=f"http://127.0.0.1:{hub.port}")
    context.set_default_timeout(LIMIT_MS)
    await context.add_init_script(DRAWN)
    yield context
    await context.close()


async def visit(hub: Hub, context: BrowserContext, conditions: dict[str, float] | None) -> dict[tuple[str, str], float]:
    """Log in if need be, look at the page, click, and run a cell; then the session is stopped."""
    person = PERSON[hub.name]
    forget(Path("/home", person))
    page = await context.new_page()
    wire = Wire()
    await wire.watch(page, conditions)
    await page.goto(PLACE[hub.name])
    if "/login" in page.url:
        await page.fill("[name=username]", person)
        await page.fill("[name=password]", f"{person}-demo")
        await page.click("#login_submit")
        await page.wait_for_url("**/hub/home**") if hub.name == "stock" else None
        await page.goto(PLACE[hub.name])
    await asyncio.sleep(CHOOSES_S)
    clicked = time.time()
    await page.click(START[hub.name])
    await page.wait_for_selector(".jp-LauncherCard")
    drawn = await (await page.wait_for_function("window.drawnAt")).json_value()
    kilobytes = wire.total / 1000
    await page.click(".jp-Launcher-section:has-text('Notebook') .jp-LauncherCard >> nth=0")
    await page.click(".jp-Notebook .cm-content")
    await page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')  # before, it drops what it gets
    await page.keyboard.type("20 + 22")
    await page.keyboard.press("Shift+Enter")
    await page.wait_for_selector(".jp-OutputArea-output:has-text('42')")
    ran = time.time()
    await page.close()
    await stop(hub, person)
    return {
        ("launcher", "_s"): round(drawn - clicked, 2),
        ("cell", "_s"): round(ran - clicked, 2),
        ("wire", "_kb"): round(kilobytes),
    }


def forget(home: Path) -> None:
    """What JupyterLab would open again."""
    shutil.rmtree(home / ".jupyter" / "lab" / "workspaces", ignore_errors=True)
    for notebook in home.glob("Untitled*.ipynb"):
        notebook.unlink()


async def stop(hub: Hub, person: str) -> None:
    """End the session, and wait until its job has ended."""
    async with hub.direct() as connection:
        expect(await hub.api(connection, "DELETE", f"/users/{person}/server"), (202, 204), "stop")
        while json.loads((await hub.api(connection, "GET", f"/users/{person}")).body).get("servers"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    await asyncio.to_thread(
        cluster_setup.until, lambda: not cluster_setup.jobs(f"--user={person}"), "the job has ended", 60
    )
