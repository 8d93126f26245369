"""A spawner whose ended sessions stay: each is kept in the hub's database, and told to the person's pages.

With them these show what the sessions used by month, and how full the person's folders are.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

from sqlalchemy import inspect

from portal.databases import ended_sessions as store
from portal.databases import usage_by_month
from portal.history import reasons
from portal.history.record import EndedSession
from portal.history.rows import Row, rows
from portal.history.usage import MonthUsage
from portal.hub.context import HubContext
from portal.quotas.figures import Quota
from portal.request import SessionRequest
from portal.site import Site
from spawners import messages, options
from spawners.session import Session

WAITS_S = 0.5  # the home page waits no longer for Slurm


class RecordedEnds:
    """What :class:`~spawners.slurm.SlurmSessionSpawner` keeps of the sessions that have ended."""

    name: str  # these are JupyterHub's
    user: Any
    user_options: Any
    log: Any
    _request: SessionRequest | None  # these the spawner's
    ended_key = ""  # of the session of the last start, when it has ended and is kept: its row on the home page

    @property
    def site(self) -> Site:
        """The site's settings."""
        raise NotImplementedError

    @property
    def session(self) -> Session:
        """The session of this person."""
        raise NotImplementedError

    @property
    def context(self) -> HubContext:
        """What the hub's spawners share."""
        raise NotImplementedError

    def record_end(self, ended: EndedSession) -> None:
        """Keep it. Whatever fails here is in the log, and the end goes its way.

        Of somebody who was deleted meanwhile nothing is kept: the number may be another person's by now.
        """
        try:
            if not inspect(self.user.orm_user).persistent:
                return
            asked = self._request or options.remembered(self.user_options or {})
            request = asked.fill(self.site, options.identity_of(self.user, self.site))
            cores, memory_mib = request.share(self.site)
            had = replace(ended, options=request.as_options(), cores=cores, memory_mib=memory_mib)
            record = replace(had, name=self.name).bounded()
            days = self.site.session.history_days
            store.keep(self.user.db, self.user.id, record.key, record.ended_at, record.to_text(), days)
            self.ended_key = record.key if days else ""
            if days:
                self.context.receipts.expect(record)
        except Exception:
            self.log.exception("The end of the session %s is not kept: job %s", ended.key, ended.job_id or "none")

    @property
    def last_end(self) -> str:
        """Why the last session ended, for the server page, until the next start."""
        return reasons.shown(self.session.state.last_end)

    def note_stop(self, who: str) -> None:
        """Somebody stops the session; by nobody's name it is the portal itself."""
        self.session.ending.by = messages.stopped(who, self.user.name)

    def ended_records(self) -> list[EndedSession]:
        """The sessions of this person that have ended, the newest first.

        Raises:
            SQLAlchemyError: they cannot be read.
        """
        found = store.of_person(self.user.db, self.user.id, self.site.session.history_days)
        return [EndedSession.from_text(text) for text in found]

    def usage(self) -> list[MonthUsage]:
        """What this person's sessions used, this month and the last one, as far as receipts have come.

        Raises:
            SQLAlchemyError: it cannot be read.
        """
        months = usage_by_month.of_person(self.user.db, self.user.id) if self.site.session.history_days else {}
        return [MonthUsage.from_text(month, text) for month, text in months.items()]

    async def quotas(self) -> tuple[Quota, ...]:
        """How full this person's folders are, as far as the site's command says it in a moment."""
        row = self.user.orm_user
        record = f"{row.id} of {row.created}"  # not the cookie's, of which each logout makes another
        return await self.context.quotas.of(self.site, self.user.name, record)

    async def ended_rows(self) -> list[Row]:
        """The same as the home page lists them.

        While Slurm does not say what it lets this person have, the site's own settings count: the links lead to the
        form, which asks once more.

        Raises:
            SQLAlchemyError: they cannot be read.
        """
        found = self.ended_records()
        if not found:
            return []
        identity = options.identity_of(self.user, self.site)
        site = self.site
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAITS_S):
                site = await self.context.limits.site_of(site, identity)
        return rows(found, site, identity)
