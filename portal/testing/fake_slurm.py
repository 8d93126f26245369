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
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from portal import launcher
from portal.homes import private_folder
from portal.slurm.jobs import Phase, phase_of
from portal.slurm.runner import Result
from portal.testing import output, queries
from portal.testing.behaviours import Behaviour, Cancelled, Happening, NodeFails, Runs, Status, Vanishes
from portal.testing.cluster_parts import PARTITIONS, FakeJob, FakePartition, FakeReservation, by_name
from portal.testing.outages import Lasting, NoOutage, Outage, no_answer
from portal.testing.queries import MIN_JOB_AGE_S

STARTED = datetime(2026, 11, 21, 9)


@dataclass(frozen=True)
class SavedState:
    """What slurmctld keeps in its ``StateSaveLocation``: its jobs and the id of the next one; as it stands nothing."""

    next_id: int = 1
    jobs: Mapping[str, FakeJob] = field(default_factory=dict)


class FakeSlurm:
    """Answers squeue, scontrol, sacct, sinfo and portal-launch as :func:`portal.slurm.runner.run` does.

    Args:
        partitions: the first one is the default; those of the demo cluster when none are given.

    Attributes:
        outage: what is wrong with the cluster; it begins when it is set. :meth:`begin` adds one to those there are.
        now: the time on the cluster; :meth:`advance` moves it.
        asked: every command so far.
        jobs: every job so far, by id (the last one of each); ``reservations`` are those for maintenance.
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
        self.would_wait = timedelta(0)  # what ``sbatch --test-only`` says
        self._next_id = 1
        self._remembered: dict[str, FakeJob] = {}  # by slurmctld: the queue is asked much more often than it changes
        self._outages: list[Lasting] = []

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
            failures = filter(None, (one.outage.launch() for one in self._outages))
            user = command[command.index("--user") + 1]
            return next(failures, None) or Result(0, json.dumps(self._launch(user, stdin)), "")
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
        """What is wrong with the cluster; of several outages, what began first."""
        return self._outages[0].outage if self._outages else NoOutage()

    @outage.setter
    def outage(self, outage: Outage) -> None:
        for one in list(self._outages):
            self.end(one.outage)
        self.begin(outage)

    def begin(self, outage: Outage) -> None:
        """From now on this is wrong too; where several outages have an answer, the one that began first gives it."""
        self._outages.append(Lasting(outage, self.now))

    def end(self, outage: Outage) -> None:
        """This very outage is over; one that is over already is no fault."""
        ended = [one for one in self._outages if one.outage is outage]
        self._outages = [one for one in self._outages if one.outage is not outage]
        for user, options in (sent for one in ended for sent in one.sent):
            self.take(user, options)

    def saved_state(self) -> SavedState:
        """What slurmctld has saved in this moment."""
        return SavedState(self._next_id, {job.id: replace(job) for job, _ in self.known()})

    def restore(self, saved: SavedState) -> None:
        """slurmctld starts with an older state, or none (``SavedState()``): ids are given once more, and jobs that it
        does not know any more are ended on their nodes, while accounting has them as they were. Jobs that have ended
        since are missing on their nodes: they are requeued or lost (slurmctld's job_mgr.c, "missing from batch node").
        """
        for job, status in self.known():
            if job.id not in saved.jobs:
                self.happens(job.id, Vanishes(after_s=0, accounted=status.state))
        for id_, job in saved.jobs.items():
            now = self._remembered.get(id_)
            if now is None or now.submitted_at != job.submitted_at or not _is_alive(self.status(now)):
                self.jobs[id_] = self._remembered[id_] = replace(job)
                if _is_alive(job.status(self.now)):
                    self.happens(id_, NodeFails(after_s=0, requeue="requeue" in job.options))
        self._next_id = saved.next_id

    def next_job(self, behaviour: Behaviour) -> None:
        """What the next job that is submitted does; those after it run again."""
        self._next = behaviour

    def happens(self, job_id: str, event: Happening) -> None:
        """Something happens to a job that is there, ``event.after_s`` from now."""
        job = self.jobs[job_id]
        age_s = (self.now - job.submitted_at).total_seconds()
        job.behaviour = replace(event, after_s=age_s + event.after_s, before=job.behaviour)
        self._remembered[job_id] = job

    def lose_state(self) -> None:
        """slurmctld is started without its saved state (``slurmctld -c``): no job is known, and numbers begin at 1."""
        self.jobs.clear()
        self._remembered.clear()
        self._next_id = 1

    def take(self, user: str, options: Mapping[str, str]) -> FakeJob:
        """Take a job, as slurmctld does after sbatch; ``options`` are those of sbatch without their dashes."""
        behaviour = self._next
        self._next = Runs()
        partition = self.partitions[options.get("partition", next(iter(self.partitions)))]
        job = FakeJob(str(self._next_id), user, self.now, partition, behaviour, options)
        self._next_id += 1
        self.jobs[job.id] = self._remembered[job.id] = job
        return job

    def known(self) -> list[tuple[FakeJob, Status]]:
        """The jobs that slurmctld knows now."""
        shown = [(job, self.status(job)) for job in self._remembered.values()]
        for job, status in shown:
            if not status.state:
                del self._remembered[job.id]
        return [(job, status) for job, status in shown if status.state]

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
            return self._test(request) if request.is_test else self._submit(user, request)
        if isinstance(request, launcher.LookRequest):
            return {"ok": True, "folder": f"/home/{user}/{private_folder.IN_HOME}"}
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
        if launcher.is_unavailable(done.returncode, message):
            return {"ok": False, "unknown": True, "message": message}
        del self.environments[key]
        return {"ok": False, "refused": True, "message": message}

    def _sbatch(self, user: str, options: Mapping[str, str]) -> Result:
        """Recorded: bad-partition, bad-time-over-limit (``EnforcePartLimits=ALL``)."""
        answer, lasting = self._outage_answer(("sbatch",), launcher.SLURM_TIMEOUT_S)
        if answer is not None and lasting is not None:
            self._send(user, options, lasting)
            return answer
        return self._refused(options) or Result(0, f"{self.take(user, options).id}\n", "")

    def _refused(self, options: Mapping[str, str]) -> Result | None:
        name = options.get("partition", next(iter(self.partitions)))
        if name not in self.partitions:
            refused = no_answer(("sbatch",), "Invalid partition name specified")
            return replace(refused, stderr=f"sbatch: error: invalid partition specified: {name}\n{refused.stderr}")
        if int(options.get("time", 60)) > self.partitions[name].time_limit_min:
            return no_answer(("sbatch",), "Requested time limit is invalid (missing or exceeds some limit)")
        return None

    def _test(self, request: launcher.SubmitRequest) -> dict[str, object]:
        options = by_name(option.removeprefix("--") for option in request.options)
        fault = self._outage_answer(("sbatch",), launcher.SLURM_TIMEOUT_S)[0] or self._refused(options)
        said = output.tested(options, self._next_id, self.now + self.would_wait)
        return {"ok": not fault, "message": (fault.stderr if fault else said).strip()}

    def _send(self, user: str, options: Mapping[str, str], lasting: Lasting) -> None:
        if lasting.outage.takes_jobs == "now":
            self.take(user, options)
        elif lasting.outage.takes_jobs == "afterwards":
            lasting.sent.append((user, options))

    def _finish(self, user: str, request: launcher.FinishRequest) -> dict[str, object]:
        message = ""
        if request.job_id:
            shown = output.with_epochs(self._slurm(tuple(launcher.show_command(request.job_id)), 10).stdout)
            is_known = launcher.is_submission(shown, int(output.uid(user)), request)
            name = self.jobs[request.job_id].name if is_known else f"dsportal-{request.key}"
            message = self._scancel(user, request.job_id, name).stderr.strip()
        self.environments.pop(request.key, None)
        return {"ok": not message, "message": message, "log": self.logs.get(request.key, "")}

    def _scancel(self, user: str, job_id: str, name: str) -> Result:
        """A job that is unknown, has ended or has another name is no fault (recorded: scancel-unknown, -finished)."""
        command = ("scancel", f"--name={name}", job_id)
        answer, lasting = self._outage_answer(command, launcher.SLURM_TIMEOUT_S)
        if answer is not None and not (lasting and lasting.outage.cancels_jobs):
            return answer
        job = self.jobs.get(job_id)
        if job is None or phase_of(self.status(job).state) in (Phase.ENDED, Phase.UNKNOWN) or job.name != name:
            return answer or Result(0, "", "")
        if job.user != user:
            return answer or replace(no_answer(command, "Access/permission denied"), returncode=210)
        self.happens(job_id, Cancelled(output.uid(user), after_s=0))
        return answer or Result(0, "", "")

    # -- queries ----------------------------------------------------------------------------------------

    def _outage_answer(self, command: tuple[str, ...], timeout_s: float) -> tuple[Result | None, Lasting | None]:
        for one in self._outages:
            answer = one.outage.answer(command, (self.now - one.since).total_seconds(), timeout_s)
            if answer is not None:
                return answer, one
        return None, None

    def _slurm(self, command: tuple[str, ...], timeout_s: float) -> Result:
        if "--version" in command:
            return Result(0, "slurm-wlm 22.05.8\n", "")
        answer, _ = self._outage_answer(command, timeout_s)
        if answer is not None:
            return answer
        known = {"squeue": queries.squeue, "scontrol": queries.scontrol, "sacct": queries.sacct}
        name = command[0]
        return known[name](self, command) if name in known else Result(127, "", f"{name}: command not found\n")


def _is_alive(status: Status) -> bool:
    return phase_of(status.state) in (Phase.WAITING, Phase.RUNNING)
