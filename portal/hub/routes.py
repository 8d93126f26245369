"""The proxy of a hub that comes back: the one of before is ended, and every session's route is brought back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

PROXY = b"configurable-http-proxy"
END_WITHIN_S = 1.0  # JupyterHub itself waits as long, always
EVERY_S = 2.0  # while a restarted hub looks at its sessions
EVERY_MAX_S = 30.0


def end_proxy_of_before(pid_file: str) -> None:
    """End the proxy that a killed hub left: JupyterHub does so too, but waits for a whole second after it."""
    step_s = 0.01
    with contextlib.suppress(OSError, ValueError):
        process = Path("/proc", Path(pid_file).read_text().strip())
        if PROXY not in (process / "cmdline").read_bytes():
            return
        os.kill(int(process.name), signal.SIGTERM)
        for _ in range(round(END_WITHIN_S / step_s)):
            time.sleep(step_s)
            (process / "cmdline").stat()  # its error is the end that is waited for


async def bring_back(check_routes: Callable[[], Awaitable[None]], sessions: asyncio.Future[int], log: Any) -> None:
    """Bring the sessions back into the new proxy; one whose node is silent keeps no other one waiting.

    Arguments:
        check_routes: adds the routes of all sessions that are known so far.
        sessions: done when each session of before was looked at, with their number.
    """
    every_s = EVERY_S
    is_complete = False
    while not is_complete:
        looked, _ = await asyncio.wait([sessions], timeout=every_s)
        try:
            await check_routes()
            is_complete = bool(looked)
        except Exception:  # the proxy is being started again, for one
            log.exception("The routes of the sessions: tried again")
            await asyncio.sleep(every_s)
        every_s = min(every_s * 2, EVERY_MAX_S)
    if error := sessions.exception():
        log.error("Not all sessions could be looked at", exc_info=error)
    else:
        log.info("%s sessions were looked at", sessions.result())
