"""The directory at a login: is this password right, and which groups is the person in?

The person logs in to LDAP herself, in a simple bind: with the DN that the settings make of the name, or with the one
that a search finds. Everything here blocks; :mod:`portal.login.auth` runs it in threads.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from portal.directory import persons
from portal.directory.conversation import UNAVAILABLE, ServerFault, Servers
from portal.directory.groups import Groups, groups_of, refused
from portal.directory.names import LoginName, is_unix_name, login_name, rule_of
from portal.directory.persons import Person
from portal.directory.searches import bind, bind_as, dn_of
from portal.directory.verdicts import Verdict
from portal.errors import DirectoryUnavailable, LoginRefused, NotAllowed, SiteError
from portal.language.texts import N_, _
from portal.settings.ldap_table import LdapTable
from portal.site import Identity

PASSWORD_MAX = 1024
REFUSED = N_("Wrong user name or password. User names are spelled as on the cluster, without blanks.")
_NOBODY = "cn=nobody has this name"  # who is not found costs the server the same as who is
Tell = Callable[[str, str], None]


class Directory:
    """The LDAP servers of a site, as logins use them.

    Args:
        settings: the table ``[ldap]``.
        log: gets a line for each bad server and odd answer.
        clock: seconds, never going back.
        mentioned: groups that other tables of the settings name, for those that they name by a DN.
        tell: hears of each step, what it was and what was found, for `portal ldap try`.
    """

    def __init__(
        self,
        settings: LdapTable,
        log: logging.Logger = logging.getLogger(__name__),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
        mentioned: Collection[str] = (),
        tell: Tell = lambda what, found: None,
    ) -> None:
        self._settings = settings
        self._log = log
        self._servers = Servers(settings, log, clock)
        self._mentioned = (*settings.allowed_groups, *settings.admin_groups, *mentioned)
        self._tell = tell

    @property
    def limit_s(self) -> float:
        """How long :meth:`verify` may last when every server is bad."""
        return self._servers.limit_s

    @property
    def is_silent(self) -> bool:
        """True while no server could be used lately."""
        return self._servers.is_silent

    def login_name(self, typed: object) -> LoginName | None:
        """What somebody typed, by the site's rule; ``None``: it is spelled like no name."""
        return login_name(rule_of(self._settings), typed)

    def verify(self, name: str, password: str, *, groups: bool = True) -> Identity:
        """The person called ``name``, if the password is right and the person may use the portal.

        Arguments:
            groups: whether groups are looked up; without, every person's are allowed, and somebody else decides.

        Raises:
            LoginRefused: wrong name or password, with one message for both.
            NotAllowed: the password is right, and the person is in none of the allowed groups, has to change it first,
                or has no UNIX name.
            DirectoryUnavailable: no server answered in time, or none could be trusted.
        """
        login = check_spelling(self._settings, name, password)

        def find(connection: Any) -> Person | None:
            return persons.searched(connection, self._settings, login)

        person, found = self._servers.ask(lambda server: self._log_in(server, login, password, find, groups=groups))
        return self._identity(person, found)

    def confirm(self, name: str, password: str) -> Identity:
        """The same for somebody who is logged in, by the UNIX name that was found at the login."""
        check_password(password)
        if not is_unix_name(name):
            raise LoginRefused(REFUSED, detail="not spelled like a user name")

        def find(connection: Any) -> Person | None:
            return persons.known(connection, self._settings, name)

        login = LoginName(name, name)
        return self._identity(*self._servers.ask(lambda server: self._log_in(server, login, password, find)))

    def show(self, name: str) -> str:
        """Tell what is found of a name without its password, as far as that goes; the UNIX name, ``""`` for nobody.

        Raises:
            LoginRefused: it is spelled like no name.
            DirectoryUnavailable: as in :meth:`verify`.
        """
        login = spelled(self._settings, name)
        if self._settings.user_base:
            return self._servers.ask(lambda server: self._show(server, login))
        self._tell("DN", f"{dn_of(self._settings, login.name)} (made by user_dn; no server was asked)")
        return login.name

    def certificate_end(self, server: str) -> datetime:
        """When the certificate of one server ends.

        Raises:
            ServerFault: the server cannot be used, and why.
        """
        return self._servers.certificate_end(server)

    def _identity(self, person: Person, groups: Groups | None) -> Identity:
        if person.fault:
            words = person.fault.partition(" (")[0]  # without the DNs of others
            message = _("Your password is right, but {why}. Tell your administrator.").format(why=words)
            raise NotAllowed(message, detail=f"{person.dn}: {person.fault}")
        if groups is None:
            return Identity(person.name)
        if why := refused(self._settings, groups, self._mentioned):
            detail = f"in none of {', '.join(self._settings.allowed_groups)}"
            raise NotAllowed(_("Your password is right, but {why}").format(why=why), detail=detail)
        names = groups.names(self._mentioned)
        return Identity(person.name, names, admin=self._settings.makes_admin(names))

    def _log_in(
        self, server: str, login: LoginName, password: str, find: Callable[[Any], Person | None], *, groups: bool = True
    ) -> tuple[Person, Groups | None]:
        """Log in to one server as the person, and answer who that is, and the groups if they are asked for."""
        if self._settings.user_base:
            return self._search_and_log_in(server, password, find, groups=groups)
        with self._servers.conversation(server, dn_of(self._settings, login.name), password) as connection:
            self._tell_server(server, connection)
            self._tell("DN", dn_of(self._settings, login.name))
            self._judge(server, bind(connection))
            if not groups:
                return Person(dn_of(self._settings, login.name), login.name), None
            person = persons.made(connection, self._settings, login.name)
            return person, self._groups(connection, person)

    def _search_and_log_in(
        self, server: str, password: str, find: Callable[[Any], Person | None], *, groups: bool
    ) -> tuple[Person, Groups | None]:
        service = self._service_password()
        with self._servers.conversation(server, self._settings.bind_dn or None, service) as connection:
            self._tell_server(server, connection)
            person = self._searched(connection, find)
            verdict = bind_as(connection, person.dn if person else f"{_NOBODY},{self._settings.user_base[0]}", password)
            self._judge(server, verdict if person else Verdict(verdict.code, verdict.answer), person)
            if person is None:
                raise LoginRefused(REFUSED, detail=f"{server}: nobody has this name")
            if person.fault or not groups:
                return person, None
            if self._settings.bind_dn:
                self._log_in_service(connection, service)
            return person, self._groups(connection, person)

    def _show(self, server: str, login: LoginName) -> str:
        service = self._service_password()
        with self._servers.conversation(server, self._settings.bind_dn or None, service) as connection:
            self._tell_server(server, connection)
            person = self._searched(connection, lambda one: persons.searched(one, self._settings, login))
            if person is None or person.fault:
                return ""
            why = refused(self._settings, self._groups(connection, person), self._mentioned)
            self._tell("allowed", f"no: {why}" if why else "yes")
            return person.name

    def _searched(self, connection: Any, find: Callable[[Any], Person | None]) -> Person | None:
        """The person that a search finds, by the site's account or by nobody."""
        if self._settings.bind_dn:
            verdict = bind(connection)
            if not verdict.is_right:
                raise ServerFault(f"it does not let ldap.bind_dn in: {verdict.detail}")
        self._tell("searched as", self._settings.bind_dn or "nobody (anonymous)")
        person = find(connection)
        self._tell("found", person.dn if person else f"nobody below {' or '.join(self._settings.user_base)}")
        if person and person.fault:
            self._tell("fault", person.fault)
            self._log.warning("LDAP: %s cannot log in: %s", person.dn, person.fault)
        elif person:
            self._tell("UNIX name", f"{person.name} ({self._settings.name_attribute})")
        return person

    def _log_in_service(self, connection: Any, password: str) -> None:
        """Groups are asked as the account that is asked who left: both see the same."""
        verdict = bind_as(connection, self._settings.bind_dn, password)
        if not verdict.is_right:
            raise ServerFault(f"it does not let ldap.bind_dn in: {verdict.detail}")

    def _service_password(self) -> str:
        try:
            return self._settings.read_bind_password()
        except SiteError as error:
            raise DirectoryUnavailable(UNAVAILABLE, detail=error.message) from None

    def _groups(self, connection: Any, person: Person) -> Groups:
        groups = groups_of(connection, self._settings, person)
        if groups.unfinished:
            base = self._settings.group_base
            words = ("LDAP: the search for the groups of %s in %s ended with %s", person.name, base, groups.unfinished)
            self._log.warning(*words)
        for group in groups.found:
            self._tell("groups", f"{group.name or group.dn}  ({group.how})")
        if self._settings.asks_groups and not groups.found:
            self._tell("groups", f"none{': ' + groups.unfinished if groups.unfinished else ''}")
        return groups

    def _tell_server(self, server: str, connection: Any) -> None:
        self._tell("server", f"{server}, {connection.socket.version()}, its certificate is trusted")

    def _judge(self, server: str, verdict: Verdict, found: Person | None = None) -> None:
        """Go on after the right password alone."""
        if not verdict.is_right and not verdict.is_refusal and not verdict.trouble:
            # busy, broken, or a referral, which is never followed
            raise ServerFault(f"it answered the login with {verdict.answer}")
        self._servers.is_good(server)
        if verdict.trouble:
            self._tell("password", f"right, but {verdict.trouble.partition(':')[0]}")
            message = _("Your password is right, but {why}.").format(why=_(verdict.trouble))
            raise NotAllowed(message, detail=f"{server}: {verdict.detail}")
        if verdict.is_refusal:
            self._tell("password", f"refused: {verdict.answer}")
            raise LoginRefused(REFUSED, detail=f"{server}: {verdict.answer}", is_somebody=found is not None)
        self._tell("password", "right")


def check_spelling(settings: LdapTable, name: object, password: object) -> LoginName:
    """What the name means; refuse what must never reach LDAP. The message is that of a wrong password.

    Raises:
        LoginRefused: the name or the password is spelled like none.
    """
    login = spelled(settings, name)
    check_password(password)
    return login


def spelled(settings: LdapTable, name: object) -> LoginName:
    """What a name means.

    Raises:
        LoginRefused: it is spelled like none.
    """
    if not (login := login_name(rule_of(settings), name)):
        raise LoginRefused(REFUSED, detail="not spelled like a user name")
    return login


def check_password(password: object) -> str:
    """The password; what is none is refused.

    An empty password would be an unauthenticated bind, which servers answer with success (RFC 4513 §5.1.2).

    Raises:
        LoginRefused: in the words of a wrong one.
    """
    if not isinstance(password, str) or not password.strip() or "\0" in password:
        raise LoginRefused(REFUSED, detail="no password, a blank one, or one with NUL")
    if len(password) > PASSWORD_MAX or re.search("[\ud800-\udfff]", password):
        raise LoginRefused(REFUSED, detail=f"a password longer than {PASSWORD_MAX} characters, or not Unicode")
    return password


def as_sent(values: Sequence[bytes]) -> str:
    """A form's field as text; ``""`` when it was sent twice or is not UTF-8."""
    try:
        return values[0].decode() if len(values) == 1 else ""
    except UnicodeDecodeError:
        return ""
