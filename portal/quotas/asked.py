"""The quotas of people, asked of the site's command beside everything else, and kept for a while.

A page waits for a moment only. A command that fails or hangs makes a folder "not known"; the log says it once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from portal.quotas.figures import Quota, parse
from portal.settings.quota_table import HOME
from portal.site import Site
from portal.slurm.runner import BoundedRunner, RunError, run_bounded

KEPT_S = 600.0  # what the command said
KEPT_UNKNOWN_S = 120.0  # that it failed
PAGE_WAITS_S = 0.5
TIMEOUT_S = 10.0
MOST_BYTES = 4096  # of its output
AT_ONCE = 2  # commands
PEOPLE_AT_ONCE = 100  # who are being asked about, or wait for it: for others nothing is known just then
PEOPLE_KEPT = 10_000
LOG = logging.getLogger(__name__)
_Key = tuple[str, str]  # a person's name, and the record of whoever has it now


@dataclass(frozen=True)
class _Kept:
    """What was found of one person, and until when it counts."""

    quotas: tuple[Quota, ...]
    until: float


class Quotas:
    """The quotas of one hub's people.

    Args:
        run: how the command is started; a seam for tests.
        clock: seconds, never going back.
    """

    def __init__(self, run: BoundedRunner = run_bounded, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._kept: dict[_Key, _Kept] = {}
        self._asking: dict[str, asyncio.Future[None]] = {}  # by name: nobody has several places
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._said: set[str] = set()  # the folders of which the log knows that nothing is known

    async def of(self, site: Site, person: str, record: str = "") -> tuple[Quota, ...]:
        """What is known of somebody's folders after a moment; none where the site has no command. It never raises.

        Arguments:
            record: another one for whoever is given a name that somebody had before, and for nobody else.
        """
        if not site.quota.command or person.startswith("-"):
            return ()
        key = (person, record)
        kept = self._kept.get(key)
        if kept is None or kept.until <= self._clock():
            await self._wait(site, key)
        found = self._kept.get(key)
        return found.quotas if found else tuple(Quota(name) for name, _ in _folders(site))

    async def _wait(self, site: Site, key: _Key) -> None:
        """Ask, once at a time; it goes on without whoever waits, and who comes later finds the answer."""
        person = key[0]
        asking = self._asking.get(person)
        if asking is None:
            if len(self._asking) >= PEOPLE_AT_ONCE:
                return
            asking = self._asking[person] = asyncio.ensure_future(self._ask(site, key))
        await asyncio.wait([asking], timeout=PAGE_WAITS_S)

    async def _ask(self, site: Site, key: _Key) -> None:
        try:
            found = []
            async with self._turns:
                for name, folder in _folders(site):
                    found.append(await self._quota(site, key[0], name, folder))
            quotas = tuple(one for one in found if one is not None)
            is_known = all(one.is_known for one in quotas)
            if len(self._kept) >= PEOPLE_KEPT:
                self._kept.clear()
            self._kept[key] = _Kept(quotas, self._clock() + (KEPT_S if is_known else KEPT_UNKNOWN_S))
        finally:
            del self._asking[key[0]]

    async def _quota(self, site: Site, person: str, name: str, folder: str) -> Quota | None:
        try:
            done = await self._run(site.quota.argv(person, folder), _environment(), TIMEOUT_S, MOST_BYTES)
            if done.returncode:
                raise ValueError(f"it ended with {done.returncode}: {' '.join(done.stderr.split())[:200]}")
            quota = parse(name, done.stdout)
        except (RunError, ValueError) as error:
            if name not in self._said:
                LOG.warning("The quota of %s is not known: %s: %s", name, site.quota.command[0], error)
            self._said.add(name)
            return Quota(name)
        self._said.discard(name)
        return quota


def _folders(site: Site) -> list[tuple[str, str]]:
    """What people call each folder, and what the command is given for it."""
    storage = [(one.name, one.path) for one in site.storage] if site.quota.asks_for_each_folder else []
    return [(HOME, HOME), *storage]


def _environment() -> dict[str, str]:
    """Nothing of the hub's own, which has secrets."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
