"""What one person may choose, as a JSON schema (draft 2020-12): the same declaration that the form and the check have.

The schema speaks of JSON's own types. What a form sends is taken beside it: numbers as text, and an empty text for what
was not chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from portal.options.declared import Option, Shape
from portal.options.profiles import fixed_by, narrowed, profiles_of
from portal.request import OPTIONS, USUAL, SessionRequest, fields_of
from portal.settings.profile_tables import ProfileTable
from portal.settings.session_tables import PartitionTable
from portal.site import Identity, Site

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "Options of a session"
Schema = dict[str, object]


def schema(site: Site, identity: Identity) -> Schema:
    """The schema of what :func:`portal.request.checked` lets through; ``site`` is as this person has it."""
    offered = site.offered_to(identity)
    made: Schema = {"$schema": DIALECT, "title": TITLE, "type": "object"}
    if not offered:
        return made | {"description": "No partition is open to this person.", "not": {}}
    known = [OPTIONS[name] for name in fields_of(site, identity)]
    rules = _rules(site, offered, known, {})
    if profiles := profiles_of(site, identity):
        own: Schema = {"properties": {"profile": {"const": USUAL}}}
        rules = [{"if": own, "then": {"allOf": rules}}, *(_of_profile(one, site, identity, known) for one in profiles)]
    return made | {
        "additionalProperties": False,
        "properties": {option.name: _everywhere(option, site, offered, identity) for option in known},
        "allOf": rules,
    }


def _rules(
    site: Site, offered: Sequence[PartitionTable], known: Sequence[Option], fixed: Mapping[str, object]
) -> list[Schema]:
    return [_where("partition", one.name, one is offered[0], _there(site, one, known, fixed)) for one in offered]


def _of_profile(profile: ProfileTable, site: Site, identity: Identity, known: Sequence[Option]) -> Schema:
    """What holds in a profile: what it fixes may be left out, or said as it is."""
    fixed = fixed_by(profile)
    there = narrowed(site, identity, profile)
    said: Schema = {"partition": {"enum": [*(one.name for one in there.partitions), USUAL]}}
    for option in (one for one in known if one.name in fixed and one.name != "partition"):
        unsaid = [0] if option.usual else [] if option.shape is Shape.NUMBER else [USUAL]
        said[option.name] = {"enum": [fixed[option.name], *unsaid]}
    then: Schema = {"properties": said, "allOf": _rules(there, there.offered_to(identity), known, fixed)}
    return _where("profile", profile.name, False, then)


def _everywhere(option: Option, site: Site, offered: Sequence[PartitionTable], identity: Identity) -> Schema:
    """One option with all that it may be in any partition."""
    told: Schema = {"title": option.label, "description": option.meaning}
    usual = getattr(SessionRequest().fill(site, identity), option.name)
    if option.shape is Shape.NUMBER:
        limits = [
            option.within(site, one, kind, gpus) for one in offered for kind in one.kinds or ("",) for gpus in (0, 1)
        ]
        lowest = min(limit[0] for limit in limits)
        highest = max(limit[1] for limit in limits)
        return told | {"type": "integer", "minimum": lowest, "maximum": highest, "default": usual}
    if option.name == "profile":
        found = [one.name for one in profiles_of(site, identity)]
        return told | {"type": "string", "enum": [*found, USUAL], "default": USUAL}
    lists = [[one.name] if option.name == "partition" else option.names(one) or ("",) for one in offered]
    names = list(dict.fromkeys(name for names in lists for name in names))
    return told | {"type": "string", "enum": [*names, USUAL], "default": usual or USUAL}


def _where(name: str, value: str, is_usual: bool, then: Schema) -> Schema:
    """What holds where an option is this one, also by being left out."""
    said: Schema = {"enum": [value, USUAL]} if is_usual else {"const": value}
    return {"if": {"properties": {name: said}} | ({} if is_usual else {"required": [name]}), "then": then}


def _there(site: Site, partition: PartitionTable, known: Sequence[Option], fixed: Mapping[str, object]) -> Schema:
    """What may be chosen in one partition."""
    there: Schema = {}
    for option in known:
        if option.shape is not Shape.NUMBER and not option.is_of_site:
            names = option.names(partition)
            there[option.name] = {"enum": [*(names or ("",)), USUAL]}
        elif option.name == "hours":
            there[option.name] = _limits(option.within(site, partition, "", 0)) | {
                "default": min(site.session.hours_default, site.hours_max(partition))
            }
    counts = [*_of_gpus(site, partition, fixed), *_of_share(site, partition, known, fixed)]
    return {"properties": there, "allOf": counts}


def _of_gpus(site: Site, partition: PartitionTable, fixed: Mapping[str, object]) -> Iterator[Schema]:
    """How many GPUs there may be, of each kind where there are several; one is asked for where nothing is said."""
    for kind in partition.kinds or ("",):
        lowest, highest = OPTIONS["gpus"].within(site, partition, kind, 0)
        then: Schema = {"properties": {"gpus": _limits((lowest, highest))}}
        if highest < SessionRequest().gpus and "gpus" not in fixed:
            then["required"] = ["gpus"]
        yield _where("gpu", kind, kind == partition.kinds[0], then) if len(partition.kinds) > 1 else then


def _of_share(
    site: Site, partition: PartitionTable, known: Sequence[Option], fixed: Mapping[str, object]
) -> Iterator[Schema]:
    """What may be chosen without a GPU, and comes by itself with one."""
    shares = [option for option in known if option.usual]
    if not shares:
        return
    without, with_gpus = (_shares(site, partition, shares, gpus) for gpus in (0, 1))
    if "gpus" in fixed:
        yield with_gpus if fixed["gpus"] else without
    else:
        is_without = {"properties": {"gpus": {"const": 0}}, "required": ["gpus"]}
        yield {"if": is_without, "then": without, "else": with_gpus}


def _shares(site: Site, partition: PartitionTable, shares: Sequence[Option], gpus: int) -> Schema:
    return {"properties": {option.name: _limits(option.within(site, partition, "", gpus)) for option in shares}}


def _limits(limits: tuple[int, int]) -> Schema:
    return {"minimum": limits[0], "maximum": limits[1]}
