"""A page over which a window of somebody else's lies, and closes under the pointer.

A Chromium without windows gives each page the focus. So these pages are told what one with windows told them (156,
Debian 12, X11): `blur` as a window comes before them, and `focus` as it closes, 20 to 130 ms before the second click.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Locator, Page

LONG_MS = 700  # firstclick.js: half a second
GOES = "document.hasFocus = () => false; window.dispatchEvent(new Event('blur'))"
COMES = "delete document.hasFocus; window.dispatchEvent(new Event('focus'))"
# Before all scripts of a page: it comes in the moment of the next press, however slow this machine is.
WITH_PRESS = f"""addEventListener('pointerdown', () => {{
  if (window.comes) {{ window.comes = false; {COMES}; }}
}}, true)"""


@contextmanager
def covered(page: Page, *, until_pressed: bool = False) -> Iterator[None]:
    """Another window in front, and behind this one again.

    Arguments:
        until_pressed: it goes as the next press comes; the page was opened with :data:`WITH_PRESS`.
    """
    page.evaluate(GOES)
    page.wait_for_timeout(LONG_MS)
    yield
    page.evaluate("window.comes = true" if until_pressed else COMES)


def press(on: Locator, clicks: int = 1) -> None:
    """Press what is there, whether or not it is meant; ``clicks``: as the browser counts them."""
    box = on.bounding_box()
    assert box is not None
    mouse = on.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse.down(click_count=clicks)
    mouse.up(click_count=clicks)
