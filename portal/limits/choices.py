"""The fields that only some sites have: kinds of GPU, chosen cores and memory, account, QOS and the like. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from portal.errors import RequestError
from portal.request import USUAL, SessionRequest
from portal.settings.session_tables import CHOICES, PartitionTable
from portal.site import Site

_LABELS = {
    "gpu": ("Kind of GPU", "Which GPUs of the partition."),
    "account": ("Account", "Slurm counts the session against it."),
    "qos": ("QOS", "Its limits and its priority, as your site has set them."),
    "reservation": ("Reservation", "Nodes that are kept for a group or a course."),
    "constraint": ("Nodes", "What the node must have."),
    "licenses": ("Licences", "The session waits until one is free."),
}


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


def still_offered(request: SessionRequest, partition: PartitionTable) -> SessionRequest:
    """``request`` without the choices that its partition does not have any more."""
    changed: dict[str, object] = {}
    for key, most in (("cores", partition.cores_max), ("memory_gb", partition.memory_gb_max)):
        if request.gpus or not 0 <= getattr(request, key) <= (most or 0):
            changed[key] = 0
    for key in CHOICES:
        if getattr(request, key) not in partition.offers(key):
            changed[key] = None
    return replace(request, **changed)  # type: ignore[arg-type]


def numbers(
    site: Site,
    offered: Sequence[PartitionTable],
    chosen: SessionRequest,
    known: Collection[str],
    error: RequestError | None,
) -> Iterator[NumberField]:
    """Cores and memory of a session without a GPU, where they may be chosen."""
    usual_cores = {str(site.cores(0, one)) for one in offered}
    usual_gb = {str(site.memory_mib(0, one) // 1024) for one in offered}
    for name, label, unit, usual in (
        ("cores", "CPU cores without a GPU", "cores", usual_cores),
        ("memory_gb", "Memory without a GPU", "GB", usual_gb),
    ):
        if name in known:
            most = max(getattr(one, f"{name}_max") or 0 for one in offered)
            given = str(error.given)[:40] if error and error.field == name else str(getattr(chosen, name) or "")
            yield NumberField(name, label, unit, most, " or ".join(sorted(usual, key=int)), given)


def selects(
    site: Site, offered: Sequence[PartitionTable], chosen: SessionRequest, known: Collection[str]
) -> Iterator[Select]:
    """The lists of choices: only what this person has to choose from somewhere."""
    for name, (label, hint) in _LABELS.items():
        found = tuple(_choices(name, site, offered, chosen)) if name in known else ()
        if len(found) > 1:
            yield Select(name, label, hint, found)


def _choices(name: str, site: Site, offered: Sequence[PartitionTable], chosen: SessionRequest) -> Iterator[Choice]:
    """What may be chosen in any partition, each with the partitions that have it where not all do."""
    lists = {one.name: one.kinds if name == "gpu" else one.offers(name) for one in offered}
    lists = {partition: values if len(values) > 1 else () for partition, values in lists.items()}
    current = getattr(chosen, name) if name in CHOICES else chosen.gpu or None
    are_alike = len(set(lists.values())) == 1
    if not are_alike:
        yield Choice(USUAL, "as usual in the partition", current is None)
    elif current is None:
        current = next(iter(next(iter(lists.values()))), None)
    for value in dict.fromkeys(value for values in lists.values() for value in values):
        there = [partition for partition, values in lists.items() if value in values]
        where = "" if len(there) == len(lists) else f" (in {', '.join(there)})"
        shown = site.gpu(value).title if name == "gpu" else value
        yield Choice(value, f"{shown or 'none'}{where}", value == current)


def share(site: Site, partition: PartitionTable) -> str:
    """``16 cores and 64 GB with each GPU``, for each kind where they differ."""
    kinds = [kind for kind in partition.kinds or ("",) if site.gpus_max(partition, kind)]
    if not kinds:
        return f"{site.cores(0, partition)} cores and {site.memory_mib(0, partition) // 1024} GB"
    texts = {
        kind: f"{site.cores(1, partition, kind)} cores and {site.memory_mib(1, partition, kind) // 1024} GB"
        for kind in kinds
    }
    if len(set(texts.values())) == 1:
        return f"{texts[kinds[0]]} with each GPU"
    return "; ".join(f"{site.gpu(kind).title}: {text} each" for kind, text in texts.items())
