"""Ports that are a test's own, from when it names them until the tests end.

The number of a port that was free a moment ago is anybody's: until the server starts that shall have it, another server
or a connection on its way out may take it. These stay bound meanwhile, and nobody listens on them: who connects is
refused, the system gives them to nobody else, and a server that asks for one by its number has it, as all servers here
do so with SO_REUSEADDR (socket(7)).
"""

from __future__ import annotations

import os
import socket

MOST = 200  # that a process holds; a test has far fewer
_held: list[int] = []


def held_port() -> int:
    """The number of a port of 127.0.0.1 that this process holds."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = int(held.getsockname()[1])
    _held.append(held.detach())
    if len(_held) > MOST:
        os.close(_held.pop(0))
    return port
