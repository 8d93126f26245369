"""``portal tools test``: start each web tool as a session does, and wait until it answers.

It uses the very classes of a session (:mod:`portal.webtools.tools`), so it needs what a session is told and no settings
file: a node has none.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from portal.errors import KernelError, printable
from portal.session_settings import SessionSettings
from portal.webtools.tools import POLL_S, ToolPlace, Tools, WebTool

LAST_LINES = 5


class ToolTest(NamedTuple):
    """What came of the start of a tool: a line, and below it the last ones of its log where it does not answer."""

    answers: bool
    lines: tuple[str, ...]


def main(settings: SessionSettings, names: Sequence[str]) -> int:
    """Test the tools that are named, or all, and print what was found; 1 when one does not answer.

    Raises:
        KernelError: root asks, or there is no such tool.
    """
    if os.geteuid() == 0:
        raise KernelError(
            "root starts no web tools: whoever can change a module would have root's rights. "
            "With --partition NAME --user PERSON they are started in a job of that person's."
        )
    known = [tool.name for tool in settings.tools]
    if unknown := [name for name in names if name not in known]:
        raise KernelError(f"There is no web tool {', '.join(unknown)}; there are {', '.join(known) or 'none'}.")
    sockets = Path(tempfile.mkdtemp(prefix="dsp-"))
    try:
        return asyncio.run(_test(settings, sockets, names or known))
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


async def _test(settings: SessionSettings, sockets: Path, names: Sequence[str]) -> int:
    person = os.environ.get("USER", "person")
    tools = Tools(settings, ToolPlace(sockets, f"/user/{person}/", Path.home()))
    is_faulty = False
    for name in names:
        found = await tested(tools.tool(name))
        is_faulty |= not found.answers
        print(*(printable(f"{name}: {line}") for line in found.lines), sep="\n", flush=True)
    return int(is_faulty)


async def tested(tool: WebTool) -> ToolTest:
    """Start it, wait until it answers or fails, and end it."""
    began = time.monotonic()
    try:
        await tool.start()
        while tool.state == "starting":  # noqa: ASYNC110  nobody sets an event
            await asyncio.sleep(POLL_S)
        if tool.state == "ready":
            return ToolTest(True, (f"it answers after {time.monotonic() - began:.1f} s",))
        last = tool.last_words().splitlines()[-LAST_LINES:]
        why = f"{tool.why} Its last lines:" if last else f"{tool.why} It said nothing."
        return ToolTest(False, (why, *(f"  {line}" for line in last)))
    finally:
        await tool.stop()
