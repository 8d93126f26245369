"""Servers that are none: silent, slow, talking nonsense, or answering what a test wants."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

Answer = Callable[[socket.socket, bytes], None]
EXTENDED_RESPONSE, BIND_RESPONSE = 0x78, 0x61  # RFC 4511, appendix B


class Listener:
    """Something that takes connections and is no LDAP server; ``answer`` gets each of them."""

    def __init__(self, answer: Answer, reads_first: bool = True) -> None:
        self.connections = 0
        self.received = b""
        self._answer, self._reads_first = answer, reads_first
        self._open: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port = self._socket.getsockname()[1]
        self.url = f"ldap://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                self._open.append(connection)
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self.received += (request := connection.recv(4096) if self._reads_first else b"")
            self._answer(connection, request)
            while data := connection.recv(4096):
                self.received += data

    def close(self) -> None:
        """Close everything."""
        for connection in [*self._open, self._socket]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


@contextlib.contextmanager
def listener(answer: Answer, reads_first: bool = True) -> Iterator[Listener]:
    """A :class:`Listener` for the length of a ``with``."""
    made = Listener(answer, reads_first)
    try:
        yield made
    finally:
        made.close()


def says_nothing(connection: socket.socket, request: bytes) -> None:
    """Accepts, and never answers."""


def drips(connection: socket.socket, request: bytes) -> None:
    """Announces a long answer and sends it byte by byte, each in good time."""
    connection.sendall(b"\x30\x84\x00\x00\xff\xff")
    done = threading.Event()
    while not done.wait(0.2):
        connection.sendall(b"\x02")


def talks_nonsense(connection: socket.socket, request: bytes) -> None:
    """Answers, in another protocol."""
    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")


def sends_broken_ldap(connection: socket.socket, request: bytes) -> None:
    """Answers with a well-formed envelope and nothing sensible in it."""
    connection.sendall(b"\x30\x05\x02\x01\x01\x78\x00")


def hangs_up(connection: socket.socket, request: bytes) -> None:
    """Closes the connection as soon as something arrives."""
    connection.shutdown(socket.SHUT_RDWR)


def starts_tls_and_goes_silent(connection: socket.socket, request: bytes) -> None:
    """Agrees to StartTLS (RFC 4511 §4.14.1), and never shows a certificate."""
    connection.sendall(answer_to(request, EXTENDED_RESPONSE, 0))


def refers_starttls(referral: str) -> Answer:
    """A server that answers StartTLS, which comes in plain text, with the address of another server."""

    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer_to(request, EXTENDED_RESPONSE, 10, referral))

    return answer


def answers_logins(context: ssl.SSLContext, code: int, referral: str = "") -> Answer:
    """A server behind real TLS that answers the first request with a BindResponse, and the next with nothing."""

    def answer(connection: socket.socket, request: bytes) -> None:
        with context.wrap_socket(connection, server_side=True) as inside:
            inside.sendall(answer_to(inside.recv(4096), BIND_RESPONSE, code, referral))
            inside.recv(4096)

    return answer


def answer_to(request: bytes, kind: int, code: int, referral: str = "") -> bytes:
    """The LDAPResult (RFC 4511 §4.1.9) of a short request."""
    number = request[4 : 4 + request[3]]
    urls = tlv(0xA3, tlv(0x04, referral.encode())) if referral else b""
    result = tlv(0x0A, bytes([code])) + tlv(0x04, b"") + tlv(0x04, b"") + urls
    return tlv(0x30, tlv(0x02, number) + tlv(kind, result))


def tlv(tag: int, value: bytes) -> bytes:
    """One short element of BER."""
    return bytes([tag, len(value)]) + value


LISTENERS = [
    says_nothing,
    drips,
    talks_nonsense,
    sends_broken_ldap,
    hangs_up,
    starts_tls_and_goes_silent,
]
