"""Times of Slurm: seconds since 1970 where it prints them so, which no time zone and no change of one can shift."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

# squeue(1), scontrol(1), sacct(1), ENVIRONMENT VARIABLES: a format of strftime(3).
EPOCHS: Mapping[str, str] = {"SLURM_TIME_FORMAT": "%s"}
PATTERN = r"\d{1,12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|N/A|NONE|Unknown"


def read(text: str) -> datetime:
    """A moment, with its zone: seconds since 1970, or a text without zone, which is local to this host.

    Raises:
        ValueError: it is neither.
    """
    if text.isdigit():
        return datetime.fromtimestamp(int(text), UTC)
    return datetime.fromisoformat(text).astimezone(UTC)


def read_if_any(text: str) -> datetime | None:
    """As :func:`read`; ``N/A``, ``NONE`` and ``Unknown`` are no time."""
    return read(text) if text[:1].isdigit() else None
