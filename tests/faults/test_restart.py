"""A restart is not noticed: the proxy outlives the hub, and with it every connection to a session."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import httpx
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.faults.hubs import FaultHub
from tests.faults.table import Row
from tests.faults.watch import watching
from tests.forms import of_long_form
from tests.hub.conftest import Person
from tests.inside import eventually, jobs_of

BACK_WITHIN_S = 10.0
KERNEL = "python3"
COUNT = """
import itertools, time
for number in itertools.count():
    print(number, flush=True)
    time.sleep(0.05)
"""


@dataclass
class Numbers:
    """What came through one web socket, until it was closed."""

    came: list[int] = field(default_factory=list)
    is_closed: bool = False

    def more(self) -> bool:
        """Wait until ten more have come than there are now; False when the socket is closed before."""
        wanted = len(self.came) + 10
        eventually(lambda: len(self.came) >= wanted or self.is_closed, "the kernel prints", within_s=30)
        return not self.is_closed


@contextmanager
def counting(person: Person) -> Iterator[Numbers]:
    """A kernel that prints numbers, and a browser's web socket that hears them."""
    xsrf = next(c.value or "" for c in person.http.cookies.jar if c.name == "_xsrf" and "/user/" in c.path)
    kernels = f"/user/{person.name}/api/kernels"
    made = person.http.post(kernels, json={"name": KERNEL}, headers={"X-XSRFToken": xsrf}, timeout=60)
    assert made.status_code == 201, made.text
    channels = person.http.build_request("GET", f"{kernels}/{made.json()['id']}/channels?session_id={uuid4().hex}")
    url = str(channels.url).replace("http", "ws", 1)
    numbers = Numbers()
    loop = asyncio.new_event_loop()
    heard = loop.create_task(listen(HTTPRequest(url, headers={"Cookie": channels.headers["Cookie"]}), numbers))
    thread = threading.Thread(target=run, args=(loop, heard))
    thread.start()
    try:
        eventually(lambda: numbers.came or numbers.is_closed, "the kernel prints", within_s=60)
        yield numbers
    finally:
        loop.call_soon_threadsafe(heard.cancel)
        thread.join()
        loop.close()


def run(loop: asyncio.AbstractEventLoop, heard: asyncio.Task[None]) -> None:
    """Hear until the task ends or is cancelled."""
    loop.run_until_complete(asyncio.wait([heard]))


async def listen(request: HTTPRequest, numbers: Numbers) -> None:
    """Start the count, and keep what is printed."""
    socket = await websocket_connect(request)
    header = {"msg_id": uuid4().hex, "msg_type": "execute_request", "username": "", "session": "", "version": "5.3"}
    message = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": []}
    await socket.write_message(json.dumps({**message, "content": {"code": COUNT, "silent": False}}))
    try:
        while (text := await socket.read_message()) is not None:
            answer = json.loads(text)
            if answer["msg_type"] == "stream":
                numbers.came.extend(map(int, answer["content"]["text"].split()))
        numbers.is_closed = True
    finally:
        socket.close()


def proxy_of(hub: FaultHub) -> str:
    """The process of its proxy."""
    return (hub.state / "proxy.pid").read_text().strip()


def page_of(person: Person) -> httpx.Response:
    """A page of the hub, as a browser asks for it."""
    return person.http.get("/hub/home", headers={"Accept": "text/html"})


@pytest.mark.parametrize(("what", "ends"), [of_long_form("restarted", FaultHub.end), ("killed", FaultHub.kill)])
def test_whoever_is_in_a_session_does_not_notice_that_the_hub_is_gone_and_back(
    hub: FaultHub, alice: Person, what: str, ends: Callable[[FaultHub], None], row: Row
) -> None:
    row.fault, row.done = f"hub {what}, seen from a session", "a kernel prints, a page asks, the hub ends and starts"
    job_id = alice.start(gpus="0")
    before = proxy_of(hub)
    with counting(alice) as numbers, watching(alice) as seen:
        assert numbers.more()
        ends(hub)
        try:
            away = page_of(alice)
            assert numbers.more(), "the web socket lives while no hub does"
        finally:
            began = time.monotonic()
            hub.start()
            row.seconds = time.monotonic() - began
        assert numbers.more(), "the web socket lives when the hub is back"
    eventually(alice.is_ready, "the hub holds the session", within_s=30)

    row.seen = f"{len(numbers.came)} numbers, {seen.good} of {seen.good + len(seen.bad)} requests answered"
    row.lost = int(jobs_of("alice") != [job_id])
    assert numbers.came == list(range(len(numbers.came)))
    assert seen.good
    assert not seen.bad
    assert (away.status_code, "Running sessions go on." in away.text) == (503, True)
    assert page_of(alice).status_code == 200
    assert proxy_of(hub) == before
    assert row.lost == 0


def test_a_proxy_is_replaced_when_a_setting_of_it_changed(hub: FaultHub, alice: Person, row: Row) -> None:
    row.fault, row.done = "a setting of the proxy changed", "another log level in extra_config, the hub is restarted"
    job_id = alice.start(gpus="0")
    before = proxy_of(hub)
    setting = hub.folder / "extra" / "proxy.py"
    setting.write_text("c.ConfigurableHTTPProxy.log_level = 'warn'\n")
    hub.end()

    began = time.monotonic()
    hub.start()
    eventually(alice.is_ready, "the session is reached again", within_s=30, every_s=0.1)
    row.seconds = time.monotonic() - began
    setting.unlink()

    row.seen = next((line for line in hub.log().splitlines() if f"(process {before}) is replaced" in line), "")[-110:]
    row.lost = int(jobs_of("alice") != [job_id])
    assert proxy_of(hub) != before
    assert "changed: options of the proxy" in row.seen
    assert row.seconds <= BACK_WITHIN_S
    assert row.lost == 0
