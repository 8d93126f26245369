"""The instance options as a form: values to HTML.

Pure functions. What is allowed is decided by :func:`portal.request.checked`, never here: the form only shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from portal.data import folder
from portal.errors import RequestError
from portal.request import SessionRequest
from portal.settings.session_tables import PartitionTable
from portal.site import Identity, Site


@dataclass(frozen=True)
class GpuChoice:
    """One number of GPUs, and what comes with it."""

    gpus: int
    cores: int
    memory_gb: int
    checked: bool

    @property
    def title(self) -> str:
        """``1 GPU``, ``4 GPUs``."""
        return "1 GPU" if self.gpus == 1 else f"{self.gpus} GPUs"

    @property
    def comes_with(self) -> str:
        """``8 cores and 48 GB memory``."""
        return f"{self.cores} cores and {self.memory_gb} GB memory"


@dataclass(frozen=True)
class PartitionChoice:
    """One partition that this person may use, with its limits."""

    name: str
    title: str
    gpus_max: int
    hours_max: int
    checked: bool

    @property
    def limits(self) -> str:
        """``up to 24 h, 4 GPUs``."""
        gpus = {0: "no GPU", 1: "1 GPU"}.get(self.gpus_max, f"{self.gpus_max} GPUs")
        return f"up to {self.hours_max} h, {gpus}"


def render(
    site: Site, identity: Identity, saved: SessionRequest | None = None, error: RequestError | None = None
) -> str:
    """The fields of the form as HTML, with ``saved`` chosen and ``error`` shown at its field.

    What ``saved`` holds and the site no longer offers falls back to the default, field by field.
    """
    offered = site.offered_to(identity)
    chosen = _offered(saved or SessionRequest(), site, offered)
    return _template().render(
        site=site,
        gpus=list(_gpu_choices(site, offered, chosen)),
        partitions=[_partition_choice(site, partition, chosen) for partition in offered],
        hours=chosen.hours if error is None or error.field != "hours" else _short(error.given),
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
    gpus = min(max(request.gpus, 0), site.gpus_max(partition))
    return SessionRequest(partition=partition.name, gpus=gpus, hours=hours)


def _gpu_choices(site: Site, offered: Sequence[PartitionTable], chosen: SessionRequest) -> Iterator[GpuChoice]:
    most = max((site.gpus_max(partition) for partition in offered), default=0)
    for gpus in range(most + 1):
        yield GpuChoice(gpus, site.cores(gpus), site.memory_mib(gpus) // 1024, gpus == chosen.gpus)


def _partition_choice(site: Site, partition: PartitionTable, chosen: SessionRequest) -> PartitionChoice:
    kind = next((gpu.title for gpu in site.gpus if gpu.name == partition.gpu), "")
    title = " · ".join(text for text in (partition.title, kind) if text)
    checked = partition.name == chosen.partition
    return PartitionChoice(partition.name, title, site.gpus_max(partition), site.hours_max(partition), checked)


def _short(given: object) -> str:
    """A value as it was given, short enough to stand in a page."""
    text = str(given)
    return text if len(text) <= 40 else f"{text[:39]}…"


@cache
def _template() -> Template:
    loader = FileSystemLoader(folder("templates") / "hub")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("options_form.html")
