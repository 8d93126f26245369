"""A log that grows, read part by part."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass
from pathlib import Path

from portal.homes.regular_file import open_regular

LOG_PART_BYTES = 65_536


@dataclass(frozen=True)
class LogPart:
    """A part of a log; ``next`` is the byte to go on at, ``is_over`` says that no more will come."""

    text: str
    next: int
    is_over: bool
    path: str


def read_part(path: str, start: int, is_over: bool) -> LogPart:
    """A part of a text file, no letter of it cut in two; of one that is not there yet nothing.

    Arguments:
        start: the byte to begin at; behind the end, the file is another one, and is read from its beginning.
        is_over: whether nobody writes to it any more.
    """
    try:
        with open_regular(Path(path)) as file:
            begin = start if 0 <= start <= os.fstat(file.fileno()).st_size else 0
            file.seek(begin)
            read = file.read(LOG_PART_BYTES)
    except OSError:
        return LogPart("", start, is_over, path)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    is_last = is_over and len(read) < LOG_PART_BYTES
    text = decoder.decode(read, final=is_last)
    return LogPart(text, begin + len(read) - len(decoder.getstate()[0]), is_last, path)
