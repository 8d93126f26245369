"""What is asked in a conversation with an LDAP server: a login, and searches that are read to their end."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from portal.directory.conversation import ServerFault
from portal.directory.verdicts import POLICY_CONTROL, Verdict, verdict
from portal.settings.ldap_table import LdapTable

with warnings.catch_warnings():  # as in portal.directory.conversation
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3
    from ldap3.core import results
    from ldap3.utils.conv import escape_filter_chars
    from ldap3.utils.dn import escape_rdn

Attributes = dict[str, list[bytes]]  # by their names in small letters

PAGE_SIZE = 500
PAGES_MAX = 20
# A search that ends with these has found what the one who asks may see.
_FOUND_PART = {
    results.RESULT_TIME_LIMIT_EXCEEDED,
    results.RESULT_SIZE_LIMIT_EXCEEDED,
    results.RESULT_ADMIN_LIMIT_EXCEEDED,
    results.RESULT_NO_SUCH_OBJECT,
    results.RESULT_INSUFFICIENT_ACCESS_RIGHTS,
}
_PAGED_RESULTS = "1.2.840.113556.1.4.319"
_RANGE = re.compile(r"([a-z][a-z0-9.-]*);range=[0-9]+-([0-9]+|\*)")  # names are in small letters here
RANGES_MAX = 20
_SOME = 50


@dataclass(frozen=True)
class Entry:
    """One entry that a search found."""

    dn: str
    attributes: Attributes


@dataclass
class Found:
    """What a search found; ``unfinished`` is the server's word when that is not everything."""

    entries: list[Entry]
    unfinished: str = ""


def bind_as(connection: ldap3.Connection, dn: str, password: str) -> Verdict:
    """Log in as somebody else than before; whatever comes of it, nobody of before is logged in.

    Raises:
        ServerFault: there is no DN, or no password: a server would take that for nobody, and answer with success.
    """
    if not dn or not password:
        raise ServerFault("it named an entry without a DN")
    connection.user = dn
    connection.password = password.encode()  # as portal.directory.conversation sends it
    connection.authentication = "SIMPLE"
    return bind(connection)


def bind(connection: ldap3.Connection) -> Verdict:
    """Log in as the one that the connection is for, asking for the password's state as well."""
    connection.bind(read_server_info=False, controls=[(POLICY_CONTROL, False, None)])
    return verdict(connection.result)


def search(connection: ldap3.Connection, base: str, wanted: str, attributes: list[str], **options: Any) -> Found:
    """Everything that a search finds, page by page, and of each entry every value.

    Raises:
        ServerFault: the server does not do its work.
    """
    found = _pages(connection, base, wanted, attributes, options)
    for entry in found.entries:
        if any(_RANGE.fullmatch(name) for name in entry.attributes):
            found.unfinished = _read_ranges(connection, entry) or found.unfinished
    return found


def _pages(
    connection: ldap3.Connection, base: str, wanted: str, attributes: list[str], options: dict[str, Any]
) -> Found:
    found = Found([])
    cookie: bytes | None = None
    for _ in range(PAGES_MAX):
        page: dict[str, Any] = {"attributes": attributes, "paged_size": PAGE_SIZE, "paged_cookie": cookie}
        connection.search(base, wanted, **page, **options)
        found.entries += _entries(connection.response or ())
        code = connection.result["result"]
        if code in _FOUND_PART:
            found.unfinished = connection.result["description"]
            return found
        if code != results.RESULT_SUCCESS:
            raise ServerFault(f"it answered a search below {base} with {connection.result['description']}")
        control = (connection.result.get("controls") or {}).get(_PAGED_RESULTS)
        cookie = control["value"]["cookie"] if control else None
        if not cookie:
            return found
    found.unfinished = f"more than {PAGES_MAX * PAGE_SIZE} entries"
    return found


def _read_ranges(connection: ldap3.Connection, entry: Entry) -> str:
    """Read on where an attribute has more values than Active Directory shows at once (1,500, [MS-ADTS] 3.1.1.3.1.3.3).

    Answers why there may be more; ``""`` when there are not.
    """
    unread = _joined(entry.attributes, entry.attributes)
    for _ in range(RANGES_MAX):
        if not unread:
            return ""
        asked = [f"{name};range={end + 1}-*" for name, end in unread.items()]
        more = _pages(connection, entry.dn, "(objectClass=*)", asked, {"search_scope": "BASE"})
        if not more.entries:
            return f"an entry whose values of {' and '.join(unread)} cannot be read to the end"
        unread = _joined(entry.attributes, more.entries[0].attributes)
    return f"an entry with more values of {' and '.join(unread)} than can be read" if unread else ""


def _joined(attributes: Attributes, shown: Attributes) -> dict[str, int]:
    """Put ranges of values to the others of their attribute; of those that go on the last number, by name."""
    unread = {}
    for ranged in [found for name in list(shown) if (found := _RANGE.fullmatch(name))]:
        attributes[ranged[1]] = attributes.get(ranged[1], []) + shown.pop(ranged[0])
        if ranged[2] != "*":
            unread[ranged[1]] = int(ranged[2])
    return unread


def _entries(response: Any) -> Iterator[Entry]:
    for entry in response:
        if entry["type"] == "searchResEntry":  # others are references to other servers: not followed
            yield Entry(entry["dn"], {name.lower(): values for name, values in entry["raw_attributes"].items()})


def sees_any(connection: ldap3.Connection, base: str, wanted: str) -> bool:
    """Whether a search finds anything at all."""
    connection.search(base, wanted, attributes=["1.1"], size_limit=1)
    return any(_entries(connection.response or ()))


def some(connection: ldap3.Connection, base: str, wanted: str, attributes: list[str]) -> list[Attributes]:
    """What a few of the entries show that a search finds."""
    found = search(connection, base, wanted, attributes, size_limit=_SOME)
    return [entry.attributes for entry in found.entries]


def read(connection: ldap3.Connection, dn: str, attributes: list[str]) -> Entry | None:
    """One entry; ``None``: it is not there, or not for the one who asks."""
    found = search(connection, dn, "(objectClass=*)", attributes, search_scope="BASE")
    return found.entries[0] if found.entries else None


def filled(template: str, name: str, dn: str, login: str = "") -> str:
    """A filter of the settings, filled in for one person; in one pass, so that no value is filled in itself."""
    values = {"{dn}": dn, "{username}": name, "{login}": login}
    return re.sub(r"\{(?:dn|username|login)\}", lambda found: escape_filter_chars(values[found[0]]), template)


def one_of(attribute: str, values: Iterable[str]) -> str:
    """A filter for entries with one of these values."""
    return "(|" + "".join(f"({attribute}={escape_filter_chars(value)})" for value in values) + ")"


def escaped_bytes(value: bytes) -> str:
    """A value that is no text, for a filter (RFC 4515 §3)."""
    return "".join(f"\\{byte:02x}" for byte in value)


def dn_of(settings: LdapTable, name: str) -> str:
    """The DN of a person, made of the name."""
    return settings.user_dn.replace("{username}", escape_rdn(name))


def texts(attributes: Attributes, name: str) -> list[str]:
    """The values of one attribute; ``name`` in small letters."""
    return [value.decode("utf-8", "replace") for value in attributes.get(name, ())]
