"""What a :class:`~portal.testing.fake_slurm.FakeSlurm` answers to squeue, scontrol and sacct when nothing is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from portal.slurm.jobs import Phase, phase_of
from portal.slurm.runner import Result
from portal.testing import accounted, output
from portal.testing.behaviours import Status
from portal.testing.cluster_parts import FakeJob, FakePartition, FakeReservation, by_name
from portal.testing.outages import no_answer

MIN_JOB_AGE_S = 300
_SQUEUE_OPTIONS = ("--noheader", "--all", "--states", "--name", "--jobs", "--format")


class QueriedCluster(Protocol):
    """What the queries look at."""

    partitions: dict[str, FakePartition]
    reservations: list[FakeReservation]
    jobs: dict[str, FakeJob]
    now: datetime

    def status(self, job: FakeJob) -> Status:
        """What slurmctld knows of a job now."""

    def known(self) -> Sequence[tuple[FakeJob, Status]]:
        """The jobs that slurmctld knows now."""


def squeue(cluster: QueriedCluster, command: tuple[str, ...]) -> Result:
    """The queue, in the columns that are asked for."""
    options = by_name(command[1:])
    for option in options:
        if option not in _SQUEUE_OPTIONS:
            help_line = 'Try "squeue --help" for more information'
            return Result(1, "", f"squeue: unrecognized option '{option}'\n{help_line}\n")
    jobs = cluster.known()
    wanted = options["--jobs"].split(",") if "--jobs" in options else None
    if wanted and len(wanted) == 1 and wanted[0] not in {job.id for job, _ in jobs}:
        return no_answer(command, "Invalid job id specified")
    columns = options.get("--format", "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R")
    lines = [] if "--noheader" in options else [output.queue_title(columns)]
    for job, status in jobs:
        if _is_listed(job, status.state, options) and (wanted is None or job.id in wanted):
            lines.append(_line(job, status, columns, cluster.now))
    return Result(0, "".join(f"{line}\n" for line in lines), "")


def _line(job: FakeJob, status: Status, columns: str, now: datetime) -> str:
    """A job's line, printed anew when it shows something else: a thousand jobs are listed each second, and few change.

    "%M", the time that a job has run, is another one at each moment.
    """
    if "M" in columns:
        return output.queue_line(job, status, columns, now)
    if job.printed is None or job.printed[:2] != (columns, status):
        job.printed = (columns, status, output.queue_line(job, status, columns, now))
    return job.printed[2]


def _is_listed(job: FakeJob, state: str, options: Mapping[str, str]) -> bool:
    states = options.get("--states", "")
    if "--name" in options and job.name not in options["--name"].split(","):
        return False
    if not states:
        return phase_of(state) is not Phase.ENDED
    return states == "all" or state in states.upper().split(",")


def scontrol(cluster: QueriedCluster, command: tuple[str, ...]) -> Result:
    """``ping``, and ``show`` of jobs, nodes, partitions, reservations and settings."""
    arguments = [argument for argument in command[1:] if not argument.startswith("--")]
    if arguments == ["ping"]:
        return Result(0, "Slurmctld(primary) at head is UP\n", "")
    verb = arguments[0] if arguments else ""
    what = arguments[1] if len(arguments) > 1 else ""
    name = arguments[2] if len(arguments) > 2 else ""
    show = {
        "job": _show_job,
        "node": _show_nodes,
        "partition": _show_partitions,
        "reservation": _show_reservations,
        "config": _show_config,
    }
    if verb != "show" or what not in show:
        return Result(1, "", f"invalid keyword: {what or verb}\n")
    shown = show[what](cluster, name)
    return Result(0, shown, "") if shown else no_answer(command, "Invalid job id specified")


def _show_job(cluster: QueriedCluster, job_id: str) -> str:
    job = cluster.jobs.get(job_id)
    if job is None or not cluster.status(job).state:
        return ""
    return output.show_job(job, cluster.status(job), cluster.now)


def _show_nodes(cluster: QueriedCluster, _: str) -> str:
    names = sorted({name for partition in cluster.partitions.values() for name in partition.nodes})
    running = [(job.node(status), job) for job, status in cluster.known() if status.is_running]
    partitions = cluster.partitions.values()
    return "".join(output.show_node(n, partitions, [j for node, j in running if node == n]) for n in names)


def _show_partitions(cluster: QueriedCluster, _: str) -> str:
    default = next(iter(cluster.partitions))
    return "".join(output.show_partition(p, p.name == default) for p in cluster.partitions.values())


def _show_reservations(cluster: QueriedCluster, _: str) -> str:
    shown = "".join(output.show_reservation(reservation, cluster.now) for reservation in cluster.reservations)
    return shown or "No reservations in the system\n"


def _show_config(cluster: QueriedCluster, _: str) -> str:
    return output.show_config(cluster.now, {"MinJobAge": f"{MIN_JOB_AGE_S} sec", "MessageTimeout": "20 sec"})


def sacct(cluster: QueriedCluster, command: tuple[str, ...]) -> Result:
    """What accounting has of jobs, in the columns that are asked for: of those that share an id, the last one."""
    options = by_name(command[1:])
    columns = options.get("--format", "State,ExitCode").split(",")
    for column in columns:
        if column not in accounted.COLUMNS:
            return Result(1, "", f'sacct: error: Invalid field requested: "{column}"\n')
    printed = ""
    for number in options.get("--jobs", "").split(","):
        job = cluster.jobs.get(number)
        if job is None or ("--name" in options and job.name not in options["--name"].split(",")):
            continue
        printed += accounted.job_line(job, cluster.status(job), columns, cluster.now)
        if "--allocations" not in options:
            printed += accounted.step_line(job, cluster.status(job), columns, cluster.now)
    return Result(0, printed, "")
