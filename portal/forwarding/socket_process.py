"""What is the same for every program that a session starts on a Unix socket: does it listen, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from pathlib import Path

STOP_TIMEOUT_S = 5


def end(process: subprocess.Popen[bytes], timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Ask a process to end, insist after ``timeout_s`` seconds, and wait."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
    with process:  # closes its input and waits
        pass


async def accepts(socket: Path) -> bool:
    """Whether somebody listens on a socket."""
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_unix_connection(socket)
        writer.close()
        return True
    return False
