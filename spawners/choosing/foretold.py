"""What a form said of a start, kept with the session until the start comes, and then beside it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from portal.databases import forecasts_told as store
from portal.forecasts.compared import ComparedStart
from portal.forecasts.form_outlook import FormOutlook
from portal.forecasts.starts import StartState
from portal.history.record import EndedSession
from portal.request import CHOICES, SessionRequest
from portal.session_state import Foretold
from portal.site import Site
from spawners.session import Session

COUNTS_FOR_S = 300  # what a page said longer ago is not what somebody has just read


class LastTold:
    """The last forecast that one person's form has shown for what was chosen in it."""

    def __init__(self) -> None:
        self._said: tuple[tuple[object, ...], Foretold] | None = None

    def note(self, outlook: FormOutlook, site: Site) -> None:
        """The form has shown this; what is not known is no forecast."""
        start = outlook.chosen
        is_said = outlook.is_known and start.state is not StartState.UNKNOWN
        at = int(start.at.timestamp()) if start.at else 0
        said = Foretold(start.state.value, at, int(time.time()))
        self._said = (_choices(outlook.request, site), said) if is_said else None

    def of(self, request: SessionRequest, site: Site) -> Foretold | None:
        """What was said of exactly this session, not long ago; the session is asked for now."""
        now = int(time.time())
        if self._said is None or self._said[0] != _choices(request, site):
            return None
        said = self._said[1]
        return replace(said, submitted_at=now) if now - said.told_at <= COUNTS_FOR_S else None


def _choices(request: SessionRequest, site: Site) -> tuple[object, ...]:
    """What was chosen, with what is usual where nothing was said."""
    partition = next((one for one in site.partitions if one.name == request.partition), None)
    named = [request.chosen(key, partition) for key in CHOICES] if partition else []
    kind = site.kind(partition, request.gpu)
    return (request.partition, request.gpus, request.hours, kind, *request.share(site), *named)


class ComparedForecasts:
    """The part of :class:`~spawners.slurm.SlurmSessionSpawner` that keeps forecasts beside what happened."""

    user: Any  # these are JupyterHub's
    log: Any

    @property
    def session(self) -> Session:
        """The session of this person."""
        raise NotImplementedError

    def compare_start(self) -> None:
        """The session runs: its job has started, and that is compared, once."""
        state = self.session.state
        self._compare(state.key, state.place.started if state.place else 0, 0)

    def compare_end(self, ended: EndedSession) -> None:
        """The session is over; of one that never ran this is what is compared."""
        if ended.started_at or not ended.node:  # or else it ran, and nobody knows since when
            self._compare(ended.key, ended.started_at, ended.ended_at)

    def _compare(self, key: str, started_at: int, ended_at: int) -> None:
        """Whatever fails here is in the log, and the session goes its way."""
        said = self.session.state.foretold
        if said is None or key != self.session.state.key or not (started_at or ended_at):
            return
        made = ComparedStart(said.state, said.at, said.submitted_at, said.slurm_at, started_at, ended_at)
        try:
            store.keep(self.user.db, started_at or ended_at, made.to_text())
            self.session.keep(foretold=None)
        except Exception:
            self.log.exception("What was foretold of the session %s is not compared", key)
