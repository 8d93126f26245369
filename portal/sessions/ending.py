"""How sessions are ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any


def is_ending(spawner: Any) -> bool:
    """Whether a session is being stopped, or its start was, which has not come to its end yet."""
    start = spawner._spawn_future
    is_cancelled = isinstance(start, asyncio.Task) and bool(start.cancelling())
    return spawner.pending == "stop" or (spawner.pending == "spawn" and is_cancelled)


async def cancel_start(spawner: Any, who: str) -> None:
    """Note who stops a session that runs or is being started, and cancel its start, which has a second to end."""
    if spawner.pending in (False, "spawn") and hasattr(spawner, "note_stop"):
        spawner.note_stop(who)
    if spawner.pending == "spawn" and spawner._spawn_future:
        spawner._spawn_future.cancel()
        await asyncio.sleep(1)  # as JupyterHub does (6.1, UserServerAPIHandler)


async def end_together(sessions: Iterable[Any], stop: Callable[[Any], Awaitable[None]]) -> None:
    """End several at once: one that takes its time to end keeps no other one running.

    Arguments:
        sessions: the spawners; one that another page is just stopping is left to it.
        stop: stops a session that is not being started.

    Raises:
        ExceptionGroup: some could not be ended; the others were.
    """
    tried = await asyncio.gather(*(_end(spawner, stop) for spawner in sessions), return_exceptions=True)
    if failed := [error for error in tried if isinstance(error, Exception)]:
        raise ExceptionGroup("not ended", failed)


async def _end(spawner: Any, stop: Callable[[Any], Awaitable[None]]) -> None:
    if spawner.pending == "spawn":
        await spawner.stop(now=True)  # the start that waits sees the end of its job
    elif not spawner.pending:
        await stop(spawner)
