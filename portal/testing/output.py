"""How a :class:`~portal.testing.fake_slurm.FakeSlurm` prints its jobs, nodes and partitions: as Slurm 22.05.8 does."""

from __future__ import annotations

import pwd
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from portal.testing.behaviours import Status
from portal.testing.cluster_parts import CORES, GPUS, MEMORY_MIB, FakeJob, FakePartition, FakeReservation

FIRST_UID = 20001

_TITLES = {
    "i": "JOBID", "T": "STATE", "P": "PARTITION", "u": "USER", "N": "NODELIST", "V": "SUBMIT_TIME", "S": "START_TIME",
    "e": "END_TIME", "r": "REASON", "Q": "PRIORITY", "b": "TRES_PER_NODE", "D": "NODES", "j": "NAME",
    "l": "TIME_LIMIT", "M": "TIME",
}  # fmt: skip


def queue_title(columns: str) -> str:
    """The first line of squeue for a ``--format``."""
    return _filled(columns, _TITLES)


def queue_line(job: FakeJob, status: Status, columns: str, now: datetime) -> str:
    """One line of squeue for a ``--format``: its codes, with the widths that they may have ("%.18i")."""
    starts, ends = times(job, status)
    texts = {
        "i": job.id,
        "T": status.state,
        "P": job.partition.name,
        "u": job.user,
        "U": uid(job.user),
        "N": job.node(status),
        "V": moment(job.when(status.submitted_s), "N/A"),
        "S": moment(starts, "N/A"),
        "e": moment(ends, "N/A"),
        "r": status.reason,
        "Q": str(_priority(status)),
        "b": f"gres:{job.options['gres']}" if "gres" in job.options else "N/A",
        "D": "1",
        "j": job.name,
        "l": _short(job.limit),
        "M": _short(_elapsed(job, status, now)),
    }
    return _filled(columns, texts)


def tested(options: Mapping[str, str], job_id: int, starts: datetime) -> str:
    """What ``sbatch --test-only`` prints, with ``SLURM_TIME_FORMAT=%s``."""
    cores = options.get("cpus-per-task", "1")
    partition = options.get("partition", "")
    at = int(starts.astimezone().timestamp())
    return f"sbatch: Job {job_id} to start at {at} using {cores} processors on nodes gpu01 in partition {partition}\n"


def _filled(columns: str, texts: Mapping[str, str]) -> str:
    """The columns with the text of each code, which is ``""`` for one that is not known."""

    def column(found: re.Match[str]) -> str:
        width = int(found[2] or 0)
        text = texts.get(found[3], "")
        if width:
            text = text[:width]
        return text.rjust(width) if found[1] else text.ljust(width)

    return re.sub(r"%(\.?)(\d*)([A-Za-z])", column, columns)


def times(job: FakeJob, status: Status) -> tuple[datetime | None, datetime | None]:
    """Start and end, as they are or, for a job that waits for its time, as they are expected."""
    starts = job.when(status.starts_s)
    ends = job.when(status.ended_s)
    if starts and not ends:
        ends = starts + job.limit
    return starts, ends


def _elapsed(job: FakeJob, status: Status, now: datetime) -> timedelta:
    starts = job.when(status.starts_s)
    if not starts or not job.node(status):
        return timedelta()
    return (job.when(status.ended_s) or now) - starts


def _priority(status: Status) -> int:
    return 0 if status.held else 1000


def moment(at: datetime | None, none: str) -> str:
    """A time as Slurm prints it."""
    return at.replace(microsecond=0).isoformat() if at else none


def with_epochs(text: str) -> str:
    """What is printed where ``SLURM_TIME_FORMAT=%s`` is set: seconds since 1970; the cluster is in this host's zone."""
    return "".join(map(_line_with_epochs, text.splitlines(keepends=True)))


@lru_cache(maxsize=10_000)  # the same lines are printed again and again
def _line_with_epochs(line: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", lambda t: str(int(datetime.fromisoformat(t[0]).timestamp())), line)


def _short(time: timedelta) -> str:
    """squeue's ``1-02:03:04``, ``2:03:04`` and ``3:04``."""
    hours, minutes, seconds = _parts(time)
    if time.days:
        return f"{time.days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _long(time: timedelta) -> str:
    """scontrol's ``1-02:03:04`` and ``02:03:04``."""
    hours, minutes, seconds = _parts(time)
    days = f"{time.days}-" if time.days else ""
    return f"{days}{hours:02}:{minutes:02}:{seconds:02}"


def _parts(time: timedelta) -> tuple[int, int, int]:
    return time.seconds // 3600, time.seconds // 60 % 60, time.seconds % 60


def uid(user: str) -> str:
    """The number of somebody's account; a made-up one where this host has no such account."""
    try:
        return str(pwd.getpwnam(user).pw_uid)
    except KeyError:
        return str(FIRST_UID + sum(user.encode()) % 1000)


def show_job(job: FakeJob, status: Status, now: datetime) -> str:
    """``scontrol --oneliner show job``, down to what a reader may want of it."""
    starts, ends = times(job, status)
    submitted = moment(job.when(status.submitted_s), "")
    node = job.node(status)
    waits_again = status.state == "PENDING" and status.run > 0
    restarts = status.run if waits_again else max(0, status.run - 1)
    gres = f"TresPerNode=gres:{job.options['gres']} " if "gres" in job.options else ""
    return (
        f"JobId={job.id} JobName={job.name} UserId={job.user}({uid(job.user)}) GroupId=hpcusers(20000) MCS_label=N/A"
        f" Priority={_priority(status)} Nice=0 Account=(null) QOS=normal JobState={status.state}"
        f" Reason={status.reason.replace(' ', '_')} Dependency=(null) Requeue={int('requeue' in job.options)}"
        f" Restarts={restarts} BatchFlag=1 Reboot=0"
        f" ExitCode={status.exit_code} RunTime={_long(_elapsed(job, status, now))} TimeLimit={_long(job.limit)}"
        f" TimeMin=N/A SubmitTime={submitted} EligibleTime={'Unknown' if status.held else submitted}"
        f" StartTime={moment(starts, 'Unknown')} EndTime={moment(ends, 'Unknown')} Deadline=N/A"
        f" Partition={job.partition.name} NodeList={node}{f' BatchHost={node}' if node else ''} NumNodes=1"
        f" NumCPUs={job.cores} NumTasks=1 CPUs/Task={job.cores} TRES={tres([job], node=1)}"
        f" {gres}\n"
    )


def show_config(now: datetime, settings: Mapping[str, str]) -> str:
    """``scontrol show config``, with a few of its 240 lines."""
    shown = {"ClusterName": "fake", "SLURM_VERSION": "22.05.8", "PrivateData": "none", **settings}
    lines = [f"{name:<23} = {shown[name]}\n" for name in sorted(shown, key=str.lower)]
    title = f"Configuration data as of {moment(now, '')}\n"
    return title + "".join(lines) + "\nSlurmctld(primary) at head is UP\n"


def tres(jobs: Sequence[FakeJob], node: int = 0) -> str:
    """What jobs have, as Slurm writes it."""
    cores = sum(job.cores for job in jobs)
    memory_mib = sum(job.memory_mib for job in jobs)
    gpus = sum(job.gpus for job in jobs)
    memory = f"{memory_mib // 1024}G" if memory_mib % 1024 == 0 else f"{memory_mib}M"
    billing = f",node={node},billing={cores}" if node else ""
    gres = f",gres/gpu={gpus}" if gpus else ""
    return f"cpu={cores},mem={memory}{billing}{gres}"


def show_node(name: str, partitions: Iterable[FakePartition], jobs: Sequence[FakeJob]) -> str:
    """``scontrol --oneliner --details show node`` of a node with the jobs that run on it."""
    cores = sum(job.cores for job in jobs)
    memory_mib = sum(job.memory_mib for job in jobs)
    gpus = sum(job.gpus for job in jobs)
    state = "MIXED" if jobs else "IDLE"
    if cores >= CORES:
        state = "ALLOCATED"
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=20  CPUAlloc={cores} CPUEfctv={CORES} CPUTot={CORES} CPULoad=0.10"
        f" AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:{GPUS} GresDrain=N/A GresUsed=gpu:{gpus}"
        f" NodeAddr={name} NodeHostName={name} Version=22.05.8 OS=Linux  RealMemory={MEMORY_MIB} AllocMem={memory_mib}"
        f" FreeMem={MEMORY_MIB - memory_mib} Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1"
        f" Owner=N/A MCS_label=N/A Partitions={','.join(p.name for p in partitions if name in p.nodes)} "
        f" CfgTRES=cpu={CORES},mem={MEMORY_MIB // 1024}G,billing={CORES},gres/gpu={GPUS}"
        f" AllocTRES={tres(jobs) if jobs else ''} CapWatts=n/a CurrentWatts=0 AveWatts=0\n"
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
