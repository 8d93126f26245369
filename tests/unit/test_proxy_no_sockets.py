"""Who asks for a web socket at the real proxy, and reads nothing or goes: nothing piles up, and nothing stays."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.proxy import proxy_process
from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_answers import BIG, all_of
from tests.unit.test_proxy_guard import answering, ask, routed
from tests.unit.test_proxy_sockets import Upgrading, asked

__all__ = ["portal"]
STALLED_AFTER_S = 3.0  # nobody takes a byte meanwhile
TAKEN_WITHIN_S = 3.0
WITHIN_S = 30
MANY = 40
PIECE = b"x" * 2**16


class Hostile(Upgrading):
    """A session that answers who asks for a web socket with much, with nothing, or with one that it never closes."""

    written: queue.Queue[int] = queue.Queue()  # of each big answer, when it was whole, had stalled or was not wanted

    def do_GET(self) -> None:
        """As it is asked."""
        if self.path.endswith("/kept"):
            self.wfile.write(b"HTTP/1.1 101 Kept\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        if self.path.endswith(("/kept", "/never")):
            threading.Event().wait(2 * WITHIN_S)
        elif self.path.endswith("/big"):
            self.send_response(200)
            self.send_header("Content-Length", str(BIG))
            self.end_headers()
            self.written.put(self._write())
        else:
            super().do_GET()

    def _write(self) -> int:
        done = 0
        self.connection.settimeout(STALLED_AFTER_S if self.path.startswith("/user/") else 2 * WITHIN_S)
        with contextlib.suppress(OSError):
            while done < BIG:
                done += self.connection.send(PIECE)
        return done


@pytest.fixture
def upstream() -> Iterator[str]:
    """A hub and a session."""
    with answering(Hostile) as url:
        yield url


def descriptors(portal: Portal) -> int:
    """How many files and connections the proxy has open."""
    running = proxy_process.running_in(portal.state)
    assert running
    return len(list(Path(f"/proc/{running.pid}/fd").iterdir()))


async def test_an_answer_that_is_no_web_socket_is_asked_for_as_fast_as_it_is_read(
    portal: Portal, upstream: str
) -> None:
    await routed(portal, upstream)

    with asked(portal, "/user/alice/big"):
        written = await asyncio.to_thread(Hostile.written.get, timeout=WITHIN_S)
    with asked(portal, "/user/alice/big") as browser:
        read = await asyncio.to_thread(all_of, browser)
        whole = await asyncio.to_thread(Hostile.written.get, timeout=WITHIN_S)

    assert written < BIG / 2, "the proxy keeps what nobody reads"
    assert min(read, whole) >= BIG


async def test_an_answer_of_the_hub_that_is_no_web_socket_and_that_nobody_reads_ends(
    portal: Portal, upstream: str
) -> None:
    await routed(portal, upstream, taken_within_s=TAKEN_WITHIN_S)

    with asked(portal, "/hub/big") as browser:
        written = await asyncio.to_thread(Hostile.written.get, timeout=WITHIN_S)
        read = await asyncio.to_thread(all_of, browser)

    assert written < BIG / 2
    assert read < BIG / 2


@pytest.mark.parametrize("path", ["/user/alice/never", "/user/alice/kept"])
async def test_who_goes_leaves_no_connection_to_a_session_that_does_not_end_it(
    portal: Portal, upstream: str, path: str
) -> None:
    await routed(portal, upstream)
    await ask("GET", f"{portal.url}/user/alice/page")
    before = descriptors(portal)

    browsers = [asked(portal, path) for _ in range(MANY)]
    async with asyncio.timeout(WITHIN_S):
        while descriptors(portal) < before + 2 * MANY - 2:  # noqa: ASYNC110  the proxy hears of them soon
            await asyncio.sleep(0.05)
    for browser in browsers:
        browser.close()

    async with asyncio.timeout(WITHIN_S):
        while descriptors(portal) > before + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
