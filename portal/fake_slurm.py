"""A Slurm for tests: no daemon, no waiting, and every way in which the real one behaves, by name.

It stands where the portal starts processes, so the commands and their texts are the real ones::

    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)
    slurm.next_job(OutOfMemory(after_s=60))
    job_id = await cluster.submit("alice", submission)
    slurm.advance(61)
    assert (await cluster.ended(job_id)).state == "OUT_OF_MEMORY"

``tests/contract`` makes the same assertions on it and on a real Slurm, so that it cannot drift.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from portal.fake_behaviours import Behaviour, Ends, Fair, Runs, SbatchAnswerLost, SbatchRefuses, Status, Weather
from portal.runner import Result

NODES, CORES, MEMORY_MIB, GPUS = 4, 40, 393216, 4
STARTED = datetime(2026, 11, 21, 9)


@dataclass
class FakeJob:
    """One job that was taken."""

    id: str
    user: str
    submitted_at: datetime
    options: Mapping[str, str]
    behaviour: Behaviour

    def status(self, now: datetime) -> Status:
        """What the job is at a moment."""
        return self.behaviour.at((now - self.submitted_at).total_seconds())


@dataclass
class FakeSlurm:
    """Answers squeue, scontrol, sacct and portal-launch; ``weather`` is what is wrong, ``asked`` were the commands."""

    weather: Weather = field(default_factory=Fair)
    now: datetime = STARTED
    asked: list[tuple[str, ...]] = field(default_factory=list)
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    _next: Behaviour = field(default_factory=Runs)

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """Run one command, as :func:`portal.runner.run` does."""
        command = tuple(argv)
        self.asked.append(command)
        if command[0] == "sudo":
            return self._launch(command[command.index("--user") + 1], json.loads(stdin))
        if (told := self.weather.answer(command)) is not None:
            return told
        known = {"squeue": self._squeue, "scontrol": self._scontrol, "sacct": self._sacct}
        if command[0] not in known:
            return Result(127, "", f"{command[0]}: command not found\n")
        return known[command[0]](command)

    def clock(self) -> float:
        """Seconds, for those who take a clock."""
        return (self.now - STARTED).total_seconds()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def next_job(self, behaviour: Behaviour) -> None:
        """What the next job that is submitted does; those after it run again."""
        self._next = behaviour

    def take(self, user: str, options: Mapping[str, str]) -> FakeJob:
        """Take a job, as slurmctld does after sbatch."""
        behaviour, self._next = self._next, Runs()
        job = FakeJob(str(len(self.jobs) + 1), user, self.now, options, behaviour)
        self.jobs[job.id] = job
        return job

    def cancel(self, job_id: str, by: str = "") -> None:
        """``scancel``: nothing happens to a job that has ended."""
        job = self.jobs.get(job_id)
        if job and job.status(self.now).state in ("PENDING", "RUNNING"):
            age_s = (self.now - job.submitted_at).total_seconds()
            job.behaviour = Ends("CANCELLED", "0:15", after_s=age_s, cancelled_by=by)

    # -- portal-launch ----------------------------------------------------------------------------------

    def _launch(self, user: str, request: Mapping[str, object]) -> Result:
        answer = self._submit(user, request) if request["verb"] == "submit" else self._finish(user, request)
        return Result(0, json.dumps(answer), "")

    def _submit(self, user: str, request: Mapping[str, object]) -> dict[str, object]:
        if isinstance(self.weather, SbatchRefuses):
            return {"ok": False, "refused": True, "message": self.weather.words}
        if (told := self.weather.answer(("sbatch",))) is not None:
            return {"ok": False, "unknown": True, "message": told.stderr.strip()}
        options = request["options"]
        assert isinstance(options, list)  # noqa: S101  as portal-launch demands
        job = self.take(user, dict(option.removeprefix("--").partition("=")[::2] for option in options))
        if isinstance(self.weather, SbatchAnswerLost):
            return {"ok": False, "unknown": True, "message": "sbatch did not answer within 45 s"}
        return {"ok": True, "job_id": job.id}

    def _finish(self, user: str, request: Mapping[str, object]) -> dict[str, object]:
        if (told := self.weather.answer(("scancel",))) is not None:
            return {"ok": False, "message": told.stderr.strip(), "log": ""}
        self.cancel(str(request.get("job_id", "")), by=user)
        return {"ok": True, "message": "", "log": ""}

    # -- queries ----------------------------------------------------------------------------------------

    def _squeue(self, command: tuple[str, ...]) -> Result:
        options = dict(word.partition("=")[::2] for word in command[1:])
        wanted = options.get("--name")
        ended_too = options.get("--states") == "all"
        shape = options.get("--format", "%i")
        lines = [
            self._line(job, shape)
            for job in self.jobs.values()
            if (status := job.status(self.now)).state
            and (ended_too or status.state in ("PENDING", "RUNNING"))
            and wanted in (None, job.options.get("job-name"))
        ]
        return Result(0, "".join(f"{line}\n" for line in lines), "")

    def _line(self, job: FakeJob, shape: str) -> str:
        return re.sub(r"%(\w)", lambda code: self._column(job, code[1]), shape)

    def _column(self, job: FakeJob, code: str) -> str:
        status = job.status(self.now)
        limit = timedelta(minutes=int(job.options.get("time", 480)))
        started = self._moment(job, status.started_s)
        ends = self._moment(job, status.ended_s) or (started + limit if started else None)
        return {
            "i": job.id,
            "T": status.state,
            "P": job.options.get("partition", "sxm2"),
            "u": job.user,
            "N": status.node,
            "V": job.submitted_at.isoformat(),
            "S": started.isoformat() if started else "N/A",
            "e": ends.isoformat() if ends else "N/A",
            "r": status.reason,
            "Q": "0" if status.held else "1000",
            "j": job.options.get("job-name", "wrap"),
            "b": job.options.get("gres", "N/A"),
            "D": "1",
        }.get(code, "")

    @staticmethod
    def _moment(job: FakeJob, seconds: float | None) -> datetime | None:
        return None if seconds is None else job.submitted_at + timedelta(seconds=seconds)

    def _scontrol(self, command: tuple[str, ...]) -> Result:
        if command[1] == "ping":
            return Result(0, "Slurmctld(primary) at head is UP\n", "")
        show = {"job": self._show_job, "node": self._show_nodes, "partition": self._show_partitions}
        what = command[command.index("show") + 1]
        if what == "reservation":
            return Result(0, "No reservations in the system\n", "")
        return show[what](command[-1])

    def _show_job(self, job_id: str) -> Result:
        job = self.jobs.get(job_id)
        status = job.status(self.now) if job else Status("")
        if job is None or not status.state:
            return Result(1, "", "slurm_load_jobs error: Invalid job id specified\n")
        name = job.options.get("job-name", "wrap")
        line = (
            f"JobId={job.id} JobName={name} UserId={job.user}(20001) GroupId=hpcusers(20000) MCS_label=N/A"
            f" Priority=1000 Nice=0 Account=(null) QOS=(null) JobState={status.state}"
            f" Reason={status.reason.replace(' ', '_')} Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0"
            f" ExitCode={status.exit_code} RunTime=00:00:01"
        )
        return Result(0, line + "\n", "")

    def _show_nodes(self, _: str) -> Result:
        running = [job.status(self.now).node for job in self.jobs.values()]
        lines = []
        for name in (f"gpu{number:02}" for number in range(1, NODES + 1)):
            used = running.count(name)
            lines.append(
                f"NodeName={name} Arch=x86_64 CoresPerSocket=20  CPUAlloc={8 * used} CPUEfctv={CORES} CPUTot={CORES}"
                f" Gres=gpu:{GPUS} GresDrain=N/A GresUsed=gpu:{used}(IDX:0) RealMemory={MEMORY_MIB}"
                f" AllocMem={49152 * used} State={'MIXED' if used else 'IDLE'} Partitions=sxm2 "
            )
        return Result(0, "".join(f"{line}\n" for line in lines), "")

    @staticmethod
    def _show_partitions(_: str) -> Result:
        line = f"PartitionName=sxm2 Default=YES Hidden=NO MaxTime=1-00:00:00 State=UP TotalNodes={NODES}"
        return Result(0, line + "\n", "")

    def _sacct(self, command: tuple[str, ...]) -> Result:
        options = dict(word.partition("=")[::2] for word in command[1:])
        job = self.jobs.get(options.get("--jobs", ""))
        status = job.status(self.now) if job else Status("")
        if not status.state:
            return Result(0, "", "")
        by = f" by {status.cancelled_by}" if status.cancelled_by else ""
        return Result(0, f"{status.state}{by}|{status.exit_code}\n", "")
