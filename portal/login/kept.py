"""A few words about each person, in a file of the hub's state folder: what must be known after a restart, too."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock

LINES_MAX = 1000  # what is added later wins; then the file is written anew
ADDED_MAX = 2**20  # bytes of these lines, however long each is


class Kept:
    """Names, and the words that are kept of each; a full disk costs no more than what a restart would have known.

    Args:
        file: made when there is something to keep; the folder above it exists.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._words: dict[str, str] | None = None
        self._lines = LINES_MAX
        self._added = 0  # bytes
        self._one_at_a_time = RLock()
        self._end: int | None = None  # of the file, for what is added: when many log in, an opening waits for threads
        self._close: Callable[[], object] = lambda: None

    def words(self) -> Mapping[str, str]:
        """What is kept; ``""`` is nothing."""
        with self._one_at_a_time:
            if self._words is None:
                try:
                    lines = self._file.read_text().splitlines()
                except (OSError, ValueError):  # a new hub, or a file that is no help
                    lines = []
                self._words = {str(name): str(words) for line in lines for name, words in _added(line).items()}
            return self._words

    def keep(self, words: Mapping[str, str]) -> None:
        """From now on these words are kept of these people. It may be called in any thread."""
        with self._one_at_a_time:
            known = self.words()
            if changed := {name: text for name, text in words.items() if text != known.get(name, "")}:
                self._words = {**known, **changed}
                with suppress(OSError):
                    self._write(changed)

    def _write(self, changed: Mapping[str, str]) -> None:
        """What has changed, at the end; or the whole, in one step."""
        lines = self._lines
        self._lines = LINES_MAX  # the whole, should it fail
        line = f"{json.dumps(changed)}\n".encode()
        self._added += len(line)
        if lines < LINES_MAX and self._added <= ADDED_MAX:
            self._add(line)
            self._lines = lines + 1
            return
        self._close()
        self._end = None
        unfinished = self._file.with_suffix(".new")
        unfinished.write_text(json.dumps(self._words) + "\n")
        unfinished.replace(self._file)
        self._lines = 1
        self._added = 0

    def _add(self, line: bytes) -> None:
        if self._end is None:
            self._end = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._close = weakref.finalize(self, os.close, self._end)
        while line:
            line = line[os.write(self._end, line) :]


def _added(line: str) -> dict[str, object]:
    """What one line adds; nothing when its end is missing, because the hub was killed or the disk was full."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
