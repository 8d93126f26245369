"""LDAP: is this password right, and which groups is the person in? The only place that imports ldap3.

A password leaves this host only inside TLS, towards a server whose certificate chain and host name were checked
(RFC 4513 §3.1.3), in a simple bind with a name of plain UNIX letters. Referrals are never followed. Everything
here blocks; :mod:`portal.login.auth` runs it in threads.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from portal.errors import DirectoryUnavailable, LoginRefused, NotAllowed, PortalError
from portal.hub.certificates import TrustedCertificates
from portal.site import Identity
from portal.site_tables import LdapTable

with warnings.catch_warnings():  # ldap3 2.9.1 takes two names of pyasn1 by their old spelling
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3
    from ldap3.core import results
    from ldap3.core.exceptions import LDAPException
    from ldap3.utils.conv import escape_filter_chars
    from ldap3.utils.dn import escape_rdn

# What useradd(8) and systemd take, and dots. No capitals: LDAP and JupyterHub ignore case, UNIX does not, so
# "Alice" and "alice" would be one session but two people.
NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}", re.ASCII)
PASSWORD_MAX = 1024
REFUSED = "Wrong user name or password. User names have small letters and no blanks."
UNAVAILABLE = (
    "The cluster's login service does not answer. Nothing is wrong with your password: try again in a minute, "
    "and tell your administrator if it lasts."
)

BAD_FOR_S = 30.0
PAGE_SIZE = 500
PAGES_MAX = 20
# Result codes (RFC 4511 §4.1.9) with which servers refuse one person; 19 and 53 are locked accounts of 389-ds.
_REFUSALS = {
    results.RESULT_CONSTRAINT_VIOLATION,
    results.RESULT_NO_SUCH_OBJECT,
    results.RESULT_INAPPROPRIATE_AUTHENTICATION,
    results.RESULT_INVALID_CREDENTIALS,
    results.RESULT_INSUFFICIENT_ACCESS_RIGHTS,
    results.RESULT_UNWILLING_TO_PERFORM,
}
# A search that ends with these has found what this person may see.
_FOUND_PART = {
    results.RESULT_TIME_LIMIT_EXCEEDED,
    results.RESULT_SIZE_LIMIT_EXCEEDED,
    results.RESULT_ADMIN_LIMIT_EXCEEDED,
    results.RESULT_NO_SUCH_OBJECT,
    results.RESULT_INSUFFICIENT_ACCESS_RIGHTS,
}
_PAGED_RESULTS = "1.2.840.113556.1.4.319"


class ServerFault(Exception):
    """One LDAP server cannot be used: dead, silent, not trusted, or its answer makes no sense."""


class Directory:
    """The LDAP servers of a site, asked in their order; a bad one is asked last for half a minute.

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
        self._clock = clock
        self._bad_until: dict[str, float] = {}
        self._trusted = TrustedCertificates(settings.ca_file)

    @property
    def server_limit_s(self) -> float:
        """How long the whole conversation with one server may last, however slow it is."""
        return self._settings.connect_timeout_s + self._settings.receive_timeout_s

    @property
    def limit_s(self) -> float:
        """How long :meth:`verify` may last when every server is bad."""
        return len(self._settings.servers) * self.server_limit_s

    @property
    def is_silent(self) -> bool:
        """True while no server could be used lately."""
        return all(self._is_bad(server) for server in self._settings.servers)

    def verify(self, name: str, password: str) -> Identity:
        """The person called ``name``, if the password is right and the person may use the portal.

        Raises:
            LoginRefused: wrong name or password, with one message for both.
            NotAllowed: the password is right, the person is in none of the allowed groups.
            DirectoryUnavailable: no server answered in time, or none could be trusted.
        """
        check_spelling(name, password)
        faults = []
        for server in sorted(self._settings.servers, key=self._is_bad):
            try:
                return self._identity(name, self._log_in(server, name, password))
            except ServerFault as fault:
                self._bad_until[server] = self._clock() + BAD_FOR_S
                self._log.warning("LDAP server %s cannot be used: %s", server, fault)
                faults.append(f"{server}: {fault}")
        raise DirectoryUnavailable(UNAVAILABLE, detail="; ".join(faults))

    def certificate_end(self, server: str) -> datetime:
        """When the certificate of one server ends, read from a connection that is trusted and has no login.

        Raises:
            ServerFault: the server cannot be used, and why.
        """
        with self._conversation(server) as connection:
            certificate = connection.socket.getpeercert()
            return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)

    def _is_bad(self, server: str) -> bool:
        return self._bad_until.get(server, self._clock()) > self._clock()

    def _identity(self, name: str, groups: frozenset[str]) -> Identity:
        allowed = self._settings.allowed_groups
        if allowed and not groups & set(allowed):
            known = f"the group {allowed[0]}" if len(allowed) == 1 else f"one of the groups {', '.join(allowed)}"
            raise NotAllowed(
                f"Your password is right, but you are not allowed to use this portal: that takes {known}. "
                "Ask your administrator to add you.",
                detail=f"in none of {', '.join(allowed)}",
            )
        return Identity(name, groups, admin=bool(groups & set(self._settings.admin_groups)))

    def _log_in(self, server: str, name: str, password: str) -> frozenset[str]:
        """Log in to one server as the person, and answer the names of the person's groups."""
        dn = self._settings.user_dn.replace("{username}", escape_rdn(name))
        with self._conversation(server, dn, password) as connection:
            connection.bind(read_server_info=False)
            self._check_bind(server, connection.result)
            return self._groups(connection, dn, name) if self._settings.group_base else frozenset()

    def _check_bind(self, server: str, result: dict[str, Any]) -> None:
        code = result["result"]
        answer = f"{result['description']} {result.get('message') or ''}".strip()[:200]
        if code in _REFUSALS:
            self._bad_until.pop(server, None)
            raise LoginRefused(REFUSED, detail=f"{server}: {answer}")
        if code != results.RESULT_SUCCESS:  # busy, broken, or a referral, which is never followed
            raise ServerFault(f"it answered the login with {answer}")
        self._bad_until.pop(server, None)

    def _groups(self, connection: ldap3.Connection, dn: str, name: str) -> frozenset[str]:
        wanted = self._settings.group_filter.replace("{dn}", escape_filter_chars(dn))
        wanted = wanted.replace("{username}", escape_filter_chars(name))
        found: set[str] = set()
        cookie: bytes | None = None
        for _ in range(PAGES_MAX):
            connection.search(
                self._settings.group_base,
                wanted,
                attributes=[self._settings.group_attribute],
                paged_size=PAGE_SIZE,
                paged_cookie=cookie,
            )
            found |= set(self._names(connection.response or ()))
            cookie = self._next_page(connection.result, name)
            if not cookie:
                break
        return frozenset(found)

    def _names(self, entries: Any) -> Iterator[str]:
        for entry in entries:
            if entry["type"] != "searchResEntry":  # a reference to another server: not followed
                continue
            for attribute, values in entry["raw_attributes"].items():
                if attribute.lower() == self._settings.group_attribute.lower():
                    yield from (value.decode("utf-8", "replace") for value in values)

    def _next_page(self, result: dict[str, Any], name: str) -> bytes | None:
        code = result["result"]
        if code in _FOUND_PART:
            base = self._settings.group_base
            answer = result["description"]
            self._log.warning("LDAP: the search for the groups of %s in %s ended with %s", name, base, answer)
            return None
        if code != results.RESULT_SUCCESS:
            raise ServerFault(f"it answered the search for groups with {result['description']}")
        page = (result.get("controls") or {}).get(_PAGED_RESULTS)
        return page["value"]["cookie"] if page else None

    @contextlib.contextmanager
    def _conversation(self, server: str, dn: str | None = None, password: str = "") -> Iterator[ldap3.Connection]:
        """A connection inside TLS to a trusted server; it is closed in every case, and soon."""
        try:
            connection = self._connection(server, dn, password)
        except (OSError, LDAPException) as error:
            raise ServerFault(str(error)) from error
        limit = threading.Timer(self.server_limit_s, _cut, [connection])
        limit.daemon = True
        limit.start()
        try:
            connection.open(read_server_info=False)
            if not connection.server.ssl:
                connection.start_tls(read_server_info=False)
            if not isinstance(connection.socket, ssl.SSLSocket):
                raise ServerFault("TLS did not start")
            yield connection
        except (PortalError, ServerFault):
            raise
        except (OSError, LDAPException) as error:
            raise ServerFault(str(error)) from error
        except Exception as error:  # ldap3's decoder fails on what it does not know
            raise ServerFault(f"its answer makes no sense ({type(error).__name__}: {error})") from error
        finally:
            limit.cancel()
            _close(connection)

    def _connection(self, server: str, dn: str | None, password: str) -> ldap3.Connection:
        settings = self._settings
        return ldap3.Connection(
            ldap3.Server(
                server,
                tls=_Tls(self._trusted.context()),
                get_info="NO_INFO",
                connect_timeout=settings.connect_timeout_s,
                allowed_referral_hosts=[],
            ),
            user=dn,
            # As bytes it is sent as it was typed; as text ldap3 would normalise it (SASLprep) or refuse it.
            password=password.encode() if dn else None,  # type: ignore[arg-type]
            authentication="SIMPLE" if dn else "ANONYMOUS",
            auto_bind=False,
            auto_referrals=False,
            check_names=False,
            receive_timeout=settings.receive_timeout_s,
        )


class _Tls(ldap3.Tls):
    """TLS by the standard library's rules: chain and host name are checked before anything is sent inside."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context = context

    def wrap_socket(self, connection: ldap3.Connection, do_handshake: bool = False) -> None:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else a login waits 40 ms for an ACK
        connection.socket = self._context.wrap_socket(connection.socket, server_hostname=connection.server.host)


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


def _cut(connection: ldap3.Connection) -> None:
    """End a conversation from outside: the thread that waits in it gets an error at once."""
    with contextlib.suppress(Exception):
        socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)


def _close(connection: ldap3.Connection) -> None:
    """Leave nothing open, whatever state the conversation is in."""
    with contextlib.suppress(Exception):
        connection.unbind()
    sock = connection.socket
    with contextlib.suppress(Exception):
        connection.strategy.close()
    if sock is not None:
        sock.close()
