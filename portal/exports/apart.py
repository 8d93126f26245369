"""Converts a notebook in a process of its own, which ends with whoever asked for it.

In the session's own process one expression of a library may keep everybody else in the session waiting, and nbconvert
changes the folder in which all of it works (:mod:`portal.exports.converter`).
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tornado.web import HTTPError

from portal.exports import beside
from portal.exports.converter import ANSWER_MAX
from portal.homes import temporary
from portal.kernels.modules import clean

AT_ONCE = 2  # of one session; the others wait
WITHIN_S = 300.0
ENDS_WITHIN_S = 5.0
HEAD_MAX = 2**20
ENDED = (
    "It was ended: it took longer than {within_s:.0f} s, or more memory than there was. Save the notebook without its "
    "long outputs, and try again."
)
DIED = "What converts has ended by itself, with exit status {status}. Tell who runs this portal, if it does so again."
SETTINGS = ("Exporter", "Preprocessor", "NbConvertBase")  # how the names of nbconvert's classes end
WITHOUT_FILES = {"html", "latex", "markdown", "script", "python", "notebook", "rst", "asciidoc"}  # names them at most
BESIDE = "beside"
_T = TypeVar("_T")
log = logging.getLogger(__name__)
_CONVERTER = Path(__file__).with_name("converter.py")


@dataclass(frozen=True)
class Converted:
    """What was made of a notebook.

    Attributes:
        extension: with its dot.
        files: what lies beside it, by its name: pictures of a text in Markdown.
    """

    data: bytes
    media_type: str
    extension: str
    files: Mapping[str, bytes]


@dataclass
class Exports:
    """What one session converts at a time.

    Attributes:
        folder: the session's own for temporary files, which goes with it; "" = where such files are.
    """

    within_s: float = WITHIN_S
    folder: str = ""
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def convert(self, asked: Mapping[str, Any], notebook: object) -> Converted:
        """Convert a notebook; when this is cancelled, it ends, and all that it has started.

        Arguments:
            asked: ``format``, ``config`` (:func:`settings_of`), ``resources`` and ``sanitize``, as JSON has them.

        Raises:
            HTTPError: 403, the site has not turned that format on; 404, there is no such format; 500, it failed; 503,
                it was ended.
        """
        async with self.turns:
            with ExitStack() as stack:
                private = await _to_its_end(stack.enter_context, temporary.folder("dsportal-export-", self.folder))
                try:
                    return await self._converted(await _to_its_end(_sent, asked, notebook, private), private)
                finally:
                    await _to_its_end(stack.pop_all().close)

    async def _converted(self, sent: bytes, private: Path) -> Converted:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(_CONVERTER)),
            cwd=private,
            env={**clean(os.environ), "TMPDIR": str(private)},
            start_new_session=True,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=HEAD_MAX,
        )
        try:
            async with asyncio.timeout(self.within_s):
                _, read = await asyncio.gather(_send(process.stdin, sent), _read(process.stdout))
                return read
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            if isinstance(error, asyncio.IncompleteReadError) and (status := await _ended_with(process)) >= 0:
                log.warning(DIED.format(status=status))
                raise HTTPError(500, DIED.format(status=status)) from error
            raise HTTPError(503, ENDED.format(within_s=self.within_s)) from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(TimeoutError):  # something that it started has left its group
                await asyncio.wait_for(process.communicate(), ENDS_WITHIN_S)  # what nobody read keeps it


async def _to_its_end(work: Callable[..., _T], *arguments: Any) -> _T:
    """Work in a thread; who is cancelled meanwhile waits for it, for what comes next undoes it."""
    going = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(going)
    except asyncio.CancelledError:
        await asyncio.wait([going])
        raise


def _sent(asked: Mapping[str, Any], notebook: object, private: Path) -> bytes:
    """What the process gets to read; of the notebook's folder it is told where it reads files as text alone."""
    metadata = dict(asked["resources"]["metadata"])
    if asked["format"] not in WITHOUT_FILES and "path" in metadata:
        beside.copy(Path(metadata["path"]), notebook, private / BESIDE)
        metadata["path"] = str(private / BESIDE)
    told = {**asked, "resources": {**asked["resources"], "metadata": metadata}}
    return f"{json.dumps(told)}\n{json.dumps(notebook)}".encode()


async def _ended_with(process: asyncio.subprocess.Process) -> int:
    """The exit status of what has closed its output; below 0: a signal has ended it, or it has not ended."""
    with suppress(TimeoutError):
        return await asyncio.wait_for(process.wait(), ENDS_WITHIN_S)
    return -1


async def _send(stdin: Any, sent: bytes) -> None:
    with suppress(ConnectionError):  # it has ended: what it said tells
        stdin.write(sent)
        await stdin.drain()
        stdin.close()


async def _read(stdout: Any) -> Converted:
    head = json.loads(await stdout.readuntil(b"\n"))
    if head["status"] != 200:
        log.warning("No export: %s\n%s", head["words"], head.get("trace", ""))
        raise HTTPError(head["status"], "%s", head["words"])
    if sum(head["sizes"]) > ANSWER_MAX:
        raise ValueError(head["sizes"])
    data, *files = [await stdout.readexactly(size) for size in head["sizes"]]
    return Converted(data, head["media_type"], head["extension"], dict(zip(head["names"], files, strict=True)))


def settings_of(config: Mapping[str, Any]) -> str:
    """What a site has set for nbconvert, for the process that converts; what cannot be handed on is logged."""
    found: dict[str, dict[str, object]] = {}
    for name, section in config.items():
        if name.endswith(SETTINGS):
            found[name] = {}
            for key, value in section.items():
                try:
                    pickle.dumps(value)
                    found[name][key] = value
                except Exception as error:  # a function without a name, an open file
                    log.warning("The setting %s.%s does not count for exports: %s", name, key, error)
    return base64.b64encode(pickle.dumps(found)).decode()
