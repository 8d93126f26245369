"""The tables of a site's settings file: each key with its type, its default and what is allowed.

Every table is a frozen model that refuses unknown keys. :mod:`portal.site` makes one site of them.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


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


def _domain(value: str) -> str:
    found = re.fullmatch(r"(?:https?://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::(\d{1,5}))?", value)
    is_address = found and re.fullmatch(r"[0-9.]+", found[1])  # nothing can stand before the digits of an IP address
    if value and (not found or is_address or int(found[2] or 1) not in range(1, 65536)):
        raise ValueError(
            "a name such as portal.example.org, with scheme (https://…) and port (…:8443) where they are needed, or ''"
        )
    return value


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
OptionalPath = Annotated[str, AfterValidator(_absolute_or_empty)]
Name = Annotated[str, AfterValidator(_name)]
Group = Annotated[str, AfterValidator(_group)]
UserDn = Annotated[str, AfterValidator(_user_dn)]
Server = Annotated[str, AfterValidator(_server)]
Domain = Annotated[str, AfterValidator(_domain)]
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
    domain: Domain = ""  # each person's session is at NAME.domain; "" = everything shares one origin
    hub_port: Port = 8081
    proxy_port: Port = 8001
    hub_address: str = ""  # how compute nodes reach the hub; "" = this host's name
    certificate: OptionalPath = ""
    key: OptionalPath = ""
    internal_ssl: bool = True  # TLS between the hub and the nodes too
    state_folder: AbsolutePath = "/var/lib/dsportal"
    launcher: AbsolutePath = "/opt/dsportal/bin/portal-launch"
    extra_config: OptionalPath = ""
    cookie_days: Annotated[int, Field(ge=1, le=31)] = 1  # how long a login lasts
    token_days_max: Annotated[int, Field(ge=1, le=365)] = 30  # how long a token that a person makes may last

    @property
    def had_internal_ssl(self) -> bool:
        """Whether sessions of before 0.2.0 have TLS: it was off then, unless the file said otherwise."""
        return self.internal_ssl and "internal_ssl" in self.model_fields_set

    @property
    def public_url(self) -> str:
        """The portal's own address in browsers, without a slash at its end; ``""`` without a domain."""
        if not self.domain:
            return ""
        scheme, _, rest = self.domain.rpartition("://")
        name, _, port = rest.partition(":")
        usual = {"http": "80", "https": "443"}
        port = port or (usual[scheme] if scheme else str(self.port))
        scheme = scheme or ("https" if self.certificate else "http")
        return f"{scheme}://{name}" if port == usual[scheme] else f"{scheme}://{name}:{port}"


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
    when_person_leaves: Literal["stop", "keep"] = "stop"  # what becomes of the session of who may not use it any more


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
    debugger: bool = False  # it listens on the node for everybody there: only where a node is for one person alone


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
    bind_dn: str = ""  # an account that may read people and groups; "" = the hub's host is asked who left
    bind_password_file: OptionalPath = ""
    connect_timeout_s: Annotated[int, Field(ge=1, le=60)] = 3
    receive_timeout_s: Annotated[int, Field(ge=1, le=60)] = 5

    @property
    def people(self) -> tuple[str, str] | None:
        """The attribute that holds a person's name, and the folder of all people; ``None``: no such user_dn."""
        found = re.fullmatch(r"([A-Za-z][A-Za-z0-9-]*)=\{username\},([^{}]+)", self.user_dn)
        return (found[1], found[2]) if found else None

    def allows(self, groups: frozenset[str]) -> bool:
        """Whether somebody in these groups may use the portal."""
        return not self.allowed_groups or bool(groups & set(self.allowed_groups))

    def makes_admin(self, groups: frozenset[str]) -> bool:
        """Whether somebody in these groups administers the portal."""
        return bool(groups & set(self.admin_groups))
