"""Trees in the shapes of other makers' directories, for one real slapd, and the recipes that are written for them.

slapd has neither the rules of Active Directory (``1.2.840.113556.1.4.1941``) nor a computed ``memberOf``: the attribute
is written into the entries here, as those directories show it.
"""

from __future__ import annotations

import base64
import struct
import tomllib
from pathlib import Path
from typing import Any

from tests.directory.slapd import entry

DOCUMENT = Path(__file__).parents[2] / "docs" / "howto" / "ldap.md"
CORP, IPA, ORG = "DC=corp,DC=example", "dc=ipa,dc=example", "dc=org,dc=example"
SERVICE_PASSWORD = "service-pw"
# Of Active Directory what its entries show: names, SIDs, groups. With the rules by which it compares them.
SCHEMA = """\
attributetype ( 1.1.3.1.1 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
attributetype ( 1.1.3.1.2 NAME 'userPrincipalName' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
attributetype ( 1.1.3.1.3 NAME 'objectSid' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
attributetype ( 1.1.3.1.4 NAME 'primaryGroupID' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )
attributetype ( 1.1.3.1.5 NAME 'memberOf' EQUALITY distinguishedNameMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )
attributetype ( 1.1.3.1.6 NAME 'userAccountControl' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )
objectclass ( 1.1.3.2.1 NAME 'user' SUP inetOrgPerson STRUCTURAL
  MAY ( sAMAccountName $ userPrincipalName $ objectSid $ primaryGroupID $ memberOf $ userAccountControl ) )
objectclass ( 1.1.3.2.2 NAME 'group' SUP top STRUCTURAL MUST cn MAY ( member $ objectSid $ memberOf $ gidNumber ) )
objectclass ( 1.1.3.2.3 NAME 'inGroups' AUXILIARY MAY memberOf )
"""
LONG_GROUP = f"CN={'Very Long Name Of A Group ' * 6}End,OU=Groups,{CORP}"


def recipe(heading: str) -> dict[str, Any]:
    """The first table ``[ldap]`` below a heading of the document, as an administrator copies it."""
    section = DOCUMENT.read_text().partition(f"### {heading}\n")[2]
    text = section.partition("```toml\n")[2].partition("```")[0]
    table: dict[str, Any] = tomllib.loads(text)["ldap"]
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def sid(last: int) -> str:
    """A SID of the domain, as LDIF writes bytes."""
    made = struct.pack("<BB6s5I", 1, 5, b"\0\0\0\0\0\5", 21, 11, 22, 33, last)
    return f"objectSid:: {base64.b64encode(made).decode()}"


def folder(dn: str) -> str:
    """A folder; slapd wants no more of it."""
    return entry(dn, "objectClass: extensibleObject", "objectClass: organizationalUnit", "ou: whatever")


def service(dn: str) -> str:
    """The account that reads the directory."""
    lines = ("objectClass: extensibleObject", "objectClass: applicationProcess", "cn: whatever")
    return entry(dn, *lines, f"userPassword: {SERVICE_PASSWORD}")


def user(place: str, sam: str, *more: str) -> str:
    """A person of Active Directory."""
    name = place.partition("=")[2].partition(",")[0]
    lines = (f"cn: {name}", "sn: Test", f"sAMAccountName: {sam}", "userPassword: right-pw", "primaryGroupID: 513")
    return entry(f"{place},{CORP}", "objectClass: user", *lines, *more)


def corp_group(place: str, *more: str) -> str:
    """A group of Active Directory."""
    name = place.partition("=")[2].partition(",")[0]
    return entry(f"{place},{CORP}", "objectClass: group", f"cn: {name}", *more)


def corp() -> str:
    """Active Directory: names not in the DN, people in several folders, groups in groups and in a circle."""
    alice = f"CN=Alice Smith,OU=Berlin,OU=Staff,{CORP}"
    team, users, admins = (f"CN={name},OU=Groups,{CORP}" for name in ("Team A", "Cluster Users", "Cluster Admins"))
    forged = f"CN=Cluster Users,OU=Guests,{CORP}"
    return "".join(
        [
            folder(CORP),
            *(folder(f"OU={name},{CORP}") for name in ("Staff", "Guests", "Groups", "Services")),
            folder(f"OU=Berlin,OU=Staff,{CORP}"),
            service(f"CN=Portal,OU=Services,{CORP}"),
            user(
                *("CN=Alice Smith,OU=Berlin,OU=Staff", "ASmith", "userPrincipalName: alice.smith@corp.example"),
                *(f"memberOf: {team}", sid(1105)),
            ),
            user("CN=Bob,OU=Guests", "bob", f"memberOf: {users}", f"memberOf: {admins}", f"memberOf: {LONG_GROUP}"),
            user("CN=Mallory,OU=Guests", "mallory", f"memberOf: {forged}", sid(1106)),
            user("CN=Twin,OU=Staff", "twin", "mail: one@corp.example", f"memberOf: {users}"),
            user("CN=Twin,OU=Guests", "twin", "mail: other@corp.example", f"memberOf: {users}"),
            user("CN=Thief,OU=Guests", "thief", "userPrincipalName: bob@corp.example", f"memberOf: {users}"),
            user("CN=Odd,OU=Guests", "odd name", "userPrincipalName: odd@corp.example", f"memberOf: {users}"),
            user("CN=Two,OU=Guests", "two\nsAMAccountName: zwei", f"memberOf: {users}"),
            user("CN=Case1,OU=Guests", "c1", "mail: case1@corp.example", "labeledURI: Case", f"memberOf: {users}"),
            user("CN=Case2,OU=Guests", "c2", "mail: case2@corp.example", "labeledURI: case", f"memberOf: {users}"),
            user("CN=Hidden,OU=Guests", "hidden", sid(1107)),  # as an account sees it that may read too little
            user("CN=Digits,OU=Guests", "4711x", f"memberOf: {users}"),
            corp_group("CN=Team A,OU=Groups", f"member: {alice}", f"member: {users}", f"memberOf: {users}"),
            corp_group("CN=Cluster Users,OU=Groups", f"member: {team}", f"memberOf: {team}"),
            corp_group("CN=Cluster Admins,OU=Groups"),
            folder(f"CN=Users,{CORP}"),  # where Active Directory has it, and no setting of the recipe names it
            corp_group("CN=Domain Users,CN=Users", sid(513)),
            corp_group("CN=Cluster Users,OU=Guests"),
        ]
    )


def ipa() -> str:
    """FreeIPA: everything below cn=accounts; memberOf names roles and rules as well."""
    accounts = f"cn=accounts,{IPA}"
    groups, users = f"cn=groups,{accounts}", f"cn=users,{accounts}"
    admins, role = f"cn=portal-admins,{groups}", f"cn=portal-admins,cn=roles,{accounts}"

    def person(name: str, *member_of: str) -> str:
        lines = ("objectClass: inetOrgPerson", "objectClass: inGroups", f"uid: {name}", f"cn: {name}", "sn: Test")
        return entry(f"uid={name},{users}", *lines, "userPassword: right-pw", *(f"memberOf: {dn}" for dn in member_of))

    return "".join(
        [
            folder(IPA),
            *(folder(dn) for dn in (accounts, groups, users, f"cn=roles,{accounts}")),
            *(folder(f"{part},{IPA}") for part in ("cn=etc", "cn=sysaccounts,cn=etc")),
            service(f"uid=portal,cn=sysaccounts,cn=etc,{IPA}"),
            person("alice", f"cn=jupyter,{groups}", f"cn=ipausers,{groups}"),
            person("bob", f"cn=jupyter,{groups}", admins),
            person("mallory", f"cn=jupyter,cn=roles,{accounts}", role),
        ]
    )


def org() -> str:
    """OpenLDAP and 389-ds: two folders of people, groups in groups, primary groups, groups of unique names."""

    def person(name: str, place: str, number: int) -> str:
        classes = ("objectClass: inetOrgPerson", "objectClass: posixAccount")
        ids = (f"uidNumber: {number}", f"gidNumber: {number}", f"homeDirectory: /home/{name}")
        names = (f"uid: {name}", f"cn: {name}", "sn: Test", "userPassword: right-pw")
        return entry(f"uid={name},ou={place},{ORG}", *classes, *names, *ids)

    groups = f"ou=groups,{ORG}"
    posix = ("objectClass: posixGroup", "cn: jupyter-posix", "gidNumber: 6001", "memberUid: carol")
    unique = ("objectClass: groupOfUniqueNames", "cn: gpu-users", f"uniqueMember: uid=alice,ou=staff,{ORG}")
    return "".join(
        [
            folder(ORG),
            *(folder(f"ou={name},{ORG}") for name in ("staff", "guests", "groups")),
            service(f"cn=portal,{ORG}"),
            person("alice", "staff", 5001),
            person("3dlab", "guests", 5002),
            person("carol", "guests", 5003),
            entry(f"cn=lab,{groups}", "objectClass: posixGroup", "cn: lab", "gidNumber: 5002"),
            entry(f"cn=jupyter-posix,{groups}", *posix),
            entry(f"cn=gpu-users,{groups}", *unique),
            chain(groups, "jupyter", f"cn=inner,{groups}", f"uid=3dlab,ou=guests,{ORG}"),
            chain(groups, "inner", f"cn=innermost,{groups}"),
            chain(groups, "innermost", f"uid=alice,ou=staff,{ORG}", f"cn=jupyter,{groups}"),
        ]
    )


def chain(groups: str, name: str, *members: str) -> str:
    """A group whose members are groups and people."""
    return entry(
        f"cn={name},{groups}", "objectClass: groupOfNames", f"cn: {name}", *(f"member: {dn}" for dn in members)
    )


def tree() -> str:
    """All three, below one entry."""
    policy = ("objectClass: device", "objectClass: pwdPolicy", "cn: policy", "pwdAttribute: userPassword")
    top = entry("dc=example", "objectClass: dcObject", "objectClass: organization", "dc: example", "o: Test")
    return "".join([top, entry("cn=policy,dc=example", *policy), corp(), ipa(), org()])
