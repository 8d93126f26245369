"""The site: what one cluster offers, read from one TOML file.

:func:`parse` reports all faults of a file at once, each naming the key, the value given and what is allowed. The
tables are in :mod:`portal.settings`; ``deploy/site/site.toml.example`` shows every key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from portal.errors import SiteError
from portal.settings import faults
from portal.settings.kernel_tables import KernelsTable, KernelTable
from portal.settings.ldap_table import LdapTable
from portal.settings.portal_tables import ClusterTable, PortalTable
from portal.settings.session_tables import GpuTable, PartitionTable, SessionTable, StorageTable
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
    gpus: tuple[GpuTable, ...] = Field(default=(), alias="gpu")
    partitions: tuple[PartitionTable, ...] = Field(default=(), alias="partition")
    storage: tuple[StorageTable, ...] = ()
    kernels: KernelsTable = KernelsTable()
    kernel: tuple[KernelTable, ...] = ()
    ldap: LdapTable | None = None

    def offered_to(self, identity: Identity) -> tuple[PartitionTable, ...]:
        """The partitions that this person may use, the default one first."""
        open_to = [p for p in self.partitions if not p.groups or identity.groups & set(p.groups)]
        return tuple(sorted(open_to, key=lambda p: not p.default))

    def partition(self, name: str) -> PartitionTable:
        """The partition called ``name``; raises ``KeyError`` when the site has none."""
        for partition in self.partitions:
            if partition.name == name:
                return partition
        raise KeyError(name)

    def hours_max(self, partition: PartitionTable) -> int:
        """The longest session in ``partition``, in hours."""
        return min(self.session.hours_max, partition.hours_max or self.session.hours_max)

    def gpus_max(self, partition: PartitionTable) -> int:
        """The most GPUs one session may have in ``partition``."""
        if partition.gpus_max is None:
            return self.session.gpus_max
        return min(self.session.gpus_max, partition.gpus_max)

    def gres(self, partition: PartitionTable) -> str:
        """The name that ``--gres`` wants for a GPU of ``partition``: ``gpu`` or ``gpu:KIND``."""
        return next((g.gres for g in self.gpus if g.name == partition.gpu), "gpu")

    def cores(self, gpus: int) -> int:
        """CPU cores that come with ``gpus`` GPUs."""
        if gpus == 0:
            return self.session.cores_without_gpu
        return gpus * self.session.cores_per_gpu

    def memory_mib(self, gpus: int) -> int:
        """Memory that comes with ``gpus`` GPUs, in MiB."""
        if gpus == 0:
            return self.session.memory_gb_without_gpu * 1024
        return gpus * self.session.memory_gb_per_gpu * 1024


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
        ("gpu", [g.name for g in site.gpus]),
    ):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{table}: the name '{name}' stands {names.count(name)} times; allowed: once"
    kinds = {gpu.name for gpu in site.gpus}
    for position, partition in enumerate(site.partitions, start=1):
        if partition.gpu and partition.gpu not in kinds:
            known = ", ".join(sorted(kinds)) or "none is defined"
            yield f"partition[{position}].gpu: {partition.gpu!r} is not a [[gpu]]; known: {known}"
    if site.session.hours_default > site.session.hours_max:
        allowed = f"1 to session.hours_max ({site.session.hours_max})"
        yield f"session.hours_default: {site.session.hours_default} is not possible; allowed: {allowed}"
    if sum(p.default for p in site.partitions) > 1:
        yield "partition: more than one has default = true; allowed: one"
    if bool(site.portal.certificate) != bool(site.portal.key):
        yield "portal.certificate, portal.key: HTTPS needs both; allowed: both or neither"
    if site.portal.database_password_file and not site.portal.database_url:
        yield "portal.database_password_file: there is no server to log in to; allowed: only with portal.database_url"
    if site.portal.redirect_port and not site.portal.certificate:
        yield "portal.redirect_port: there is no HTTPS to lead to; allowed: 0, or certificate and key beside it"
    if site.portal.redirect_port in (site.portal.port, site.portal.hub_port, site.portal.proxy_port):
        yield f"portal.redirect_port: {site.portal.redirect_port} is another port of the portal; allowed: a free one"
    if site.ldap and (site.ldap.allowed_groups or site.ldap.admin_groups) and not site.ldap.group_base:
        yield "ldap.group_base: missing; allowed_groups and admin_groups are looked up below it"
    if site.ldap and bool(site.ldap.bind_dn) != bool(site.ldap.bind_password_file):
        yield "ldap.bind_dn, ldap.bind_password_file: one needs the other; allowed: both or neither"
    if site.ldap and site.ldap.bind_dn and not site.ldap.people:
        form = "a DN that begins with ATTRIBUTE={username}, and has it once"
        yield f"ldap.user_dn: {site.ldap.user_dn!r} is not possible with bind_dn; allowed: {form}"
