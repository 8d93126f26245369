"""Who is there: the sessions that a hub holds beside the jobs that Slurm holds for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpx

from portal.slurm.submission import JOB_NAME_PREFIX
from tests.inside import sh

LIVE = "PENDING,CONFIGURING,RUNNING,SUSPENDED"
Name = tuple[str, str]  # a person, and the name of one of her servers


@dataclass(frozen=True)
class Held:
    """A session as the hub shows it."""

    key: str
    ready: bool
    pending: str


@dataclass(frozen=True)
class Census:
    """``held`` by name, ``queued``: the ids of the jobs by session key."""

    held: Mapping[Name, Held]
    queued: Mapping[str, list[str]]

    def lost(self, asked: Iterable[Name]) -> list[Name]:
        """Sessions that were asked for and that hub or Slurm does not hold."""
        return [name for name in asked if name not in self.held or self.held[name].key not in self.queued]

    def orphans(self) -> list[str]:
        """Jobs that no session holds."""
        keys = {held.key for held in self.held.values()}
        return [job for key, jobs in self.queued.items() if key not in keys for job in jobs]

    def doubles(self) -> list[str]:
        """Jobs beyond the first of their session."""
        return [job for jobs in self.queued.values() for job in jobs[1:]]

    def jobs(self, names: Iterable[Name]) -> dict[Name, list[str]]:
        """The jobs of sessions."""
        return {name: self.queued.get(self.held[name].key, []) for name in names if name in self.held}


def take(client: httpx.Client, number: str) -> Census:
    """Ask the hub with the number ``number``, and Slurm itself."""
    return Census(held(client), queued(number))


def held(client: httpx.Client) -> dict[Name, Held]:
    """The sessions that a hub holds."""
    users = client.get("/users").raise_for_status().json()
    return {
        (user["name"], server["name"]): Held(
            (server.get("state") or {}).get("key", ""), bool(server["ready"]), server["pending"] or ""
        )
        for user in users
        for server in user["servers"].values()
    }


def queued(number: str) -> dict[str, list[str]]:
    """The jobs in Slurm's queue that belong to a hub, by session key."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in sh("squeue", "--noheader", "--all", f"--states={LIVE}", "--format=%i|%j").splitlines():
        job_id, _, name = line.partition("|")
        if name.startswith(JOB_NAME_PREFIX + number):
            found[name.removeprefix(JOB_NAME_PREFIX)].append(job_id)
    return dict(found)
