"""The directory at a login: is this password right, and which groups is the person in?

The person logs in to LDAP herself, in a simple bind with a name of plain UNIX letters. Everything here blocks;
:mod:`portal.login.auth` runs it in threads.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from datetime import datetime

from portal.directory.conversation import ServerFault, Servers
from portal.directory.searches import bind, dn_of, groups_of
from portal.directory.verdicts import Verdict
from portal.errors import LoginRefused, NotAllowed
from portal.settings.ldap_table import LdapTable
from portal.site import Identity

# What useradd(8) and systemd take, and dots. No capitals: LDAP and JupyterHub ignore case, UNIX does not, so
# "Alice" and "alice" would be one session but two people.
NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}", re.ASCII)
PASSWORD_MAX = 1024
REFUSED = "Wrong user name or password. User names have small letters and no blanks."


class Directory:
    """The LDAP servers of a site, as logins use them.

    Args:
        settings: the table ``[ldap]``.
        log: gets a line for each bad server and odd answer.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        settings: LdapTable,
        log: logging.Logger = logging.getLogger(__name__),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._log = log
        self._servers = Servers(settings, log, clock)

    @property
    def limit_s(self) -> float:
        """How long :meth:`verify` may last when every server is bad."""
        return self._servers.limit_s

    @property
    def is_silent(self) -> bool:
        """True while no server could be used lately."""
        return self._servers.is_silent

    def verify(self, name: str, password: str) -> Identity:
        """The person called ``name``, if the password is right and the person may use the portal.

        Raises:
            LoginRefused: wrong name or password, with one message for both.
            NotAllowed: the password is right, the person is in none of the allowed groups.
            DirectoryUnavailable: no server answered in time, or none could be trusted.
        """
        check_spelling(name, password)
        return self._identity(name, self._servers.ask(lambda server: self._log_in(server, name, password)))

    def certificate_end(self, server: str) -> datetime:
        """When the certificate of one server ends.

        Raises:
            ServerFault: the server cannot be used, and why.
        """
        return self._servers.certificate_end(server)

    def _identity(self, name: str, groups: frozenset[str]) -> Identity:
        allowed = self._settings.allowed_groups
        if not self._settings.allows(groups):
            known = f"the group {allowed[0]}" if len(allowed) == 1 else f"one of the groups {', '.join(allowed)}"
            raise NotAllowed(
                f"Your password is right, but you are not allowed to use this portal: that takes {known}. "
                "Ask your administrator to add you.",
                detail=f"in none of {', '.join(allowed)}",
            )
        return Identity(name, groups, admin=self._settings.makes_admin(groups))

    def _log_in(self, server: str, name: str, password: str) -> frozenset[str]:
        """Log in to one server as the person, and answer the names of the person's groups."""
        with self._servers.conversation(server, dn_of(self._settings, name), password) as connection:
            self._judge(server, bind(connection))
            if not self._settings.group_base:
                return frozenset()
            groups, unfinished = groups_of(connection, self._settings, name)
            if unfinished:
                base = self._settings.group_base
                self._log.warning("LDAP: the search for the groups of %s in %s ended with %s", name, base, unfinished)
            return groups

    def _judge(self, server: str, verdict: Verdict) -> None:
        """Go on after the right password alone."""
        if not verdict.is_right and not verdict.is_refusal and not verdict.trouble:
            # busy, broken, or a referral, which is never followed
            raise ServerFault(f"it answered the login with {verdict.answer}")
        self._servers.is_good(server)
        if verdict.trouble:
            detail = f"{server}: {verdict.answer}; the password is right, but {verdict.trouble.partition(':')[0]}"
            raise NotAllowed(f"Your password is right, but {verdict.trouble}.", detail=detail)
        if verdict.is_refusal:
            raise LoginRefused(REFUSED, detail=f"{server}: {verdict.answer}")


def check_spelling(name: str, password: str) -> None:
    """Refuse what must never reach LDAP; the message is that of a wrong password.

    An empty password would be an unauthenticated bind, which servers answer with success (RFC 4513 §5.1.2).
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise LoginRefused(REFUSED, detail="not spelled like a user name")
    if not isinstance(password, str) or not password.strip() or "\0" in password:
        raise LoginRefused(REFUSED, detail="no password, a blank one, or one with NUL")
    if len(password) > PASSWORD_MAX or re.search("[\ud800-\udfff]", password):
        raise LoginRefused(REFUSED, detail=f"a password longer than {PASSWORD_MAX} characters, or not Unicode")
