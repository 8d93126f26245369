"""``[ldap]``: the directory that knows the people, their passwords and their groups."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from portal.settings.values import AbsolutePath, Group, Name, OptionalPath, Server, Table, UserDn


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
