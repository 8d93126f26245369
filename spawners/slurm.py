"""The Slurm spawner: one job for one session, from what a person asked for to a server that answers."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import batchspawner
from sqlalchemy.orm import object_session
from traitlets import Unicode, default

from portal import session
from portal.errors import PortalError, RequestError, SessionEnded, SlurmUnavailable
from portal.request import SessionRequest
from portal.script import KEY_LENGTH, Submission, submission
from portal.slurm import Job, JobEnd, Phase
from spawners import form
from spawners.asks import AsksPerson
from spawners.ends import POLL_MAX_AGE_S, NoticesEnd
from spawners.environment import GivesEnvironment
from spawners.errors import Refused
from spawners.requeue import LOOK_EVERY_S, place_of
from spawners.tells import TellsPerson

WAIT_EVERY_S = 13.0  # while it waits; the server itself says when it runs
LIVELY_S = 20.0  # after something has happened, Slurm is asked every second
REACH_WITHIN_S, REACH_EVERY_S = 5.0, 5.0
STOP_WITHIN_S = 30.0
LOST_ANSWER_S = 60.0  # how long a job is looked for whose sbatch did not answer
FOREVER_S = 10**8  # Slurm decides how long a job waits; the time on the node is limited by the site


class SlurmSessionSpawner(TellsPerson, NoticesEnd, GivesEnvironment, AsksPerson, batchspawner.SlurmSpawner):  # type: ignore[misc]
    """Starts a person's JupyterLab as a Slurm job, through portal-launch."""

    hub_id = Unicode("000000", help="Six hexadecimal digits that this hub's session keys begin with.").tag(config=True)
    key = Unicode(help="The session's unique key; the job carries it in its name.")

    _request: SessionRequest | None = None
    _stale_s = 0.0
    _read_at = float("-inf")  # when the last good picture was taken
    _changed_at = float("-inf")  # when something happened to the job
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
            raise Refused(error) from error
        except SessionEnded as error:
            raise Refused(error, status_code=502, lines=error.log) from error
        except PortalError as error:
            raise Refused(error, status_code=503) from error
        finally:
            self.forget_port()

    async def _taken_up(self) -> bool:
        """Go on with the job that this session asked for before the hub was restarted, if there is one."""
        before, self._before = self._before, {}
        if not before:
            return False
        self.key, self.job_id = before["key"], before.get("job_id", "")
        deadline = self.cluster.now() + LOST_ANSWER_S
        while not await self._knows_job(deadline):  # noqa: ASYNC110  nobody tells us when a silent Slurm speaks again
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
        self.key = self.hub_id + secrets.token_hex((KEY_LENGTH - len(self.hub_id)) // 2)
        self._save()
        what = submission(request, self.site, self.key, await self._session_environment())
        self._submitting = asyncio.ensure_future(self._submitted(what))
        self.job_id = await asyncio.shield(self._submitting)  # a start that is cancelled still learns of its job
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

    async def _started(self) -> tuple[str, int]:
        """Wait for the job's node and the server's port, noticing within seconds when the job ends."""
        port, running_since = self._port, None
        assert port is not None  # noqa: S101  _submit made it
        while True:
            job = await self._look(0.2 if port.done() else self._pace_s)
            if (job and job.phase is Phase.ENDED) or await self._vanished(job):
                raise await self._dead(job)
            if job and job.phase is Phase.RUNNING:
                if port.done() and job.node:
                    self._listens_at, self._place = port.result(), place_of(job)
                    self._save()
                    return job.node, port.result()
                running_since = running_since or self.cluster.now()
                self._check_patience(running_since, job)
            elif job and session.waits_too_long(job, self.site, datetime.now()):
                raise SessionEnded(session.gave_up(self.site), log=await self._finish())
            await (asyncio.sleep(0.25) if port.done() else asyncio.wait([port], timeout=self._pace_s))

    @property
    def _pace_s(self) -> float:
        """How often Slurm is asked: every second after something has happened, seldom while we only wait."""
        return LOOK_EVERY_S if self.cluster.now() - self._changed_at < LIVELY_S else WAIT_EVERY_S

    def _check_patience(self, running_since: float, job: Job) -> None:
        limit_s = self.site.session.start_timeout_min * 60
        if self.cluster.now() - running_since > limit_s:
            raise SessionEnded(
                f"JupyterLab did not answer within {limit_s // 60} minutes of its start on {job.node}. "
                "Try again; if it stays so, tell your administrator.",
            )

    async def _look(self, max_age_s: float) -> Job | None:
        """Our job in the shared picture; ``None`` while it is not known there."""
        snapshot = await self.cluster.snapshot(max_age_s)
        self._stale_s = snapshot.age_s(self.cluster.now()) if snapshot.error else 0.0
        self._read_at = float("-inf") if snapshot.error else snapshot.taken_at
        before, self._job = self._job, snapshot.jobs.get(self.job_id)
        self._was_seen = self._was_seen or self._job is not None
        if (before and before.phase) != (self._job and self._job.phase):
            self._changed_at = self.cluster.now()
        return self._job

    async def _vanished(self, job: Job | None) -> bool:
        """True when a queue that was read after the submission does not hold our job, and Slurm knows its end."""
        if job or self._read_at <= self._submitted_at:
            return False
        return await self.cluster.ended(self.job_id, self._was_seen) is not None

    async def _dead(self, job: Job | None) -> SessionEnded:
        end = await self.cluster.ended(self.job_id) or JobEnd(job.state if job else "COMPLETED")
        log = await self._finish()
        return SessionEnded(session.ended(end, log), log=log)

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
        while self._check_pending and not await _answers(job.node, self._listens_at):
            self.log.warning("The session %s on %s cannot be reached; tried again", self._log_name, job.node)
            await asyncio.sleep(REACH_EVERY_S)
            if await self.poll() is not None:
                break
        scheme = "https" if self.internal_ssl else "http"
        return f"{scheme}://{job.node}:{self._listens_at}{self.server.base_url}"

    # -- stop -------------------------------------------------------------------------------------------

    async def stop(self, now: bool = False) -> None:
        """Cancel the job, remove its secrets, and wait until Slurm says that it is gone."""
        if self.following:
            self.following.cancel()
        if not self.key:
            return
        if self._submitting and not self.job_id:
            with contextlib.suppress(PortalError):
                self.job_id = await self._submitting
        asked_at = self.cluster.now()
        await self._finish()
        while self.job_id and not now and self.cluster.now() - asked_at < STOP_WITHIN_S:
            seen = await self.cluster.snapshot(LOOK_EVERY_S / 2)
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
        own = {"key": self.key, "token": self.api_token, "port": self._listens_at, "place": self._place}
        return {**state, **own}

    def load_state(self, state: dict[str, Any]) -> None:
        """The other way round."""
        super().load_state(state)
        self.key, self._listens_at, self._place = state.get("key", ""), state.get("port", 0), state.get("place")
        self.last_end = state.get("last_end", "")
        self.api_token = state.get("token", "")  # the running session's own: it stays the same
        self._before = state if self.key and not self._listens_at else {}

    def clear_state(self) -> None:
        """Forget the job."""
        super().clear_state()
        self.key, self._listens_at, self._place = "", 0, None
        self._submitting, self._was_seen = None, False

    def _save(self) -> None:
        """Write the state now: the hub itself does so only after start() has returned."""
        self.orm_spawner.state = self.get_state()
        db = object_session(self.orm_spawner)
        if db is not None:
            db.commit()


async def _answers(host: str, port: int) -> bool:
    """True when something listens there."""
    try:
        async with asyncio.timeout(REACH_WITHIN_S):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True
