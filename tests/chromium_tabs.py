"""Chromium by its own protocol (CDP), for pages that are drawn before they are looked at.

Playwright attaches itself to pages and not to tabs, and Chromium draws nothing ahead for who does not know of
tabs (``PrerenderingDisabledByDevTools``). So this attaches itself to the tab, and the tab to its pages.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.inside import CHROMIUM

ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1280,800")
DEADLINE_S = 60
LOOK_S = 0.005
EDGE = (640, 798)  # pixels, in a window of that size
STEPS = 20
MESSAGE_MOST = 2**27  # bytes


class Tabs:
    """A running Chromium: its targets, and what it reports of pages that it draws ahead."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._targets: dict[str, dict[str, Any]] = {}
        self._sessions: dict[str, str] = {}
        self.ahead_ends: list[tuple[str, str]] = []  # address, and what became of it

    async def read(self) -> None:
        """Take what Chromium says until it ends."""
        while (text := await self._socket.read_message()) is not None:
            message = json.loads(text)
            if "id" in message:
                self._waiting.pop(message["id"]).set_result(message)
            else:
                self._take(message["method"], message["params"])

    def close(self) -> None:
        """Say that nothing more is wanted; Chromium lets go of the connection, and :meth:`read` ends."""
        self._socket.close()

    def _take(self, event: str, params: dict[str, Any]) -> None:
        if event in ("Target.targetCreated", "Target.targetInfoChanged"):
            self._targets[params["targetInfo"]["targetId"]] = params["targetInfo"]
        elif event == "Target.targetDestroyed":
            self._targets.pop(params["targetId"], None)
        elif event == "Target.attachedToTarget":
            self._sessions[params["targetInfo"]["targetId"]] = params["sessionId"]
        elif event == "Preload.prerenderStatusUpdated" and params["status"] in ("Ready", "Failure", "Success"):
            self.ahead_ends.append((params["key"]["url"], params.get("prerenderStatus") or params["status"]))

    async def send(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Send a command, to a session of a target or to Chromium itself; its result."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        to = {"sessionId": session} if session else {}
        await self._socket.write_message(json.dumps({"id": number, "method": method, "params": params, **to}))
        message = await asyncio.wait_for(answer, DEADLINE_S)
        assert "error" not in message, (method, message)
        return dict(message["result"])

    def pages(self, place: str = "", *, ahead: bool = False) -> list[dict[str, Any]]:
        """Pages with this in their address that people see, or those that are drawn ahead."""
        pages = [one for one in self._targets.values() if one["type"] == "page" and place in one["url"]]
        return [one for one in pages if (one.get("subtype") == "prerender") == ahead]

    async def first(self) -> Tab:
        """The tab that Chromium begins with."""
        await self.send("Target.setDiscoverTargets", discover=True, filter=[{"type": "tab"}, {"type": "page"}])
        tab = await until("a tab", lambda: [one for one in self._targets.values() if one["type"] == "tab"])
        outer = (await self.send("Target.attachToTarget", targetId=tab[0]["targetId"], flatten=True))["sessionId"]
        await self.send("Target.setAutoAttach", outer, autoAttach=True, waitForDebuggerOnStart=False, flatten=True)
        page = self.pages()[0]["targetId"]
        session = await until("a page", lambda: self._sessions.get(page))
        await self.send("Page.enable", session)
        await self.send("Preload.enable", session)
        return Tab(self, session, page)

    async def opened(self, place: str) -> Tab:
        """The other tab, with this in its address, that people see."""
        page = (await until(f"a tab with {place}", lambda: self.pages(place)))[0]["targetId"]
        session = (await self.send("Target.attachToTarget", targetId=page, flatten=True))["sessionId"]
        return Tab(self, session, page)

    async def closed(self, place: str) -> None:
        """Wait until no page with this in its address is left, seen or not."""
        await until(f"end of {place}", lambda: not self.pages(place) and not self.pages(place, ahead=True))


class Tab:
    """One page, by its own session."""

    def __init__(self, tabs: Tabs, session: str, target: str) -> None:
        self._tabs = tabs
        self._session = session
        self._target = target

    async def go(self, address: str) -> None:
        """Go to an address."""
        await self._tabs.send("Page.navigate", self._session, url=address)

    async def run_first(self, script: str) -> None:
        """Run a script before those of each page from now on."""
        await self._tabs.send("Page.addScriptToEvaluateOnNewDocument", self._session, source=script)

    async def says(self, expression: str) -> Any:
        """The value of an expression, or of what it promises."""
        params = {"expression": expression, "awaitPromise": True, "returnByValue": True, "userGesture": True}
        answer = await self._tabs.send("Runtime.evaluate", self._session, **params)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def seen(self, element: str) -> None:
        """Wait until what an expression finds can be seen, through pages that lead to others."""
        await self.reaches(f"Boolean(({element})?.getBoundingClientRect().width)")

    async def reaches(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = asyncio.get_running_loop().time() + DEADLINE_S
        while not await self._says_now(condition):
            assert asyncio.get_running_loop().time() < end, f"not within {DEADLINE_S} s: {condition}"
            await asyncio.sleep(0.05)

    async def _says_now(self, expression: str) -> Any:
        try:
            return await self.says(expression)
        except AssertionError:  # the page has just gone
            return None

    async def place_of(self, element: str) -> tuple[float, float]:
        """The middle of what an expression finds, as soon as it can be seen."""
        script = f"""new Promise(found => {{
          const look = () => {{
            const box = ({element})?.getBoundingClientRect();
            box?.width ? found([box.x + box.width / 2, box.y + box.height / 2]) : setTimeout(look, 20);
          }};
          look();
        }})"""
        x, y = await self.says(script)
        return float(x), float(y)

    async def hover(self, element: str) -> tuple[float, float]:
        """Move the pointer there."""
        x, y = await self.place_of(element)
        await self._mouse("mouseMoved", x, y)
        return x, y

    async def approach(self, element: str, within_s: float) -> tuple[float, float]:
        """Move the pointer there from the edge of the window, in a straight line."""
        x, y = await self.place_of(element)
        for step in range(STEPS + 1):
            way = step / STEPS
            await self._mouse("mouseMoved", EDGE[0] + way * (x - EDGE[0]), EDGE[1] + way * (y - EDGE[1]))
            await asyncio.sleep(within_s / STEPS)
        return x, y

    async def click(self, element: str, button: str = "left") -> None:
        """Move the pointer there, and press."""
        await self.press(*await self.hover(element), button=button)

    async def press(self, x: float, y: float, button: str = "left") -> None:
        """Press where the pointer is."""
        for event in ("mousePressed", "mouseReleased"):
            await self._mouse(event, x, y, button=button, clickCount=1)

    async def leave(self) -> None:
        """Move the pointer to the edge of the window."""
        await self._mouse("mouseMoved", *EDGE)

    async def _mouse(self, event: str, x: float, y: float, **more: object) -> None:
        await self._tabs.send("Input.dispatchMouseEvent", self._session, type=event, x=x, y=y, **more)

    async def close(self) -> None:
        """Close the tab."""
        await self._tabs.send("Target.closeTarget", targetId=self._target)


async def until(what: str, condition: Callable[[], Any]) -> Any:
    """The first true answer of ``condition``; a failure names what was waited for."""
    end = asyncio.get_running_loop().time() + DEADLINE_S
    while not (answer := condition()):
        assert asyncio.get_running_loop().time() < end, f"no {what} within {DEADLINE_S} s"
        await asyncio.sleep(LOOK_S)
    return answer


def _launched(profile: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [CHROMIUM, *ARGUMENTS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    with log.open("wb") as output:
        # Debian's command is a script that waits for the browser: both end together, as one group.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)


@asynccontextmanager
async def tabs() -> AsyncIterator[Tabs]:
    """A Chromium with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log = Path(folder, "log")
        process = _launched(Path(folder, "profile"), log)
        try:
            told = await until("Chromium", lambda: re.search(r"ws://\S+", log.read_text(errors="replace")))
            browser = Tabs(await websocket_connect(told[0], max_message_size=MESSAGE_MOST))
            reading = asyncio.create_task(browser.read())
            try:
                yield browser
            finally:
                browser.close()
                await asyncio.wait([reading], timeout=DEADLINE_S)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)
