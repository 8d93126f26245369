"""The hub's one picture of the cluster, for the spawners that look at it."""

from __future__ import annotations

import functools

from portal.site import Site
from portal.slurm.cluster import Cluster


@functools.cache
def the_cluster(launcher: str) -> Cluster:
    """The hub's one picture of the cluster."""
    return Cluster(launcher)


class SeesCluster:
    """A spawner that looks at the shared picture."""

    site: Site

    @property
    def cluster(self) -> Cluster:
        """The hub's shared picture of the cluster."""
        return the_cluster(self.site.portal.launcher)
