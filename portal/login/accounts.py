"""Who may use the portal still: asked of the directory by a read-only account of the site's own, many people at a time.

It blocks, for as long as the servers make it wait; :mod:`portal.login.people` runs it in a thread.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from portal.directory import entries, persons
from portal.directory.conversation import ServerFault, Servers
from portal.directory.groups import Asked, groups_of, in_none
from portal.directory.persons import Person
from portal.directory.searches import bind, one_of, search, sees_any, some, texts
from portal.errors import DirectoryUnavailable, NotAllowed
from portal.language.texts import _
from portal.options.mail import one_address
from portal.settings.ldap_table import LdapTable
from portal.site import Standing

QUICK = {"connect_timeout_s": 1, "receive_timeout_s": 1}  # for an address, for which somebody's start waits
AT_ONCE = 50  # people in one search, and in one conversation, so that a far directory has time for its groups
HALVES_WITHIN_S = 20.0  # of one look at portions that fail; the next one goes on


class ServiceAccount:
    """The account ``ldap.bind_dn``.

    Who is not found counts as gone only when the account sees others there: one that may not read the directory
    sends nobody away.

    Args:
        settings: the table ``[ldap]``, with ``bind_dn``.
        log: gets a line for each bad server.
        now: the time of day.
        mentioned: groups that other tables of the settings name, for those that they name by a DN.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        settings: LdapTable,
        log: logging.Logger = logging.getLogger(__name__),  # noqa: B008
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        mentioned: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._mentioned = (*settings.allowed_groups, *settings.admin_groups, *mentioned)
        self._log = log
        self._servers = Servers(
            settings, log, level=logging.DEBUG
        )  # of its own: a password that is wrong here is no fault of a server
        quick = settings.model_copy(update=QUICK)
        self._servers_of_mail = Servers(quick, log, level=logging.DEBUG)  # long answers are no fault of a server
        self._now = now
        self._clock = clock
        self._failed_at = ""  # who fails again and again keeps nobody from being asked
        self._sizes: dict[str, int] = {}  # of the portion in which somebody is asked about, after one that failed
        self._named: set[str] = set()

    def look(self, names: Collection[str]) -> dict[str, Standing]:
        """What the directory says of these people.

        Raises:
            DirectoryUnavailable: nothing is known.
            SiteError: the file with the password cannot be used.
        """
        password = self._settings.read_bind_password()
        found: dict[str, Standing] = {}
        asked: Asked = {}
        fault: DirectoryUnavailable | None = None
        waiting = self._portions(names)
        until = self._clock() + HALVES_WITHIN_S
        while waiting:
            few = waiting.popleft()
            try:
                found |= self._servers.ask(functools.partial(self._look, few, password, asked))
            except DirectoryUnavailable as error:
                fault = error
                self._failed_at = few[-1]
                if not self._is_answered(password):
                    break  # what is known is known; the next look begins behind those
                is_first = self._sizes.get(few[0], AT_ONCE) == AT_ONCE
                halves = self._halves(few, error.detail)
                if self._clock() <= until:
                    waiting += halves
                elif not is_first:
                    break  # whole portions come first: all of them were asked about
            else:
                self._sizes |= {name: min(2 * self._sizes[name], AT_ONCE) for name in few if name in self._sizes}
                self._named.difference_update(few)
        if fault and not found:
            raise fault
        return found

    def _portions(self, names: Collection[str]) -> deque[Sequence[str]]:
        """The names, a portion at a time; those that failed lately come last, in smaller ones."""
        asks_more = self._settings.nested_groups or self._settings.primary_group
        most = AT_ONCE // 4 if asks_more else AT_ONCE
        sizes = {name: min(self._sizes.get(name, most), most) for name in names}
        in_turn = sorted(names, key=lambda name: (name <= self._failed_at, name))
        found: deque[Sequence[str]] = deque()
        for size in sorted(set(sizes.values()), reverse=True):
            found += portions([name for name in in_turn if sizes[name] == size], size)
        return found

    def _halves(self, few: Sequence[str], why: str) -> Iterable[Sequence[str]]:
        """What is asked next when a portion has failed at servers that answer; who is alone in it is named, once."""
        size = (len(few) + 1) // 2
        self._sizes |= dict.fromkeys(few, size)
        if len(few) > 1:
            return portions(few, size)
        if few[0] not in self._named:
            self._log.warning("LDAP: who left: nobody says whether %s did, others are answered for: %s", few[0], why)
        self._named.update(few)
        return ()

    def _is_answered(self, password: str) -> bool:
        """Whether any server shows this account people and groups."""

        def ask(server: str) -> None:
            with self._logged_in(server, password) as connection:
                self._check_sight(connection, groups=self._settings.asks_groups)

        try:
            self._servers.ask(ask)
        except DirectoryUnavailable:
            return False
        return True

    def mail(self, name: str) -> str:
        """The address in the directory that Slurm writes to; ``""`` where there is none, or not one.

        It is asked for apart: people write it themselves in many directories, and it may be of any length.

        Raises:
            DirectoryUnavailable: nothing is known.
            SiteError: as in :meth:`look`.
        """
        attribute = self._settings.mail_attribute
        password = self._settings.read_bind_password()

        def ask(server: str) -> str:
            with self._logged_in(server, password, self._servers_of_mail) as connection:
                person = self._entries(connection, [name], [attribute]).get(name)
                return one_address(texts(person.attributes, attribute.lower())) if person else ""

        return self._servers_of_mail.ask(ask)

    def check(self, server: str) -> str:
        """Log in to one server and look for people and groups; answers what is hidden from this account there.

        Raises:
            ServerFault: the account cannot be used there, and why.
            SiteError: as in :meth:`look`.
        """
        with self._logged_in(server, self._settings.read_bind_password()) as connection:
            self._check_sight(connection, groups=self._settings.asks_groups)
            return self._hidden(connection)

    def _hidden(self, connection: Any) -> str:
        """Active Directory shows locks and times to few accounts, where it is kept as Microsoft advises.

        Its administrators are shown to everybody, so most of some people count.
        """
        wanted, bases = self._everybody()
        asked = ["objectSid", "userAccountControl"]
        people = [one for base in bases for one in some(connection, base, f"(&{wanted}(objectSid=*))", asked)]
        hidden = [one for one in people if entries.is_hidden(one)]
        return "userAccountControl and pwdLastSet" if len(hidden) > len(people) / 2 else ""

    def _everybody(self) -> tuple[str, Sequence[str]]:
        """A filter for all people, and where they are."""
        attribute, folder = self._settings.people or ("", "")
        if folder:
            return f"({attribute}=*)", (folder,)
        return persons.presence(self._settings), self._settings.user_base

    def _look(self, names: Sequence[str], password: str, asked: Asked, server: str) -> dict[str, Standing]:
        with self._logged_in(server, password) as connection:
            people = self._people(connection, names)
            told = {name: self._standing(connection, name, people.get(name), asked) for name in names}
            found = {name: standing for name, standing in told.items() if standing}
            left = [standing for standing in found.values() if standing.left]
            if left:
                self._check_sight(connection, groups=any(standing.groups is not None for standing in left))
            self._servers.is_good(server)
            return found

    @contextlib.contextmanager
    def _logged_in(self, server: str, password: str, servers: Servers | None = None) -> Iterator[Any]:
        with (servers or self._servers).conversation(server, self._settings.bind_dn, password) as connection:
            verdict = bind(connection)
            if not verdict.is_right:
                raise ServerFault(f"it does not let ldap.bind_dn in: {verdict.detail}")
            yield connection

    def _people(self, connection: Any, names: Sequence[str]) -> dict[str, Person]:
        """The entries of those who are there, by name."""
        asked = [*entries.LOCKS, *entries.PASSWORDS, "objectSid", *persons.own_attributes(self._settings)]
        return self._entries(connection, names, asked)

    def _entries(self, connection: Any, names: Sequence[str], asked: list[str]) -> dict[str, Person]:
        if self._settings.user_base:
            return persons.named(connection, self._settings, names, asked)
        attribute, folder = self._settings.people or ("", "")  # portal.site takes no settings without
        found = search(connection, folder, one_of(attribute, names), asked, search_scope="LEVEL")
        if found.unfinished:
            raise ServerFault(f"it answered the search for people below {folder} with {found.unfinished}")
        firsts = [(entry.dn.split(",")[0], entry) for entry in found.entries]
        named = {dn.replace(" ", "").lower(): entry for dn, entry in firsts if dn.isascii()}  # other letters: see names
        dns = {name: f"{attribute}={name}".lower() for name in names}
        return {name: Person(named[dn].dn, name, named[dn].attributes) for name, dn in dns.items() if dn in named}

    def _standing(self, connection: Any, name: str, person: Person | None, asked: Asked) -> Standing | None:
        """What is known of one person; ``None`` when the server does not show all of her groups."""
        if person is None:
            return Standing(left="not in the directory any more")
        if person.fault:
            self._log.warning("LDAP: who left: %s: %s", person.dn, person.fault)
            return None
        password_set = entries.password_set(person.attributes)
        if why := entries.locked(person.attributes, self._now()):
            return Standing(left=why, password_set=password_set)
        if not self._settings.asks_groups:
            return Standing(password_set=password_set)
        groups = groups_of(connection, self._settings, person, asked)
        if groups.unfinished:
            self._log.warning("LDAP: who left: the search for the groups of %s ended with %s", name, groups.unfinished)
            return None
        names = groups.names(self._mentioned)
        if self._settings.group_by == "memberOf" and not names and entries.is_hidden(person.attributes):
            self._log.warning("LDAP: who left: %s does not see the groups of %s", self._settings.bind_dn, name)
            return None
        left = "" if self._settings.allows(names) else f"in none of {', '.join(self._settings.allowed_groups)}"
        is_admin = self._settings.makes_admin(names)
        return Standing(left, groups=names, admin=is_admin, password_set=password_set)

    def _check_sight(self, connection: Any, *, groups: bool) -> None:
        """An account that sees nobody, or no group with members, proves nothing."""
        wanted, bases = self._everybody()
        for base in bases:
            if not sees_any(connection, base, wanted):
                raise ServerFault(f"ldap.bind_dn sees nobody below {base}")
        if not groups:
            return
        if self._settings.group_by == "memberOf":
            self._check_sight_of_member_of(connection, wanted, bases)
            return
        direct = re.sub(r":[0-9.]+:=", "=", self._settings.group_filter)  # a rule such as IN_CHAIN compares no "*"
        members = direct.replace("{dn}", "*").replace("{username}", "*")
        if not sees_any(connection, self._settings.group_base, members):
            raise ServerFault(f"ldap.bind_dn sees no group with members below {self._settings.group_base}")

    def _check_sight_of_member_of(self, connection: Any, people: str, bases: Sequence[str]) -> None:
        """The attribute that tells groups is operational in some directories, and hidden in others."""
        if not any(
            one.get("memberof")
            for base in bases
            for one in some(connection, base, f"(&{people}(memberOf=*))", ["memberOf"])
        ):
            raise ServerFault(f"ldap.bind_dn sees no memberOf below {' or '.join(bases)}")


def check_standing(settings: LdapTable, standing: Standing) -> None:
    """Refuse a login with the right password of somebody who may not use the portal.

    Raises:
        NotAllowed: the account is locked, has expired, or is in none of the allowed groups.
    """
    if not standing.left:
        return
    if standing.groups is not None:
        raise NotAllowed(_("Your password is right, but {why}").format(why=in_none(settings)), detail=standing.left)
    message = _("Your password is right, but you may not use this portal: {why}. Ask your administrator.")
    raise NotAllowed(message.format(why=standing.left), detail=standing.left)


def portions(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The names in their order, ``size`` at a time."""
    for start in range(0, len(names), size):
        yield names[start : start + size]
