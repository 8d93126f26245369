"""What must be true of hub and cluster whenever nothing has been wrong for a while."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from portal.testing.behaviours import Status
from portal.testing.cluster_parts import FakeJob
from tests.simulation.world import Server

if TYPE_CHECKING:
    from tests.simulation.hub import PersonsServer
    from tests.simulation.story import Simulation

SETTLED_S = 300.0  # the hub settles every 60 s, sbatch is waited for 60 s, slurmctld's "begin time" is 121 s
CHECK_EVERY_S = 15.0
Tag = tuple[str, str]  # what is wrong, and with whom: a session key or a person


class Auditor:
    """Looks every few seconds; what stays wrong for :data:`SETTLED_S` while nothing else is wrong is our fault."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._since: dict[Tag, float] = {}
        self.checks = 0  # looks at which a fault of ours would have been told
        self.longest_s = 0.0  # that something which then came right was wrong

    def look(self) -> dict[Tag, str]:
        """Look once; answers what has been wrong for too long."""
        now = self._simulation.world.now()
        quiet_since = self._simulation.quiet_since
        found = self.violations()
        if quiet_since is None:
            self._since = {}
            return {}
        for tag, since in self._since.items():
            if tag not in found:
                self.longest_s = max(self.longest_s, now - since)
        self._since = {tag: self._since.get(tag, now) for tag in found}
        self.checks += now - quiet_since > SETTLED_S
        return {tag: found[tag] for tag, since in self._since.items() if now - since > SETTLED_S}

    def violations(self) -> dict[Tag, str]:
        """What is not as it must be in this moment."""
        hub = self._simulation.hub
        world = self._simulation.world
        if hub.is_dead:
            return {("no hub", ""): "the hub is dead"}
        jobs: dict[str, list[tuple[FakeJob, Status]]] = defaultdict(list)
        owners: dict[str, list[str]] = defaultdict(list)
        for job, status in world.living():
            jobs[job.name.removeprefix("dsportal-")].append((job, status))
            owners[job.user].append(job.id)
        up = {server.job.id: server for server in world.servers.values() if world.is_up(server)}
        servers = [server for server in hub.servers.values() if server.active]
        held = {server.session.state.key for server in servers}
        found: dict[Tag, str] = {}
        for key in jobs.keys() - held:
            found["orphan", key] = f"the job {jobs[key][0][0].id} belongs to no session"
        for person, ids in owners.items():
            if len(ids) > 1:
                found["double", person] = f"the jobs {ids}"
        for key in world.slurm.environments.keys() - held - (self._simulation.forgotten - jobs.keys()):
            found["secrets", key] = "the secrets of a session that is over"
        for server in servers:
            key = server.session.state.key
            if key not in jobs and f"dsportal-{key}" in world.runaway:
                continue  # not ended by the hub: accounting says that its job lives (sacctmgr(1), runaway jobs)
            if text := _of(server, jobs.get(key, []), up):
                found["session", f"{server.person} {key}"] = text
        return found


def _of(server: PersonsServer, jobs: list[tuple[FakeJob, Status]], up: dict[str, Server]) -> str:
    """What is wrong with one session."""
    state = server.session.state
    if len(jobs) != 1:
        return f"{len(jobs)} jobs, its own is {state.job_id!r}, ready: {server.ready}"
    job, status = jobs[0]
    if state.job_id != job.id:
        return f"it holds the job {state.job_id!r}, and {job.id} has its key"
    if server.row.state.get("key") != state.key:
        return f"the database has {server.row.state}"
    found = up.get(job.id)
    if status.is_running and found is None:
        return f"the job {job.id} runs without a server"
    if found and not server.ready:
        return f"its server listens at {found.node}:{found.port}, and it is not ready"
    if found and server.address != (found.node, found.port):
        return f"its server listens at {found.node}:{found.port}, and the hub believes {server.address}"
    return ""
