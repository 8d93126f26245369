"""The instance options as a form: values to HTML.

Pure functions. What is allowed is decided by :func:`portal.request.checked`, never here: the form only shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from portal.data import folder
from portal.errors import RequestError
from portal.limits import choices
from portal.request import SessionRequest, fields_of
from portal.settings.session_tables import PartitionTable
from portal.site import Identity, Site


@dataclass(frozen=True)
class GpuChoice:
    """One number of GPUs, and what comes with it."""

    gpus: int
    checked: bool
    cores: int = 0  # 0: not the same everywhere, so that it stands beside the partitions
    memory_gb: int = 0

    @property
    def title(self) -> str:
        """``1 GPU``, ``4 GPUs``."""
        return "1 GPU" if self.gpus == 1 else f"{self.gpus} GPUs"

    @property
    def comes_with(self) -> str:
        """``8 cores and 48 GB memory``."""
        return f"{self.cores} cores and {self.memory_gb} GB memory" if self.cores else "with cores and memory"


@dataclass(frozen=True)
class PartitionChoice:
    """One partition that this person may use, with its limits."""

    name: str
    title: str
    gpus_max: int
    hours_max: int
    checked: bool
    share: str = ""  # "", or "16 cores and 64 GB with each GPU", where partitions are not alike

    @property
    def limits(self) -> str:
        """``up to 24 h, 4 GPUs``."""
        gpus = {0: "no GPU", 1: "1 GPU"}.get(self.gpus_max, f"{self.gpus_max} GPUs")
        return ", ".join(filter(None, (f"up to {self.hours_max} h", gpus, self.share)))


def render(
    site: Site, identity: Identity, saved: SessionRequest | None = None, error: RequestError | None = None
) -> str:
    """The fields of the form as HTML, with ``saved`` chosen and ``error`` shown at its field.

    What ``saved`` holds and the site no longer offers falls back to the default, field by field.
    """
    offered = site.offered_to(identity)
    known = fields_of(site, identity)
    chosen = _offered(saved or SessionRequest(), site, offered)
    are_alike = all(len(_shares(site, offered, gpus)) <= 1 for gpus in (0, 1))
    return _template().render(
        site=site,
        gpus=list(_gpu_choices(site, offered, chosen)),
        partitions=[_partition_choice(site, partition, chosen, are_alike) for partition in offered],
        hours=chosen.hours if error is None or error.field != "hours" else _short(error.given),
        numbers=list(choices.numbers(site, offered, chosen, known, error)),
        selects=list(choices.selects(site, offered, chosen, known)),
        hours_max=max((site.hours_max(partition) for partition in offered), default=site.session.hours_max),
        error=error,
        given=_short(error.given) if error else "",
    )


def _offered(request: SessionRequest, site: Site, offered: Sequence[PartitionTable]) -> SessionRequest:
    """``request`` moved, field by field, to what this person may have."""
    if not offered:
        return request
    partition = next((p for p in offered if p.name == request.partition), offered[0])
    hours_max = site.hours_max(partition)
    hours = request.hours if 1 <= request.hours <= hours_max else min(site.session.hours_default, hours_max)
    kind = request.gpu if request.gpu in partition.kinds else ""
    gpus = min(max(request.gpus, 0), site.gpus_max(partition, site.kind(partition, kind)))
    own = replace(request, partition=partition.name, gpus=gpus, hours=hours, gpu=kind)
    return choices.still_offered(own, partition)


def _shares(site: Site, offered: Sequence[PartitionTable], gpus: int) -> set[tuple[int, int]]:
    """The cores and the memory that come with so many GPUs, in each partition and of each kind."""
    return {
        (site.cores(gpus, one, kind), site.memory_mib(gpus, one, kind) // 1024)
        for one in offered
        for kind in one.kinds or ("",)
        if site.gpus_max(one, kind) >= gpus
    }


def _gpu_choices(site: Site, offered: Sequence[PartitionTable], chosen: SessionRequest) -> Iterator[GpuChoice]:
    most = max((site.gpus_max(one, kind) for one in offered for kind in one.kinds or ("",)), default=0)
    shares = [_shares(site, offered, gpus) for gpus in range(most + 1)]
    are_alike = all(len(share) == 1 for share in shares[1:])
    for gpus, share in enumerate(shares):
        is_shown = are_alike if gpus else len(share) == 1
        yield GpuChoice(gpus, gpus == chosen.gpus, *(share.pop() if is_shown else (0, 0)))


def _partition_choice(
    site: Site, partition: PartitionTable, chosen: SessionRequest, are_alike: bool
) -> PartitionChoice:
    kinds = [site.gpu(kind).title for kind in partition.kinds]
    title = " · ".join(text for text in (partition.title, *kinds) if text)
    checked = partition.name == chosen.partition
    gpus_max = max(site.gpus_max(partition, kind) for kind in partition.kinds or ("",))
    share = "" if are_alike else choices.share(site, partition)
    return PartitionChoice(partition.name, title, gpus_max, site.hours_max(partition), checked, share)


def _short(given: object) -> str:
    """A value as it was given, short enough to stand in a page."""
    text = str(given)
    return text if len(text) <= 40 else f"{text[:39]}…"


@cache
def _template() -> Template:
    loader = FileSystemLoader(folder("templates") / "hub")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("options_form.html")
