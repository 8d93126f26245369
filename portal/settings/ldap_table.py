"""``[ldap]``: the directory that knows the people, their passwords and their groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from portal.settings.groups import labels
from portal.settings.secret import read_secret
from portal.settings.values import (
    AbsolutePath,
    Group,
    LoginDomain,
    Name,
    OptionalName,
    OptionalPath,
    Server,
    Table,
    UserBase,
    UserDn,
    UserFilter,
)

_PLAIN = re.compile(r"\(([A-Za-z][A-Za-z0-9;.-]*)=\{username\}\)")


class LdapTable(Table):
    """``[ldap]``: where passwords are checked. TLS is not optional, and certificates are always checked."""

    servers: Annotated[tuple[Server, ...], Field(min_length=1)]
    ca_file: AbsolutePath
    user_dn: UserDn = ""  # e.g. "uid={username},ou=people,dc=cluster,dc=example"; or user_base
    user_base: tuple[UserBase, ...] = ()  # people are searched for below these, and then log in with the DN found
    user_filter: UserFilter = "(uid={username})"
    unix_name: OptionalName = ""  # the attribute with the UNIX name; "" = the one that user_filter compares
    login_domains: tuple[LoginDomain, ...] = ()  # "corp.example" for alice@corp.example, "CORP" for CORP\alice
    capitals: Literal["refuse", "lower", "keep"] = "refuse"
    group_base: str = ""
    group_by: Literal["search", "memberOf"] = "search"
    group_filter: str = "(&(objectClass=groupOfNames)(member={dn}))"
    group_attribute: Name = "cn"
    nested_groups: bool = False  # the groups of groups as well, found with group_filter
    primary_group: bool = False  # the group of gidNumber, or of primaryGroupID, as well
    allowed_groups: tuple[Group, ...] = ()  # empty = everybody with a right password
    admin_groups: tuple[Group, ...] = ()
    mail_attribute: OptionalName = ""  # the attribute with the address that Slurm writes to; "" = the account
    bind_dn: str = ""  # an account that may read people and groups; "" = the hub's host is asked who left
    bind_password_file: OptionalPath = ""
    connect_timeout_s: Annotated[int, Field(ge=1, le=60)] = 3
    receive_timeout_s: Annotated[int, Field(ge=1, le=60)] = 5

    def read_bind_password(self) -> str:
        """The password of ``bind_dn``, as its file has it now; "" without one.

        Raises:
            SiteError: the file cannot be used.
        """
        return read_secret(self.bind_password_file, "ldap.bind_password_file") if self.bind_password_file else ""

    @property
    def people(self) -> tuple[str, str] | None:
        """The attribute that holds a person's name, and the folder of all people; ``None``: no such user_dn."""
        found = re.fullmatch(r"([A-Za-z][A-Za-z0-9-]*)=\{username\},([^{}]+)", self.user_dn)
        return (found[1], found[2]) if found else None

    @property
    def name_attribute(self) -> str:
        """The attribute of a found entry that holds the UNIX name; ``""`` when the settings do not say which."""
        compared = set(_PLAIN.findall(self.user_filter))
        return self.unix_name or (compared.pop() if len(compared) == 1 else "")

    @property
    def finds_by_unix_name(self) -> bool:
        """Whether ``user_filter`` compares nothing but the UNIX name with what somebody types."""
        left = self.user_filter.replace(f"({self.name_attribute}={{username}})", "")
        return "{username}" not in left and "{login}" not in left

    @property
    def reads_entries(self) -> bool:
        """Whether groups are told by a person's own entry."""
        return self.group_by == "memberOf" or self.primary_group

    @property
    def asks_groups(self) -> bool:
        """Whether groups are looked up at all."""
        return bool(self.group_base) or self.group_by == "memberOf"

    def allows(self, groups: frozenset[str]) -> bool:
        """Whether somebody in these groups may use the portal."""
        return not self.allowed_groups or bool(groups & labels(self.allowed_groups))

    def makes_admin(self, groups: frozenset[str]) -> bool:
        """Whether somebody in these groups administers the portal."""
        return bool(groups & labels(self.admin_groups))

    def contradictions(self) -> Iterator[str]:
        """Faults that only show when two values are seen together."""
        if bool(self.user_dn) == bool(self.user_base):
            yield "ldap.user_dn, ldap.user_base: where are the people? allowed: one of the two"
        if (self.allowed_groups or self.admin_groups) and not self.asks_groups:
            yield "ldap.group_base: missing; allowed_groups and admin_groups are looked up below it"
        if bool(self.bind_dn) != bool(self.bind_password_file):
            yield "ldap.bind_dn, ldap.bind_password_file: one needs the other; allowed: both or neither"
        if self.mail_attribute and not self.bind_dn:
            yield "ldap.mail_attribute: it is read by bind_dn, which is missing; allowed: '', or with bind_dn"
        yield from self._contradictions_of_people()
        if (self.nested_groups or self.primary_group) and not self.group_base:
            yield "ldap.group_base: missing; nested_groups and primary_group are looked up below it"
        if self.nested_groups and "{dn}" not in self.group_filter:
            yield f"ldap.group_filter: {self.group_filter!r} finds no groups of groups; allowed: one with {{dn}} in it"

    def _contradictions_of_people(self) -> Iterator[str]:
        needs = [key for key, is_set in (("bind_dn", self.bind_dn), ("group_by", self.reads_entries)) if is_set]
        if self.user_dn and needs and not self.people:
            form = "a DN that begins with ATTRIBUTE={username}, and has it once, or user_base instead"
            yield f"ldap.user_dn: {self.user_dn!r} is not possible with {needs[0]}; allowed: {form}"
        if self.user_dn and self.unix_name:
            yield "ldap.unix_name: with user_dn the UNIX name is what is typed; allowed: '', or user_base instead"
        if self.user_dn and self.capitals == "keep":
            yield "ldap.capitals: 'keep' takes the spelling of the entry; allowed: 'refuse', 'lower', or user_base"
        if self.user_base and not self.name_attribute:
            example = "the attribute that holds it, such as 'uid'"
            yield f"ldap.unix_name: {self.user_filter!r} does not say what the UNIX name is; allowed: {example}"
