"""One check of the doctor: what was checked, what was found, and how to repair it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

SOON = timedelta(days=30)


@dataclass(frozen=True)
class Check:
    """The result of one check; ``repair`` says what to do when it is not ok."""

    what: str
    result: Literal["ok", "warning", "failed"]
    found: str
    repair: str = ""


def dated(what: str, found: str, end: datetime) -> Check:
    """The check of a certificate that holds until ``end``."""
    left = end - datetime.now(UTC)
    validity = f"{found} until {end:%Y-%m-%d}"
    if left < timedelta(0):
        return Check(what, "failed", f"the certificate ended on {end:%Y-%m-%d}", "Renew it.")
    if left < SOON:
        return Check(what, "warning", validity, f"Renew it: {left.days} days are left.")
    return Check(what, "ok", validity)
