"""A request that waits is changed: another job takes its place, and only then the first one is taken back.

Slurm could change some of a job in place, but not within what root's settings file allows. So the place in line is
lost, and the page says so before. A new request that is refused, by the portal or by Slurm, changes nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

from jupyterhub.utils import maybe_future
from tornado import web

from portal.errors import PortalError, SlurmUnavailable, SubmitRefused
from portal.forecasts.turns import AGAIN_AFTER_S, Pace
from portal.hub.context import HubContext
from portal.language.texts import N_, _
from portal.request import SessionRequest
from portal.session_state import SessionState, word_of
from portal.site import Site
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Phase, SessionJob
from portal.slurm.submission import Submission
from portal.slurm.watched_job import WatchedJob
from spawners.announcements import ServerAddress
from spawners.choosing.offer import Offer
from spawners.errors import StartRefused
from spawners.session import Session

PLACE_IS_LOST = N_(
    "Sending this submits another job and takes back the one that waits: its place in line is lost. "
    "If the new request is refused, the one that waits goes on waiting."
)
NOT_WAITING = N_(
    "This session does not wait in the queue any more, so nothing was changed. If its job runs, it goes on."
)
NO_SECOND_JOB = N_(
    "Slurm lets you have no more jobs than you have now, and a change needs a second one for a moment: the new job is "
    "taken before the one that waits is taken back. To have something else, stop what waits, and start it anew."
)
# The limits on submitted jobs as sbatch names them (Slurm 22.05, job_state_reason_string in slurm_protocol_defs.c).
_SUBMIT_LIMIT = re.compile(r"\b(Assoc(Grp|Max)|QOS(Grp|Max)|Max)SubmitJob")
IS_GOING = N_("This request is being changed already.")
TOO_SOON = N_("You changed a request a second ago. Nothing was changed now: send it again in a moment.")

GOES_NOT_ON = N_("The login of {name} has ended. Nothing was changed: log in again.")


class NotChanged(PortalError):
    """There is nothing that waits and could be changed."""

    reason = "not_waiting"


class ChangedTooSoon(PortalError):
    """The same person has changed a request a moment ago."""

    reason = "too_soon"


class WaitingSession(Protocol):
    """What a change needs of its session, :class:`~spawners.session.Session`."""

    cluster: Cluster
    state: SessionState
    watched: WatchedJob
    address: ServerAddress
    person: str
    log: logging.Logger
    log_name: str

    @property
    def ours(self) -> SessionJob:
        """Our job."""

    def keep(self, **changes: object) -> None:
        """Change the state and save it."""


class RequestChange:
    """The changes of one session's request, one at a time.

    Args:
        session: whose request it is.
        pace: how often each person has Slurm asked, whatever the number of their sessions.

    Attributes:
        is_going: while it is not known which of two jobs is the session's: no server of either is believed.
    """

    def __init__(self, session: WaitingSession, pace: Pace) -> None:
        self.is_going = False
        self._session = session
        self._pace = pace

    async def is_possible(self) -> bool:
        """Whether there is a job that waits, by Slurm's word of now; who asks again in a second is told that of before.

        Raises:
            SlurmUnavailable: Slurm does not say.
        """
        if not self._session.state.job_id:
            return False
        is_new = self._pace.is_due("look", self._session.person)
        return await self._waits(self._session.ours, None if is_new else AGAIN_AFTER_S)

    async def make(self, prepared: Callable[[], Awaitable[Submission]]) -> None:
        """Put the new job in the place of the one that waits.

        Arguments:
            prepared: makes the new job, when it is this change's turn, and something waits.

        Raises:
            NotChanged: nothing waits any more, or another change is going on.
            ChangedTooSoon: this person has changed a request a moment ago, of this session or another one.
            SubmitRefused: with sbatch's own words; the job that waits goes on waiting.
            SlurmUnavailable: Slurm does not answer; likewise.
        """
        if self.is_going:
            raise NotChanged(IS_GOING)
        if not self._pace.is_due("change", self._session.person):
            raise ChangedTooSoon(TOO_SOON)
        self.is_going = True
        before = self._session.ours
        submitted = self._session.watched.submitted
        try:
            if not before.id or not await self._waits(before):
                raise NotChanged(NOT_WAITING)
            await self._replace(before, await prepared())
        finally:
            self.is_going = False
            if self._session.state.next_key:
                self._session.keep(next_key="")
        await self._take_back(before, submitted)

    async def _replace(self, before: SessionJob, submission: Submission) -> None:
        session = self._session
        session.keep(next_key=submission.key)  # so that the hub's look for jobs without a session leaves it alone
        new = SessionJob(await session.cluster.submit_or_find(session.person, submission), before.user, submission.key)
        try:
            still_waits = await self._waits(before)
        except SlurmUnavailable:
            await self._take_back(new)
            raise
        if not still_waits:
            await self._take_back(new)
            raise NotChanged(NOT_WAITING)
        session.watched = WatchedJob(session.cluster)
        session.keep(key=new.key, job_id=new.id, next_key="", submitted=0, announcement=None, restarts=0, foretold=None)
        session.keep(word=word_of(session.state.token) if session.state.tls else "")  # its certificate is a new one
        session.address.port.expect()
        session.watched.accepted()
        session.log.info("Job %s of %s takes the place of job %s", new.id, session.log_name, before.id)

    async def _waits(self, ours: SessionJob, max_age_s: float | None = None) -> bool:
        """Whether a job waits and is the session's; ``None`` = by a picture of the queue that is younger than this."""
        asked_at = self._session.cluster.now()
        queue = await self._session.cluster.queue(max_age_s or 0)
        if max_age_s is None and queue.taken_at < asked_at:  # that of a question which was under way already
            queue = await self._session.cluster.queue(0)
        if queue.error:
            raise queue.error
        job = queue.jobs.get(ours.id)
        is_ours = self._session.ours == ours and not self._session.state.port  # it may have been stopped meanwhile
        has_server = bool(self._session.address.port.number)
        return is_ours and not has_server and job is not None and job.phase is Phase.WAITING

    async def _take_back(self, job: SessionJob, submitted: int = 0) -> None:
        """Cancel a job that is the session's no more; of a Slurm that is silent the hub's next look does it."""
        try:
            await self._session.cluster.finish(job.user, job.key, job.id, submitted)
        except SlurmUnavailable as error:
            self._session.log.error("The job %s of %s is not taken back yet: %s", job.id, job.user, error.detail)


class ChangedRequests:
    """What makes a spawner change the request of a session that waits."""

    user: Any  # these are JupyterHub's
    orm_spawner: Any
    user_options: Any
    run_options_from_form: Any
    run_auth_state_hook: Any
    apply_group_overrides: Any
    _run_apply_user_options: Any
    run_pre_spawn_hook: Any
    _request: SessionRequest | None  # these the spawner's

    @property
    def context(self) -> HubContext:
        """What the hub's parts share."""
        raise NotImplementedError

    @property
    def session(self) -> Session:
        """The session of this spawner."""
        raise NotImplementedError

    @property
    def offer(self) -> Offer:
        """What this person may choose."""
        raise NotImplementedError

    async def prepared(self, request: SessionRequest, site: Site) -> Submission:
        """The job of a request that was checked."""
        raise NotImplementedError

    @cached_property
    def change(self) -> RequestChange:
        """The changes of this session's request."""
        return RequestChange(self.session, self.context.change_pace)

    async def change_request(self, form_data: Mapping[str, list[str]], handler: Any) -> None:
        """Ask for something else while the job waits.

        Arguments:
            handler: of the page's request.

        Raises:
            StartRefused: the new request is not possible, or nothing waits; what was asked for before goes on.
        """
        given = await maybe_future(self.run_options_from_form(form_data))
        request, site = await self.offer.checked(given)

        async def prepared() -> Submission:
            nonlocal given, request, site
            given = await self._asked_as_for_a_start(given, handler)
            request, site = await self.offer.checked(given)
            return await self.prepared(request, site)

        try:
            await self.change.make(prepared)
        except NotChanged as error:
            raise StartRefused(error, status_code=409) from error
        except ChangedTooSoon as error:
            raise StartRefused(error, status_code=429) from error
        except SubmitRefused as error:
            if _SUBMIT_LIMIT.search(error.message):
                raise StartRefused(SubmitRefused(NO_SECOND_JOB), lines=error.message) from error
            raise StartRefused(error) from error
        except PortalError as error:
            raise StartRefused(error, status_code=503) from error
        self.session.keep(foretold=self.offer.told.of(request, site))
        self._request = request
        self.user_options = self.orm_spawner.user_options = given
        self.user.db.commit()

    async def _asked_as_for_a_start(self, given: Mapping[str, object], handler: Any) -> dict[str, object]:
        """The choices when JupyterHub's own questions before a start (6.1) were asked of them.

        These are, in its order, whether the person may go on (``spawn_single_user``), the login's own check and the
        site's hooks (``User.spawn``), which look at the choices, and may change them.

        Raises:
            web.HTTPError: what they say; or whatever a site's hook raises.
        """
        login = self.user.authenticator
        if login.refresh_pre_spawn and not await handler.refresh_auth(self.user, force=True):
            raise web.HTTPError(403, "%s", _(GOES_NOT_ON).format(name=self.user.name))
        before = self.user_options
        self.user_options = dict(given)
        try:
            await maybe_future(login.pre_spawn_start(self.user, self))
            await self.run_auth_state_hook(await self.user.get_auth_state())
            await self.apply_group_overrides()
            await self._run_apply_user_options(self.user_options)
            await maybe_future(self.run_pre_spawn_hook())
            return dict(self.user_options)
        finally:
            self.user_options = before
