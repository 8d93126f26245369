"""Why a job waits: squeue(1), JOB REASON CODES; and why sbatch takes none. Slurm's own words are told, too. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from portal.errors import SubmitRefused
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

# Of slurm_errno.c and sbatch's opt.c; the same in 22.05 and 25.05.
_REFUSALS = {
    r"[Ii]nvalid partition": "There is no such partition: `sinfo --format=%R` names those that you see.",
    r"[Ii]nvalid account": "Slurm does not let you use this account there: `sacctmgr show associations user=$USER` "
    "names yours.",
    r"group not permitted|not permitted to use this partition": "This partition is closed to you: choose another one.",
    r"[Ii]nvalid generic resource|Invalid gres": "The nodes there have no such GPUs: ask for none, or elsewhere.",
    r"node configuration is not available|[Mm]ore processors requested": "No node there has so much: ask for fewer "
    "GPUs, cores or GB on each node, or for another partition.",
    r"time limit is invalid|exceeds partition time limit": "So many hours are not allowed there: ask for fewer.",
    r"Node count specification|Requested partition configuration": "The partition does not give so many nodes, or not "
    "so many hours: ask for fewer.",
    r"violates accounting/QOS policy|limit": "This is more than your account or QOS allows: ask for less.",
    r"look like a batch script": "The script's first line must name its interpreter, such as #!/bin/bash.",
    r"DOS line breaks": "The script has the line ends of Windows: `sed -i 's/\\r$//' FILE` takes them out.",
    r"[Ii]nvalid job array|array size": "Such an array is not allowed here: ask for smaller indexes.",
    r"[Uu]nable to open file|[Pp]ermission denied": "The file cannot be read.",
}


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


def refused(said: str) -> SubmitRefused:
    """The error for what ``sbatch`` said."""
    plain = "\n".join(line.removeprefix("sbatch: ").removeprefix("error: ") for line in said.strip().splitlines())
    words = next((words for pattern, words in _REFUSALS.items() if re.search(pattern, said)), "")
    first = f"Slurm did not accept the job. {words}".strip()
    return SubmitRefused(f"{first}\n{plain}" if plain else first, detail=plain)
