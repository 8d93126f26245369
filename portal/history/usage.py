"""What somebody's sessions used in one month, out of their receipts. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from portal.history.receipt import HOUR_S, hours
from portal.language.texts import N_, _

NAMES = (
    N_("January"), N_("February"), N_("March"), N_("April"), N_("May"), N_("June"),
    N_("July"), N_("August"), N_("September"), N_("October"), N_("November"), N_("December"),
)  # fmt: skip


@dataclass(frozen=True)
class MonthUsage:
    """One month: the sessions of the portal that ended in it and have a receipt, and what they had, used or not."""

    month: str  # 2026-11
    sessions: int = 0
    gpu_s: int = 0
    core_s: int = 0

    @classmethod
    def from_text(cls, month: str, text: str) -> MonthUsage:
        """What the database has of a month."""
        saved = json.loads(text)
        return cls(month, *(int(saved.get(name, 0)) for name in ("sessions", "gpu_s", "core_s")))

    @property
    def title(self) -> str:
        """``November 2026``."""
        year, _dash, number = self.month.partition("-")
        return f"{_(NAMES[int(number) - 1])} {year}"

    @property
    def gpu_hours(self) -> str:
        """As a page has it."""
        return hours(self.gpu_s / HOUR_S)

    @property
    def core_hours(self) -> str:
        """As a page has it."""
        return hours(self.core_s / HOUR_S)

    def as_json(self) -> dict[str, object]:
        """What the REST API says of it."""
        return {
            "month": self.month,
            "sessions": self.sessions,
            "gpu_hours": round(self.gpu_s / HOUR_S, 3),
            "core_hours": round(self.core_s / HOUR_S, 3),
        }
