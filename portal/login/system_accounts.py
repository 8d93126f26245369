"""Who may use the portal still, where the site gives no account for the directory: by this host's name service.

It proves little. A name service that is half away forgets people, and a group of this host may have the name of one
in LDAP by chance. So somebody counts as gone only who was seen before, while others are found; and whoever counts as
gone is refused while it lasts, and nothing of hers is ended. It blocks; :mod:`portal.login.people` runs it in a thread.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Collection, Sequence

from portal.errors import DirectoryUnavailable
from portal.site import Standing

GONE = "no account on this host any more"


class SystemAccounts:
    """The name service of this host.

    Args:
        allowed_groups: who may use the portal; compared with those groups that this host has.
    """

    def __init__(self, allowed_groups: Sequence[str]) -> None:
        self._allowed = allowed_groups
        self._members: set[str] = set()  # seen in one of the allowed groups
        self._known: set[str] = set()  # seen at all

    def look(self, names: Collection[str]) -> dict[str, Standing]:
        """What this host says of these people.

        Raises:
            DirectoryUnavailable: nobody is found: it is not known whether the name service is there.
        """
        primary = {name: group for name in sorted(names) if (group := _primary_group(name)) is not None}
        if names and not primary:
            raise DirectoryUnavailable("", detail="the name service of this host knows nobody who was asked about")
        self._known |= primary.keys()
        found = {name: self._standing(name, group) for name, group in primary.items()}
        gone = (self._known & set(names)) - primary.keys()
        return found | {name: Standing(GONE, is_sure=False) for name in gone}

    def forget(self, name: str) -> None:
        """Somebody has just logged in: LDAP says that she may use the portal, whatever this host knew before."""
        self._known.discard(name)
        self._members.discard(name)

    def _standing(self, name: str, primary: int) -> Standing:
        mine = set(os.getgrouplist(name, primary))
        here = {group for group in map(_number, self._allowed) if group is not None}
        if mine & here:
            self._members.add(name)
        elif here and name in self._members:
            return Standing(f"in none of the groups {', '.join(self._allowed)} on this host any more", is_sure=False)
        return Standing()


def _primary_group(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_gid
    except KeyError:
        return None


def _number(group: str) -> int | None:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None
