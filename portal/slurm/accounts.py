"""Accounts by their number, from the name service of the hub's host: it may be slow, or silent for a minute."""

from __future__ import annotations

import asyncio
import contextlib
import pwd
from concurrent.futures import ThreadPoolExecutor

ANSWER_WITHIN_S = 2.0
# Threads of its own: those of the event loop look up the nodes' addresses, and must not wait for this.
_THREADS = ThreadPoolExecutor(2, thread_name_prefix="accounts")


async def name_of(number: int) -> str:
    """The name of an account; ``""`` when the name service does not know it, or is silent."""
    asked = asyncio.get_running_loop().run_in_executor(_THREADS, pwd.getpwuid, number)
    with contextlib.suppress(KeyError, TimeoutError):
        async with asyncio.timeout(ANSWER_WITHIN_S):
            return (await asked).pw_name
    return ""
