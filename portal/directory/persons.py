"""Who is meant by a name: the entry of a person, and the one UNIX name that it has.

Two shapes: the DN is made of the name (``user_dn``), or searched for (``user_base``). What is the matter with an entry
is told to nobody before the right password: it is in :attr:`Person.fault`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.directory.conversation import ServerFault
from portal.directory.dns import canonical, first_values
from portal.directory.names import LoginName, rule_of, unix_name
from portal.directory.searches import Attributes, Entry, dn_of, filled, one_of, read, search, texts
from portal.settings.ldap_table import LdapTable

_FEW = 3  # more than one is too many
_OF_GROUPS = {"memberOf": ("memberOf",), "primary": ("gidNumber", "primaryGroupID", "objectSid")}


@dataclass(frozen=True)
class Person:
    """The entry of a person.

    Attributes:
        dn: where it is.
        name: the UNIX name; ``""`` when there is a fault.
        attributes: what was read of it.
        fault: why it cannot be used, for the person who has the right password.
    """

    dn: str
    name: str
    attributes: Attributes = field(default_factory=dict)
    fault: str = ""


def own_attributes(settings: LdapTable) -> list[str]:
    """The attributes of a person that tell groups."""
    members = _OF_GROUPS["memberOf"] if settings.group_by == "memberOf" else ()
    return [*members, *(_OF_GROUPS["primary"] if settings.primary_group else ())]


def made(connection: Any, settings: LdapTable, name: str) -> Person:
    """The person at the DN that ``user_dn`` makes; the entry is read only where it tells groups."""
    dn = dn_of(settings, name)
    if not settings.reads_entries:
        return Person(dn, name)
    found = read(connection, dn, own_attributes(settings))
    return Person(dn, name, found.attributes if found else {})


def searched(connection: Any, settings: LdapTable, login: LoginName) -> Person | None:
    """The person found by what was typed; ``None``: there is nobody.

    Raises:
        ServerFault: the server does not show its people.
    """
    wanted = filled(settings.user_filter, login.name, "", login.whole)
    person = _only(settings, _search(connection, settings, wanted))
    if person is None or person.fault:
        return person
    if settings.finds_by_unix_name and person.name.lower() == login.key:
        return person
    same = _search(connection, settings, one_of(settings.name_attribute, [person.name]))  # nobody else has that name
    if [canonical(entry.dn) for entry in same] == [canonical(person.dn)]:
        return person
    return _fault(person.dn, f"the directory has another entry with the name {person.name}")


def known(connection: Any, settings: LdapTable, name: str) -> Person | None:
    """The person with a UNIX name, for whom it was found before; ``None``: there is nobody."""
    person = _only(settings, _search(connection, settings, _wanted(settings, [name])))
    return person if person and (person.fault or person.name == name) else None


def named(connection: Any, settings: LdapTable, names: Collection[str], attributes: Sequence[str]) -> dict[str, Person]:
    """The people with these UNIX names, who were found before; those with a fault among them."""
    found = _search(connection, settings, _wanted(settings, names), attributes, limit=0)
    people: dict[str, Person] = {}
    for entry in found:
        person = _person(settings, entry)
        told = [person.name] if person.name else _names(settings, entry)
        mine = {unix_name(rule_of(settings), value) for value in told}
        for name in mine & set(names):
            twice = f"the directory has more than one entry called {name}"
            people[name] = _fault(entry.dn, twice) if name in people else person
    return people


def presence(settings: LdapTable) -> str:
    """A filter that finds everybody whom the site's filter could find."""
    return settings.user_filter.replace("{username}", "*").replace("{login}", "*")


def _wanted(settings: LdapTable, names: Collection[str]) -> str:
    return f"(&{presence(settings)}{one_of(settings.name_attribute, names)})"


def _search(
    connection: Any, settings: LdapTable, wanted: str, more: Sequence[str] = (), limit: int = _FEW
) -> list[Entry]:
    """The entries below all the site's folders, each once."""
    attributes = list(dict.fromkeys([settings.name_attribute, *own_attributes(settings), *more]))
    found: dict[object, Entry] = {}
    for base in settings.user_base:
        here = search(connection, base, wanted, attributes, size_limit=limit)
        if here.unfinished and not (limit and len(here.entries) >= limit):
            raise ServerFault(f"it answered the search for people below {base} with {here.unfinished}")
        found |= {canonical(entry.dn): entry for entry in here.entries}
    return list(found.values())


def _only(settings: LdapTable, found: Sequence[Entry]) -> Person | None:
    if not found:
        return None
    if len(found) > 1:
        places = "; ".join(sorted(entry.dn for entry in found))
        return _fault(found[0].dn, f"the directory has more than one entry for this name ({places})")
    return _person(settings, found[0])


def _person(settings: LdapTable, entry: Entry) -> Person:
    """The person of an entry, which must give one UNIX name."""
    values = _names(settings, entry)
    own = first_values(entry.dn).get(settings.name_attribute.lower())
    if len(values) > 1 and own is not None:
        values = [value for value in values if value.lower() == own.lower()]  # of several the one in its DN
    if len(values) != 1:
        several = "several values" if values else "no value"
        return _fault(entry.dn, f"your entry in the directory has {several} of {settings.name_attribute}, for one name")
    if not (name := unix_name(rule_of(settings), values[0])):
        return _fault(entry.dn, f"{values[0]!r} cannot be the name of an account ({settings.name_attribute})")
    return Person(entry.dn, name, entry.attributes)


def _names(settings: LdapTable, entry: Entry) -> list[str]:
    return texts(entry.attributes, settings.name_attribute.lower())


def _fault(dn: str, words: str) -> Person:
    return Person(dn, "", fault=words)
