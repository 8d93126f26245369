"""What a spawner tells the person: progress while a session starts, and the facts of one that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from portal import session
from portal.request import SessionRequest
from portal.site import Site
from portal.slurm import Job
from spawners import form
from spawners.requeue import LOOK_EVERY_S


class TellsPerson:
    """Words and facts out of what the spawner knows."""

    site: Site
    job_id: Any
    user_options: Mapping[str, object]
    _request: SessionRequest | None
    _job: Job | None
    _stale_s: float

    async def progress(self) -> AsyncIterator[dict[str, object]]:
        """What happens, in words, whenever it changes."""
        if self._request:
            yield {"progress": 5, "message": f"Asked for: {session.submitted(self._request, self.site)}."}
        last = None
        while True:
            shown = session.view(self._job, self._stale_s)
            if shown != last:
                yield {"progress": shown.percent, "message": shown.words}
            last = shown
            await asyncio.sleep(LOOK_EVERY_S)

    @property
    def session_facts(self) -> dict[str, object]:
        """What the server page shows of this session; only what is known."""
        request, job = self._request or form.remembered(self.user_options or {}), self._job
        facts: dict[str, object] = {**request.as_options(), "cores": self.site.cores(request.gpus)}
        facts["memory_mib"] = self.site.memory_mib(request.gpus)
        if self.job_id:
            facts["job_id"] = int(self.job_id)
        if job:
            times = {"started_at": job.starts_at, "ends_at": session.time_limit(job)}
            shown = {name: time.astimezone().isoformat() for name, time in times.items() if time}
            facts |= {"node": job.node, "state": session.view(job).words, **shown}
        return facts
