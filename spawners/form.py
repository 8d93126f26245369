"""The instance options as a form: values to HTML.

Pure functions. What is allowed is decided by :func:`portal.request.checked`, never here: the form only shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from portal.data import folder
from portal.errors import RequestError
from portal.forecasts.form_outlook import FormOutlook
from portal.language import amounts
from portal.language.templates import Translated
from portal.language.texts import _
from portal.limits import choices
from portal.request import OPTIONS, SessionRequest, fields_of
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
        return amounts.gpus(self.gpus)

    @property
    def comes_with(self) -> str:
        """``8 cores and 48 GB memory``."""
        if not self.cores:
            return _("with cores and memory")
        words = _("{cores} and {memory_gb} GB memory")
        return words.format(cores=amounts.cores(self.cores), memory_gb=self.memory_gb)


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
        hours = _("up to {hours} h").format(hours=self.hours_max)
        return ", ".join(filter(None, (hours, amounts.gpus_or_none(self.gpus_max), self.share)))


def render(
    site: Site,
    identity: Identity,
    saved: SessionRequest | None = None,
    error: RequestError | None = None,
    outlook: FormOutlook | None = None,
    opens: str = "",
    fixed: Collection[str] = (),
) -> str:
    """The fields of the form as HTML, with ``saved`` chosen, ``error`` shown at its field, and what is known of now.

    What ``saved`` holds and the site no longer offers falls back to the default, field by field. ``opens`` is where the
    session shall open, which a link to the same form keeps. ``fixed`` are the options that a profile
    fixes, as ``saved`` has them: of these there is nothing to choose.
    """
    to_person = site.offered_to(identity)
    known = fields_of(site, identity)
    chosen = offered(saved or SessionRequest(), site, to_person)
    are_alike = all(len(_shares(site, to_person, gpus)) <= 1 for gpus in (0, 1))
    return filled(
        "options_form.html",
        site=site,
        told=OPTIONS,
        fixed=fixed,
        profile=chosen.profile,
        gpus=[one for one in _gpu_choices(site, to_person, chosen) if one.checked or "gpus" not in fixed],
        partitions=[_partition_choice(site, partition, chosen, are_alike) for partition in to_person],
        hours=_short(error.given) if error and error.field == "hours" and "hours" not in fixed else chosen.hours,
        numbers=[one for one in choices.numbers(site, to_person, chosen, known, error) if one.name not in fixed],
        selects=list(choices.selects(site, to_person, chosen, known)),
        hours_max=max((site.hours_max(partition) for partition in to_person), default=site.session.hours_max),
        outlook=outlook,
        fewer_link=fewer_link(chosen, outlook.fewer, opens) if outlook and outlook.fewer else "",
        error=error,
        given=_short(error.given) if error else "",
    )


def fewer_link(chosen: SessionRequest, gpus: int, opens: str = "") -> str:
    """The address of the form, from itself, with fewer GPUs filled in and all other choices as they are."""
    return f"?{query(replace(chosen, gpus=gpus).as_options(), opens)}"


def query(choices_made: Mapping[str, object], opens: str = "") -> str:
    """The choices of a link, and where the session opens: ``opt-partition=gpu&opt-gpus=2&next=/user/...``."""
    made = {f"opt-{key}": str(value) for key, value in choices_made.items()}
    return urlencode(made | ({"next": opens} if opens else {}))


def offered(request: SessionRequest, site: Site, to_person: Sequence[PartitionTable]) -> SessionRequest:
    """``request`` moved, field by field, to what this person may have."""
    if not to_person:
        return request
    partition = next((p for p in to_person if p.name == request.partition), to_person[0])
    hours_max = site.hours_max(partition)
    hours = request.hours if 1 <= request.hours <= hours_max else min(site.session.hours_default, hours_max)
    kind = request.gpu if request.gpu in partition.kinds else ""
    gpus = min(max(request.gpus, 0), site.gpus_max(partition, site.kind(partition, kind)))
    own = replace(request, partition=partition.name, gpus=gpus, hours=hours, gpu=kind)
    return choices.still_offered(own, site, partition)


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


def filled(name: str, **values: object) -> str:
    """A part of the form, with these values in it."""
    return _template(name).render(**values)


@cache
def _template(name: str) -> Template:
    loader = FileSystemLoader(folder("templates") / "hub")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, extensions=[Translated]
    )
    return environment.get_template(name)
