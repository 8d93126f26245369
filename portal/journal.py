"""The levels of log lines, for systemd's journal: it reads them off the beginning of each line (sd-daemon(3)).

And what others have sent stands in a log as text: nothing in it steers a terminal, or begins a line (Tornado's
formatter indents what follows a line's end).
"""

from __future__ import annotations

import logging
import os
import re
import sys

from portal.errors import printable

STDERR = 2
# syslog's numbers, the gravest first: each from that level of Python's on
LEVELS = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
DEBUG = 7
LONGEST = 4000  # letters of a record: a report of a browser's is a megabyte, if somebody wants that
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


class Plain(logging.Filter):
    """Writes the characters that steer a terminal, or begin a line somewhere, as Python writes them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Put the record's words right."""
        try:
            words = record.getMessage()
        except (LookupError, TypeError, ValueError):  # a record that fits nothing: logging itself says so
            return True
        if len(words) > LONGEST or _STEERS.search(words):
            cut = " …" if len(words) > LONGEST else ""
            record.msg = _STEERS.sub(lambda found: repr(found[0])[1:-1], words[:LONGEST]) + cut
            record.args = ()
        return True


def be_plain(logger: logging.Logger) -> None:
    """Have what a logger writes be text."""
    for handler in logger.handlers:
        handler.addFilter(Plain())


def mark(logger: logging.Logger) -> None:
    """Where standard error is the journal: have what a logger writes there begin with its level."""
    for handler in logger.handlers if is_there() else []:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr and handler.formatter:
            handler.setFormatter(JournalFormatter(handler.formatter))
