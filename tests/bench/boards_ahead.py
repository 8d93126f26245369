"""A part of `bench tensorboard`: a click by a pointer that has rested on the tile, in a Chromium that draws ahead.

Playwright's Chromium does not (see :mod:`tests.chromium_tabs`). A pointer that has not rested is measured in both.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.bench.browser import forget
from tests.bench.compared_hubs import Hub
from tests.chromium_tabs import Tab, Tabs, tabs

RESTS_MS = (0, 300, 600, 1000)
WAY_S = 0.6  # of a hand, from the edge of the window to the tile
TILE = "[...document.querySelectorAll('.jp-LauncherCard')].find(one => one.textContent.includes('TensorBoard'))"
PLACE = "/tensorboard/"
SETTLES_S = 2.0  # JupyterLab has other work in its first moments


async def rested(hub: Hub, person: str, drawn: str) -> dict[str, float]:
    """Seconds from the press to scalars drawn, for a pointer that comes, and for each rest.

    The session and its TensorBoard run.

    Arguments:
        drawn: what is in the document when scalars are drawn, a CSS selector.
    """
    forget(Path("/home", person))
    async with tabs() as browser:
        tab = await in_lab(browser, hub, person)
        await clicked(browser, tab, 0, drawn)  # fills the cache
        taken = {f"rest_{rest_ms}": await clicked(browser, tab, rest_ms, drawn) for rest_ms in RESTS_MS}
        return {"comes": await clicked(browser, tab, 0, drawn, WAY_S), **taken}


async def in_lab(browser: Tabs, hub: Hub, person: str) -> Tab:
    """JupyterLab of the session."""
    tab = await browser.first()
    await tab.go(f"http://127.0.0.1:{hub.port}/hub/login?next=%2Fhub%2Fspawn%3Fgpus%3D0")
    await tab.place_of("document.querySelector('#login_submit')")
    await tab.says(
        f"""{{
          document.querySelector('[name=username]').value = '{person}';
          document.querySelector('[name=password]').value = '{person}-demo';
          document.querySelector('#login_submit').click();
        }}"""
    )
    return await in_launcher(tab)


async def in_launcher(tab: Tab) -> Tab:
    """The same tab, as soon as the launcher is there and JupyterLab is at rest."""
    await tab.seen(TILE)
    await asyncio.sleep(SETTLES_S)
    return tab


async def clicked(browser: Tabs, tab: Tab, rest_ms: int, drawn: str, way_s: float = 0) -> float:
    """Seconds from the press to scalars drawn; the new tab is closed then.

    Arguments:
        way_s: how long the pointer is on its way to the tile; 0 = it jumps.
    """
    await tab.leave()
    where = await (tab.approach(TILE, way_s) if way_s else tab.hover(TILE))
    await asyncio.sleep(rest_ms / 1000)
    began = time.monotonic()
    await tab.press(*where)
    opened = await browser.opened(PLACE)
    await opened.says(
        f"""new Promise(done => {{
          const look = () => document.querySelector('{drawn}') ? done() : requestAnimationFrame(look);
          requestAnimationFrame(look);
        }})"""
    )
    seconds = time.monotonic() - began
    await opened.close()
    await browser.closed(PLACE)
    return seconds
