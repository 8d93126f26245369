"""The site's profiles as one person has them: what each fixes, and the site with that alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from portal.settings.groups import labels
from portal.settings.profile_tables import FixedTable, ProfileTable
from portal.settings.session_tables import PartitionTable
from portal.site import Identity, Site

LISTED = tuple(key for key in FixedTable.model_fields if key in PartitionTable.model_fields and key != "gpu")
_MOST = {"gpus": "gpus_max", "hours": "hours_max", "cores": "cores_max", "memory_gb": "memory_gb_max"}


def fixed_by(profile: ProfileTable | None) -> dict[str, object]:
    """The options that a profile fixes; without one, none."""
    return profile.fixed.values() if profile and profile.fixed else {}


def profiles_of(site: Site, identity: Identity) -> tuple[ProfileTable, ...]:
    """The profiles that this person may choose: by group, and only where a partition has what they fix."""
    seen = [one for one in site.profiles if not one.groups or identity.groups & labels(one.groups)]
    return tuple(one for one in seen if next(_partitions(site, identity, fixed_by(one)), None))


def profile_of(site: Site, identity: Identity, name: object) -> ProfileTable | None:
    """The profile of that name, where this person may choose it."""
    return next((one for one in profiles_of(site, identity) if one.name == name), None)


def narrowed(site: Site, identity: Identity, profile: ProfileTable | None) -> Site:
    """The site with what a profile leaves of it."""
    return site if profile is None else site.with_partitions(_partitions(site, identity, fixed_by(profile)))


def _partitions(site: Site, identity: Identity, fixed: Mapping[str, object]) -> Iterator[PartitionTable]:
    for partition in site.offered_to(identity):
        if _has(site, partition, fixed):
            most = {_MOST[key]: value for key, value in fixed.items() if key in _MOST}
            texts = {key: value for key, value in fixed.items() if key in ("gpu", *LISTED)}
            yield partition.model_copy(update=most | texts)


def _has(site: Site, partition: PartitionTable, fixed: Mapping[str, object]) -> bool:
    """Whether a partition has all that is fixed."""
    kind = str(fixed.get("gpu", ""))
    gpus = int(str(fixed.get("gpus", 0)))
    return (
        fixed.get("partition", partition.name) == partition.name
        and (not kind or kind in partition.kinds)
        and gpus <= site.gpus_max(partition, site.kind(partition, kind))
        and int(str(fixed.get("hours", 1))) <= site.hours_max(partition)
        and int(str(fixed.get("cores", 0))) <= (partition.cores_max or 0)
        and int(str(fixed.get("memory_gb", 0))) <= (partition.memory_gb_max or 0)
        and not (gpus and {"cores", "memory_gb"} & fixed.keys())
        and all(fixed[key] in (partition.offers(key) or ("",)) for key in LISTED if key in fixed)
    )
