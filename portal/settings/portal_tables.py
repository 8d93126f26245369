"""``[cluster]`` and ``[portal]``: the names, the addresses, HTTPS, and where the hub keeps its state."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.settings.values import AbsolutePath, DatabaseUrl, Domain, NetworkText, OptionalPath, Port, Table, UrlPath


class ClusterTable(Table):
    """``[cluster]``: the cluster's name, as people call it, and how Slurm's commands are reached."""

    name: str = "cluster"
    slurm_path: OptionalPath = ""  # a folder with Slurm's commands, or with wrappers of their names
    slurm_conf: OptionalPath = ""  # SLURM_CONF; "" = as Slurm finds it by itself

    def environment(self, path: str) -> dict[str, str]:
        """What Slurm's commands need beside a ``PATH`` as it is."""
        found = {"PATH": f"{self.slurm_path}:{path}"} if self.slurm_path else {}
        return found | ({"SLURM_CONF": self.slurm_conf} if self.slurm_conf else {})


class PortalTable(Table):
    """``[portal]``: the address, HTTPS, and where the hub keeps its state."""

    title: str = "Data Scientist Portal"
    bind: str = "0.0.0.0"  # noqa: S104  the portal is there to be reached from other hosts
    port: Port = 8000
    domain: Domain = ""  # each person's session is at NAME.domain; "" = everything shares one origin
    base_url: UrlPath = "/"  # the path below which everything is, where a web server in front has other things beside
    hub_port: Port = 8081
    proxy_port: Port = 8001
    hub_address: str = ""  # how compute nodes reach the hub; "" = this host's name
    certificate: OptionalPath = ""
    key: OptionalPath = ""
    redirect_port: Annotated[int, Field(ge=0, le=65535)] = 0  # plain HTTP that leads to HTTPS; 0 = none
    trusted_proxies: tuple[NetworkText, ...] = ()  # other proxies in front of ours
    internal_ssl: bool = True  # TLS between the hub and the nodes too
    state_folder: AbsolutePath = "/var/lib/dsportal"
    database_url: DatabaseUrl = ""  # a PostgreSQL or MariaDB server; "" = a file of SQLite in the state folder
    database_password_file: OptionalPath = ""
    database_ca_file: OptionalPath = ""  # TLS with the server, which must prove its name; "" = as its driver does
    launcher: AbsolutePath = "/opt/dsportal/bin/portal-launch"
    announcement_file: OptionalPath = ""  # a text that everybody reads, on the pages and inside sessions
    extra_config: OptionalPath = ""
    cookie_days: Annotated[int, Field(ge=1, le=31)] = 1  # how long a login lasts
    admin_access: bool = False  # administrators may enter sessions, with a reason that the person reads
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
