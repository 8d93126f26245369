"""What the fault suite saw, as a table: one row for each fault."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from tests.forms import LONG

FOLDER = Path(os.environ.get("DSPORTAL_ARTEFACTS", "/tmp"))


def sized(long: int, short: int) -> int:
    """A number of the long form or of the short one."""
    return long if LONG else short


@dataclass
class Row:
    """One fault: what was done, sessions lost, jobs without a session, jobs too many, seconds until all was well."""

    fault: str
    done: str = ""
    lost: int | None = None
    orphans: int | None = None
    doubles: int | None = None
    seconds: float | None = None
    seen: str = ""
    result: str = field(default="failed", kw_only=True)

    def cells(self) -> list[str]:
        """The row as text; ``-`` for what was not counted."""
        return [shown(getattr(self, column.name)) for column in fields(self)]


def shown(value: object) -> str:
    """A cell."""
    if value is None or value == "":
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


TITLES = ["fault", "what was done", "lost", "orphans", "doubles", "s back", "seen", "result"]


def table(rows: Iterable[Row]) -> str:
    """The rows below their titles, in columns."""
    lines: Sequence[Sequence[str]] = [TITLES, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([texts[0], "-" * (sum(widths) + 2 * len(widths) - 2), *texts[1:]]) + "\n"
