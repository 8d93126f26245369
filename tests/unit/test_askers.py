"""Requests without a login hold few connections of a session's server, and none for long; a login's are left alone."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from portal.session_pages.askers import Asker, Askers
from portal.singleuser import logins
from tests.unit.test_open_answers import HERS, Waits, World, cookie, world

__all__ = ["world"]
MOST = 5
WITHIN_S = 60.0
LOADS = 0.5  # seconds in which nothing comes


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of the bound, which is small here."""
    clock = Clock()
    monkeypatch.setattr(logins, "Askers", partial(Askers, MOST, WITHIN_S, clock))
    return clock


@pytest.fixture
async def few(clock: Clock, world: World) -> AsyncIterator[World]:
    """A session's server that takes so few."""
    yield world


async def is_open(reader: asyncio.StreamReader) -> bool:
    """Whether an answer may still come."""
    try:
        return await asyncio.wait_for(reader.read(1), LOADS) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


async def are_open(readers: list[asyncio.StreamReader]) -> list[bool]:
    """Of each, whether an answer may still come."""
    return list(await asyncio.gather(*map(is_open, readers)))


@pytest.mark.parametrize("headers", [(), (cookie("made up"),)], ids=["no login", "a made-up one"])
async def test_of_many_requests_without_a_login_the_oldest_goes_and_who_has_one_is_answered(
    few: World, headers: tuple[str, ...]
) -> None:
    hers = await few.send("waits", HERS)
    await Waits.asked.wait()
    await few.answers.look()  # the hub is asked who she is
    strangers = [await few.send("waits", *headers) for _ in range(MOST + 3)]

    assert await are_open(strangers) == [False] * 3 + [True] * MOST
    Waits.goes.set()
    assert b"at last" in await hers.read(2000)


async def test_a_login_that_is_found_while_others_come_is_left_alone(few: World) -> None:
    hers = await few.send("waits", HERS)
    await Waits.asked.wait()
    answers = few.answers
    assert await answers.is_login(answers._handler(next(iter(answers._asked.values()))))  # as its handler asks
    strangers = [await few.send("waits") for _ in range(MOST + 1)]

    assert await is_open(hers)
    assert await are_open(strangers) == [False] + [True] * MOST


async def test_a_request_without_a_login_is_answered_so_long(few: World, clock: Clock) -> None:
    stranger, hers = await few.send("waits"), await few.send("waits", HERS)
    await asyncio.sleep(LOADS)
    await few.answers.look()
    assert await are_open([stranger, hers]) == [True, True]

    clock.now += WITHIN_S + 1
    await few.answers.look()

    assert await are_open([stranger, hers]) == [False, True]


async def test_who_sends_nothing_makes_place_for_others(few: World, clock: Clock) -> None:
    silent = [(await asyncio.open_connection("127.0.0.1", few.port)) for _ in range(MOST + 2)]
    few.writers.extend(writer for _, writer in silent)

    assert await are_open([reader for reader, _ in silent]) == [False] * 2 + [True] * MOST
    clock.now += WITHIN_S + 1
    await few.answers.look()
    assert await is_open(silent[-1][0]), "the proxy may send the next request there"


async def test_requests_that_are_over_count_no_more(few: World) -> None:
    first = await few.send("waits")
    for _ in range(3 * MOST):
        reader = await few.send("nothing", "Connection: close")
        assert b"404" in await reader.read(2000)
    assert await is_open(first)


async def test_who_has_gone_counts_no_more(few: World) -> None:
    first = await few.send("waits")
    for _ in range(3 * MOST):
        _, writer = await asyncio.open_connection("127.0.0.1", few.port)
        writer.close()
        await writer.wait_closed()
    assert await is_open(first)


@pytest.mark.parametrize("unreadable", ["nothing?" + "&".join("a" * 1200), "nothing?a=%ff"])
async def test_a_request_that_cannot_be_read_fails_no_other_one(few: World, clock: Clock, unreadable: str) -> None:
    for _ in range(2 * MOST):
        await (await few.send(unreadable)).read(2000)
    stranger = await few.send("waits")
    await Waits.asked.wait()
    clock.now += WITHIN_S + 1
    await few.answers.look()

    assert not await is_open(stranger)
    Waits.asked.clear()
    hers = await few.send("waits", HERS)
    await Waits.asked.wait()
    Waits.goes.set()
    assert b"at last" in await hers.read(2000)


async def test_who_was_known_at_the_end_of_a_request_stays_so(few: World, monkeypatch: pytest.MonkeyPatch) -> None:
    askers: list[Asker] = []
    begin = Askers.begin

    def begun(self: Askers, *of_what: Any) -> Asker:
        askers.append(begin(self, *of_what))
        return askers[-1]

    monkeypatch.setattr(Askers, "begin", begun)
    for headers in ((HERS,), ()):
        reader = await few.send("waits", *headers, "Connection: close")
        await Waits.asked.wait()
        await few.answers.look()
        Waits.goes.set()
        assert b"at last" in await reader.read()
    few.hub.cache.clear()

    assert [one.is_known() for one in askers if one.asked_at is not None] == [True, False]


def test_strangers_have_a_quarter_of_the_files_at_most(tmp_path: Path) -> None:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, most))
    try:
        assert Askers()._most == 75
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
