"""Who may use which account and QOS: sacctmgr's associations, all of them in one answer that is kept."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from portal.errors import SlurmUnavailable
from portal.language.texts import N_
from portal.slurm.snapshot import Snapshot

log = logging.getLogger(__name__)
_ACCOUNT = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"  # those that a session may be counted against (the launcher's rule)
_LINE = re.compile(rf"([^|]+)\|({_ACCOUNT})\|([^|]*)\|([^|]*)\|([^|]*)\Z")
_IS_TOLD = threading.Event()


@dataclass(frozen=True)
class Association:
    """One person in one account: the partition that it is for (``""`` = all), and the QOS that may be used."""

    account: str
    partition: str
    qos: tuple[str, ...]


@dataclass(frozen=True)
class AssociationsSnapshot(Snapshot):
    """The associations at one moment, by person; nobody's while nothing is known."""

    of: Mapping[str, tuple[Association, ...]] = field(default_factory=dict)


def cluster_command() -> tuple[str, ...]:
    """Ask what Slurm itself calls this cluster: one slurmdbd may serve several."""
    return ("scontrol", "show", "config")


def parse_cluster(stdout: str) -> str:
    """The cluster's name in ``scontrol show config``.

    Raises:
        SlurmUnavailable: it is not there.
    """
    found = re.search(r"^ClusterName\s*= (\S+)$", stdout, re.MULTILINE)
    if not found:
        raise SlurmUnavailable(
            N_("Slurm's answer cannot be read just now."), detail="scontrol show config: no ClusterName"
        )
    return found[1]


def associations_command(cluster: str) -> tuple[str, ...]:
    """List who may use which account with which QOS. Source: sacctmgr(1); the same from 22.05 to 25.11."""
    columns = "format=user,account,partition,qos,cluster"
    return ("sacctmgr", "--noheader", "--parsable2", "show", "associations", f"clusters={cluster}", columns)


def parse_associations(stdout: str) -> Mapping[str, tuple[Association, ...]]:
    """The associations by person; lines of accounts, which have no person, are passed over.

    So is what is no association of an account that a session can have: the coordinator of an account names those below
    it, and Slurm takes any text. The log has the first such line.

    Raises:
        SlurmUnavailable: nothing of it is as asked for.
    """
    odd = []
    found: dict[str, list[Association]] = {}
    for line in filter(None, stdout.split("\n")):
        if line.startswith("|"):
            continue
        read = _LINE.match(line)
        if not read:
            odd.append(f"sacctmgr printed {line[:200]!r}")
            continue
        person, account, partition, qos, _ = read.groups()
        names = tuple(name for name in qos.split(",") if name)
        found.setdefault(person, []).append(Association(account, partition, names))
    if odd and not found:
        raise SlurmUnavailable(N_("Slurm's answer cannot be read."), detail=odd[0])
    if odd and not _IS_TOLD.is_set():
        log.warning("Slurm lists accounts that no session can have, and they are passed over: %s", odd[0])
        _IS_TOLD.set()
    return {person: tuple(theirs) for person, theirs in found.items()}
