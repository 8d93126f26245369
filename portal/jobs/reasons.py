"""Why a job waits, in words: squeue(1), JOB REASON CODES. Others are shown as Slurm calls them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_REASONS = {
    "Resources": "all fitting GPUs, cores or memory are in use",
    "Priority": "other jobs are ahead in the queue",
    "Dependency": "the job that it depends on has not ended",
    "QOSMaxGRESPerUser": "you already use as many GPUs as one person may",
    "QOSMaxJobsPerUserLimit": "you already run as many jobs as one person may",
    "AssocGrpGRES": "your group already uses as many GPUs as it may",
    "ReqNodeNotAvail": "the nodes that would fit are down or reserved",
    "PartitionDown": "the partition is closed at the moment",
    "JobHeldAdmin": "an administrator holds the job until it is released",
    "JobHeldUser": "you hold the job yourself (scontrol hold); scontrol release lets it start",
    "JobArrayTaskLimit": "as many tasks of the array run as may at the same time",
    "BeginTime": "Slurm starts it again shortly",
    "Licenses": "a licence it needs is in use",
    "Reservation": "it waits for a reservation",
}

# The same page: reasons that do not end by themselves, in words that say so.
_NEVER = {
    "AccountNotAllowed": "the partition is closed to the account of the job",
    "QOSNotAllowed": "the partition is closed to the QOS of the job",
    "InvalidAccount": "Slurm does not know its account any more",
    "InvalidQOS": "Slurm does not know its QOS any more",
    "BadConstraints": "no node of the partition has what was asked for",
    "PartitionNodeLimit": "the partition does not allow so many nodes, or is closed to you",
    "PartitionTimeLimit": "the hours asked for are more than the partition allows",
    "DependencyNeverSatisfied": "the job that it depends on has failed",
    "ReservationDeleted": "its reservation is gone",
    "AssocMaxWallDurationPerJobLimit": "the hours asked for are more than your account allows",
    "QOSMaxWallDurationPerJobLimit": "the hours asked for are more than the QOS allows",
    "QOSMaxGRESPerJob": "the GPUs asked for are more than the QOS allows",
    "QOSMaxCpuPerJobLimit": "the cores asked for are more than the QOS allows",
    "QOSMaxMemoryPerJob": "the memory asked for is more than the QOS allows",
    "AssocMaxGRESPerJob": "the GPUs asked for are more than your account allows",
    "AssocMaxCpuPerJobLimit": "the cores asked for are more than your account allows",
    "AssocMaxMemPerJob": "the memory asked for is more than your account allows",
}
# In full sentences, as seen on 22.05 of a partition with AllowAccounts while EnforcePartLimits=NO.
_NEVER_BEGINS = ("Job's account ", "Job's QOS ", "User's group not permitted")


@dataclass(frozen=True)
class Waiting:
    """Why a job waits, without a full stop; ``is_lasting``: it does not end by itself."""

    text: str
    is_lasting: bool = False


def waiting(given: str) -> Waiting:
    """A reason of squeue's in words; it may have details: "ReqNodeNotAvail, UnavailableNodes:gn[01-02]"."""
    reason, _, details = given.partition(",")
    if given.startswith(_NEVER_BEGINS):
        return Waiting(given, is_lasting=True)
    if never := _NEVER.get(reason):
        return Waiting(f"{never} (Slurm's reason: {reason})", is_lasting=True)
    if known := _REASONS.get(reason):
        return Waiting(f"{known} ({details.strip()})" if details else known)
    return Waiting(f"Slurm's reason: {given}" if given else "Slurm is looking for a place")
