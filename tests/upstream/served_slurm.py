"""FakeSlurm whose jobs are real: each runs a small HTTP server on this machine until it is cancelled."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from portal.slurm.runner import Result
from portal.slurm.submission import JOB_NAME_PREFIX
from portal.testing.behaviours import Completes, FailsWith, Status
from portal.testing.cluster_parts import FakeJob, FakePartition
from portal.testing.fake_slurm import STARTED, FakeSlurm

HERE = "127.0.0.1"  # the name of the one node: where JupyterHub's tests look for servers
SPEED = 15  # its clock is so much faster than ours: these tests wait 3 s where the portal may take 30
PROGRAM = Path(__file__).with_name("session_server.py")


class ServedSlurm(FakeSlurm):
    """Starts a server for each job that it takes; a job is over when its server is, and the other way round.

    Attributes:
        servers: the process of every job so far, by the job's id.
    """

    def __init__(self) -> None:
        super().__init__([FakePartition("sxm2", (HERE,))])
        self.servers: dict[str, subprocess.Popen[str]] = {}
        self._since = time.monotonic()

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """Run one command at the time that it is now; servers whose jobs it ended are ended, too."""
        self.clock()
        answer = await super().__call__(argv, stdin, env, timeout_s)
        for job in self.jobs.values():
            self.status(job)
        return answer

    def clock(self) -> float:
        """Seconds, which pass by themselves."""
        self.now = STARTED + timedelta(seconds=(time.monotonic() - self._since) * SPEED)
        return super().clock()

    async def pause(self, seconds: float) -> None:
        """Wait until so many seconds have passed on this clock."""
        await asyncio.sleep(seconds / SPEED)

    def take(self, user: str, options: Mapping[str, str]) -> FakeJob:
        """Take a job, and start its server with the session's environment on its standard input."""
        job = super().take(user, options)
        server = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            text=True,
        )
        assert server.stdin
        server.stdin.write(f"{json.dumps(self.environments[job.name.removeprefix(JOB_NAME_PREFIX)])}\n")
        server.stdin.flush()
        self.servers[job.id] = server
        return job

    def status(self, job: FakeJob) -> Status:
        """What slurmctld knows of a job now: first whether it and its server still live."""
        status = super().status(job)
        exit_status = self.servers[job.id].poll()
        if status.is_running and exit_status is not None:
            code = exit_status if exit_status >= 0 else 128 - exit_status  # a signal, as the shell says it
            self.happens(job.id, FailsWith(code, after_s=0) if code else Completes(after_s=0))
            return super().status(job)
        if not status.is_running and exit_status is None:
            self.end_job(job.id)
        return status

    def end_job(self, job_id: str) -> None:
        """End a job's server, as Slurm ends the processes of a job."""
        server = self.servers[job_id]
        assert server.stdin
        server.stdin.close()
        server.terminate()
        server.wait()

    def end_all(self) -> list[str]:
        """End the servers that still run; answers their jobs."""
        left = [job_id for job_id, server in self.servers.items() if server.poll() is None]
        for job_id in left:
            self.end_job(job_id)
        return left
