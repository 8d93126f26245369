"""The fields that only some sites have: kinds of GPU, chosen cores and memory, account, QOS and the like. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from portal.errors import RequestError
from portal.language import amounts
from portal.language.texts import _
from portal.options.declared import Option, Shape
from portal.options.mail import TO_ADDRESS
from portal.request import OPTIONS, USUAL, SessionRequest
from portal.settings.session_tables import PartitionTable
from portal.site import Site


@dataclass(frozen=True)
class Choice:
    """One entry of a list: what is sent, what is read, whether it is the chosen one."""

    value: str
    text: str
    selected: bool


@dataclass(frozen=True)
class Select:
    """One field with a list of choices."""

    name: str
    label: str
    hint: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class NumberField:
    """One field for a number that may stay empty: then it is ``usual``."""

    name: str
    label: str
    unit: str
    most: int
    usual: str
    value: str


def still_offered(request: SessionRequest, site: Site, partition: PartitionTable) -> SessionRequest:
    """``request`` without the choices that its partition does not have any more."""
    changed: dict[str, object] = {}
    for name, option in OPTIONS.items():
        given = getattr(request, name)
        if option.usual:
            lowest, highest = option.within(site, partition, request.gpu, request.gpus)
            is_offered = lowest <= given <= highest
        else:
            is_offered = option.is_choice is None or option.is_of_site or given in option.names(partition)
        if not is_offered:
            changed[name] = option.default
    return replace(request, **changed)  # type: ignore[arg-type]


def numbers(
    site: Site,
    offered: Sequence[PartitionTable],
    chosen: SessionRequest,
    known: Collection[str],
    error: RequestError | None,
) -> Iterator[NumberField]:
    """Cores and memory of a session without a GPU, where they may be chosen."""
    for name, option in OPTIONS.items():
        if option.usual and name in known:
            usual = sorted({option.usual(site, one) for one in offered})
            most = max(option.within(site, one, "", 0)[1] for one in offered)
            given = str(error.given)[:40] if error and error.field == name else str(getattr(chosen, name) or "")
            yield NumberField(name, _(option.label), _(option.unit), most, _(" or ").join(map(str, usual)), given)


def selects(
    site: Site, offered: Sequence[PartitionTable], chosen: SessionRequest, known: Collection[str]
) -> Iterator[Select]:
    """The lists of choices: only what this person has to choose from somewhere."""
    for name, option in OPTIONS.items():
        is_list = option.shape is not Shape.NUMBER and not option.is_of_site
        found = tuple(_choices(option, site, offered, chosen)) if is_list and name in known else ()
        if len(found) > 1:
            yield Select(name, _(option.label), _(_hint(option, site)), found)


def _hint(option: Option, site: Site) -> str:
    """What stands below a list; whom Slurm writes to is not the same everywhere."""
    is_of_directory = option.name == "mail_type" and site.ldap is not None and site.ldap.mail_attribute
    return TO_ADDRESS if is_of_directory else option.hint


def _choices(option: Option, site: Site, offered: Sequence[PartitionTable], chosen: SessionRequest) -> Iterator[Choice]:
    """What may be chosen in any partition, each with the partitions that have it where not all do."""
    lists = {one.name: option.names(one) for one in offered}
    lists = {partition: values if len(values) > 1 else () for partition, values in lists.items()}
    given = getattr(chosen, option.name)
    current = None if given == option.default else given
    are_alike = len(set(lists.values())) == 1
    if not are_alike:
        yield Choice(USUAL, _("as usual in the partition"), current is None)
    elif current is None:
        current = next(iter(next(iter(lists.values()))), None)
    for value in dict.fromkeys(value for values in lists.values() for value in values):
        there = [partition for partition, values in lists.items() if value in values]
        where = "" if len(there) == len(lists) else _(" (in {partitions})").format(partitions=", ".join(there))
        shown = site.gpu(value).title if option.name == "gpu" else option.shown(value)
        yield Choice(value, (shown or _("none")) + where, value == current)


def share(site: Site, partition: PartitionTable) -> str:
    """``16 cores and 64 GB with each GPU``, for each kind where they differ."""
    kinds = [kind for kind in partition.kinds or ("",) if site.gpus_max(partition, kind)]
    if not kinds:
        return _share(site.cores(0, partition), site.memory_mib(0, partition))
    texts = {kind: _share(site.cores(1, partition, kind), site.memory_mib(1, partition, kind)) for kind in kinds}
    if len(set(texts.values())) == 1:
        return _("{share} with each GPU").format(share=texts[kinds[0]])
    each = _("{kind}: {share} each")
    return "; ".join(each.format(kind=site.gpu(kind).title, share=text) for kind, text in texts.items())


def _share(cores: int, memory_mib: int) -> str:
    return _("{cores} and {memory_gb} GB").format(cores=amounts.cores(cores), memory_gb=memory_mib // 1024)
