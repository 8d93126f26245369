"""How a :class:`~portal.testing.fake_slurm.FakeSlurm` prints its jobs, nodes and partitions: as Slurm 22.05.8 does."""

from __future__ import annotations

import pwd
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from portal.testing.behaviours import Behaviour, Status

CORES, MEMORY_MIB, GPUS = 40, 393216, 4
FIRST_UID = 20001


@dataclass(frozen=True)
class FakePartition:
    """One partition, its nodes, and the longest time that a job may ask for."""

    name: str
    nodes: tuple[str, ...]
    time_limit_min: int = 24 * 60


@dataclass(frozen=True)
class FakeReservation:
    """One reservation for maintenance."""

    name: str
    starts_at: datetime
    ends_at: datetime
    nodes: tuple[str, ...]


@dataclass
class FakeJob:
    """One job that was taken; ``options`` are those of sbatch without their dashes."""

    id: str
    user: str
    submitted_at: datetime
    partition: FakePartition
    behaviour: Behaviour
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name; sbatch calls a job without one after its script."""
        return self.options.get("job-name", "session.sh")

    @property
    def limit(self) -> timedelta:
        """Its time limit; the demo's ``DefaultTime`` is an hour."""
        return timedelta(minutes=int(self.options.get("time", 60)))

    def status(self, now: datetime) -> Status:
        """What the job is at a moment: nothing runs longer than its time limit."""
        age_s = (now - self.submitted_at).total_seconds()
        status = self.behaviour.at(age_s)
        due_s = (status.starts_s or 0) + self.limit.total_seconds()
        if not status.is_running or age_s < due_s:
            return status
        return Status("TIMEOUT", "TimeLimit", "0:15", status.run, status.submitted_s, status.starts_s, due_s)

    def when(self, seconds: float | None) -> datetime | None:
        """A moment of its status."""
        return None if seconds is None else self.submitted_at + timedelta(seconds=seconds)

    def node(self, status: Status) -> str:
        """The node of its run, the next one after each requeue; none while it waits."""
        waits = status.run == 0 or status.state == "PENDING"
        return "" if waits else self.partition.nodes[(status.run - 1) % len(self.partition.nodes)]

    @property
    def cores(self) -> int:
        """Cores it asks for."""
        return int(self.options.get("cpus-per-task", 1))

    @property
    def memory_mib(self) -> int:
        """Memory it asks for; the demo's ``DefMemPerCPU`` is 6 GiB."""
        return int(self.options.get("mem", f"{6144 * self.cores}M").rstrip("M"))

    @property
    def gpus(self) -> int:
        """GPUs it asks for."""
        return int(self.options.get("gres", "gpu:0").rpartition(":")[2])


_TITLES = {
    "i": "JOBID", "T": "STATE", "P": "PARTITION", "u": "USER", "N": "NODELIST", "V": "SUBMIT_TIME", "S": "START_TIME",
    "e": "END_TIME", "r": "REASON", "Q": "PRIORITY", "b": "TRES_PER_NODE", "D": "NODES", "j": "NAME",
    "l": "TIME_LIMIT", "M": "TIME",
}  # fmt: skip


def queue_title(shape: str) -> str:
    """The first line of squeue for a ``--format``."""
    return _filled(shape, lambda code: _TITLES.get(code, ""))


def queue_line(job: FakeJob, status: Status, shape: str, now: datetime) -> str:
    """One line of squeue for a ``--format``: its codes, with the widths that they may have ("%.18i")."""
    starts, ends = times(job, status)
    columns = {
        "i": job.id,
        "T": status.state,
        "P": job.partition.name,
        "u": job.user,
        "N": job.node(status),
        "V": _moment(job.when(status.submitted_s), "N/A"),
        "S": _moment(starts, "N/A"),
        "e": _moment(ends, "N/A"),
        "r": status.reason,
        "Q": str(_priority(status)),
        "b": f"gres:{job.options['gres']}" if "gres" in job.options else "N/A",
        "D": "1",
        "j": job.name,
        "l": _short(job.limit),
        "M": _short(_elapsed(job, status, now)),
    }
    return _filled(shape, lambda code: columns.get(code, ""))


def _filled(shape: str, text: Callable[[str], str]) -> str:
    def column(found: re.Match[str]) -> str:
        width, words = int(found[2] or 0), text(found[3])
        cut = words[:width] if width else words
        return cut.rjust(width) if found[1] else cut.ljust(width)

    return re.sub(r"%(\.?)(\d*)([A-Za-z])", column, shape)


def times(job: FakeJob, status: Status) -> tuple[datetime | None, datetime | None]:
    """Start and end, as they are or, for a job that waits for its time, as they are expected."""
    starts = job.when(status.starts_s)
    return starts, job.when(status.ended_s) or (starts + job.limit if starts else None)


def _elapsed(job: FakeJob, status: Status, now: datetime) -> timedelta:
    starts = job.when(status.starts_s)
    if not starts or not job.node(status):
        return timedelta()
    return (job.when(status.ended_s) or now) - starts


def _priority(status: Status) -> int:
    return 0 if status.held else 1000


def _moment(moment: datetime | None, none: str) -> str:
    return moment.replace(microsecond=0).isoformat() if moment else none


def _short(time: timedelta) -> str:
    """squeue's ``1-02:03:04``, ``2:03:04`` and ``3:04``."""
    hours, minutes, seconds = _parts(time)
    if time.days:
        return f"{time.days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _long(time: timedelta) -> str:
    """scontrol's ``1-02:03:04`` and ``02:03:04``."""
    hours, minutes, seconds = _parts(time)
    return (f"{time.days}-" if time.days else "") + f"{hours:02}:{minutes:02}:{seconds:02}"


def _parts(time: timedelta) -> tuple[int, int, int]:
    return time.seconds // 3600, time.seconds // 60 % 60, time.seconds % 60


def uid(user: str) -> str:
    """The number of somebody's account; a made-up one where this machine has no such account."""
    try:
        return str(pwd.getpwnam(user).pw_uid)
    except KeyError:
        return str(FIRST_UID + sum(user.encode()) % 1000)


def show_job(job: FakeJob, status: Status, now: datetime) -> str:
    """``scontrol --oneliner show job``, down to what a reader may want of it."""
    starts, ends = times(job, status)
    submitted, node = _moment(job.when(status.submitted_s), ""), job.node(status)
    return (
        f"JobId={job.id} JobName={job.name} UserId={job.user}({uid(job.user)}) GroupId=hpcusers(20000) MCS_label=N/A"
        f" Priority={_priority(status)} Nice=0 Account=(null) QOS=normal JobState={status.state}"
        f" Reason={status.reason.replace(' ', '_')} Dependency=(null) Requeue={int('requeue' in job.options)}"
        f" Restarts={max(0, status.run - 1) + (status.state == 'PENDING' and status.run > 0)} BatchFlag=1 Reboot=0"
        f" ExitCode={status.exit_code} RunTime={_long(_elapsed(job, status, now))} TimeLimit={_long(job.limit)}"
        f" TimeMin=N/A SubmitTime={submitted} EligibleTime={'Unknown' if status.held else submitted}"
        f" StartTime={_moment(starts, 'Unknown')} EndTime={_moment(ends, 'Unknown')} Deadline=N/A"
        f" Partition={job.partition.name} NodeList={node}{f' BatchHost={node}' if node else ''} NumNodes=1"
        f" NumCPUs={job.cores} NumTasks=1 CPUs/Task={job.cores} TRES={_tres([job], node=1)}"
        f" {'TresPerNode=gres:' + job.options['gres'] + ' ' if 'gres' in job.options else ''}\n"
    )


def accounted(status: Status) -> str:
    """``sacct --format=State,ExitCode``: it tells who cancelled, and no signal of Slurm's own (recorded: sacct-PX)."""
    state = status.state if status.accounted is None else status.accounted
    if not state:
        return ""
    by = f" by {status.cancelled_by}" if status.cancelled_by else ""
    code = "0:0" if state in ("CANCELLED", "TIMEOUT", "PREEMPTED") else status.exit_code
    return f"{state}{by}|{code}\n"


def show_config(now: datetime, settings: Mapping[str, str]) -> str:
    """``scontrol show config``, with a few of its 240 lines."""
    all_of_them = {"ClusterName": "fake", "SLURM_VERSION": "22.05.8", "PrivateData": "none", **settings}
    lines = [f"{name:<23} = {all_of_them[name]}\n" for name in sorted(all_of_them, key=str.lower)]
    title = f"Configuration data as of {_moment(now, '')}\n"
    return title + "".join(lines) + "\nSlurmctld(primary) at head is UP\n"


def _tres(jobs: Sequence[FakeJob], node: int = 0) -> str:
    cores, memory_mib, gpus = (
        sum(values) for values in zip(*((j.cores, j.memory_mib, j.gpus) for j in jobs), strict=True)
    )
    memory = f"{memory_mib // 1024}G" if memory_mib % 1024 == 0 else f"{memory_mib}M"
    counted = f",node={node},billing={cores}" if node else ""
    return f"cpu={cores},mem={memory}{counted}" + (f",gres/gpu={gpus}" if gpus else "")


def show_node(name: str, partitions: Iterable[FakePartition], jobs: Sequence[FakeJob]) -> str:
    """``scontrol --oneliner --details show node`` of a node with the jobs that run on it."""
    cores, memory_mib, gpus = (sum(getattr(job, what) for job in jobs) for what in ("cores", "memory_mib", "gpus"))
    state = "ALLOCATED" if cores >= CORES else "MIXED" if jobs else "IDLE"
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=20  CPUAlloc={cores} CPUEfctv={CORES} CPUTot={CORES} CPULoad=0.10"
        f" AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:{GPUS} GresDrain=N/A GresUsed=gpu:{gpus}"
        f" NodeAddr={name} NodeHostName={name} Version=22.05.8 OS=Linux  RealMemory={MEMORY_MIB} AllocMem={memory_mib}"
        f" FreeMem={MEMORY_MIB - memory_mib} Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1"
        f" Owner=N/A MCS_label=N/A Partitions={','.join(p.name for p in partitions if name in p.nodes)} "
        f" CfgTRES=cpu={CORES},mem={MEMORY_MIB // 1024}G,billing={CORES},gres/gpu={GPUS}"
        f" AllocTRES={_tres(jobs) if jobs else ''} CapWatts=n/a CurrentWatts=0 AveWatts=0\n"
    )


def show_partition(partition: FakePartition, is_default: bool) -> str:
    """``scontrol --oneliner show partition``."""
    count = len(partition.nodes)
    return (
        f"PartitionName={partition.name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL"
        f" Default={'YES' if is_default else 'NO'} QoS=N/A DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO"
        f" GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime={_long(timedelta(minutes=partition.time_limit_min))}"
        f" MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes={','.join(partition.nodes)} PriorityJobFactor=1"
        f" PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP"
        f" TotalCPUs={CORES * count} TotalNodes={count} SelectTypeParameters=NONE JobDefaults=(null)"
        f" DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n"
    )


def show_reservation(reservation: FakeReservation, now: datetime) -> str:
    """``scontrol --oneliner show reservation``."""
    is_active = reservation.starts_at <= now < reservation.ends_at
    count = len(reservation.nodes)
    return (
        f"ReservationName={reservation.name} StartTime={reservation.starts_at.isoformat()}"
        f" EndTime={reservation.ends_at.isoformat()} Duration={_long(reservation.ends_at - reservation.starts_at)}"
        f" Nodes={','.join(reservation.nodes)} NodeCnt={count} CoreCnt={CORES * count} Features=(null)"
        f" PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu={CORES * count} Users=root Groups=(null)"
        f" Accounts=(null) Licenses=(null) State={'ACTIVE' if is_active else 'INACTIVE'} BurstBuffer=(null)"
        f" Watts=n/a MaxStartDelay=(null)\n"
    )
