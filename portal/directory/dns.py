"""DNs compared as DNs: two spellings of one entry are the same. Pure."""

from __future__ import annotations

import re
import warnings

with warnings.catch_warnings():  # as in portal.directory.conversation
    warnings.simplefilter("ignore", DeprecationWarning)
    from ldap3.core.exceptions import LDAPInvalidDnError
    from ldap3.utils.dn import parse_dn

Canonical = tuple[frozenset[tuple[str, str]], ...]
_ESCAPED = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


def canonical(dn: str) -> Canonical:
    """What two spellings of one DN have in common (RFC 4514, and the matching rule caseIgnoreMatch of RFC 4517)."""
    parts: list[set[tuple[str, str]]] = [set()]
    for attribute, value, separator in _parsed(dn):
        parts[-1].add((attribute.lower(), " ".join(_plain(value).casefold().split())))
        if separator != "+":
            parts.append(set())
    return tuple(frozenset(part) for part in parts if part)


def is_below(dn: str, base: str) -> bool:
    """Whether an entry is in a folder, however deep."""
    entry = canonical(dn)
    folder = canonical(base)
    return len(entry) > len(folder) and entry[len(entry) - len(folder) :] == folder


def first_values(dn: str) -> dict[str, str]:
    """The attributes in the first part of a DN, by their names in small letters, as the directory spells them."""
    found: dict[str, str] = {}
    for attribute, value, separator in _parsed(dn):
        found[attribute.lower()] = _plain(value)
        if separator != "+":
            break
    return found


def _parsed(dn: str) -> list[tuple[str, str, str]]:
    """The parts of a DN; one that is none is a single part, and equal only to itself."""
    try:
        return [(str(one), str(value), str(separator)) for one, value, separator in parse_dn(dn, strip=True)]
    except LDAPInvalidDnError:
        return [("", dn, "")]


def _plain(value: str) -> str:
    """A value without its escapes."""

    def plain(found: re.Match[bytes]) -> bytes:
        return bytes.fromhex(found[1].decode()) if len(found[1]) == 2 else found[1]

    return _ESCAPED.sub(plain, value.encode()).decode(errors="replace")
