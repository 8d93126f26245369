"""The Slurm spawner: one job for one session, from what a person asked for to a server that answers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import secrets
from collections.abc import Mapping
from typing import Any

import batchspawner
from sqlalchemy.orm import object_session
from traitlets import Unicode, default

from portal import data, session
from portal.cluster import Cluster
from portal.errors import PortalError, RequestError, SessionEnded, SlurmUnavailable
from portal.request import SessionRequest
from portal.script import KEY_LENGTH, Submission, submission
from portal.slurm import Job, JobEnd, Phase
from spawners import form
from spawners.asks import AsksPerson
from spawners.errors import Refused
from spawners.requeue import LOOK_EVERY_S, FollowsRequeue
from spawners.tells import TellsPerson

POLL_MAX_AGE_S = 4.5  # while it runs
STOP_WITHIN_S = 30.0
LOST_ANSWER_S = 60.0  # how long a job is looked for whose sbatch did not answer
FOREVER_S = 10**8  # Slurm decides how long a job waits; the time on the node is limited by the site


@functools.cache
def the_cluster(launcher: str) -> Cluster:
    """The hub's one picture of the cluster."""
    return Cluster(launcher)


class SlurmSessionSpawner(TellsPerson, FollowsRequeue, AsksPerson, batchspawner.SlurmSpawner):  # type: ignore[misc]
    """Starts a person's JupyterLab as a Slurm job, through portal-launch."""

    hub_id = Unicode("000000", help="Six hexadecimal digits that this hub's session keys begin with.").tag(config=True)
    key = Unicode(help="The session's unique key; the job carries it in its name.")

    last_end = ""  # why the last session ended, for the server page, until the next start
    _request: SessionRequest | None = None
    _job: Job | None = None
    _stale_s = 0.0
    _read_at = float("-inf")  # when the last good picture was taken
    _was_seen = False  # Slurm has shown us our job, so it would show it again
    _before: Mapping[str, Any] = {}
    _submitting: asyncio.Future[str] | None = None
    _submitted_at = float("-inf")  # on the cluster's clock; a hub that restarted knows only that it was before

    @default("start_timeout")
    def _start_timeout(self) -> int:
        return FOREVER_S

    @property
    def cluster(self) -> Cluster:
        """The hub's shared picture of the cluster."""
        return the_cluster(self.site.portal.launcher)

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
        what = submission(request, self.site, self.key, self._session_environment())
        self._submitting = asyncio.ensure_future(self._submitted(what))
        self.job_id = await asyncio.shield(self._submitting)  # a start that is cancelled still learns of its job
        self._submitted_at = self.cluster.now()
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

    def _session_environment(self) -> dict[str, str]:
        """The session's environment: JupyterHub's, and what the session must know of the site."""
        settings = {
            "title": self.site.portal.title,
            "notebooks": str(data.folder("notebooks")),
            "storage": [{"name": s.name, "path": s.path} for s in self.site.storage],
            "modules": {"path": list(self.site.kernels.module_path)},
        }
        own = {"DSPORTAL_SESSION": json.dumps(settings), "JUPYTER_PATH": self.site.kernels.folder}
        theirs = {name: text for name, text in self.get_env().items() if name.startswith("JUPYTERHUB_")}
        return {**theirs, **own}

    async def _started(self) -> tuple[str, int]:
        """Wait for the job's node and the server's port, noticing within seconds when the job ends."""
        port, running_since = self._port, None
        assert port is not None  # noqa: S101  _submit made it
        while True:
            job = await self._look(LOOK_EVERY_S if not port.done() else 0.2)
            if (job and job.phase is Phase.ENDED) or await self._vanished(job):
                raise await self._dead(job)
            if job and job.phase is Phase.RUNNING:
                if port.done() and job.node:
                    self._listens_at = port.result()
                    self._save()
                    return job.node, port.result()
                running_since = running_since or self.cluster.now()
                self._check_patience(running_since, job)
            await (asyncio.sleep(0.25) if port.done() else asyncio.wait([port], timeout=LOOK_EVERY_S))

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
        self._job = snapshot.jobs.get(self.job_id)
        self._was_seen = self._was_seen or self._job is not None
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
        """Where the server listens, by our own knowledge: JupyterHub asks when it finds a session after a restart."""
        job = self._job or await self._look(POLL_MAX_AGE_S)
        if self._listens_at and job and job.node and self.server:
            return f"http://{job.node}:{self._listens_at}{self.server.base_url}"
        return str(await super().get_url())

    # -- while it runs ----------------------------------------------------------------------------------

    async def poll(self) -> int | None:
        """``None`` while the session lives or nothing is known; a number once Slurm says that it ended."""
        if not self.job_id:
            return None if self._submitting else 0
        snapshot = await self.cluster.snapshot(POLL_MAX_AGE_S)
        self._job = job = snapshot.jobs.get(self.job_id)
        self._was_seen = self._was_seen or job is not None
        if job and job.phase is Phase.WAITING and self._listens_at:
            self.requeued(job)
        alive = job is not None and job.phase is not Phase.ENDED
        if alive or snapshot.error or snapshot.taken_at <= self._submitted_at:
            return None
        end = await self.cluster.ended(self.job_id, self._was_seen)
        if end is None:
            return None
        self.last_end = session.ended(end)
        self.log.info("The session %s ended: %s", self._log_name, self.last_end)
        await self._finish()  # its secrets go with it: JupyterHub does not call stop() for what has ended
        return 0 if end.state == "COMPLETED" else 1

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
        await self._finish()
        deadline = self.cluster.now() + STOP_WITHIN_S
        while self.job_id and not now and self.cluster.now() < deadline:
            if await self.cluster.ended(self.job_id, was_seen=True):
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
        return {**state, **own}

    def load_state(self, state: dict[str, Any]) -> None:
        """The other way round."""
        super().load_state(state)
        self.key, self._listens_at = state.get("key", ""), state.get("port", 0)
        self.last_end = state.get("last_end", "")
        self.api_token = state.get("token", "")  # the running session's own: it stays the same
        self._before = state if self.key and not self._listens_at else {}

    def clear_state(self) -> None:
        """Forget the job."""
        super().clear_state()
        self.key, self._listens_at = "", 0
        self._submitting, self._was_seen = None, False

    def _save(self) -> None:
        """Write the state now: the hub itself does so only after start() has returned."""
        self.orm_spawner.state = self.get_state()
        db = object_session(self.orm_spawner)
        if db is not None:
            db.commit()
