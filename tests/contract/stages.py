"""The two Slurms of the contract: a stage makes something happen to a job, and gives the portal's Cluster to look."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from portal import fake_behaviours as fakes
from portal.cluster import Cluster
from portal.errors import SlurmUnavailable
from portal.fake_slurm import FakeSlurm
from portal.runner import Result, RunError
from portal.script import Submission, job_name
from portal.slurm import Phase
from tests.inside import as_portal, eventually, sh

HOG = f"{sys.executable} -c 'import time; x = bytearray(300_000_000); time.sleep(60)'"
SOON_S = 100  # a time limit is looked at now and then


class Stage(Protocol):
    """What the contract asks of a Slurm."""

    cluster: Cluster

    async def start(self, what: str, key: str) -> str:
        """A job of alice's with the key's name that does ``what`` (:data:`BEHAVIOURS`); answers its id."""
        ...

    async def reaches(self, job_id: str, phase: Phase) -> None:
        """Wait until the picture shows the job in a phase, or not at all for an end."""
        ...

    def fault(self, what: str) -> AsyncIterator[None]:
        """While it lasts, something is wrong with the cluster: "silent" or "munge"."""
        ...


BEHAVIOURS = {
    "runs": fakes.Runs(),
    "waits": fakes.PendingForever("BeginTime"),
    "is held": fakes.Held(),
    "completes": fakes.Completes(),
    "fails with 3": fakes.FailsWith(3),
    "takes too much memory": fakes.OutOfMemory(),
    "runs out of time": fakes.TimeLimit(),
    "is cancelled by root": fakes.CancelledByAdmin(),
    "loses its node": fakes.NodeFails(),
    "is requeued": fakes.Requeued(),
    "is preempted": fakes.Preempted(),
    "vanishes": fakes.Vanishes(),
}


class FakeStage:
    """A FakeSlurm, whose time travels."""

    def __init__(self) -> None:
        self.slurm = FakeSlurm()
        self.cluster = Cluster("/opt/portal-launch", run=self.slurm, clock=self.slurm.clock)

    async def start(self, what: str, key: str) -> str:
        self.slurm.next_job(BEHAVIOURS[what])
        return self.slurm.take("alice", {"job-name": job_name(key), "partition": "sxm2"}).id

    async def reaches(self, job_id: str, phase: Phase) -> None:
        for _ in range(20):
            if await _phase(self.cluster, job_id) is phase:
                return
            self.slurm.advance(30)
        raise AssertionError(f"job {job_id} never reaches {phase}")

    @asynccontextmanager
    async def fault(self, what: str) -> AsyncIterator[None]:
        self.slurm.weather = {"silent": fakes.SlurmSilent(), "munge": fakes.MungeDown()}[what]
        yield
        self.slurm.weather = fakes.Fair()

    async def lost_submission(self, submission: Submission) -> None:
        """Submit a job whose answer is lost."""
        self.slurm.weather = fakes.SbatchAnswerLost()
        try:
            await self.cluster.submit("alice", submission)
        except SlurmUnavailable:
            self.slurm.weather = fakes.Fair()
            return
        raise AssertionError("the answer was not lost")


class RealStage:
    """The private cluster's Slurm, as the hub's own account sees it."""

    def __init__(self, launcher: str) -> None:
        self.launcher = launcher
        self.cluster = Cluster(launcher, run=as_portal)

    async def start(self, what: str, key: str) -> str:
        wrapped, options = {
            "waits": ("sleep 600", ["--begin=now+1hour"]),
            "is held": ("sleep 600", ["--hold"]),
            "completes": ("true", []),
            "fails with 3": ("exit 3", []),
            "takes too much memory": (HOG, ["--mem=60"]),
            "runs out of time": ("sleep 600", ["--time=1"]),
            "loses its node": ("sleep 600", ["--no-requeue"]),
        }.get(what, ("sleep 600", []))
        base = ["--parsable", f"--job-name={job_name(key)}", "--partition=sxm2", "--mem=100", "--output=/dev/null"]
        job_id = sh("sbatch", *base, *options, f"--wrap={wrapped}", user="alice").strip()
        await asyncio.to_thread(self._then, what, job_id)
        return job_id

    def _then(self, what: str, job_id: str) -> None:
        if what in ("is cancelled by root", "loses its node", "is requeued"):
            eventually(lambda: "RUNNING" in sh("squeue", "-h", "-j", job_id, "-o", "%T"), "the job runs")
        if what == "is cancelled by root":
            sh("scancel", job_id)
        elif what == "is requeued":
            sh("scontrol", "requeue", job_id)
        elif what == "loses its node":
            node = sh("squeue", "-h", "-j", job_id, "-o", "%N").strip()
            sh("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
            sh("scontrol", "update", f"NodeName={node}", "State=RESUME")

    async def reaches(self, job_id: str, phase: Phase) -> None:
        for _ in range(SOON_S):
            if await _phase(self.cluster, job_id) is phase:
                return
            await asyncio.sleep(1)
            if phase is Phase.RUNNING:  # Slurm itself waits two minutes after a requeue
                sh("scontrol", "update", f"JobId={job_id}", "StartTime=now", check=False)
        raise AssertionError(f"job {job_id} does not reach {phase} within {SOON_S} s")

    @asynccontextmanager
    async def fault(self, what: str) -> AsyncIterator[None]:
        daemon = {"silent": "slurmctld", "munge": "munged"}[what]
        sh("pkill", f"-{signal.SIGSTOP.name.removeprefix('SIG')}", "-x", daemon)
        try:
            yield
        finally:
            sh("pkill", "-CONT", "-x", daemon)

    async def lost_submission(self, submission: Submission) -> None:
        """Submit a job whose answer is lost."""

        async def deaf(argv: Sequence[str], stdin: str = "", env: object = None, timeout_s: float = 10) -> Result:
            await as_portal(argv, stdin=stdin, timeout_s=timeout_s)
            raise RunError("sudo did not answer within 60 s")

        try:
            await Cluster(self.launcher, run=deaf).submit("alice", submission)
        except SlurmUnavailable:
            return
        raise AssertionError("the answer was not lost")


async def _phase(cluster: Cluster, job_id: str) -> Phase:
    snapshot = await cluster.snapshot(max_age_s=0 if snapshot_is_live(cluster) else -1)
    assert snapshot.error is None, snapshot.error.detail
    job = snapshot.jobs.get(job_id)
    return job.phase if job else Phase.ENDED


def snapshot_is_live(cluster: Cluster) -> bool:
    """True when time goes on by itself."""
    return not isinstance(cluster._run, FakeSlurm)
