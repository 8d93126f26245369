"""``portal ldap try NAME``: what a login does, step by step, and what its page would say.

It runs as the hub's account with the hub's settings; nothing is changed, and no attempt is counted.
"""

from __future__ import annotations

import getpass
import logging
import sys
from collections.abc import Callable

from portal.errors import DirectoryError, DirectoryUnavailable, PortalError, printable
from portal.login.accounts import ServiceAccount, check_standing
from portal.login.directory import Directory, Tell
from portal.login.system_accounts import check_account, spelling_on_host
from portal.settings.groups import labels
from portal.settings.ldap_table import LdapTable
from portal.site import Identity, Site

_WIDTH = 15
_SILENT = logging.Logger("portal.ldap.try", logging.CRITICAL)  # what it would say is in the errors


def main(site: Site, name: str, *, with_password: bool, print_line: Callable[[str], None] = print) -> int:
    """Try a login; answers 0 when the person would be logged in, or without a password, when the person was found.

    Raises:
        PortalError: the settings name no LDAP servers.
    """
    if site.ldap is None:
        raise PortalError("The settings have no table [ldap]: people log in by another authenticator, or not at all.")
    directory = Directory(site.ldap, _SILENT, mentioned=site.groups_mentioned, tell=_teller(print_line))
    try:
        if not with_password:
            return _show(directory, name, print_line)
        identity = _log_in(site, site.ldap, directory, name, _teller(print_line))
    except DirectoryError as error:
        print_line(printable(f"\nNo login. The page would say:\n  {error.message}"))
        if error.detail != error.message:
            print_line(printable(f"The hub's log would say:\n  {error.reason}: {error.detail}"))
        return 1
    print_line(f"\n{identity.name} would be logged in.")
    return 0


def _log_in(site: Site, settings: LdapTable, directory: Directory, name: str, tell: Tell) -> Identity:
    identity = directory.verify(name, _password(name))
    tell("allowed", _by(identity, settings))
    tell("administrator", "yes" if identity.admin else "no")
    _tell_account(identity.name, tell)
    check_account(identity.name, spelling_on_host(identity.name))
    if settings.bind_dn:
        _look(settings, ServiceAccount(settings, _SILENT, mentioned=site.groups_mentioned), identity.name, tell)
    return identity


def _look(settings: LdapTable, account: ServiceAccount, name: str, tell: Tell) -> None:
    """What the site's account says of somebody who is logged in; one that cannot say keeps nobody out."""
    try:
        standing = account.look([name]).get(name)
    except DirectoryUnavailable as error:
        tell("who left", f"cannot be asked: {error.detail}")
        return
    if standing is None:
        tell("who left", "bind_dn does not see all groups: it is never noticed that this person leaves")
        return
    tell("who left", f"bind_dn sees: {standing.left}" if standing.left else "bind_dn sees the person; nothing is amiss")
    check_standing(settings, standing)


def _show(directory: Directory, name: str, print_line: Callable[[str], None]) -> int:
    """What can be seen without the password."""
    found = directory.show(name)
    if found:
        _tell_account(found, _teller(print_line))
    print_line("\nNo password was asked for, so nothing is said about a login.")
    return 0 if found else 1


def _password(name: str) -> str:
    """The password, typed without an echo, or the first line of what is piped in."""
    if sys.stdin.isatty():
        return getpass.getpass(f"The password of {name} (it is not shown): ")
    return sys.stdin.readline().rstrip("\n")


def _by(identity: Identity, settings: LdapTable) -> str:
    if not settings.allowed_groups:
        return "yes, as everybody (allowed_groups is empty)"
    return f"yes, by {', '.join(sorted(identity.groups & labels(settings.allowed_groups)))}"


def _tell_account(name: str, tell: Tell) -> None:
    spelled = spelling_on_host(name)
    tell("account", f"{spelled} on this host" if spelled else f"this host knows no {name} (getent passwd {name})")


def _teller(print_line: Callable[[str], None]) -> Tell:
    """Prints a line for each step; a step of several lines is named once."""
    last = ""

    def tell(what: str, found: str) -> None:
        nonlocal last
        shown = printable(found)  # people write their own entries
        print_line(f"  {what if what != last else '':<{_WIDTH}}{shown}")
        last = what

    return tell
