"""The two Slurms of the contract: a stage makes something happen, and gives the portal's Cluster to look at it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Phase, squeue_command
from portal.slurm.runner import Result, RunError
from portal.slurm.submission import job_name
from portal.testing import behaviours as does
from portal.testing import outages as outage
from portal.testing.fake_slurm import FakeSlurm
from tests.inside import as_portal, eventually, home, sh

HOG = f"{sys.executable} -c 'import time; x = bytearray(300_000_000); time.sleep(60)'"
SOON_S = 100  # a time limit is looked at twice a minute


class Stage(Protocol):
    """What the contract asks of a Slurm."""

    cluster: Cluster

    async def start(self, what: str, key: str) -> str:
        """A job of alice's with the key's name that does ``what`` (:data:`BEHAVIOURS`); answers its id."""
        ...

    async def reaches(self, job_id: str, phase: Phase) -> None:
        """Wait until the picture shows the job in a phase."""
        ...

    def fault(self, what: str) -> AbstractAsyncContextManager[None]:
        """While it lasts, something is wrong with the cluster (:data:`DAEMONS`)."""
        ...

    def lie(self, answer: outage.SlurmGarbage) -> AbstractAsyncContextManager[None]:
        """While it lasts, squeue answers this."""
        ...

    def deaf(self) -> AbstractAsyncContextManager[None]:
        """While it lasts, what sbatch answers is lost."""
        ...

    async def listing(self) -> str:
        """What a good squeue prints."""
        ...

    def has_secrets(self, user: str, key: str) -> bool:
        """True when a session's environment lies in its owner's home."""
        ...


BEHAVIOURS: dict[str, does.Behaviour] = {
    "runs": does.Runs(),
    "waits": does.PendingForever("BeginTime"),
    "is held": does.Held(),
    "is held by root": does.Held("JobHeldAdmin"),
    "completes": does.Completes(),
    "fails with 3": does.FailsWith(3),
    "takes too much memory": does.OutOfMemory(),
    "runs out of time": does.TimeLimit(),
    "is cancelled by root": does.CancelledByAdmin(),
    "is cancelled while it waits": does.CancelledByAdmin(before=does.PendingForever("BeginTime")),
    "loses its node": does.NodeFails(),
    "loses its node and is requeued": does.NodeFails(requeue=True),
    "is requeued": does.Requeued(),
    "is preempted": does.Preempted(),
    "vanishes": does.Vanishes(),
}
DAEMONS = {"silent": "slurmctld", "munge": "munged", "accounting": "slurmdbd"}


class FakeStage:
    """A FakeSlurm, whose time travels."""

    def __init__(self, launcher: str) -> None:
        self.slurm = FakeSlurm()
        self.slurm.completing_s = 1
        self.cluster = Cluster(launcher, run=self.slurm, clock=self.slurm.clock)

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
        storms = {
            "silent": outage.SlurmSilent(),
            "munge": outage.SlurmSilent(message_timeout_s=float("inf")),
            "accounting": outage.AccountingDown(),
        }
        async with self._outage(storms[what]):
            yield

    def lie(self, answer: outage.SlurmGarbage) -> AbstractAsyncContextManager[None]:
        return self._outage(answer)

    def deaf(self) -> AbstractAsyncContextManager[None]:
        return self._outage(outage.SbatchAnswerLost())

    @asynccontextmanager
    async def _outage(self, storm: outage.Outage) -> AsyncIterator[None]:
        self.slurm.outage = storm
        yield
        self.slurm.outage = outage.NoOutage()

    async def listing(self) -> str:
        return (await self.slurm(squeue_command())).stdout

    def has_secrets(self, user: str, key: str) -> bool:
        return key in self.slurm.environments


class RealStage:
    """The private cluster's Slurm, as the hub's own account sees it."""

    def __init__(self, launcher: str) -> None:
        self.cluster = Cluster(launcher, run=self._run)
        self._lie: Result | None = None
        self._lost: list[str] = []
        self._is_deaf = False

    async def _run(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        if self._lie and argv[0] == "squeue":
            return self._lie
        done = await as_portal(argv, stdin=stdin, env=env, timeout_s=timeout_s)
        if self._is_deaf and argv[0] == "sudo":
            raise RunError("sudo did not answer within 60 s")
        return done

    async def start(self, what: str, key: str) -> str:
        wrapped, options = {
            "waits": ("sleep 600", ["--begin=now+1hour"]),
            "is held": ("sleep 600", ["--hold"]),
            "is held by root": ("sleep 600", ["--begin=now+1hour"]),
            "is cancelled while it waits": ("sleep 600", ["--begin=now+1hour"]),
            "completes": ("true", []),
            "fails with 3": ("exit 3", []),
            "takes too much memory": (HOG, ["--mem=60"]),
            "loses its node": ("sleep 600", ["--no-requeue"]),
        }.get(what, ("sleep 600", []))
        base = ["--parsable", f"--job-name={job_name(key)}", "--partition=sxm2", "--mem=100", "--output=/dev/null"]
        job_id = sh("sbatch", *base, *options, f"--wrap={wrapped}", user="alice").strip()
        await asyncio.to_thread(self._then, what, job_id)
        return job_id

    def _then(self, what: str, job_id: str) -> None:
        while_waiting = {
            "is held by root": ("scontrol", "hold", job_id),
            "is cancelled while it waits": ("scancel", job_id),
        }
        while_running = {
            "is cancelled by root": ("scancel", job_id),
            "is requeued": ("scontrol", "requeue", job_id),
            "runs out of time": ("scontrol", "update", f"JobId={job_id}", "EndTime=now+1"),
        }
        if what in while_waiting:
            sh(*while_waiting[what])
        elif what in while_running or what.startswith("loses its node"):
            eventually(lambda: "RUNNING" in sh("squeue", "-h", "-j", job_id, "-o", "%T"), "the job runs")
            if what in while_running:
                sh(*while_running[what])
            else:
                self._lose(sh("squeue", "-h", "-j", job_id, "-o", "%N").strip())

    def _lose(self, node: str) -> None:
        """A node goes down and stays away: the same job must not come back to it before it has noticed."""
        self._lost.append(node)
        for state in ("DRAIN", "DOWN"):
            sh("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=test")

    def repair(self) -> None:
        """Bring back the nodes that were lost."""
        for node in self._lost:
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
        sh("pkill", "-STOP", "-x", DAEMONS[what])
        try:
            yield
        finally:
            sh("pkill", "-CONT", "-x", DAEMONS[what])

    @asynccontextmanager
    async def lie(self, answer: outage.SlurmGarbage) -> AsyncIterator[None]:
        self._lie = Result(answer.returncode, answer.stdout, answer.stderr)
        yield
        self._lie = None

    @asynccontextmanager
    async def deaf(self) -> AsyncIterator[None]:
        self._is_deaf = True
        yield
        self._is_deaf = False

    async def listing(self) -> str:
        return sh(*squeue_command(), user="portal")

    def has_secrets(self, user: str, key: str) -> bool:
        return (home(user) / SESSIONS / key / ENVIRONMENT_FILE).exists()


async def _phase(cluster: Cluster, job_id: str) -> Phase:
    snapshot = await cluster.queue(max_age_s=-1)
    assert snapshot.error is None, snapshot.error.detail
    job = snapshot.jobs.get(job_id)
    return job.phase if job else Phase.ENDED
