"""One file or folder that TensorBoard cannot read keeps its board from none of the others.

TensorBoard 2.21 looks for runs and reads them all in one thread, which ends at what it does not expect, and goes round
in links for ever. In a folder that others can write one such thing would leave the board as it was then, for good.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tensorboard.backend.event_processing import io_wrapper
from tensorboard.backend.event_processing.directory_watcher import DirectoryDeletedError
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.compat.tensorflow_stub import compat

from portal.tensorboard.regular_files import is_text, tell

FOLDERS_MOST = 20_000  # that are looked through for runs, those near the top first
NAMES_MOST = 200_000  # of one folder


def read_on() -> None:
    """From now on each run is read as far as it can be, and the next ones follow."""
    EventAccumulator.Reload = _going_on(EventAccumulator.Reload, DirectoryDeletedError)
    EventMultiplexer.AddRunsFromDirectory = _going_on(EventMultiplexer.AddRunsFromDirectory)
    io_wrapper.ListRecursivelyViaWalking = folders


def folders(top: Any) -> Iterator[tuple[str, list[str]]]:
    """Each folder at or below ``top`` and the paths of its files, through links too, but not round in them.

    Those that may not be read or have no text (UTF-8) for a name are left out.
    """
    waiting = deque([(compat.as_str_any(top), frozenset[str]())])
    left_out = 0
    for _ in range(FOLDERS_MOST):
        if not waiting:
            return
        folder, above = waiting.popleft()
        real = os.path.realpath(folder)
        if real in above:
            continue
        below, files = _entries(folder)
        room = FOLDERS_MOST - len(waiting)
        left_out += len(below[room:])
        waiting.extend((path, above | {real}) for path in below[:room])
        yield folder, files
    if waiting or left_out:
        tell(f"{top}: more than {FOLDERS_MOST} folders; the deepest are left out")


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """The folders and the other things in a folder."""
    found: tuple[list[str], list[str]] = ([], [])
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(NAMES_MOST), strict=False):
                if is_text(entry.name):
                    found[0 if _is_folder(entry) else 1].append(entry.path)
    except OSError:
        return [], []
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself, or into what may not be entered
        return False


def _going_on(read: Callable[..., Any], *passed: type[Exception]) -> Callable[..., Any]:
    def reads(self: Any, *given: Any, **named: Any) -> Any:
        try:
            return read(self, *given, **named)
        except passed:
            raise
        except Exception as error:  # whatever it makes of what is there
            what = getattr(self, "path", "a folder of logs")
            tell(f"{what} cannot be read further now: {type(error).__name__}: {error}")
            return self

    return reads
