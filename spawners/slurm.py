"""The Slurm spawner: one job for one session, from what a person asked for to a server that answers."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any

import batchspawner
from sqlalchemy.orm import object_session
from traitlets import Unicode, default

from portal.errors import PortalError, RequestError, SessionEnded, SlurmUnavailable
from portal.request import SessionRequest
from portal.slurm.jobs import Phase
from portal.slurm.submission import KEY_LENGTH, Submission, submission
from spawners import form
from spawners.asks import AsksPerson
from spawners.ends import POLL_MAX_AGE_S
from spawners.environment import GivesEnvironment
from spawners.errors import StartRefused
from spawners.reach import listens
from spawners.requeue import LOOK_EVERY_S
from spawners.starting import AwaitsServer
from spawners.tells import TellsPerson

REACH_EVERY_S = 5.0
STOP_WITHIN_S = 30.0
LOST_ANSWER_S = 60.0  # how long a job is looked for whose sbatch did not answer
FOREVER_S = 10**8  # Slurm decides how long a job waits; the time on the node is limited by the site


class SlurmSessionSpawner(
    TellsPerson,
    AwaitsServer,
    GivesEnvironment,
    AsksPerson,
    batchspawner.SlurmSpawner,  # type: ignore[misc]
):
    """Starts a person's JupyterLab as a Slurm job, through portal-launch."""

    hub_id = Unicode("000000", help="Six hexadecimal digits that this hub's session keys begin with.").tag(config=True)
    key = Unicode(help="The session's unique key; the job carries it in its name.")

    _request: SessionRequest | None = None
    _before: Mapping[str, Any] = {}

    @default("start_timeout")
    def _start_timeout(self) -> int:
        return FOREVER_S

    # -- start ------------------------------------------------------------------------------------------

    async def start(self) -> tuple[str, int]:
        """Submit the job, wait as long as Slurm makes us wait, and answer where the server listens."""
        try:
            options = self.user_options or {}
            self._request = form.remembered(options) if self.goes_on else self._checked(options)
            self.last_end = ""
            self.expect_port()
            if not await self._taken_up():
                await self._submit(self._request)
            return await self._started()
        except RequestError as error:
            raise StartRefused(error) from error
        except SessionEnded as error:
            raise StartRefused(error, status_code=502, lines=error.log) from error
        except PortalError as error:
            raise StartRefused(error, status_code=503) from error
        finally:
            self.forget_port()

    async def _taken_up(self) -> bool:
        """Go on with the job that this session asked for before the hub was restarted, if there is one."""
        before, self._before = self._before, {}
        if not before:
            return False
        self.key, self.job_id, self._told = before["key"], before.get("job_id", ""), before.get("told")
        deadline = self.cluster.now() + LOST_ANSWER_S
        while not await self._knows_job(deadline):
            await self._look(LOOK_EVERY_S)  # a Slurm that is silent is told on the page
            await asyncio.sleep(LOOK_EVERY_S)
        if not self.job_id:
            return False  # the hub went away before sbatch ran
        self.api_token = before["token"]  # the one that the job has
        self._save()
        self.log.info("Job %s of %s is taken up again", self.job_id, self._log_name)
        return True

    async def _knows_job(self, deadline: float) -> bool:
        """True once Slurm has shown the job with our key, or has not known one for a while."""
        try:
            self.job_id = self.job_id or await self.cluster.find(self.key)
        except SlurmUnavailable:
            return False
        return bool(self.job_id) or self.cluster.now() > deadline

    async def _submit(self, request: SessionRequest) -> None:
        self._told = None
        self.key = self.hub_id + secrets.token_hex((KEY_LENGTH - len(self.hub_id)) // 2)
        self._save()
        what = submission(request, self.site, self.key, await self._session_environment())
        self._submitting = asyncio.ensure_future(self._submitted(what))
        while not self._submitting.done():  # a start that is cancelled still learns of its job
            await asyncio.wait([self._submitting], timeout=LOOK_EVERY_S)
            if not self._submitting.done():
                await self._look(LOOK_EVERY_S)  # a Slurm that is silent is told on the page
        self.job_id = self._submitting.result()
        self._submitted_at = self._changed_at = self.cluster.now()
        self._save()
        self.log.info("Job %s submitted for %s, key %s", self.job_id, self._log_name, self.key)

    async def _submitted(self, what: Submission) -> str:
        try:
            return await self.cluster.submit(self.user.name, what)
        except SlurmUnavailable as error:  # the answer was lost, perhaps not the job
            self.log.warning("sbatch gave no answer for %s: %s", self._log_name, error.detail)
            deadline = self.cluster.now() + LOST_ANSWER_S
            while self.cluster.now() < deadline:
                with contextlib.suppress(SlurmUnavailable):
                    if job_id := await self.cluster.find(what.key):
                        return job_id
                await asyncio.sleep(LOOK_EVERY_S)
            raise

    @property
    def goes_on(self) -> bool:
        """True when the job of this start is there already, from before the hub was restarted."""
        return bool(self._before)

    async def get_url(self) -> str:
        """Where the server listens, by our own knowledge: JupyterHub asks when it finds a session after a restart.

        JupyterHub then stops a server that does not answer; one whose node cannot be reached just now, while
        Slurm says that it runs, is waited for instead.
        """
        job = self._job or await self._look(POLL_MAX_AGE_S)
        if not (self._listens_at and job and job.node and self.server):
            return str(await super().get_url())
        while self._check_pending and not await listens(job.node, self._listens_at):
            self.log.warning("The session %s on %s cannot be reached; tried again", self._log_name, job.node)
            await asyncio.sleep(REACH_EVERY_S)
            if await self.poll() is not None:
                break
        return self.url_at(job.node, self._listens_at)

    # -- stop -------------------------------------------------------------------------------------------

    async def stop(self, now: bool = False) -> None:
        """Cancel the job, remove its secrets, and wait until Slurm says that it is gone."""
        self.stop_following()
        if not self.key:
            return
        if self._submitting and not self.job_id:
            with contextlib.suppress(PortalError):
                self.job_id = await self._submitting
        asked_at = self.cluster.now()
        await self._finish()
        while self.job_id and not now and self.cluster.now() - asked_at < STOP_WITHIN_S:
            seen = await self.cluster.queue(LOOK_EVERY_S / 2)
            job = seen.jobs.get(self.job_id)
            if not seen.error and seen.taken_at > asked_at and (job is None or job.phase is Phase.ENDED):
                return
            await asyncio.sleep(LOOK_EVERY_S / 2)

    async def _finish(self) -> str:
        """Cancel and clean up; a Slurm that does not answer is only logged: the job ends at its time limit."""
        try:
            return await self.cluster.finish(self.user.name, self.key, self.job_id)
        except SlurmUnavailable as error:
            self.log.error("The job %s of %s could not be cancelled: %s", self.job_id, self._log_name, error.detail)
            return ""

    # -- state ------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """What survives a restart of the hub."""
        state: dict[str, Any] = super().get_state()
        if self.last_end:
            state["last_end"] = self.last_end
        if not self.key:
            return state
        own = {"key": self.key, "token": self.api_token, "port": self._listens_at}
        return {**state, **own, "place": self._place, "told": self._told}

    def load_state(self, state: dict[str, Any]) -> None:
        """The other way round."""
        super().load_state(state)
        self.key, self._listens_at, self._place = state.get("key", ""), state.get("port", 0), state.get("place")
        self.last_end, self._told = state.get("last_end", ""), state.get("told")
        self.api_token = state.get("token", "")  # the running session's own: it stays the same
        self._before = state if self.key and not self._listens_at else {}

    def clear_state(self) -> None:
        """Forget the job."""
        super().clear_state()
        self.key, self._listens_at, self._place = "", 0, None
        self._submitting, self._was_seen, self._told = None, False, None

    def _save(self) -> None:
        """Write the state now: the hub itself does so only after start() has returned."""
        self.orm_spawner.state = self.get_state()
        db = object_session(self.orm_spawner)
        if db is not None:
            db.commit()
