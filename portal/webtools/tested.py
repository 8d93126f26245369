"""``portal tools test``: start each web tool as a session does, and wait until it answers.

It uses the very classes of a session (:mod:`portal.webtools.tools`), so it needs what a session is told and no settings
file: a node has none.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from portal.errors import KernelError, printable
from portal.homes import temporary
from portal.session_settings import SessionSettings
from portal.trials.told import line_of
from portal.trials.trial import Trial
from portal.webtools.tools import POLL_S, ToolPlace, Tools, WebTool

LAST_LINES = 5


class ToolTest(NamedTuple):
    """What came of the start of a tool, and the last lines of its log where it does not answer."""

    trial: Trial
    last_lines: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """The same in lines for people."""
        if not self.trial.is_fault:
            yield f"it answers after {self.trial.start_s:.1f} s"
            return
        yield f"{self.trial.fault} {'Its last lines:' if self.last_lines else 'It said nothing.'}"
        yield from (f"  {line}" for line in self.last_lines)


def main(settings: SessionSettings, names: Sequence[str], *, as_json: bool = False) -> int:
    """Test the tools that are named, or all, and print what was found; 1 when one does not answer.

    Arguments:
        as_json: the lines for people are messages then, and a JSON object of each tool is the output.

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
    with temporary.folder("dsp-") as sockets:
        return asyncio.run(_test(settings, sockets, names or known, as_json))


async def _test(settings: SessionSettings, sockets: Path, names: Sequence[str], as_json: bool) -> int:
    person = os.environ.get("USER", "person")
    tools = Tools(settings, ToolPlace(sockets, f"/user/{person}/", Path.home()))
    is_faulty = False
    for name in names:
        found = await tested(tools.tool(name))
        is_faulty |= found.trial.is_fault
        words = [printable(f"{name}: {line}") for line in found.lines()]
        print(*words, sep="\n", flush=True, file=sys.stderr if as_json else sys.stdout)
        if as_json:
            print(line_of("tool", name, found.trial), flush=True)
    return int(is_faulty)


async def tested(tool: WebTool) -> ToolTest:
    """Start it, wait until it answers or fails, and end it."""
    began = time.monotonic()
    try:
        await tool.start()
        while tool.state == "starting":  # noqa: ASYNC110  nobody sets an event
            await asyncio.sleep(POLL_S)
        if tool.state == "ready":
            return ToolTest(Trial(int(time.time()), time.monotonic() - began))
        return ToolTest(Trial(int(time.time()), fault=tool.why), tuple(tool.last_words().splitlines()[-LAST_LINES:]))
    finally:
        await tool.stop()
