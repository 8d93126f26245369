"""Who may use the portal still, where the site gives no account for the directory: by this host's name service.

It proves little. A name service that is half away forgets people, and a group of this host may have the name of one
in LDAP by chance. So somebody counts as gone only who was seen before, while others are found; and whoever counts as
gone is refused while it lasts, and nothing of hers is ended. It blocks; :mod:`portal.login.people` runs it in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import pwd
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from portal.errors import DirectoryUnavailable, NotAllowed
from portal.language.texts import N_, _
from portal.login.kept import Kept
from portal.site import Standing

Answer = TypeVar("Answer")

# Threads of its own: logins wait for a silent name service no longer than this, and nothing else waits for them.
_AT_LOGINS = ThreadPoolExecutor(4, thread_name_prefix="login-accounts")
WITHIN_S = 2.0
GONE = "no account on this host any more"
FILE = "seen_people.jsonl"  # below portal.state_folder
ACCOUNT = "account"  # seen on this host
MEMBER = "member"  # seen in one of the allowed groups


class SystemAccounts:
    """The name service of this host.

    Args:
        allowed_groups: who may use the portal; compared with those groups that this host has.
        folder: the hub's state folder: who leaves while the hub is away was seen before, too.
    """

    def __init__(self, allowed_groups: Sequence[str], folder: Path) -> None:
        self._allowed = allowed_groups
        self._seen = Kept(folder / FILE)

    def look(self, names: Collection[str]) -> dict[str, Standing]:
        """What this host says of these people.

        Raises:
            DirectoryUnavailable: nobody is found: it is not known whether the name service is there.
        """
        primary = {name: group for name in sorted(names) if (group := _primary_group(name)) is not None}
        if names and not primary:
            raise DirectoryUnavailable("", detail="the name service of this host knows nobody who was asked about")
        seen = self._seen.words()
        here = {group for group in map(_number, self._allowed) if group is not None}
        members = {name for name, group in primary.items() if here & set(os.getgrouplist(name, group))}
        out = {name for name in primary.keys() - members if here and seen.get(name) == MEMBER}
        in_none = f"in none of the groups {', '.join(self._allowed)} on this host any more"
        found = {name: Standing(in_none, is_sure=False) if name in out else Standing() for name in primary}
        gone = {name for name in names if seen.get(name)} - primary.keys()
        new = dict.fromkeys((name for name in primary if not seen.get(name)), ACCOUNT)
        self._seen.keep(new | dict.fromkeys(members, MEMBER))
        return found | {name: Standing(GONE, is_sure=False) for name in gone}

    def forget(self, name: str) -> None:
        """Somebody has just logged in: LDAP says that she may use the portal, whatever this host knew before."""
        self._seen.keep({name: ""})


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


def spelling_on_host(name: str) -> str:
    """How this host spells the account of this name; ``""``: there is none. It blocks."""
    try:
        return pwd.getpwnam(name).pw_name
    except KeyError:
        return ""


async def account_of(name: str) -> str | None:
    """The same, in a thread; ``None``: the name service is silent."""
    return await in_time(lambda: spelling_on_host(name))


async def in_time(ask: Callable[[], Answer], threads: ThreadPoolExecutor = _AT_LOGINS) -> Answer | None:
    """What the name service answers in a thread; ``None``: it is silent."""
    asked = asyncio.get_running_loop().run_in_executor(threads, ask)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WITHIN_S):
            return await asked
    return None


def check_account(name: str, found: str | None) -> None:
    """A session runs as the UNIX account of that very name: nobody is let in without one, or as somebody else.

    Arguments:
        found: what :func:`account_of` says; a name service that is silent keeps nobody out.

    Raises:
        NotAllowed: there is none, or this host spells it differently.
    """
    if found is None or found == name:
        return
    if not found:
        why = N_("there is no account {name} on this cluster")
    else:
        why = N_("this cluster calls your account {found}, and the directory calls it {name}")
    message = _("Your password is right, but {why}. Tell your administrator.")
    said = message.format(why=_(why).format(name=name, found=found))
    raise NotAllowed(said, detail=f"this host: {why.format(name=name, found=found)}")
