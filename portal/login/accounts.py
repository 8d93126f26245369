"""Who may use the portal still: asked of the directory by a read-only account of the site's own, many people at a time.

It blocks, for as long as the servers make it wait; :mod:`portal.login.people` runs it in a thread.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from portal.directory import entries
from portal.directory.conversation import ServerFault, Servers
from portal.directory.searches import Attributes, bind, filled, groups_of, search, sees_any
from portal.directory.verdicts import Verdict
from portal.errors import DirectoryUnavailable
from portal.login.secret import read_secret
from portal.settings.ldap_table import LdapTable
from portal.site import Standing

AT_ONCE = 50  # people in one search, and in one conversation, so that a far directory has time for its groups


class ServiceAccount:
    """The account ``ldap.bind_dn``.

    Who is not found counts as gone only when the account sees others there: one that may not read the directory
    sends nobody away.

    Args:
        settings: the table ``[ldap]``, with ``bind_dn``.
        log: gets a line for each bad server.
        now: the time of day.
    """

    def __init__(
        self,
        settings: LdapTable,
        log: logging.Logger = logging.getLogger(__name__),  # noqa: B008
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._log = log
        self._servers = Servers(
            settings, log, level=logging.DEBUG
        )  # of its own: a password that is wrong here is no fault of a server
        self._now = now

    def look(self, names: Collection[str]) -> dict[str, Standing]:
        """What the directory says of these people.

        Raises:
            DirectoryUnavailable: nothing is known.
            SiteError: the file with the password cannot be used.
        """
        password = read_secret(self._settings.bind_password_file)
        found: dict[str, Standing] = {}
        for few in portions(sorted(names), AT_ONCE):
            try:
                found |= self._servers.ask(functools.partial(self._look, few, password))
            except DirectoryUnavailable:
                if not found:
                    raise
                break  # what is known is known; the next look begins again
        return found

    def check(self, server: str) -> None:
        """Log in to one server and look for people and groups.

        Raises:
            ServerFault: the account cannot be used there, and why.
            SiteError: as in :meth:`look`.
        """
        with self._logged_in(server, read_secret(self._settings.bind_password_file)) as connection:
            self._check_sight(connection, groups=bool(self._settings.group_base))

    def _look(self, names: Sequence[str], password: str, server: str) -> dict[str, Standing]:
        with self._logged_in(server, password) as connection:
            people = self._people(connection, names)
            asked = {name: self._standing(connection, name, people.get(name)) for name in names}
            found = {name: standing for name, standing in asked.items() if standing}
            left = [standing for standing in found.values() if standing.left]
            if left:
                self._check_sight(connection, groups=any(standing.groups is not None for standing in left))
            self._servers.is_good(server)
            return found

    @contextlib.contextmanager
    def _logged_in(self, server: str, password: str) -> Iterator[Any]:
        with self._servers.conversation(server, self._settings.bind_dn, password) as connection:
            verdict = bind(connection)
            if not verdict.is_right:
                raise ServerFault(f"it does not let ldap.bind_dn in: {verdict.answer}{_password_of(verdict)}")
            yield connection

    def _people(self, connection: Any, names: Sequence[str]) -> dict[str, Attributes]:
        """The entries of those who are there, by name."""
        attribute, folder = self._place
        wanted = "".join(filled(f"({attribute}={{username}})", name, "") for name in names)
        asked = [*entries.LOCKS, *entries.PASSWORDS]
        found = search(connection, folder, f"(|{wanted})", asked, search_scope="LEVEL")
        if found.unfinished:
            raise ServerFault(f"it answered the search for people below {folder} with {found.unfinished}")
        named = {entry.dn.split(",")[0].replace(" ", "").lower(): entry.attributes for entry in found.entries}
        dns = {name: f"{attribute}={name}".lower() for name in names}
        return {name: named[dn] for name, dn in dns.items() if dn in named}

    def _standing(self, connection: Any, name: str, attributes: Attributes | None) -> Standing | None:
        """What is known of one person; ``None`` when the server does not show all of her groups."""
        if attributes is None:
            return Standing(left="not in the directory any more")
        password_set = entries.password_set(attributes)
        if why := entries.locked(attributes, self._now()):
            return Standing(left=why, password_set=password_set)
        if not self._settings.group_base:
            return Standing(password_set=password_set)
        groups, unfinished = groups_of(connection, self._settings, name)
        if unfinished:
            self._log.warning("LDAP: who left: the search for the groups of %s ended with %s", name, unfinished)
            return None
        left = "" if self._settings.allows(groups) else f"in none of {', '.join(self._settings.allowed_groups)}"
        return Standing(left, groups=groups, admin=self._settings.makes_admin(groups), password_set=password_set)

    @property
    def _place(self) -> tuple[str, str]:
        return self._settings.people or ("", "")  # portal.site takes no settings without

    def _check_sight(self, connection: Any, *, groups: bool) -> None:
        """An account that sees nobody, or no group with members, proves nothing."""
        attribute, folder = self._place
        if not sees_any(connection, folder, f"({attribute}=*)"):
            raise ServerFault(f"ldap.bind_dn sees nobody below {folder}")
        members = self._settings.group_filter.replace("{dn}", "*").replace("{username}", "*")
        if groups and not sees_any(connection, self._settings.group_base, members):
            raise ServerFault(f"ldap.bind_dn sees no group with members below {self._settings.group_base}")


def _password_of(verdict: Verdict) -> str:
    """What is the matter with the account's password, beside the server's words."""
    return f" (its password: {verdict.trouble.partition(':')[0]})" if verdict.trouble else ""


def portions(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The names in their order, ``size`` at a time."""
    for start in range(0, len(names), size):
        yield names[start : start + size]
