"""Why a job waits, in words: squeue(1), JOB REASON CODES. Others are shown as Slurm calls them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from portal.language.texts import N_, _

_REASONS = {
    "Resources": N_("all fitting GPUs, cores or memory are in use"),
    "Priority": N_("other jobs are ahead in the queue"),
    "Dependency": N_("the job that it depends on has not ended"),
    "QOSMaxGRESPerUser": N_("you already use as many GPUs as one person may"),
    "QOSMaxJobsPerUserLimit": N_("you already run as many jobs as one person may"),
    "AssocGrpGRES": N_("your group already uses as many GPUs as it may"),
    "ReqNodeNotAvail": N_("the nodes that would fit are down or reserved"),
    "PartitionDown": N_("the partition is closed at the moment"),
    "JobHeldAdmin": N_("an administrator holds the job until it is released"),
    "JobHeldUser": N_("you hold the job yourself (scontrol hold); scontrol release lets it start"),
    "JobArrayTaskLimit": N_("as many tasks of the array run as may at the same time"),
    "BeginTime": N_("Slurm starts it again shortly"),
    "Licenses": N_("a licence it needs is in use"),
    "Reservation": N_("it waits for a reservation"),
}

# The same page: reasons that do not end by themselves, in words that say so.
_NEVER = {
    "AccountNotAllowed": N_("the partition is closed to the account of the job"),
    "QOSNotAllowed": N_("the partition is closed to the QOS of the job"),
    "InvalidAccount": N_("Slurm does not know its account any more"),
    "InvalidQOS": N_("Slurm does not know its QOS any more"),
    "BadConstraints": N_("no node of the partition has what was asked for"),
    "PartitionNodeLimit": N_("the partition does not allow so many nodes, or is closed to you"),
    "PartitionTimeLimit": N_("the hours asked for are more than the partition allows"),
    "DependencyNeverSatisfied": N_("the job that it depends on has failed"),
    "ReservationDeleted": N_("its reservation is gone"),
    "AssocMaxWallDurationPerJobLimit": N_("the hours asked for are more than your account allows"),
    "QOSMaxWallDurationPerJobLimit": N_("the hours asked for are more than the QOS allows"),
    "QOSMaxGRESPerJob": N_("the GPUs asked for are more than the QOS allows"),
    "QOSMaxCpuPerJobLimit": N_("the cores asked for are more than the QOS allows"),
    "QOSMaxMemoryPerJob": N_("the memory asked for is more than the QOS allows"),
    "AssocMaxGRESPerJob": N_("the GPUs asked for are more than your account allows"),
    "AssocMaxCpuPerJobLimit": N_("the cores asked for are more than your account allows"),
    "AssocMaxMemPerJob": N_("the memory asked for is more than your account allows"),
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
    reason, _comma, details = given.partition(",")
    slurms = _("Slurm's reason: {reason}")
    if given.startswith(_NEVER_BEGINS):
        return Waiting(given, is_lasting=True)
    if never := _NEVER.get(reason):
        return Waiting(f"{_(never)} ({slurms.format(reason=reason)})", is_lasting=True)
    if known := _REASONS.get(reason):
        return Waiting(f"{_(known)} ({details.strip()})" if details else _(known))
    return Waiting(slurms.format(reason=given) if given else _("Slurm is looking for a place"))
