"""Times of Slurm: seconds since 1970 where it prints them so, which no time zone and no change of one can shift."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

# squeue(1), scontrol(1), sacct(1), ENVIRONMENT VARIABLES: a format of strftime(3).
EPOCHS: Mapping[str, str] = {"SLURM_TIME_FORMAT": "%s"}
# Whoever submits a job says when it shall begin: millions of years from now, too, which 64 bits hold and no calendar.
PATTERN = r"-?\d{1,20}|\d{4,18}-\d\d-\d\dT\d\d:\d\d:\d\d|N/A|NONE|Unknown"
_LATE = re.compile(r"\d{12,}\Z|\d{5,}-")  # from the year 5138 on


def read(text: str) -> datetime:
    """A moment, with its zone: seconds since 1970, or a text without zone, which is local to this host.

    Raises:
        ValueError: it is neither.
    """
    if text.isdigit():
        return datetime.fromtimestamp(int(text), UTC)
    return datetime.fromisoformat(text).astimezone(UTC)


def read_if_any(text: str) -> datetime | None:
    """As :func:`read`; ``N/A``, ``NONE``, ``Unknown`` and what no calendar has are no time.

    Raises:
        ValueError: a text without zone that is no time.
    """
    if not text[:1].isdigit() or _LATE.match(text):
        return None
    try:
        return read(text)
    except OverflowError:  # the year 10000 by another zone
        return None
