"""Conversations with the LDAP servers of a site: trusted, inside TLS, limited in time.

A password leaves this host only inside TLS, towards a server whose certificate chain and host name were checked
(RFC 4513 §3.1.3). Referrals are never followed. Everything here blocks: it runs in threads.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from portal.errors import DirectoryUnavailable, PortalError
from portal.hub.certificates import TrustedCertificates
from portal.language.texts import N_
from portal.settings.ldap_table import LdapTable

with warnings.catch_warnings():  # ldap3 2.9.1 takes two names of pyasn1 by their old spelling
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3
    from ldap3.core.exceptions import LDAPException

Answer = TypeVar("Answer")

UNAVAILABLE = N_(
    "The cluster's login service does not answer. Nothing is wrong with your password: try again in a minute, "
    "and tell your administrator if it lasts."
)
BAD_FOR_S = 30.0


class ServerFault(Exception):
    """One LDAP server cannot be used: dead, silent, not trusted, or its answer makes no sense."""


class Servers:
    """The LDAP servers of a site, asked in their order; a bad one is asked last for half a minute.

    Args:
        settings: the table ``[ldap]``.
        log: gets a line for each bad server.
        clock: seconds, never going back.
        level: of the lines in the log; what is asked every half minute says it in its own words, once.
        is_strict: refuse certificates for faults of form as well; the doctor does.
    """

    def __init__(
        self,
        settings: LdapTable,
        log: logging.Logger = logging.getLogger(__name__),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
        level: int = logging.WARNING,
        *,
        is_strict: bool = False,
    ) -> None:
        self._settings = settings
        self._log = log
        self._clock = clock
        self._level = level
        self._bad_until: dict[str, float] = {}
        self._trusted = TrustedCertificates(settings.ca_file, is_strict=is_strict)

    @property
    def server_limit_s(self) -> float:
        """How long the whole conversation with one server may last, however slow it is."""
        return self._settings.connect_timeout_s + self._settings.receive_timeout_s

    @property
    def limit_s(self) -> float:
        """How long :meth:`ask` may last when every server is bad."""
        return len(self._settings.servers) * self.server_limit_s

    @property
    def is_silent(self) -> bool:
        """True while no server could be used lately."""
        return all(self._is_bad(server) for server in self._settings.servers)

    def ask(self, work: Callable[[str], Answer]) -> Answer:
        """The answer of the first server that can be used; ``work`` talks to one.

        Raises:
            DirectoryUnavailable: no server answered in time, or none could be trusted.
        """
        faults = []
        for server in sorted(self._settings.servers, key=self._is_bad):
            try:
                return work(server)
            except ServerFault as fault:
                self._bad_until[server] = self._clock() + BAD_FOR_S
                self._log.log(self._level, "LDAP server %s cannot be used: %s", server, fault)
                faults.append(f"{server}: {fault}")
        raise DirectoryUnavailable(UNAVAILABLE, detail="; ".join(faults))

    def is_good(self, server: str) -> None:
        """Remember that a server can be used."""
        self._bad_until.pop(server, None)

    def _is_bad(self, server: str) -> bool:
        return self._bad_until.get(server, self._clock()) > self._clock()

    def certificate_end(self, server: str) -> datetime:
        """When the certificate of one server ends, read from a connection that is trusted and has no login.

        Raises:
            ServerFault: the server cannot be used, and why.
        """
        with self.conversation(server) as connection:
            certificate = connection.socket.getpeercert()
            return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)

    @contextlib.contextmanager
    def conversation(self, server: str, dn: str | None = None, password: str = "") -> Iterator[ldap3.Connection]:
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
