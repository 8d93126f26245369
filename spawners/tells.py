"""What a spawner tells the person: progress while a session starts, and the facts of one that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from portal import messages
from portal.request import SessionRequest
from portal.slurm import forecast
from portal.slurm.jobs import Job, Phase
from spawners import form
from spawners.requeue import LOOK_EVERY_S
from spawners.sees import SeesCluster

MAINTENANCE_WITHIN = timedelta(days=7)


class TellsPerson(SeesCluster):
    """Words and facts out of what the spawner knows."""

    job_id: Any
    user_options: Mapping[str, object]
    _request: SessionRequest | None
    _job: Job | None
    _stale_s: float
    _reckoned: tuple[float, int] = (0.0, 0)

    async def progress(self) -> AsyncIterator[dict[str, object]]:
        """What happens, in words, whenever it changes."""
        if self._request:
            yield {"progress": 5, "message": f"Asked for: {messages.submitted(self._request, self.site)}."}
        last = None
        while True:
            shown = messages.view(self._job, self._stale_s, await self._outlook(self._job))
            if shown != last:
                yield {"progress": shown.percent, "message": shown.words}
            last = shown
            await asyncio.sleep(LOOK_EVERY_S)

    async def _outlook(self, job: Job | None) -> messages.Outlook:
        """What the shared picture knows of a wait; asked only while somebody looks."""
        if self._stale_s or job is None or job.phase is not Phase.WAITING:
            return messages.NOTHING_KNOWN
        machines, rules = await self.cluster.nodes(), await self.cluster.partitions()
        free = forecast.free(machines.nodes.values(), job.partition) if machines.nodes else None
        there = [node.name for node in machines.nodes.values() if job.partition in node.partitions]
        coming = forecast.next_maintenance(
            rules.reservations.values(), datetime.now(), MAINTENANCE_WITHIN, there or None
        )
        return messages.Outlook(
            position=self._position(job),
            gpus_free=sum(free.gpus.values()) if free else None,
            gpus_on_one_node=free.gpus_on_one_node if free else 0,
            maintenance_at=coming.starts_at if coming else None,
        )

    def _position(self, job: Job) -> int:
        """The place in the queue; reckoned once for each picture."""
        seen = self.cluster.last_queue
        if self._reckoned[0] != seen.taken_at:
            self._reckoned = (seen.taken_at, forecast.position(job, seen.jobs.values()))
        return self._reckoned[1]

    @property
    def session_facts(self) -> dict[str, object]:
        """What the server page shows of this session; only what is known."""
        request, job = self._request or form.remembered(self.user_options or {}), self._job
        facts: dict[str, object] = {**request.as_options(), "cores": self.site.cores(request.gpus)}
        facts["memory_mib"] = self.site.memory_mib(request.gpus)
        if self.job_id:
            facts["job_id"] = int(self.job_id)
        if job:
            times = {"started_at": job.starts_at, "ends_at": messages.time_limit(job)}
            shown = {name: time.astimezone().isoformat() for name, time in times.items() if time}
            facts |= {"node": job.node, "state": messages.view(job).words, **shown}
        return facts
