"""Slurm's own word on when a session would start: ``sbatch --test-only`` as the person, for a choice that has stayed.

Nobody waits for it. A form that looks again finds the answer of meanwhile. One question of each person is under way at
a time, few in all, and each answer counts for a while. Who gets no answer in time is not asked for again for some
minutes. It may be that person's own doing (the launcher runs as the person, in the person's home), so it says little of
Slurm: Slurm is left alone when the hub's own questions have no answer, or most of many people's have none.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from portal.errors import AccountGone, ActingRefused, SlurmUnavailable
from portal.slurm.cluster import Cluster
from portal.slurm.submission import Submission

STAYS_S = 2.0  # a choice that is looked at again after so long has stayed
COUNTS_S = 120.0  # an answer
AT_ONCE = 2
PATIENCE_S = 5.0  # what takes longer goes on without its place
UNDER_WAY = 8  # in all, with those that have lost their place
PEOPLE_KEPT = 1000
SLOW_S = 10.0  # an answer that took longer is one of a Slurm in trouble
LEFT_ALONE_S = 300.0
SEEN_BY = 5  # people, and more than those who had an answer, before nobody's question is asked
# allocate.c, slurm_job_will_run() of 22.05: on standard error; the time as SLURM_TIME_FORMAT says.
_SAID = re.compile(r"^sbatch: Job \d+ to start at (\d{1,11}) using \d+ processors on ", re.MULTILINE)

log = logging.getLogger(__name__)


def parse_test(message: str) -> datetime | None:
    """When Slurm would start the job; ``None`` where it says something else."""
    found = _SAID.search(message)
    return datetime.fromtimestamp(int(found[1]), UTC) if found else None


@dataclass
class _Asked:
    """What one person chose last, since when, and what Slurm has said of it."""

    choice: Hashable
    since: float
    at: datetime | None = None
    answered: float | None = None
    asking: asyncio.Task[None] | None = None


class AskedStarts:
    """The questions of one hub.

    Args:
        cluster: whose Slurm is asked, through portal-launch.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._people: dict[str, _Asked] = {}
        self._places = 0  # that are taken
        self._under_way = 0
        self._troubled: dict[str, float] = {}  # until when, by the person whose question had no answer in time
        self._answered: dict[str, float] = {}  # until when it counts, by the person whose question had one

    def of(self, person: str, choice: Hashable, made: Callable[[], Submission]) -> datetime | None:
        """When Slurm would start what a person looks at now; ``None`` while it has not said it of this choice.

        Arguments:
            made: the submission that stands for the choice; it is made where Slurm is asked.
        """
        now = self._cluster.now()
        known = self._people.pop(person, None)
        if known is None or (known.choice != choice and (known.asking is None or known.asking.done())):
            known = _Asked(choice, now)
        self._people[person] = known
        while len(self._people) > PEOPLE_KEPT:
            self._people.pop(next(iter(self._people)))
        if known.choice != choice:  # the answer on the last choice is still awaited
            return None
        is_old = known.answered is None or now - known.answered > COUNTS_S
        if is_old and known.asking is None and now - known.since >= STAYS_S and self._may_ask(person, now):
            known.asking = asyncio.create_task(self._ask(person, known, made(), self._place()))
        return known.at

    def _may_ask(self, person: str, now: float) -> bool:
        if person in _left(self._troubled, now) or self._cluster.silence.since is not None:
            return False
        is_troubled = len(self._troubled) >= SEEN_BY and len(self._troubled) > len(_left(self._answered, now))
        return not is_troubled and self._places < AT_ONCE and self._under_way < UNDER_WAY

    def _place(self) -> ExitStack:
        """One of the few places, until it is closed, or has been kept for too long."""
        self._under_way += 1
        self._places += 1
        place = ExitStack()
        place.callback(self._leave)
        place.callback(asyncio.get_running_loop().call_later(PATIENCE_S, place.close).cancel)
        return place

    def _leave(self) -> None:
        self._places -= 1

    async def _ask(self, person: str, asked: _Asked, submission: Submission, place: ExitStack) -> None:
        began = self._cluster.now()
        request = {"verb": "test", "key": submission.key, "options": list(submission.options), "environment": {}}
        counts_as: dict[str, float] = self._answered
        try:
            answer = await self._cluster.launcher.call(person, request)
            asked.at = parse_test(str(answer.get("message"))) if answer.get("ok") else None
        except SlurmUnavailable as error:
            log.warning("sbatch --test-only for %s gave no answer: %s", person, error.detail)
            asked.at = None
            is_of_account = isinstance(error, AccountGone | ActingRefused)  # they say nothing of Slurm
            counts_as = {} if is_of_account else self._troubled
        finally:
            asked.answered = self._cluster.now()
            if asked.answered - began > SLOW_S:
                counts_as = self._troubled
            self._answered.pop(person, None)
            counts_as[person] = asked.answered + LEFT_ALONE_S
            asked.asking = None
            place.close()
            self._under_way -= 1


def _left(noted: dict[str, float], now: float) -> dict[str, float]:
    """Those whose time is not over; the others are forgotten."""
    for person in [person for person, until in noted.items() if now >= until]:
        del noted[person]
    return noted
