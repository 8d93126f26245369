"""The end of one session, told once: what Slurm says of its job, or who stopped it, and the last lines of its log."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from portal.history.record import EndedSession, without_secrets
from portal.session_state import Place, SessionState
from portal.slurm.accounting import JobTimes
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Phase
from portal.slurm.watched_job import WatchedJob, place_of

Tell = Callable[[EndedSession], None]


class EndingSession(Protocol):
    """What an end needs of its session, :class:`~spawners.session.Session`."""

    person: str
    cluster: Cluster
    state: SessionState
    watched: WatchedJob


class SessionEnding:
    """How one session ends. Each session of a spawner has one of its own.

    Args:
        session: whose end it is; it may have forgotten all of it when its log is known.
        tell: takes the record, once at the end and once more with the log when that comes later.

    Attributes:
        by: who would stop it, in words; they count when it is stopped, and then more than what Slurm says of that.
    """

    def __init__(self, session: EndingSession, tell: Tell) -> None:
        self.by = ""
        self._session = session
        self._tell = tell
        self._record: EndedSession | None = None  # before it has ended, what will be told
        self._stopped = ""
        self._token = ""
        self._log = ""
        self._is_told = False

    def of_next(self) -> SessionEnding:
        """The end of the session after this one."""
        return SessionEnding(self._session, self._tell)

    def stops(self, words: str) -> None:
        """It is being stopped; what is known of it now is what will be told."""
        self._stopped = self._stopped or self.by or words
        self._record = self._record or self._facts()

    def is_over(self, reason: str = "") -> None:
        """It has ended, for this reason. Only the first one is told."""
        known = self._facts() or self._record
        if self._is_told or known is None:
            return
        self._is_told = True
        self._record = replace(known, reason=self._stopped or reason, log=self._log)
        self._tell(self._record)

    async def wrote(self, log: Awaitable[str]) -> str:
        """Wait for the last lines of its log, and answer them; told once more where the end was told without them."""
        found = await log
        if found and not self._log:
            self._log = without_secrets(found, self._token or self._session.state.token)
            if self._is_told and self._record:
                self._record = replace(self._record, log=self._log)
                self._tell(self._record)
        return found

    async def cleaned_up(self, key: str) -> str:
        """Clean up behind the session of that key, and answer the last lines of its log."""
        return await self.wrote(self._session.cluster.clean_up(self._session.person, key))

    def _facts(self) -> EndedSession | None:
        """What is known of the session now; ``None`` of none."""
        state = self._session.state
        job = self._session.watched.job
        end = self._session.watched.ended
        if not state.key:
            return None
        self._token = state.token
        times = end.times if end else JobTimes()
        ran = state.place or (place_of(job) if job and job.phase is not Phase.WAITING else Place(""))
        submitted = int(job.submitted_at.timestamp()) if job and job.submitted_at else self._session.watched.submitted
        now = int(time.time())
        node = times.node or ran.node
        return EndedSession(
            key=state.key,
            job_id=state.job_id,
            node=node,
            submitted_at=times.submitted or submitted,
            started_at=(times.started or ran.started) if node else 0,
            ended_at=min(times.ended or now, now),
            state=end.state if end else "",
        )
