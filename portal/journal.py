"""The levels of log lines, for systemd's journal: it reads them off the beginning of each line (sd-daemon(3)).

And what others have sent stands in a log as text: nothing in it steers a terminal, or begins a line (Tornado's
formatter indents what follows a line's end). Of what one of them causes there is so much, and whose lines are too many
takes nobody else's room.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from portal.errors import printable

STDERR = 2
# syslog's numbers, the gravest first: each from that level of Python's on
LEVELS = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
DEBUG = 7
LONGEST = 4000  # letters of a record: a report of a browser's is a megabyte, if somebody wants that
TRACEBACK = 4000  # bytes that one counts for
TRACEBACK_BEGINS = 12_000  # letters of one that are kept; what failed may name all that was sent
TRACEBACK_ENDS = 4000
LEFT_OUT = " …\n… "
LEAST = 200  # bytes that each line counts for: the journal bounds their number, too
OF_ONE_AT_ONCE = 2**18  # bytes of one module's lines about one sender
OF_ONE_BYTES_S = 256.0  # and so many for ever: 22 MB a day
OF_STRANGERS_AT_ONCE = 2**19  # bytes of one module's lines about all who are not logged in
OF_STRANGERS_BYTES_S = 2048.0
ROOMS_MOST = 5000
KEPT = {"is_kept": True}  # a record's ``extra``: it is always written
DECIDED = "is_written"  # of a record that was looked at
INTAKE = "portal.guard.intake"  # the logger of a module that speaks of who is not known yet; so do these libraries
OF_CONNECTIONS = ("asyncio", "tornado")
_STEERS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")  # not tab, line's end


def is_there() -> bool:
    """Whether standard error goes to the journal: systemd names its file, since it may have been redirected since."""
    try:
        there = os.fstat(STDERR)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"


def marked(words: str, level: int) -> str:
    """Words with their level before each line: the journal takes a line for an entry."""
    start = f"<{next((number for least, number in LEVELS if level >= least), DEBUG)}>"
    return start + words.replace("\n", f"\n{start}")


def tell(words: str, level: int = logging.ERROR) -> None:
    """Print words to standard error, with their level where that is the journal."""
    shown = printable(words)  # names of files are among them, which others chose
    print(marked(shown, level) if is_there() else shown, file=sys.stderr)


class JournalFormatter(logging.Formatter):
    """Another formatter's words, with the level of the record."""

    def __init__(self, words: logging.Formatter) -> None:
        super().__init__()
        self._words = words

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines."""
        return marked(self._words.format(record), record.levelno)

    def formatException(self, ei: Any) -> str:
        """A traceback, as the other has it."""
        return self._words.formatException(ei)


class Plain(logging.Filter):
    """Writes the characters that steer a terminal, or begin a line somewhere, as Python writes them.

    Arguments:
        words: makes texts of tracebacks; it takes what a record keeps of them already, as all formatters do.
    """

    def __init__(self, words: logging.Formatter | None = None) -> None:
        super().__init__()
        self._words = words or logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Put the record's words right."""
        if record.exc_info and not record.exc_text:
            record.exc_text = self._words.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = _plain(_shortened(record.exc_text))
        if record.stack_info:
            record.stack_info = _plain(record.stack_info)
        try:
            words = record.getMessage()
        except (LookupError, TypeError, ValueError):  # a record that fits nothing: logging itself says so
            return True
        if len(words) > LONGEST or _STEERS.search(words):
            cut = " …" if len(words) > LONGEST else ""
            record.msg = _plain(words[:LONGEST]) + cut
            record.args = ()
        return True


def _shortened(traceback: str) -> str:
    if len(traceback) <= TRACEBACK_BEGINS + len(LEFT_OUT) + TRACEBACK_ENDS:
        return traceback
    return traceback[:TRACEBACK_BEGINS] + LEFT_OUT + traceback[-TRACEBACK_ENDS:]


def _plain(text: str) -> str:
    return _STEERS.sub(lambda found: repr(found[0])[1:-1], text)


def be_plain(logger: logging.Logger) -> None:
    """Have what a logger writes be text."""
    for handler in logger.handlers:
        handler.addFilter(Plain(handler.formatter))


class Sender(NamedTuple):
    """Who asks for what the hub works on.

    Attributes:
        name: of a person or a service, with its kind; or an address.
        is_known: whether it is the former.
    """

    name: str
    is_known: bool = False


SENDER: ContextVar[Sender | None] = ContextVar("SENDER", default=None)  # None: the hub itself, or not known yet


class Room:
    """So many bytes of a log at once, and so many in a second for ever."""

    def __init__(self, at_once: int, bytes_s: float, now: float) -> None:
        self._at_once = at_once
        self._bytes_s = bytes_s
        self._left = float(at_once)
        self._at = now

    def fits(self, size: int, now: float) -> bool:
        """Whether there is room for so many bytes."""
        self._left = min(self._at_once, self._left + (now - self._at) * self._bytes_s)
        self._at = now
        return size <= self._left

    def take(self, size: int) -> None:
        """Take so many bytes, for which there is room."""
        self._left -= size


def is_fault(record: logging.LogRecord) -> bool:
    """Whether a line is of an error, or has a traceback."""
    return record.levelno >= logging.ERROR or bool(record.exc_info)


class LineBound(logging.Filter):
    """Cuts long lines of a log, and leaves lines out while there are too many, which the next one says.

    Arguments:
        longest: letters of a line.
        clock: seconds, never going back.
        least: bytes that a line counts for, however short it is.
    """

    def __init__(self, longest: int, clock: Callable[[], float], least: int = 0) -> None:
        super().__init__()
        self._longest = longest
        self._least = least
        self._clock = clock
        self._lock = threading.RLock()  # one line may be told while another is measured, by what clears memory
        self._missing = 0

    def rooms(self, record: logging.LogRecord) -> tuple[Room, ...]:
        """The rooms that a line has to fit into; none for one that is always written."""
        raise NotImplementedError

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written; it counts once, however many handlers write it."""
        if DECIDED not in vars(record):
            vars(record)[DECIDED] = self._fits(record)
        return bool(vars(record)[DECIDED])

    def _fits(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:  # whatever it is made of: logging itself says what is wrong with it
            return True
        if len(text) > self._longest:
            text = f"{text[: self._longest]} …"
            record.msg = text
            record.args = ()
        size = max(self._least, len(text.encode(errors="replace"))) + (TRACEBACK if record.exc_info else 0)
        with self._lock:
            now = self._clock()
            rooms = self.rooms(record)
            if not all(room.fits(size, now) for room in rooms):
                self._missing += 1
                return False
            for room in rooms:  # of all or of none: what is left out takes nothing of what its sender may leave
                room.take(size)
            missing = self._missing
            self._missing = 0
        if missing:
            record.msg = f"(left out before this line, as they were too many: {missing}) {text}"
            record.args = ()
        return True


class HubBound(LineBound):
    """Bounds what each sender leaves in the hub's log: the lines of each module apart, and its errors apart from them.

    So a flood of requests hides no failed login of who sends it, and nothing of anybody else's. What the hub does by
    itself is always written.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(LONGEST, clock, LEAST)
        self._rooms: dict[Hashable, Room] = {}  # what was used last comes last

    def rooms(self, record: logging.LogRecord) -> tuple[Room, ...]:
        """That of the module about the sender; with one for all strangers."""
        sender = SENDER.get()
        if getattr(record, "is_kept", False):
            return ()
        if sender is None and not record.pathname.startswith(_folders()) and record.name != INTAKE:
            return ()
        what = (record.pathname, is_fault(record))
        own = self._room((*what, sender), OF_ONE_AT_ONCE, OF_ONE_BYTES_S)
        if sender and sender.is_known:
            return (own,)
        return own, self._room(what, OF_STRANGERS_AT_ONCE, OF_STRANGERS_BYTES_S)

    def _room(self, key: Hashable, at_once: int, bytes_s: float) -> Room:
        room = self._rooms.pop(key, None) or Room(at_once, bytes_s, self._clock())
        self._rooms[key] = room
        if len(self._rooms) > ROOMS_MOST:
            self._rooms.pop(next(iter(self._rooms)), None)
        return room


@functools.cache
def _folders() -> tuple[str, ...]:
    found = (importlib.util.find_spec(name) for name in OF_CONNECTIONS)
    return tuple(f"{Path(one.origin).parent}{os.sep}" for one in found if one and one.origin)


def bound(logger: logging.Logger) -> None:
    """Have what a logger writes be bounded, and what asyncio says of connections go the same way."""
    of_hub = HubBound()
    for handler in logger.handlers:
        handler.addFilter(of_hub)
    logging.getLogger("asyncio").parent = logger


def mark(logger: logging.Logger) -> None:
    """Where standard error is the journal: have what a logger writes there begin with its level."""
    for handler in logger.handlers if is_there() else []:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr and handler.formatter:
            handler.setFormatter(JournalFormatter(handler.formatter))
