"""The site: what one cluster offers, read from one TOML file.

Every table is a frozen model that refuses unknown keys; :func:`parse` reports all faults of a file at once,
each naming the key, the value given and what is allowed. ``deploy/site/site.toml.example`` shows every key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from portal import site_faults
from portal.errors import SiteError


def _absolute(value: str) -> str:
    if not PurePosixPath(value).is_absolute():
        raise ValueError("an absolute path")
    return value


def _absolute_or_empty(value: str) -> str:
    if value and not PurePosixPath(value).is_absolute():
        raise ValueError("an absolute path, or ''")
    return value


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value):
        raise ValueError("a name of letters, digits, '.', '_' and '-', starting with a letter or digit")
    return value


def _server(value: str) -> str:
    found = re.fullmatch(r"ldaps?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?::(\d{1,5}))?", value)
    if not found or int(found.group(1) or 1) not in range(1, 65536):
        raise ValueError("an address such as ldap://ldap1.example.org:389 or ldaps://ldap1.example.org")
    return value


def _user_dn(value: str) -> str:
    if "{username}" not in value:
        raise ValueError("a DN with {username} in it")
    return value


def _group(value: str) -> str:
    if not re.fullmatch(r"[^\x00-\x1f\x7f]{1,128}", value):
        raise ValueError("a group's name, without control characters")
    return value


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
OptionalPath = Annotated[str, AfterValidator(_absolute_or_empty)]
Name = Annotated[str, AfterValidator(_name)]
Group = Annotated[str, AfterValidator(_group)]
UserDn = Annotated[str, AfterValidator(_user_dn)]
Server = Annotated[str, AfterValidator(_server)]
Port = Annotated[int, Field(ge=1, le=65535)]
Hours = Annotated[int, Field(ge=1, le=8760)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Table(BaseModel):
    """One table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class ClusterTable(Table):
    """``[cluster]``: the cluster's name, as people call it."""

    name: str = "cluster"


class PortalTable(Table):
    """``[portal]``: the address, HTTPS, and where the hub keeps its state."""

    title: str = "Data Scientist Portal"
    bind: str = "0.0.0.0"  # noqa: S104  the portal is there to be reached from other hosts
    port: Port = 8000
    hub_port: Port = 8081
    proxy_port: Port = 8001
    hub_address: str = ""  # how compute nodes reach the hub; "" = this host's name
    certificate: OptionalPath = ""
    key: OptionalPath = ""
    internal_ssl: bool = False  # TLS between the hub and the nodes too
    state_folder: AbsolutePath = "/var/lib/dsportal"
    launcher: AbsolutePath = "/opt/dsportal/bin/portal-launch"
    extra_config: OptionalPath = ""


class SessionTable(Table):
    """``[session]``: what a session gets. Memory in GB as Slurm counts it (1 GB = 1024 MiB)."""

    gpus_max: Count = 4
    cores_per_gpu: Positive = 8
    memory_gb_per_gpu: Positive = 48
    cores_without_gpu: Positive = 2
    memory_gb_without_gpu: Positive = 8
    hours_default: Hours = 8
    hours_max: Hours = 24
    wait_max_hours: Count = 0  # in the queue; 0 = as long as Slurm makes it wait
    start_timeout_min: Positive = 10  # from the job's start on its node, never counted while it waits


class GpuTable(Table):
    """``[[gpu]]``: one kind of GPU, as Slurm calls it in ``--gres`` and as people call it."""

    name: Name
    title: str
    gres: Annotated[str, Field(pattern=r"^gpu(:[A-Za-z0-9._-]+)?$")] = "gpu"


class PartitionTable(Table):
    """``[[partition]]``: a Slurm partition that the portal offers."""

    name: Name
    title: str = ""
    gpu: str = ""  # the name of a [[gpu]]; "" = any
    gpus_max: Count | None = None
    hours_max: Hours | None = None
    default: bool = False
    groups: tuple[Group, ...] = ()  # empty = everybody


class StorageTable(Table):
    """``[[storage]]``: a big folder that appears in everybody's files under ``name``."""

    name: Name
    path: AbsolutePath


class KernelsTable(Table):
    """``[kernels]``: the module system, and where the kernelspecs are written."""

    folder: AbsolutePath = "/opt/dsportal/jupyter"
    module_path: tuple[AbsolutePath, ...] = ()
    module_command: OptionalPath = ""  # modulecmd.tcl or lmod; "" = the usual places


class KernelTable(Table):
    """``[[kernel]]``: a kernel that comes from modules (or from a path)."""

    name: Name
    title: str
    language: Literal["python", "R"] = "python"
    modules: tuple[str, ...] = ()
    python: OptionalPath = ""  # "" = the python3 found after the modules are loaded
    argv: tuple[str, ...] = ()  # empty = the language's own start line


class LdapTable(Table):
    """``[ldap]``: where passwords are checked. TLS is not optional, and certificates are always checked."""

    servers: Annotated[tuple[Server, ...], Field(min_length=1)]
    ca_file: AbsolutePath
    user_dn: UserDn  # e.g. "uid={username},ou=people,dc=cluster,dc=example"
    group_base: str = ""
    group_filter: str = "(&(objectClass=groupOfNames)(member={dn}))"
    group_attribute: Name = "cn"
    allowed_groups: tuple[Group, ...] = ()  # empty = everybody with a right password
    admin_groups: tuple[Group, ...] = ()
    connect_timeout_s: Annotated[int, Field(ge=1, le=60)] = 3
    receive_timeout_s: Annotated[int, Field(ge=1, le=60)] = 5


@dataclass(frozen=True)
class Identity:
    """A person who logged in: the user name, the names of the groups, and whether an administrator."""

    name: str
    groups: frozenset[str] = frozenset()
    admin: bool = False


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
        raise SiteError(source, site_faults.sentences(error, Site)) from error
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
    if site.ldap and (site.ldap.allowed_groups or site.ldap.admin_groups) and not site.ldap.group_base:
        yield "ldap.group_base: missing; allowed_groups and admin_groups are looked up below it"
