"""A site as one person has it: without the partitions that Slurm keeps from this person. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from portal.limits.associations import Association
from portal.settings.session_tables import PartitionTable
from portal.site import Identity, Site
from portal.slurm.nodes import Partition

ANY = "*"  # in a list of the settings: all that Slurm's accounting has for the person


@dataclass(frozen=True)
class Known:
    """What is known of somebody in Slurm; what is not known limits nothing: Slurm itself has the last word.

    Attributes:
        groups: the UNIX groups; ``None`` = not known.
        associations: none where accounting is silent, has none of this person, or shows none.
        partitions: Slurm's partitions by name.
    """

    groups: frozenset[str] | None = None
    associations: Sequence[Association] = ()
    partitions: Mapping[str, Partition] = field(default_factory=dict)


def site_of(site: Site, identity: Identity, known: Known) -> Site:
    """The site with those partitions only that this person may use, each as it is for this person."""
    offered = site.offered_to(identity)
    return site.with_partitions(_as_known(one, known) for one in offered if _lets_in(one, known))


def _lets_in(offered: PartitionTable, known: Known) -> bool:
    """Whether Slurm lets this person into a partition, as far as that is known: slurm.conf(5), AllowGroups."""
    found = known.partitions.get(offered.name)
    if found is None:
        return True
    if found.allow_groups is not None and known.groups is not None and not found.allow_groups & known.groups:
        return False
    named = offered.offers("account")
    accounts = [name for name in named if name != ANY]
    if not named or ANY in named:
        accounts += [one.account for one in _associations(offered, known)]
    return not accounts or any(_account_fits(name, found) for name in accounts)


def _account_fits(account: str, partition: Partition | None) -> bool:
    if partition is None:
        return True
    is_allowed = partition.allow_accounts is None or account in partition.allow_accounts
    return is_allowed and account not in partition.deny_accounts


def _qos_fits(qos: str, partition: Partition | None) -> bool:
    if partition is None:
        return True
    return (partition.allow_qos is None or qos in partition.allow_qos) and qos not in partition.deny_qos


def _associations(offered: PartitionTable, known: Known) -> list[Association]:
    return [one for one in known.associations if one.partition in ("", offered.name)]


def _as_known(offered: PartitionTable, known: Known) -> PartitionTable:
    """The partition with the accounts and the QOS among which this person may really choose."""
    partition = known.partitions.get(offered.name)
    theirs = _associations(offered, known)
    accounts = [one.account for one in theirs if _account_fits(one.account, partition)]
    qos = sorted({name for one in theirs for name in one.qos if _qos_fits(name, partition)})
    update = {"account": _narrowed(offered.account, accounts), "qos": _narrowed(offered.qos, qos)}
    return offered.model_copy(update=update)


def _narrowed(offered: str | tuple[str, ...], theirs: Iterable[str]) -> str | tuple[str, ...]:
    """A list without what the person does not have; what is fixed, or what nothing is known of, stays as it is."""
    if isinstance(offered, str):
        return offered
    have = list(dict.fromkeys(theirs))
    named = [name for name in offered if name != ANY]
    if not have:
        return tuple(named)
    more = [name for name in have if name not in named] if ANY in offered else []
    return tuple([name for name in named if name in have] + more) or tuple(named)
