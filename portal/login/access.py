"""Who is logged in and may go on: what a site's source says of people, and what that means for their logins."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy.orm import object_session

from portal.errors import DirectoryUnavailable, PortalError
from portal.hub.logins import end_logins
from portal.journal import KEPT
from portal.login.accounts import ServiceAccount, check_standing
from portal.login.kept import Kept
from portal.login.passwords import PasswordTimes
from portal.login.people import Look, People
from portal.login.system_accounts import SystemAccounts, in_time
from portal.settings.ldap_table import LdapTable
from portal.site import Identity, Standing


class JupyterUser(Protocol):
    """What is needed of JupyterHub's ``User``."""

    name: str
    groups: Any
    orm_user: Any


_FOR_MAIL = ThreadPoolExecutor(2, thread_name_prefix="mail")  # of its own: nobody else waits for a long address
TRIES = 3  # of one password, where a new one is seen each time
FILE = "left_people.jsonl"  # below portal.state_folder: who left, and whose sessions go on
FindUser = Callable[[str], JupyterUser | None]


class Access:
    """What is known of the people of a portal.

    Args:
        settings: the table ``[ldap]``.
        state_folder: where it is kept when their passwords were set, who was seen, and who left.
        log: the hub's log.
        look: the source; a seam for tests.
        mentioned: groups that other tables of the settings name.
    """

    def __init__(
        self,
        settings: LdapTable,
        state_folder: Path,
        log: logging.Logger,
        look: Look | None = None,
        mentioned: Collection[str] = (),
    ) -> None:
        self._log = log
        self._settings = settings
        self._host = None if settings.bind_dn or look else SystemAccounts(settings.allowed_groups, state_folder)
        account = ServiceAccount(settings, log, mentioned=mentioned)
        self._mail = account.mail
        source = look or (self._host.look if self._host else account.look)
        self.people = People(source, log)
        self.passwords = PasswordTimes(state_folder)
        self.left = Kept(state_folder / FILE)

    @property
    def tells_groups(self) -> bool:
        """Whether the site's account says who is in which group: nobody else has to be asked at a login."""
        return bool(self._settings.bind_dn) and self._settings.asks_groups

    async def check_login(self, ask: Callable[[], Awaitable[Identity]], find_user: FindUser) -> Identity | None:
        """The person who has just given the right password, as the site's account for the directory sees her.

        Answers ``None`` where that account tells groups and has not done so in time.

        Arguments:
            ask: has the password tried; once more where a new one is seen meanwhile, or the old one would do.
            find_user: finds JupyterHub's, if the person was here before; logins with an older password end now.

        Raises:
            DirectoryError: what ``ask`` raises; or a new password was seen each time.
            NotAllowed: the account is locked, has expired, or is in none of the allowed groups.
        """
        for _ in range(TRIES):
            before = self.passwords.known
            identity = await self._seen(await ask(), find_user)
            if identity is None or not self.passwords.is_since(identity.name, before):
                return identity
        raise DirectoryUnavailable("", detail="the password is another one at each look")

    async def _seen(self, identity: Identity, find_user: FindUser) -> Identity | None:
        if self._host:
            self._host.forget(identity.name)
            self.people.forget(identity.name)
            return identity
        standing = await self.people.standing_now(identity.name)
        unknown = None if self.tells_groups else identity
        if standing is None:
            if not self.tells_groups:
                self.people.forget(identity.name)
            return unknown
        check_standing(self._settings, standing)
        self._end_of_before(identity.name, standing, find_user)
        if standing.groups is None:
            return unknown
        return Identity(identity.name, standing.groups, standing.admin)

    async def refresh(self, user: JupyterUser) -> bool | dict[str, object]:
        """What JupyterHub's ``refresh_user`` answers: may the person go on, and with which groups?"""
        standing = await self.people.standing(user.name)
        if standing is None:
            return True
        if standing.left:
            return False
        if self._end_of_before(user.name, standing, lambda _name: user):
            return False
        if standing.groups is None:
            return True
        if {group.name for group in user.groups} == standing.groups:
            return True
        return {"name": user.name, "groups": sorted(standing.groups)}  # administrators are so by their groups

    async def mail_of(self, name: str) -> str:
        """The address in the directory that Slurm writes to; ``""`` = the account, also where none is known in time."""
        if self._settings.mail_attribute:
            with suppress(PortalError):
                return await in_time(lambda: self._mail(name), _FOR_MAIL) or ""
        return ""

    def _end_of_before(self, name: str, standing: Standing, find_user: FindUser) -> bool:
        """Whether somebody has a new password; then what was begun with an older one is over."""

        def end(name: str) -> None:
            if user := find_user(name):
                end_logins(object_session(user.orm_user), user.orm_user, own_tokens=True)
            self._log.warning("%s has a new password: the logins and tokens of before were ended", name, extra=KEPT)

        return bool(self.passwords.new({name: standing}, end))
