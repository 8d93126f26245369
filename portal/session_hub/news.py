"""What the hub has for the pages of a session that runs: the site's announcement, and how full the folders are.

Asked once for all pages, and kept for a while; a hub that is away takes nothing off a page.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from portal.session_hub.calls import HubCalls, Told

FRESH_S = 60.0
WITHIN_S = 10.0
NOTHING: Told = {"announcement": None, "folders": []}


class News:
    """The last answer of the hub.

    Arguments:
        clock: seconds, never going back.
    """

    def __init__(self, hub: HubCalls, clock: Callable[[], float] = time.monotonic) -> None:
        self._hub = hub
        self._clock = clock
        self._known = NOTHING
        self._asked_at = float("-inf")
        self._asking: asyncio.Future[None] | None = None

    async def latest(self) -> Told:
        """What is known, after a new question where that is some time ago."""
        is_old = self._clock() - self._asked_at > FRESH_S
        if self._asking is None or (self._asking.done() and is_old):
            self._asked_at = self._clock()
            self._asking = asyncio.ensure_future(self._ask())
        await asyncio.wait([self._asking])
        return self._known

    async def _ask(self) -> None:
        status, told = await self._hub.ask("GET", "news", timeout_s=WITHIN_S)
        if status == 200:
            self._known = {"announcement": _announcement(told), "folders": _folders(told)}
        elif status in (403, 404):  # a hub of before
            self._known = NOTHING


def _announcement(told: Mapping[str, Any]) -> dict[str, str] | None:
    found = told.get("announcement")
    if not isinstance(found, dict) or not found.get("text"):
        return None
    return {"id": str(found.get("id", "")), "text": str(found["text"])}


def _folders(told: Mapping[str, Any]) -> list[Any]:
    found = told.get("folders")
    return found if isinstance(found, list) else []
