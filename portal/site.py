"""The site: what one cluster offers, read from one TOML file.

:func:`parse` reports all faults of a file at once, each naming the key, the value given and what is allowed. The
tables are in :mod:`portal.settings`; ``deploy/site/site.toml.example`` shows every key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from portal.errors import SiteError
from portal.settings import faults
from portal.settings.extend_table import ExtendTable
from portal.settings.groups import labels
from portal.settings.kernel_tables import EnvironmentsTable, KernelsTable, KernelTable, NotebooksTable, ToolTable
from portal.settings.ldap_table import LdapTable
from portal.settings.portal_tables import ClusterTable, PortalTable
from portal.settings.profile_tables import ProfileTable
from portal.settings.quota_table import QuotaTable
from portal.settings.session_tables import (
    GpuTable,
    PartitionTable,
    RuleTable,
    SessionRuleTable,
    SessionTable,
    StorageTable,
)
from portal.settings.values import Table


@dataclass(frozen=True)
class Identity:
    """A person who logged in: the user name, the names of the groups, and whether an administrator."""

    name: str
    groups: frozenset[str] = frozenset()
    admin: bool = False


@dataclass(frozen=True)
class Standing:
    """What is known of a person who may be logged in.

    Attributes:
        left: why this person may not use the portal any more; ``""`` while she may.
        is_sure: whether that is certain enough to end logins and sessions, or only to refuse while it lasts.
        groups: the names of the groups; ``None`` when they were not looked up.
        admin: whether an administrator.
        password_set: when the password was set, in an order of its own; ``""`` when that is not told.
    """

    left: str = ""
    is_sure: bool = True
    groups: frozenset[str] | None = None
    admin: bool = False
    password_set: str = ""


class Site(Table):
    """Everything one site sets."""

    cluster: ClusterTable = ClusterTable()
    portal: PortalTable = PortalTable()
    session: SessionTable = SessionTable()
    extend: ExtendTable = ExtendTable()
    gpus: tuple[GpuTable, ...] = Field(default=(), alias="gpu")
    partitions: tuple[PartitionTable, ...] = Field(default=(), alias="partition")
    profiles: tuple[ProfileTable, ...] = Field(default=(), alias="profile")
    storage: tuple[StorageTable, ...] = ()
    quota: QuotaTable = QuotaTable()
    kernels: KernelsTable = KernelsTable()
    kernel: tuple[KernelTable, ...] = ()
    environments: EnvironmentsTable = EnvironmentsTable()
    tool: tuple[ToolTable, ...] = ()
    notebooks: NotebooksTable = NotebooksTable()
    ldap: LdapTable | None = None

    def offered_to(self, identity: Identity) -> tuple[PartitionTable, ...]:
        """The partitions that this person may use, the default one first."""
        open_to = [p for p in self.partitions if not p.groups or identity.groups & labels(p.groups)]
        found = [p.for_person(identity.name, identity.groups) for p in open_to]
        return tuple(sorted(found, key=lambda p: not p.default))

    def with_partitions(self, partitions: Iterable[PartitionTable]) -> Site:
        """The same site with these partitions: what one person has of it."""
        return self.model_copy(update={"partitions": tuple(partitions)})

    @property
    def groups_mentioned(self) -> tuple[str, ...]:
        """The groups that partitions, rules, profiles, kernels and tools are for, as the settings name them."""
        parts = [(p.groups, *(rule.groups for rule in p.rule)) for p in self.partitions]
        others = [*(one.groups for one in self.profiles), *(one.groups for one in self.kernel)]
        found = [group for part in (*parts, others) for groups in part for group in groups]
        of_tools = [group for tool in self.tool for group in tool.groups]
        return (*found, *self.session.rule_groups, *self.extend.groups, *of_tools)

    def kernels_path(self, groups: Collection[str]) -> str:
        """The folders of kernelspecs that somebody with these groups sees, as ``JUPYTER_PATH`` has them."""
        shelves = [kernel.shelf for kernel in self.kernel if kernel.shelf and kernel.is_open_to(groups)]
        return ":".join([self.kernels.folder, *(f"{self.kernels.folder}/{shelf}" for shelf in shelves)])

    @property
    def has_several_sessions(self) -> bool:
        """Whether anybody may have more than one session at a time."""
        return max(self.session.sessions_max, *(rule.sessions_max for rule in self.session.rule), 1) > 1

    def sessions_max(self, identity: Identity) -> int:
        """How many sessions this person may have at a time."""
        rules = (rule for rule in self.session.rule if rule.fits(identity.name, identity.groups))
        return next((rule.sessions_max for rule in rules), self.session.sessions_max)

    def partition(self, name: str) -> PartitionTable:
        """The partition called ``name``; raises ``KeyError`` when the site has none."""
        for partition in self.partitions:
            if partition.name == name:
                return partition
        raise KeyError(name)

    def hours_max(self, partition: PartitionTable) -> int:
        """The longest session in ``partition``, in hours."""
        return min(self.session.hours_max, partition.hours_max or self.session.hours_max)

    def gpus_max(self, partition: PartitionTable, kind: str = "") -> int:
        """The most GPUs one session may have in ``partition``, of a kind where one is named."""
        limits = [self.session.gpus_max, partition.gpus_max, self.gpu(kind).gpus_max if kind else None]
        return min(limit for limit in limits if limit is not None)

    def gpu(self, name: str) -> GpuTable:
        """The kind of GPU called ``name``; where the site has none, whatever Slurm gives."""
        return next((gpu for gpu in self.gpus if gpu.name == name), GpuTable(name="gpu", title=""))

    def kind(self, partition: PartitionTable | None, chosen: str = "") -> str:
        """The kind of a session's GPUs in ``partition``: the chosen one, or its first; ``""`` is any."""
        kinds = partition.kinds if partition else ()
        return chosen if chosen in kinds else next(iter(kinds), "")

    def gres(self, partition: PartitionTable, kind: str = "") -> str:
        """The name that ``--gres`` wants for a GPU of ``partition``: ``gpu`` or ``gpu:KIND``."""
        return self.gpu(self.kind(partition, kind)).gres

    def cores(self, gpus: int, partition: PartitionTable | None = None, kind: str = "") -> int:
        """CPU cores that come with ``gpus`` GPUs: as the partition says, or the kind of GPU, or ``[session]``."""
        if gpus == 0:
            return (partition and partition.cores_without_gpu) or self.session.cores_without_gpu
        own = self.gpu(self.kind(partition, kind)).cores_per_gpu
        return gpus * ((partition and partition.cores_per_gpu) or own or self.session.cores_per_gpu)

    def memory_mib(self, gpus: int, partition: PartitionTable | None = None, kind: str = "") -> int:
        """Memory that comes with ``gpus`` GPUs, in MiB: as :meth:`cores`."""
        if gpus == 0:
            return ((partition and partition.memory_gb_without_gpu) or self.session.memory_gb_without_gpu) * 1024
        own = self.gpu(self.kind(partition, kind)).memory_gb_per_gpu
        return gpus * ((partition and partition.memory_gb_per_gpu) or own or self.session.memory_gb_per_gpu) * 1024


def load(path: str) -> Site:
    """Read a settings file.

    Raises:
        SiteError: the file cannot be read, is not TOML, or has faults; all of them are in the error.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123  one of the two places that may name a file
            tables = tomllib.load(file)
    except OSError as error:
        raise SiteError(path, [f"cannot be read: {error.strerror}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SiteError(path, [f"is not TOML: {error}"]) from error
    return parse(tables, source=path)


def parse(tables: dict[str, Any], source: str = "settings") -> Site:
    """Check the tables of a settings file and make a :class:`Site` of them.

    Raises:
        SiteError: with one sentence for each fault.
    """
    try:
        site = Site.model_validate(_tuples(tables))
    except ValidationError as error:
        raise SiteError(source, faults.sentences(error, Site)) from error
    if found := list(_contradictions(site)):
        raise SiteError(source, found)
    return site


def _tuples(value: Any) -> Any:
    """TOML's lists as tuples: strict validation takes no list for a tuple."""
    if isinstance(value, dict):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(_tuples(inner) for inner in value) if isinstance(value, list) else value


def _contradictions(site: Site) -> Iterator[str]:
    """Faults that only show when two values are seen together."""
    for table, names in (
        ("partition", [p.name for p in site.partitions]),
        ("storage", [s.name for s in site.storage]),
        ("kernel", [k.name for k in site.kernel]),
        ("tool", [t.name for t in site.tool]),
        ("gpu", [g.name for g in site.gpus]),
        ("profile", [p.name for p in site.profiles]),
    ):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{table}: the name '{name}' stands {names.count(name)} times; allowed: once"
    kinds = {gpu.name for gpu in site.gpus}
    for position, partition in enumerate(site.partitions, start=1):
        for unknown in [kind for kind in partition.kinds if kind not in kinds]:
            known = ", ".join(sorted(kinds)) or "none is defined"
            yield f"partition[{position}].gpu: {unknown!r} is not a [[gpu]]; known: {known}"
        yield from _of_cpu_sessions(site, partition, f"partition[{position}]")
        yield from _for_nobody(f"partition[{position}]", partition.rule)
    yield from _for_nobody("session", site.session.rule)
    yield from _of_profiles(site)
    yield from _of_what_is_started("kernel", site.kernel)
    yield from _of_what_is_started("tool", site.tool)
    if site.session.hours_default > site.session.hours_max:
        allowed = f"1 to session.hours_max ({site.session.hours_max})"
        yield f"session.hours_default: {site.session.hours_default} is not possible; allowed: {allowed}"
    if sum(p.default for p in site.partitions) > 1:
        yield "partition: more than one has default = true; allowed: one"
    if bool(site.portal.certificate) != bool(site.portal.key):
        yield "portal.certificate, portal.key: HTTPS needs both; allowed: both or neither"
    if site.portal.database_password_file and not site.portal.database_url:
        yield "portal.database_password_file: there is no server to log in to; allowed: only with portal.database_url"
    if site.portal.database_ca_file and not site.portal.database_url:
        yield "portal.database_ca_file: there is no server to speak TLS with; allowed: only with portal.database_url"
    if site.portal.redirect_port and not site.portal.certificate:
        yield "portal.redirect_port: there is no HTTPS to lead to; allowed: 0, or certificate and key beside it"
    if site.portal.redirect_port in (site.portal.port, site.portal.hub_port, site.portal.proxy_port):
        yield f"portal.redirect_port: {site.portal.redirect_port} is another port of the portal; allowed: a free one"
    if site.ldap:
        yield from site.ldap.contradictions()
    if site.ldap and site.ldap.capitals == "keep" and site.portal.domain:
        yield "ldap.capitals: 'keep' is not possible with portal.domain: host names have no capitals; allowed: 'lower'"


def _for_nobody(table: str, rules: Sequence[RuleTable | SessionRuleTable]) -> Iterator[str]:
    for number, rule in enumerate(rules, start=1):
        if not rule.groups and not rule.people:
            yield f"{table}.rule[{number}]: it fits nobody; allowed: groups or people that it is for"


def _of_what_is_started(table: str, entries: Sequence[KernelTable | ToolTable]) -> Iterator[str]:
    for position, entry in enumerate(entries, start=1):
        yield from (f"{table}[{position}].{fault}" for fault in entry.contradictions())


def _of_profiles(site: Site) -> Iterator[str]:
    """What a profile fixes is there, and goes together."""
    for position, profile in enumerate(site.profiles, start=1):
        fixed = profile.fixed.values() if profile.fixed else {}
        for key, known in (("partition", [p.name for p in site.partitions]), ("gpu", [g.name for g in site.gpus])):
            if key in fixed and fixed[key] not in known:
                allowed = ", ".join(known) or "none is defined"
                yield f"profile[{position}].fixed.{key}: {fixed[key]!r} is not there; known: {allowed}"
        for key in ("cores", "memory_gb"):
            if key in fixed and fixed.get("gpus") != 0:
                yield f"profile[{position}].fixed.{key}: it comes with the GPUs; allowed: only with gpus = 0 beside it"


def _of_cpu_sessions(site: Site, partition: PartitionTable, key: str) -> Iterator[str]:
    """What may be chosen is no less than what comes by itself."""
    cores = site.cores(0, partition)
    memory_gb = site.memory_mib(0, partition) // 1024
    tables: tuple[PartitionTable | RuleTable, ...] = (partition, *partition.rule)
    for table in tables:
        for name, most, least in (
            ("cores_max", table.cores_max, cores),
            ("memory_gb_max", table.memory_gb_max, memory_gb),
        ):
            if most is not None and most < least:
                yield f"{key}.{name}: {most} is not possible; allowed: {least} (what comes by itself) or more"
