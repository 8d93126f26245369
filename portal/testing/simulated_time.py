"""An event loop in which waiting takes no time: hours of ``asyncio.sleep`` pass as fast as the work between them.

For tests with many waits at the same time, on the clock of the loop::

    loop = SimulatedTimeLoop(passes=lambda now: slurm.advance(now - slurm.clock()))
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=loop.time)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class SimulatedTimeLoop(asyncio.SelectorEventLoop):
    """When nothing is left to do, the clock goes on to the next timer. It begins at 0.

    What is given to a thread (``asyncio.to_thread``) is done at once, in its turn: a run is the same each time. Nothing
    of the outside is waited for: no process, no connection.

    Args:
        passes: is told the new time, in seconds, whenever time has passed.
    """

    def __init__(self, passes: Callable[[float], None] = lambda now: None) -> None:
        self._passed_s = 0.0
        self._passes = passes
        super().__init__(_Selector(self._pass))

    def time(self) -> float:
        """Seconds since the beginning."""
        return self._passed_s

    def _pass(self, seconds: float) -> None:
        self._passed_s += seconds
        self._passes(self._passed_s)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Do it now."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class _Selector(selectors.SelectSelector):
    """Lets time pass where others wait."""

    def __init__(self, passes: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = passes

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing is left to do, and no timer runs: what is waited for never comes")
        if timeout > 0:
            self._pass_time(timeout)
        return super().select(0)
