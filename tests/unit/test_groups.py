"""Groups of groups in a look at many people: each is asked about once, and everybody has the same groups as alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from portal.directory.groups import Asked, groups_of
from portal.directory.persons import Person
from portal.settings.ldap_table import LdapTable

BASE = "ou=groups,dc=example"
IN = {"project": ["faculty"], "course": ["faculty"], "faculty": ["university"]}  # each group: the groups that it is in


class Tree:
    """A connection to a directory with these groups in groups; it counts the searches."""

    def __init__(self) -> None:
        self.searches = 0
        self.result: dict[str, Any] = {"result": 0, "description": "success"}
        self.response: list[dict[str, Any]] = []

    def search(self, base: str, wanted: str, **_options: Any) -> None:
        """Find the groups that have one of the groups in a filter as a member."""
        self.searches += 1
        names = dict.fromkeys(above for name in re.findall(r"member=cn=(\w+),", wanted) for above in IN.get(name, ()))
        self.response = [
            {"type": "searchResEntry", "dn": f"cn={name},{BASE}", "raw_attributes": {"cn": [name.encode()]}}
            for name in names
        ]


@pytest.fixture
def settings() -> LdapTable:
    return LdapTable(
        servers=("ldaps://ldap.example",), ca_file="/etc/ca.pem",
        user_dn="uid={username},ou=people,dc=example", group_base=BASE,
        group_filter="(member={dn})", group_by="memberOf", nested_groups=True,
    )  # fmt: skip


def person(*groups: str) -> Person:
    told = [f"cn={group},{BASE}".encode() for group in groups]
    return Person("uid=ada,ou=people,dc=example", "ada", {"memberof": told})


def test_who_shares_groups_with_others_is_not_asked_about_apart(settings: LdapTable) -> None:
    tree = Tree()
    asked: Asked = {}
    for groups in [("project",), ("course",), ("project", "course"), ("course", "project")] * 100:
        found = groups_of(tree, settings, person(*groups), asked)
        assert found.names([]) == frozenset([*groups, "faculty", "university"])
    assert tree.searches == 4


def test_with_more_groups_than_are_asked_about_apart_all_are_found(settings: LdapTable) -> None:
    many = [f"team{number}" for number in range(70)]
    ways: list[Asked | None] = [None, {}]
    for asked in ways:
        found = groups_of(Tree(), settings, person(*many, "project"), asked)
        assert found.names([]) == frozenset([*many, "project", "faculty", "university"])
