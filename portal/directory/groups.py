"""Which groups a person is in: found by a search, told by the entry, by the primary group, and groups of groups."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from portal.directory.dns import Canonical, canonical, first_values, is_below
from portal.directory.persons import Person
from portal.directory.searches import Attributes, escaped_bytes, filled, search, texts
from portal.language.texts import _, ngettext
from portal.settings.groups import is_dn, label
from portal.settings.ldap_table import LdapTable

LEVELS_MAX = 10  # of groups in groups
NESTED_MAX = 2000  # groups that are looked at for groups that they are in
_AT_ONCE = 50  # groups in one search
_ONE_BY_ONE = 10  # new groups of a person that are asked about apart, so that the next person's are known
_NOBODY = "-"  # no name begins with it


@dataclass(frozen=True)
class Membership:
    """One group of a person.

    Attributes:
        name: the group's name; ``""`` for one that counts by its DN alone.
        dn: where it is.
        how: how it was found, for the administrator.
    """

    name: str
    dn: str
    how: str


@dataclass(frozen=True)
class Groups:
    """The groups of a person; ``unfinished`` is the server's word when these are not all of them."""

    found: tuple[Membership, ...] = ()
    unfinished: str = ""

    def names(self, mentioned: Collection[str]) -> frozenset[str]:
        """Their names, and the labels of those that the settings mention by their DN.

        Arguments:
            mentioned: groups as the settings name them; a group that is merely *called* like one of these DNs has no
                name here.
        """
        wanted = {label(group): canonical(group) for group in mentioned if is_dn(group)}
        dns = {canonical(group.dn) for group in self.found} if wanted else set()
        called = {label(group.name) for group in self.found if group.name} - wanted.keys()
        return frozenset(called | {text for text, dn in wanted.items() if dn in dns})

    def __add__(self, other: Groups) -> Groups:
        return Groups(self.found + other.found, self.unfinished or other.unfinished)


Asked = dict[str, Groups]  # what a filter has found in a look at many people


def groups_of(connection: Any, settings: LdapTable, person: Person, asked: Asked | None = None) -> Groups:
    """The groups of a person.

    Arguments:
        asked: what was found in a look at many people, who share most of their groups; it is added to.

    Raises:
        ServerFault: the server does not do its work.
    """
    if settings.group_by == "memberOf":
        groups = Groups(tuple(_told(settings, person)))
    elif settings.group_base:
        wanted = filled(settings.group_filter, person.name, person.dn)
        groups = _found(connection, settings, wanted, "found by group_filter")
    else:
        return Groups()
    if settings.primary_group and (primary := _primary(person.attributes)):
        known = {} if asked is None else asked
        if primary not in known:
            known[primary] = _found(connection, settings, primary, "primary group", _domain(settings))
        groups += known[primary]
    return groups + _nested(connection, settings, groups, asked) if settings.nested_groups else groups


def refused(settings: LdapTable, groups: Groups, mentioned: Collection[str]) -> str:
    """Why somebody in these groups may not use the portal, for the person; ``""`` when she may."""
    if settings.allows(groups.names(mentioned)):
        return ""
    if groups.unfinished:
        unseen = _(
            "the directory did not show your groups ({why}), and this portal takes {groups}. Tell your administrator."
        )
        return unseen.format(why=groups.unfinished, groups=_taken(settings))
    return in_none(settings)


def in_none(settings: LdapTable) -> str:
    """Why somebody who is in none of the allowed groups may not use the portal, for the person."""
    missing = _("you are not allowed to use this portal: that takes {groups}. Ask your administrator to add you.")
    return missing.format(groups=_taken(settings))


def _taken(settings: LdapTable) -> str:
    allowed = [_called(group) for group in settings.allowed_groups]
    return ngettext("the group {names}", "one of the groups {names}", len(allowed)).format(names=", ".join(allowed))


def _called(group: str) -> str:
    """A group of the settings in words for people: of a DN its first value."""
    return next(iter(first_values(group).values())) if is_dn(group) else group


def _told(settings: LdapTable, person: Person) -> Iterator[Membership]:
    """What ``memberOf`` says; a group outside of group_base counts by its DN alone, for anybody may name it."""
    for dn in texts(person.attributes, "memberof"):
        is_ours = not settings.group_base or is_below(dn, settings.group_base)
        name = first_values(dn).get(settings.group_attribute.lower(), "") if is_ours else ""
        yield Membership(name, dn, "memberOf")


def _found(connection: Any, settings: LdapTable, wanted: str, how: str, base: str = "") -> Groups:
    """What a search finds; with a base that is wider than group_base, groups outside of that have no name."""
    here = search(connection, base or settings.group_base, wanted, [settings.group_attribute])
    attribute = settings.group_attribute.lower()
    is_wide = bool(base) and base != settings.group_base
    memberships = [
        Membership("" if is_wide and not is_below(entry.dn, settings.group_base) else name, entry.dn, how)
        for entry in here.entries
        for name in texts(entry.attributes, attribute)
    ]
    return Groups(tuple(memberships), here.unfinished)


def _domain(settings: LdapTable) -> str:
    """Where primary groups are: Active Directory has its own, such as Domain Users, outside of the site's groups."""
    return next((base for base in settings.user_base if is_below(settings.group_base, base)), settings.group_base)


def _nested(connection: Any, settings: LdapTable, direct: Groups, asked: Asked | None) -> Groups:
    """The groups that these groups are in, and so on; a circle ends where it begins."""
    nested = Groups()
    seen: set[Canonical] = set()
    level = _new(direct, seen)
    for depth in range(1, LEVELS_MAX + 1):
        if not level:
            return nested
        if len(seen) > NESTED_MAX:
            return nested + Groups(unfinished=f"more than {NESTED_MAX} groups of groups")
        above = _above(connection, settings, level, f"nested, level {depth}", asked)
        known = set(seen)
        level = _new(above, seen)
        fresh = tuple(one for one in above.found if canonical(one.dn) not in known)
        nested += Groups(fresh, above.unfinished)
    return nested + Groups(unfinished=f"more than {LEVELS_MAX} levels of groups") if level else nested


def _above(connection: Any, settings: LdapTable, level: Sequence[str], how: str, asked: Asked | None) -> Groups:
    """The groups that some groups are in."""
    above = Groups()
    if asked is not None:
        filters = {dn: filled(settings.group_filter, _NOBODY, dn) for dn in level}
        new = [dn for dn in level if filters[dn] not in asked]
        for dn in new[:_ONE_BY_ONE]:
            asked[filters[dn]] = _found(connection, settings, filters[dn], how)
        above = sum((asked[wanted] for wanted in filters.values() if wanted in asked), above)
        level = new[_ONE_BY_ONE:]
    for start in range(0, len(level), _AT_ONCE):
        wanted = "".join(filled(settings.group_filter, _NOBODY, dn) for dn in level[start : start + _AT_ONCE])
        above += _found(connection, settings, f"(|{wanted})", how)
    return above


def _new(groups: Groups, seen: set[Canonical]) -> Sequence[str]:
    """The DNs that were not seen before; they are from now on."""
    found = {canonical(group.dn): group.dn for group in groups.found}
    fresh = [dn for key, dn in found.items() if key not in seen]
    seen.update(found)
    return fresh


def _primary(attributes: Attributes) -> str:
    """A filter for the primary group of a person, of POSIX or of Active Directory; ``""``: the entry names none."""
    wanted = ""
    if (numbers := texts(attributes, "gidnumber")) and numbers[0].isdecimal():
        wanted += f"(&(|(objectClass=posixGroup)(objectClass=group))(gidNumber={numbers[0]}))"
    rids = texts(attributes, "primarygroupid")
    sids = attributes.get("objectsid", [])
    if rids and sids and (sid := group_sid(sids[0], rids[0])):
        wanted += f"(objectSid={escaped_bytes(sid)})"
    return f"(|{wanted})" if wanted else ""


def group_sid(person: bytes, number: str) -> bytes:
    """The SID of a group in the domain of a person ([MS-DTYP] §2.4.2.2): the last number is another one."""
    is_sid = len(person) >= 12 and len(person) == 8 + 4 * person[1]
    if not is_sid or not number.isdecimal() or int(number) >= 2**32:
        return b""
    return person[:-4] + struct.pack("<I", int(number))
