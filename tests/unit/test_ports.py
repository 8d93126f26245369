"""The port of a session is nobody else's, at IPv6 neither: a node of both kinds may be asked there first."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from portal.forwarding import ports


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])  # noqa: S104  as a session on a node does
@pytest.mark.parametrize("options", [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)])
@pytest.mark.parametrize("address", ["::", "::1"])
def test_nobody_else_listens_at_ipv6_where_a_session_listens(host: str, options: tuple[int, ...], address: str) -> None:
    with ports.listen(host) as listener, socket.socket(socket.AF_INET6) as other:
        port = listener.getsockname()[1]
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        for option in options:
            other.setsockopt(socket.SOL_SOCKET, option, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind((address, port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("::1", port), timeout=5)
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_a_port_that_somebody_has_at_ipv6_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = socket.create_server
    with usual(("::", 0), family=socket.AF_INET6) as other:
        taken = other.getsockname()[1]
        numbers = [0, taken]
        monkeypatch.setattr(socket, "create_server", lambda host, **more: usual((host[0], numbers.pop()), **more))

        with ports.listen("127.0.0.1") as listener:
            assert listener.getsockname()[1] != taken
        assert numbers == [], "the first was tried"


def test_who_starts_again_in_the_same_process_has_it_still() -> None:
    program = """
import os, socket, sys
from portal.forwarding import ports
if sys.argv[1:]:
    try:
        socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6)
    except OSError as error:
        print(error.errno)
else:
    port = ports.listen("127.0.0.1").getsockname()[1]
    os.execve(sys.executable, [sys.executable, "-c", sys.orig_argv[2], str(port)], dict(os.environ))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "98\n"


def test_a_machine_without_ipv6_starts_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = socket.socket

    def without(family: int = socket.AF_INET, *more: int, **fields: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, os.strerror(97))
        return usual(family, *more, **fields)

    monkeypatch.setattr(socket, "socket", without)

    ports.hold("::", 1)
