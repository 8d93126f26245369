"""When the session ends."""

from __future__ import annotations

import os
from collections.abc import Mapping

OF_JOB = "SLURM_JOB_END_TIME"  # sbatch(1), output environment variables


class EndTime:
    """When the session's job ends at the latest.

    The hub reads it out of Slurm's queue, and says it whenever the session announces its port: an administrator may
    have given the job more time, or less. Until then it is what the job was started with.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._heard: int | None = None

    @property
    def at(self) -> int | None:
        """In seconds since 1970; ``None`` where nobody knows: outside of a job, or by a hub that does not say it."""
        return _seconds(self._environ.get(OF_JOB, "")) if self._heard is None else self._heard

    def hear(self, text: str) -> None:
        """Take what the hub says; what is no number changes nothing."""
        heard = _seconds(text)
        self._heard = self._heard if heard is None else heard


def _seconds(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


end_time = EndTime(os.environ)
