"""The loop in which waiting takes no time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from portal.testing.simulated_time import SimulatedTimeLoop


def run(loop: SimulatedTimeLoop, story: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story)


def test_a_day_of_waits_passes_in_a_moment_and_in_its_order() -> None:
    told: list[float] = []
    seen: list[tuple[float, str]] = []
    loop = SimulatedTimeLoop(told.append)

    async def waits(seconds: float, name: str) -> None:
        await asyncio.sleep(seconds)
        seen.append((round(loop.time()), name))

    async def story() -> None:
        await asyncio.gather(waits(86_400, "a day"), waits(60, "a minute"), waits(3600, "an hour"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()

    began = time.monotonic()
    run(loop, story())

    assert time.monotonic() - began < 5
    assert seen == [(60, "a minute"), (3600, "an hour"), (86_400, "a day")]
    assert round(told[-1]) == 86_410


def test_what_is_given_to_a_thread_is_done_at_once() -> None:
    loop = SimulatedTimeLoop()

    def fails() -> None:
        raise ValueError("as it was said")

    async def story() -> None:
        assert await asyncio.to_thread(sum, [1, 2]) == 3
        with pytest.raises(ValueError, match="as it was said"):
            await asyncio.to_thread(fails)
        assert loop.time() == 0

    run(loop, story())


def test_a_wait_that_cannot_end_is_told() -> None:
    loop = SimulatedTimeLoop()

    with pytest.raises(RuntimeError, match="what is waited for never comes"):
        loop.run_until_complete(asyncio.Event().wait())

    loop.close()
