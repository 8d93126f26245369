"""One check of the doctor: what was looked at, what was found, and how to repair it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

SOON = timedelta(days=30)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; ``repair`` says what to do when it is not ok."""

    what: str
    result: Literal["ok", "warning", "failed"]
    found: str
    repair: str = ""


def dated(what: str, found: str, end: datetime) -> Check:
    """The check of a certificate that holds until ``end``."""
    left, words = end - datetime.now(UTC), f"{found} until {end:%Y-%m-%d}"
    if left < timedelta(0):
        return Check(what, "failed", f"the certificate ended on {end:%Y-%m-%d}", "Renew it.")
    if left < SOON:
        return Check(what, "warning", words, f"Renew it: {left.days} days are left.")
    return Check(what, "ok", words)
