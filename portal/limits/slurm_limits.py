"""What Slurm lets people have, asked in a way that keeps nobody waiting: what does not come at once is not known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from portal.limits.associations import (
    Association,
    AssociationsSnapshot,
    associations_command,
    cluster_command,
    parse_associations,
    parse_cluster,
)
from portal.limits.person import Known, site_of
from portal.site import Identity, Site
from portal.slurm.cluster import Cluster
from portal.slurm.runner import groups_of
from portal.slurm.snapshot import NEVER, Snapshot, SnapshotCache, in_thread

WITHIN_S = 1.0  # for each question; it goes on without whoever asked, and who comes later finds the answer
ASSOCIATIONS_MAX_AGE_S = 600.0
GROUPS_MAX_AGE_S = 300.0
PEOPLE_AT_MOST = 10_000  # whose groups are kept


class SlurmLimits:
    """What Slurm lets people have, of one cluster. A site that sets nothing of it costs Slurm one answer in 5 min."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._associations = SnapshotCache(
            self._query, AssociationsSnapshot(), cluster.now, "Slurm's accounting (accounts and QOS of people)"
        )
        self._silent: set[type[Snapshot]] = set()  # what did not come in time when it was asked for last
        self._groups: dict[str, tuple[float, frozenset[str]]] = {}

    async def site_of(self, site: Site, identity: Identity) -> Site:
        """The site as this person has it: :func:`portal.limits.person.site_of`. It never raises, and waits shortly."""
        await self._wait_for(self._cluster.partitions, self._cluster.last_partitions)
        known = Known(partitions=self._cluster.last_partitions.partitions)
        names = {one.name for one in site.offered_to(identity)}
        found = [one for name, one in known.partitions.items() if name in names]
        needs_groups = any(one.allow_groups is not None for one in found)
        needs_accounts = any(one.allow_accounts or one.deny_accounts for one in found) or _chooses(site)
        return site_of(
            site,
            identity,
            Known(
                await self._groups_of(identity.name) if needs_groups else None,
                await self._associations_of(identity.name) if needs_accounts else (),
                known.partitions,
            ),
        )

    async def _wait_for(self, ask: Callable[[], Awaitable[Snapshot]], last: Snapshot) -> None:
        """Ask for what is too old. An old answer is better than waiting, and one that never came keeps one waiting."""
        kind = type(last)
        is_waited_for = last.taken_at == NEVER and kind not in self._silent
        try:
            async with asyncio.timeout(WITHIN_S if is_waited_for else 0):
                await ask()
        except TimeoutError:
            self._silent.add(kind)
        else:
            self._silent.discard(kind)

    async def _groups_of(self, person: str) -> frozenset[str] | None:
        kept = self._groups.get(person)
        if kept and self._cluster.now() - kept[0] < GROUPS_MAX_AGE_S:
            return kept[1]
        found = await groups_of(person, WITHIN_S)
        if found is None:
            return kept[1] if kept else None
        if len(self._groups) >= PEOPLE_AT_MOST:
            self._groups.clear()
        self._groups[person] = (self._cluster.now(), found)
        return found

    async def _associations_of(self, person: str) -> tuple[Association, ...]:
        await self._wait_for(partial(self._associations.get, ASSOCIATIONS_MAX_AGE_S), self._associations.last)
        return self._associations.last.of.get(person, ())

    async def _query(self) -> AssociationsSnapshot:
        name = parse_cluster(await self._cluster.answer(cluster_command()))
        listing = await self._cluster.answer(associations_command(name))
        return AssociationsSnapshot(of=await in_thread(parse_associations, listing))


def _chooses(site: Site) -> bool:
    """Whether the settings let anybody choose an account or a QOS."""
    found = [value for one in site.partitions for value in (one.account, one.qos)]
    found += [value for one in site.partitions for rule in one.rule for value in (rule.account, rule.qos) if value]
    return any(isinstance(value, tuple) for value in found)
