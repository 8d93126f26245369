"""The demo's people, groups and local accounts: an LDIF for slapd, and the lines of the private /etc/passwd."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable

BASE = "dc=cluster,dc=example"
NAMES = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory", "peggy"]
GROUP = "hpcusers"
GROUP_ID = 20000
FIRST_ID = 20001
PORTAL_DN = f"cn=portal,{BASE}"
# Who may do what. mallory has a right password and is not allowed to use the portal.
GROUPS = {
    "jupyter": [name for name in NAMES if name != "mallory"],
    "portal-admins": ["carol"],
    "hipri": ["bob", "carol"],
    "iq": ["carol", "dave"],
}
# The accounts that the packages' scripts would have made, and the hub's: name → uid, home.
SYSTEM = {
    "munge": (911, "/var/lib/munge"),
    "openldap": (912, "/var/lib/ldap"),
    "nslcd": (913, "/run/nslcd"),
    "mysql": (914, "/cluster/mysql"),
    "portal": (961, "/cluster/hub"),
    "slurm": (964, "/cluster/slurm"),
}


def password(name: str) -> str:
    """The password of a demo person."""
    return f"{name}-demo"


def uids() -> dict[str, int]:
    """Every demo person's UNIX uid."""
    return {name: FIRST_ID + number for number, name in enumerate(NAMES)}


def salted(secret: str) -> str:
    """A password as slapd keeps it ({SSHA}, RFC 2307 with salt)."""
    salt = os.urandom(8)
    digest = hashlib.sha1(secret.encode() + salt, usedforsecurity=False).digest()
    return "{SSHA}" + base64.b64encode(digest + salt).decode()


def ldif() -> str:
    """The whole directory."""
    entries = [
        entry(BASE, ["dcObject", "organization"], dc="cluster", o="Example cluster"),
        entry(f"ou=people,{BASE}", ["organizationalUnit"], ou="people"),
        entry(f"ou=groups,{BASE}", ["organizationalUnit"], ou="groups"),
        *(person(name, uid) for name, uid in uids().items()),
        entry(f"cn={GROUP},ou=groups,{BASE}", ["posixGroup"], cn=GROUP, gidNumber=GROUP_ID, memberUid=NAMES),
        *(group(name, members) for name, members in GROUPS.items()),
    ]
    return "\n".join(entries)


def portal_account(secret: str) -> str:
    """The account by which the hub looks up who may use it still; it may read what everybody may read."""
    classes = ["device", "simpleSecurityObject"]
    return entry(PORTAL_DN, classes, cn="portal", userPassword=salted(secret))


def person(name: str, uid: int) -> str:
    """One person: who can log in, and a UNIX account."""
    return entry(
        f"uid={name},ou=people,{BASE}",
        ["inetOrgPerson", "posixAccount"],
        uid=name,
        cn=name.capitalize(),
        sn="Demo",
        mail=f"{name}@cluster.example",
        uidNumber=uid,
        gidNumber=GROUP_ID,
        homeDirectory=f"/home/{name}",
        loginShell="/bin/bash",
        userPassword=salted(password(name)),
    )


def group(name: str, members: Iterable[str]) -> str:
    """One groupOfNames."""
    dns = [f"uid={member},ou=people,{BASE}" for member in members]
    return entry(f"cn={name},ou=groups,{BASE}", ["groupOfNames"], cn=name, member=dns)


def entry(dn: str, classes: list[str], **attributes: str | int | list[str]) -> str:
    """One LDIF entry. The demo's values need no escaping."""
    lines = [f"dn: {dn}", *(f"objectClass: {name}" for name in classes)]
    for key, value in attributes.items():
        lines += [f"{key}: {one}" for one in (value if isinstance(value, list) else [value])]
    return "\n".join(lines) + "\n"


def passwd(host: str) -> str:
    """/etc/passwd: the host's system accounts, without its people and without whatever has our names or ids."""
    own = [f"{name}:x:{uid}:{uid}::{home}:/usr/sbin/nologin" for name, (uid, home) in SYSTEM.items()]
    return "\n".join([*system_lines(host), *own]) + "\n"


def group_file(host: str) -> str:
    """/etc/group, by the same rule."""
    own = [f"{name}:x:{uid}:" for name, (uid, _) in SYSTEM.items()]
    return "\n".join([*system_lines(host), *own]) + "\n"


def system_lines(host: str) -> list[str]:
    """The lines of a host's passwd or group file whose names and ids stay."""
    taken = {str(uid) for uid, _ in SYSTEM.values()}
    kept = []
    for line in host.splitlines():
        fields = line.split(":")
        is_system = len(fields) > 2 and fields[2].isdigit() and (int(fields[2]) < 1000 or fields[0].startswith("no"))
        if is_system and fields[0] not in SYSTEM and fields[2] not in taken:
            kept.append(line)
    return kept


def shadow(passwd_text: str) -> str:
    """/etc/shadow: nobody can log in by password; PAM wants an entry of everybody all the same."""
    names = [line.split(":")[0] for line in passwd_text.splitlines()]
    return "".join(f"{name}:*:20000::::::\n" for name in names)
