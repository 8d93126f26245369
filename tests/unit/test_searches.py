"""What searches bring together: entries page by page, and values range by range, as Active Directory shows many."""

from __future__ import annotations

import re
from typing import Any

from portal.directory.searches import read, search

DN = "CN=Alice,DC=corp,DC=example"
RANGE = 1500  # MaxValRange of Active Directory


class Ranges:
    """A directory that shows the values of an attribute some at a time ([MS-ADTS] 3.1.1.3.1.3.3)."""

    def __init__(self, values: int, is_endless: bool = False) -> None:
        self.values = [f"CN=Group {number},DC=corp,DC=example".encode() for number in range(values)]
        self.is_endless = is_endless
        self.asked: list[tuple[str, list[str]]] = []
        self.result = {"result": 0, "description": "success"}
        self.response: list[dict[str, Any]] = []

    def search(self, base: str, wanted: str, attributes: list[str], **_options: Any) -> None:
        self.asked.append((base, attributes))
        start = next((int(found[1]) for name in attributes if (found := re.search(r"range=(\d+)-", name))), 0)
        part = self.values[start : start + RANGE] or ([b"CN=Again"] if self.is_endless else [])
        is_last = start + RANGE >= len(self.values) and not self.is_endless
        shown = {f"memberOf;range={start}-{'*' if is_last else start + len(part) - 1}": part, "memberOf": []}
        if len(self.values) <= RANGE and not start and not self.is_endless:
            shown = {"memberOf": part}
        self.response = [{"type": "searchResEntry", "dn": DN, "raw_attributes": {"cn": [b"Alice"], **shown}}]


def groups(found: list[bytes]) -> int:
    """How many different ones."""
    return len(set(found))


def test_values_that_are_shown_in_ranges_are_read_to_the_end() -> None:
    server: Any = Ranges(3200)

    (entry,) = search(server, "DC=corp,DC=example", "(cn=Alice)", ["cn", "memberOf"]).entries

    assert groups(entry.attributes["memberof"]) == 3200
    assert entry.attributes["cn"] == [b"Alice"]
    assert [attributes for base, attributes in server.asked if base == DN] == [
        ["memberof;range=1500-*"],
        ["memberof;range=3000-*"],
    ]
    again = read(server, DN, ["memberOf"])
    assert again is not None
    assert groups(again.attributes["memberof"]) == 3200


def test_values_that_are_all_shown_are_asked_for_once() -> None:
    server: Any = Ranges(20)

    (entry,) = search(server, "DC=corp,DC=example", "(cn=Alice)", ["memberOf"]).entries

    assert groups(entry.attributes["memberof"]) == 20
    assert len(server.asked) == 1


def test_ranges_without_an_end_are_left_and_what_was_found_is_told_to_be_a_part() -> None:
    server: Any = Ranges(20, is_endless=True)

    found = search(server, "DC=corp,DC=example", "(cn=Alice)", ["memberOf"])

    assert found.unfinished == "an entry with more values of memberof than can be read"
