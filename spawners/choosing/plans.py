"""What Slurm itself plans for a session that waits, beside what the form said of its start. Pure."""

from __future__ import annotations

import time
from dataclasses import replace

from portal.session_state import Foretold
from portal.slurm.jobs import Job, Phase


def with_plan(foretold: Foretold | None, job: Job | None) -> Foretold | None:
    """The same with the first start that Slurm itself plans; ``None`` where nothing is new."""
    if foretold is None or foretold.slurm_at or job is None or job.phase is not Phase.WAITING or not job.starts_at:
        return None
    return replace(foretold, slurm_at=int(job.starts_at.timestamp()), slurm_told_at=int(time.time()))
