"""Receipts of the sessions that have ended: which ones are missing, when accounting is asked, and how often.

Accounting comes late (slurmdbd writes when it can), or never (a cluster without it). Nobody waits for it: one command
asks for up to a hundred sessions, beside everything else, and what does not come is asked for a few times more. A
session whose steps are too many for an answer is found, and gets a receipt without them; the others get theirs.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, replace
from functools import partial

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from portal.databases import ended_sessions as store
from portal.errors import SlurmUnavailable
from portal.history.record import EndedSession
from portal.receipts import accounted
from portal.slurm.cluster import Cluster
from portal.slurm.snapshot import in_thread
from portal.slurm.submission import is_key, job_name

EVERY_S = 30.0  # between two looks
AFTER_S = (45.0, 240.0, 1800.0, 7200.0, 28_800.0)  # before each time that a session is asked for
AT_ONCE = 100  # sessions in one command
COMMANDS_IN_A_LOOK = 10
MOST_WAITING = 5000  # sessions without a receipt that are known: the oldest goes for a new one
LOOKED_BACK = 500  # of those that ended before the hub was started: their records are read at once
KNOWN_FOR_S = 86_400.0  # older ones get none any more
SILENT_S = (60.0, 3600.0)  # accounting that does not answer is left alone for so long, twice as long each time
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Waiting:
    """One session without a receipt."""

    job_id: str
    name: str  # of the job
    gpus: int  # that were asked for
    since: float  # on the cluster's clock
    due: float
    tries: int = 0
    is_bare: bool = False  # what its steps used is too much to ask for


class ReceiptBook:
    """Asks for the receipts of one hub's sessions.

    Args:
        cluster: the hub's one view of Slurm.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: dict[str, _Waiting] = {}  # by the session's key
        self._columns: tuple[str, ...] = accounted.COLUMNS
        self._has_looked_back = False
        self._silent_until = float("-inf")
        self._silent_s = 0.0

    def expect(self, ended: EndedSession) -> None:
        """A session has ended and is kept: its receipt is due in a moment. One that got no job has none."""
        if not ended.job_id.isdecimal() or not is_key(ended.key) or ended.receipt or ended.key in self._waiting:
            return
        while len(self._waiting) >= MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        gpus = ended.options.get("gpus")
        asked = gpus if isinstance(gpus, int) else 0
        now = self._cluster.now()
        self._waiting[ended.key] = _Waiting(ended.job_id, job_name(ended.key), asked, now, now + AFTER_S[0])

    async def look(self, db: Session) -> None:
        """Ask for those that are due, and keep what comes.

        Raises:
            SQLAlchemyError: it cannot be kept.
        """
        self._look_back(db)
        for _ in range(COMMANDS_IN_A_LOOK):
            due = self._due()
            if not due:
                return
            found = await self._ask(due)
            if found is None:
                return
            before = dict(self._waiting)
            made = self._take(due, found)
            try:
                store.add_receipts(db, made)
            except SQLAlchemyError:
                self._waiting |= {key: before[key] for key in made}  # the next look asks for them once more
                raise

    def _look_back(self, db: Session) -> None:
        """Those that ended before the hub was started, once."""
        if self._has_looked_back:
            return
        found = store.without_receipt(db, int(time.time() - KNOWN_FOR_S), LOOKED_BACK)
        self._has_looked_back = True
        for text in found:
            self.expect(EndedSession.from_text(text))

    def _due(self) -> list[str]:
        """Those that are asked for now, in one command; of two jobs that had the same number one at a time."""
        now = self._cluster.now()
        if now < self._silent_until:
            return []
        for key in [key for key, one in self._waiting.items() if now - one.since > KNOWN_FOR_S]:
            del self._waiting[key]
        due: dict[str, str] = {}
        for key, one in self._waiting.items():
            if one.due <= now and len(due) < AT_ONCE:
                due.setdefault(one.job_id, key)
        return list(due.values())

    async def _ask(self, keys: list[str]) -> dict[str, accounted.Accounted] | None:
        """What accounting says of them; ``None`` while it says nothing at all."""
        whole = {key: self._waiting[key] for key in keys if not self._waiting[key].is_bare}
        bare = {key: self._waiting[key] for key in keys if self._waiting[key].is_bare}
        try:
            found = await self._told(bare, is_bare=True) if bare else {}
            found |= await self._told_with_steps(whole) if whole else {}
        except SlurmUnavailable as error:
            self._note_silence(error)
            return None
        self._silent_s = 0.0
        return found

    async def _told_with_steps(self, asked: dict[str, _Waiting]) -> dict[str, accounted.Accounted]:
        """What accounting says of them with their steps; where that is too much, each is asked for alone.

        Raises:
            SlurmUnavailable: it says nothing, of the sessions without their steps either.
        """
        try:
            return await self._told(asked)
        except SlurmUnavailable as error:
            why = error.detail
        found = await self._told(asked, is_bare=True)
        if len(asked) > 1:
            for key, one in asked.items():
                found |= await self._told_with_steps({key: one})
            return found
        for key, one in asked.items():
            LOG.warning("What the steps of job %s used is not known: %s", one.job_id, why)
            if key in self._waiting:
                self._waiting[key] = replace(one, is_bare=True)
        return found

    async def _told(self, asked: dict[str, _Waiting], *, is_bare: bool = False) -> dict[str, accounted.Accounted]:
        """What accounting says of them in one command, by the number of their jobs.

        Raises:
            SlurmUnavailable: it does not answer, or not in time, or with more than is read.
        """
        jobs = {one.job_id: one.name for one in asked.values()}
        try:
            answer = await self._cluster.answer(accounted.command(jobs, self._columns, is_bare=is_bare))
        except SlurmUnavailable as error:
            if unknown := accounted.unknown_column(error.detail, self._columns):
                self._columns = tuple(column for column in self._columns if column != unknown)
                LOG.warning("Slurm's accounting has no %s: it is missing in what sessions used", unknown)
                return await self._told(asked, is_bare=is_bare)
            raise
        return await in_thread(partial(accounted.parse, columns=self._columns), answer)

    def _note_silence(self, error: SlurmUnavailable) -> None:
        if not self._silent_s:
            LOG.warning("What sessions used is not known while accounting does not answer: %s", error.detail)
        self._silent_s = min(max(2 * self._silent_s, SILENT_S[0]), SILENT_S[1])
        self._silent_until = self._cluster.now() + self._silent_s

    def _take(self, keys: list[str], found: dict[str, accounted.Accounted]) -> dict[str, dict[str, object]]:
        """The receipts that are whole; the others are asked for again, and the last time taken as they are."""
        made: dict[str, dict[str, object]] = {}
        now = self._cluster.now()
        for key in keys:
            one = self._waiting.pop(key, None)
            if one is None:
                continue
            job = found.get(one.job_id)
            tries = one.tries + 1
            is_last = tries == len(AFTER_S)
            if job and (job.is_settled or (is_last and job.is_over)):
                made[key] = asdict(accounted.with_gpus(job, one.gpus))
            elif not is_last:
                self._waiting[key] = replace(one, due=now + AFTER_S[tries], tries=tries)
        return made
