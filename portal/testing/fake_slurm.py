"""A Slurm for tests: no daemon, no waiting, and every way in which the real one behaves, by name.

It stands where the portal starts processes, so the commands and their texts are the real ones::

    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)
    slurm.next_job(OutOfMemory(after_s=60))
    job_id = await cluster.submit("alice", submission)
    slurm.advance(61)
    assert (await cluster.ended(job_id)).state == "OUT_OF_MEMORY"

What jobs do is in :mod:`portal.testing.behaviours`, what is wrong with the cluster in :mod:`portal.testing.outages`,
bad answers of squeue in :mod:`portal.testing.bad_answers`. It has room for every job: one that waits is given a
behaviour that does. ``tests/contract`` makes the same assertions on it and on a real Slurm, so that it cannot drift.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from portal import launcher
from portal.slurm.jobs import Phase, phase_of
from portal.slurm.runner import Result
from portal.testing import output
from portal.testing.behaviours import Behaviour, Cancelled, Happening, Runs, Status
from portal.testing.cluster_parts import PARTITIONS, FakeJob, FakePartition, FakeReservation, by_name
from portal.testing.outages import NoOutage, Outage, no_answer

STARTED = datetime(2026, 11, 21, 9)
MIN_JOB_AGE_S = 300


class FakeSlurm:
    """Answers squeue, scontrol, sacct, sinfo and portal-launch as :func:`portal.slurm.runner.run` does.

    Args:
        partitions: the first one is the default; those of the demo cluster when none are given.

    Attributes:
        outage: what is wrong with the cluster; it begins when it is set.
        now: the time on the cluster; :meth:`advance` moves it.
        asked: every command so far.
        jobs: every job so far, by id; ``reservations`` are those for maintenance.
        completing_s: how long the processes of a job live on that was ended (COMPLETING).
        environments: the secrets in people's homes, by session key; ``logs`` what sessions have written.
    """

    def __init__(self, partitions: Sequence[FakePartition] = PARTITIONS) -> None:
        self.partitions = {partition.name: partition for partition in partitions}
        self.now = STARTED
        self.asked: list[tuple[str, ...]] = []
        self.jobs: dict[str, FakeJob] = {}
        self.reservations: list[FakeReservation] = []
        self.completing_s = 0.0
        self.environments: dict[str, Mapping[str, str]] = {}
        self.logs: dict[str, str] = {}
        self._next: Behaviour = Runs()
        self._sent: list[tuple[str, Mapping[str, str]]] = []  # to a slurmctld that hangs
        self._outage: Outage = NoOutage()
        self._outage_since = STARTED

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """Run one command, as :func:`portal.slurm.runner.run` does.

        Raises:
            RunError: the outage lets it hang.
        """
        command = tuple(argv)
        self.asked.append(command)
        if command[0] == "sudo":
            answer = self._launch(command[command.index("--user") + 1], stdin)
            return Result(0, json.dumps(answer), "")
        done = self._slurm(command, timeout_s)
        if (env or {}).get("SLURM_TIME_FORMAT") == "%s":
            return replace(done, stdout=output.with_epochs(done.stdout))
        return done

    def clock(self) -> float:
        """Seconds, for those who take a clock."""
        return (self.now - STARTED).total_seconds()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    async def pause(self, seconds: float) -> None:
        """Wait without waiting, for those who take a pause: time passes, and others have their turn."""
        self.advance(seconds)
        await asyncio.sleep(0)

    @property
    def outage(self) -> Outage:
        """What is wrong with the cluster."""
        return self._outage

    @outage.setter
    def outage(self, outage: Outage) -> None:
        self._outage = outage
        self._outage_since = self.now
        sent = self._sent
        self._sent = []
        for user, options in sent:
            self.take(user, options)

    def next_job(self, behaviour: Behaviour) -> None:
        """What the next job that is submitted does; those after it run again."""
        self._next = behaviour

    def happens(self, job_id: str, event: Happening) -> None:
        """Something happens to a job that is there, ``event.after_s`` from now."""
        job = self.jobs[job_id]
        age_s = (self.now - job.submitted_at).total_seconds()
        job.behaviour = replace(event, after_s=age_s + event.after_s, before=job.behaviour)

    def lose_state(self) -> None:
        """slurmctld is started without its saved state (``slurmctld -c``): no job is known, and numbers begin at 1."""
        self.jobs.clear()

    def take(self, user: str, options: Mapping[str, str]) -> FakeJob:
        """Take a job, as slurmctld does after sbatch; ``options`` are those of sbatch without their dashes."""
        behaviour = self._next
        self._next = Runs()
        partition = self.partitions[options.get("partition", next(iter(self.partitions)))]
        job = FakeJob(str(len(self.jobs) + 1), user, self.now, partition, behaviour, options)
        self.jobs[job.id] = job
        return job

    def status(self, job: FakeJob) -> Status:
        """What slurmctld knows of a job now; it forgets one that ended ``MinJobAge`` ago."""
        status = job.status(self.now)
        if status.ended_s is None or not status.state:
            return status
        since_s = (self.now - job.submitted_at).total_seconds() - status.ended_s
        if since_s < self.completing_s and status.run:
            return replace(status, state="COMPLETING")
        if since_s > MIN_JOB_AGE_S:
            return replace(status, state="", accounted=status.state)
        return status

    # -- portal-launch ----------------------------------------------------------------------------------

    def _launch(self, user: str, stdin: str) -> dict[str, object]:
        try:
            request = launcher.parse_request(json.loads(stdin))
        except (launcher.RequestRefused, ValueError) as error:
            return {"ok": False, "message": f"portal-launch: {error}"}
        if isinstance(request, launcher.SubmitRequest):
            return self._submit(user, request)
        return self._finish(user, request)

    def _submit(self, user: str, request: launcher.SubmitRequest) -> dict[str, object]:
        key = request.key
        if key in self.environments:
            path = f"/home/{user}/{launcher.SESSIONS}/{key}/{launcher.ENVIRONMENT_FILE}"
            return {"ok": False, "message": f"{path}: File exists"}
        self.environments[key] = request.environment
        done = self._sbatch(user, by_name(option.removeprefix("--") for option in request.options))
        if done.returncode == 0:
            return {"ok": True, "job_id": done.stdout.strip()}
        message = done.stderr.strip()
        if launcher.is_unavailable(message):
            return {"ok": False, "unknown": True, "message": message}
        del self.environments[key]
        return {"ok": False, "refused": True, "message": message}

    def _sbatch(self, user: str, options: Mapping[str, str]) -> Result:
        """Recorded: bad-partition, bad-time-over-limit (``EnforcePartLimits=ALL``)."""
        answer = self._outage_answer(("sbatch",), launcher.SLURM_TIMEOUT_S)
        if answer is not None:
            self._send(user, options)
            return answer
        name = options.get("partition", next(iter(self.partitions)))
        if name not in self.partitions:
            refused = no_answer(("sbatch",), "Invalid partition name specified")
            return replace(refused, stderr=f"sbatch: error: invalid partition specified: {name}\n{refused.stderr}")
        if int(options.get("time", 60)) > self.partitions[name].time_limit_min:
            return no_answer(("sbatch",), "Requested time limit is invalid (missing or exceeds some limit)")
        return Result(0, f"{self.take(user, options).id}\n", "")

    def _send(self, user: str, options: Mapping[str, str]) -> None:
        if self.outage.takes_jobs == "now":
            self.take(user, options)
        elif self.outage.takes_jobs == "afterwards":
            self._sent.append((user, options))

    def _finish(self, user: str, request: launcher.FinishRequest) -> dict[str, object]:
        message = ""
        if request.job_id:
            message = self._scancel(user, request.job_id, f"dsportal-{request.key}").stderr.strip()
        self.environments.pop(request.key, None)
        return {"ok": not message, "message": message, "log": self.logs.get(request.key, "")}

    def _scancel(self, user: str, job_id: str, name: str) -> Result:
        """A job that is unknown, has ended or has another name is no fault (recorded: scancel-unknown, -finished)."""
        command = ("scancel", f"--name={name}", job_id)
        answer = self._outage_answer(command, launcher.SLURM_TIMEOUT_S)
        if answer is not None:
            return answer
        job = self.jobs.get(job_id)
        if job is None or phase_of(self.status(job).state) in (Phase.ENDED, Phase.UNKNOWN) or job.name != name:
            return Result(0, "", "")
        if job.user != user:
            return replace(no_answer(command, "Access/permission denied"), returncode=210)
        self.happens(job_id, Cancelled(output.uid(user), after_s=0))
        return Result(0, "", "")

    # -- queries ----------------------------------------------------------------------------------------

    def _outage_answer(self, command: tuple[str, ...], timeout_s: float) -> Result | None:
        return self.outage.answer(command, (self.now - self._outage_since).total_seconds(), timeout_s)

    def _slurm(self, command: tuple[str, ...], timeout_s: float) -> Result:
        if "--version" in command:
            return Result(0, "slurm-wlm 22.05.8\n", "")
        answer = self._outage_answer(command, timeout_s)
        if answer is not None:
            return answer
        known = {"squeue": self._squeue, "scontrol": self._scontrol, "sacct": self._sacct}
        if command[0] not in known:
            return Result(127, "", f"{command[0]}: command not found\n")
        return known[command[0]](command)

    def _squeue(self, command: tuple[str, ...]) -> Result:
        options = by_name(command[1:])
        known = ("--noheader", "--all", "--states", "--name", "--jobs", "--format")
        for option in options:
            if option not in known:
                help_line = 'Try "squeue --help" for more information'
                return Result(1, "", f"squeue: unrecognized option '{option}'\n{help_line}\n")
        jobs = [job for job in self.jobs.values() if self.status(job).state]
        wanted = options["--jobs"].split(",") if "--jobs" in options else None
        if wanted and len(wanted) == 1 and wanted[0] not in {job.id for job in jobs}:
            return no_answer(command, "Invalid job id specified")
        columns = options.get("--format", "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R")
        lines = [] if "--noheader" in options else [output.queue_title(columns)]
        for job in jobs:
            if self._is_listed(job, options) and (wanted is None or job.id in wanted):
                lines.append(output.queue_line(job, self.status(job), columns, self.now))
        return Result(0, "".join(f"{line}\n" for line in lines), "")

    def _is_listed(self, job: FakeJob, options: Mapping[str, str]) -> bool:
        state = self.status(job).state
        states = options.get("--states", "")
        if "--name" in options and job.name not in options["--name"].split(","):
            return False
        if not states:
            return phase_of(state) is not Phase.ENDED
        return states == "all" or state in states.upper().split(",")

    def _scontrol(self, command: tuple[str, ...]) -> Result:
        arguments = [argument for argument in command[1:] if not argument.startswith("--")]
        if arguments == ["ping"]:
            return Result(0, "Slurmctld(primary) at head is UP\n", "")
        verb = arguments[0] if arguments else ""
        what = arguments[1] if len(arguments) > 1 else ""
        name = arguments[2] if len(arguments) > 2 else ""
        show = {
            "job": self._show_job,
            "node": self._show_nodes,
            "partition": self._show_partitions,
            "reservation": self._show_reservations,
            "config": self._show_config,
        }
        if verb != "show" or what not in show:
            return Result(1, "", f"invalid keyword: {what or verb}\n")
        shown = show[what](name)
        return Result(0, shown, "") if shown else no_answer(command, "Invalid job id specified")

    def _show_job(self, job_id: str) -> str:
        job = self.jobs.get(job_id)
        if job is None or not self.status(job).state:
            return ""
        return output.show_job(job, self.status(job), self.now)

    def _show_nodes(self, _: str) -> str:
        names = sorted({name for partition in self.partitions.values() for name in partition.nodes})
        running = [(job.node(self.status(job)), job) for job in self.jobs.values() if self.status(job).is_running]
        partitions = self.partitions.values()
        return "".join(output.show_node(n, partitions, [j for node, j in running if node == n]) for n in names)

    def _show_partitions(self, _: str) -> str:
        default = next(iter(self.partitions))
        return "".join(output.show_partition(p, p.name == default) for p in self.partitions.values())

    def _show_reservations(self, _: str) -> str:
        shown = "".join(output.show_reservation(reservation, self.now) for reservation in self.reservations)
        return shown or "No reservations in the system\n"

    def _show_config(self, _: str) -> str:
        return output.show_config(self.now, {"MinJobAge": f"{MIN_JOB_AGE_S} sec", "MessageTimeout": "20 sec"})

    def _sacct(self, command: tuple[str, ...]) -> Result:
        job = self.jobs.get(by_name(command[1:]).get("--jobs", ""))
        return Result(0, output.accounted(self.status(job)) if job else "", "")
