"""What one sender leaves in the hub's log has a bound, and takes no room of what is told of anybody else."""

from __future__ import annotations

import asyncio
import inspect
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import tornado.iostream

from portal import journal
from portal.guard import intake
from portal.journal import KEPT, OF_ONE_AT_ONCE, OF_ONE_BYTES_S, OF_STRANGERS_AT_ONCE, SENDER, HubBound, Sender
from portal.slurm.snapshot import NodesSnapshot, SnapshotCache
from tests.unit.served_hub import ServedHub, served_hub

BOB = Sender("User bob", is_known=True)
ALICE = Sender("User alice", is_known=True)
TORNADO = inspect.getfile(tornado.iostream)


class Written(logging.Handler):
    """Keeps the lines that a bound lets through."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        super().__init__()
        self.clock = SimpleNamespace(now=0.0)
        self.lines: list[str] = []
        self.addFilter(HubBound(clock or (lambda: self.clock.now)))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def count(self, part: str) -> int:
        """How many lines have a text in them."""
        return sum(part in line for line in self.lines)


@pytest.fixture
def written() -> Written:
    """Of one log."""
    return Written()


@pytest.fixture(autouse=True)
def _nobody() -> Iterator[None]:
    token = SENDER.set(None)
    yield
    SENDER.reset(token)


def tell(
    written: Written,
    words: str,
    sender: Sender | None,
    times: int = 1,
    place: str = "/lib/jupyterhub/log.py",
    level: int = logging.INFO,
    **more: object,
) -> None:
    """Lines of one module, while it works on what somebody asked for."""
    SENDER.set(sender)
    for _ in range(times):
        record = logging.LogRecord("JupyterHub", level, place, 1, words, (), None)
        vars(record).update(more)
        written.handle(record)


def test_who_asks_too_much_is_left_out_and_nobody_else(written: Written) -> None:
    tell(written, "200 GET /hub/home (bob@::1)", BOB, 100_000)
    tell(written, "200 GET /hub/home (alice@::1)", ALICE)

    assert written.count("bob") == OF_ONE_AT_ONCE // journal.LEAST
    missing = 100_000 - OF_ONE_AT_ONCE // journal.LEAST
    assert written.lines[-1] == (
        f"(left out before this line, as they were too many: {missing}) 200 GET /hub/home (alice@::1)"
    )
    written.clock.now += journal.LEAST / OF_ONE_BYTES_S
    tell(written, "200 GET /hub/home (bob@::1)", BOB, 10)
    assert written.lines[-1] == "200 GET /hub/home (bob@::1)"
    assert written.count("bob") == OF_ONE_AT_ONCE // journal.LEAST + 1


def test_other_lines_of_the_same_sender_have_their_own_room(written: Written) -> None:
    tell(written, "404 GET /hub/x", Sender("10.0.0.5"), 100_000)
    tell(written, "No login of alice from 10.0.0.5", Sender("10.0.0.5"), place="/lib/portal/login/auth.py")
    tell(written, "500 GET /hub/x", Sender("10.0.0.5"), level=logging.ERROR)

    assert "No login of alice" in written.lines[-2]
    assert written.lines[-1] == "500 GET /hub/x"


def test_strangers_of_many_addresses_share_one_room(written: Written) -> None:
    for number in range(2 * journal.ROOMS_MOST):
        tell(written, "404 GET /hub/x", Sender(f"10.0.{number // 256}.{number % 256}"), 5)
    tell(written, "200 GET /hub/home (alice@::1)", ALICE)

    assert written.count("404") == OF_STRANGERS_AT_ONCE // journal.LEAST
    assert "alice" in written.lines[-1]


def test_what_is_left_out_takes_nothing_of_what_its_sender_may_leave(written: Written) -> None:
    for number in range(20):
        tell(written, "404 GET /flood", Sender(f"::{number}"), OF_STRANGERS_AT_ONCE // journal.LEAST)
    first = Sender("2001:db8::1")
    tell(written, "404 GET /first", first, OF_ONE_AT_ONCE // journal.LEAST)
    assert written.count("first") == 0

    written.clock.now = OF_STRANGERS_AT_ONCE / journal.OF_STRANGERS_BYTES_S
    tell(written, "404 GET /later", first, OF_ONE_AT_ONCE // journal.LEAST)

    assert written.count("later") == OF_ONE_AT_ONCE // journal.LEAST


def test_what_the_hub_does_by_itself_and_what_is_kept_is_always_written(written: Written) -> None:
    tell(written, "The session still runs", None, 10_000, place="/lib/portal/hub/restart.py")
    tell(written, "root enters", BOB, 10_000, place="/lib/portal/administration/enter.py", **KEPT)
    tell(written, "SSL Error on 7", None, 10_000, place=TORNADO)

    assert written.count("still runs") == written.count("root enters") == 10_000
    assert written.count("SSL Error") == OF_ONE_AT_ONCE // journal.LEAST


def bounded(served: ServedHub) -> Written:
    """The log of a hub that is served here, as a hub bounds its own."""
    written = Written()
    served.hub.log.addHandler(written)
    return written


async def test_the_hub_knows_whose_each_request_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "OF_ONE_AT_ONCE", 60 * journal.LEAST)
    monkeypatch.setattr(journal, "OF_ONE_BYTES_S", 0)
    async with served_hub(tmp_path) as served:
        written = bounded(served)
        bobs = await served.browser("bob")
        for _ in range(100):
            await bobs.get("/hub/api/users/nobody")
        alices = await served.browser("alice")
        await alices.get("/hub/home")
        stranger = await served.browser()
        for _ in range(100):
            await stranger.get("/hub/nothing")
        await alices.get("/hub/token")

    assert 0 < written.count("GET /hub/api/users/nobody (bob@") <= 60
    assert any("GET /hub/home (alice@" in line for line in written.lines)
    assert any("GET /hub/token (alice@" in line for line in written.lines)
    assert 0 < written.count("GET /hub/nothing") <= 2 * 60, "the request's line, and that of its failure"
    assert written.count("User logged in: alice") == 1


async def test_what_is_no_request_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "OF_ONE_AT_ONCE", 10 * journal.LEAST)
    monkeypatch.setattr(journal, "OF_ONE_BYTES_S", 0)
    async with served_hub(tmp_path) as served:
        written = bounded(served)
        place = urlsplit(served.url)
        for number in range(50):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            too_big = f"POST / HTTP/1.1\r\nContent-Length: {intake.BODY_MAX + 1}\r\n\r\n"
            writer.write(too_big.encode() if number % 2 else b"junk\r\n\r\n")
            await reader.read()
            writer.close()

    assert 0 < written.count("before it was read") <= 10
    assert 0 < written.count("Malformed HTTP") <= 10


def test_a_line_that_two_handlers_write_counts_once() -> None:
    first, second = Written(), Written()
    second.filters[:] = first.filters
    for number in range(2 * OF_ONE_AT_ONCE // journal.LEAST):
        SENDER.set(BOB)
        record = logging.LogRecord("hub", logging.INFO, "/lib/log.py", 1, "%d", (number,), None)
        first.handle(record)
        second.handle(record)

    assert first.lines == second.lines
    assert len(first.lines) == OF_ONE_AT_ONCE // journal.LEAST


def test_a_hub_that_lies_below_a_folder_of_that_name_says_all(written: Written) -> None:
    tell(written, "The session still runs", None, 10_000, place="/opt/tornado/lib/portal/hub/restart.py")

    assert written.count("still runs") == 10_000


async def test_what_is_looked_at_for_many_is_nobodys() -> None:
    senders = []

    async def query() -> NodesSnapshot:
        senders.append(SENDER.get())
        return NodesSnapshot()

    SENDER.set(BOB)
    await SnapshotCache(query, NodesSnapshot(), time.monotonic, "sinfo").get(0)

    assert senders == [None]
    assert SENDER.get() == BOB


def test_what_asyncio_says_of_connections_goes_the_same_way(written: Written) -> None:
    hub = logging.Logger("hub")
    hub.addHandler(written)
    asyncios = logging.getLogger("asyncio")
    before = asyncios.parent
    try:
        journal.bound(hub)
        asyncios.warning("SSL handshake failed: %s", ssl.SSLError("x"))
    finally:
        asyncios.parent = before
        written.removeFilter(written.filters[-1])

    assert written.count("handshake") == 1


@pytest.mark.parametrize("is_new", [True, False], ids=["first line", "later line"])
def test_what_is_told_while_a_line_is_measured_keeps_the_hub_from_nothing(is_new: bool) -> None:
    """Memory is cleared at any moment, and asyncio says then of a task that its error was never asked for."""

    class Task:
        def __del__(self) -> None:
            tell(written, "never retrieved", BOB, level=logging.ERROR)

    def clock() -> float:
        tasks.clear()
        return 0.0

    tasks: list[Task] = []
    written = Written(clock)
    if not is_new:
        tell(written, "one", BOB)
    tasks.append(Task())
    thread = threading.Thread(target=tell, args=(written, "line", BOB), daemon=True)
    thread.start()
    thread.join(10)

    assert not thread.is_alive()
    assert (written.count("never retrieved"), written.count("line")) == (1, 1)
