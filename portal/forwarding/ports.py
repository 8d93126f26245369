"""Ports at which nobody else of this machine listens: at addresses of IPv6, too, which clients may ask first."""

from __future__ import annotations

import errno
import socket

ALL_IPV6 = "::"
TRIED = 100  # ports; whoever takes them all at IPv6 keeps others from starting, and not from being the right ones


def listen(host: str) -> socket.socket:
    """A listening socket on a free port of ``host`` ("0.0.0.0": all of IPv4); it is never closed and bound again.

    Raises:
        OSError: of :data:`TRIED` ports somebody had each at IPv6.
    """
    for tried in range(TRIED):
        listener = socket.create_server((host, 0), backlog=128)
        listener.setblocking(False)
        try:
            hold(ALL_IPV6, listener.getsockname()[1])
            break
        except OSError:
            listener.close()
            if tried == TRIED - 1:
                raise
    return listener


def hold(address: str, port: int) -> None:
    """Keep everybody else from a port of IPv6: who asks there is refused, and goes on to IPv4. Nothing without IPv6.

    Another start of this program (execve) has it still.

    Raises:
        OSError: somebody has it (``EADDRINUSE``).
    """
    try:
        taken = socket.socket(socket.AF_INET6)
    except OSError:
        return
    try:
        taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind((address, port))
    except OSError as error:
        taken.close()
        if error.errno == errno.EADDRINUSE:
            raise
        return
    taken.set_inheritable(True)
    taken.detach()  # it is open as long as this process lives
