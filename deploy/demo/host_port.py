"""The host's port: taken early, handed into the namespaces, and who holds it when it is not free."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from deploy.demo.console import DemoError


def listen(bind: str, port: int) -> socket.socket:
    """Listen on the host. Raises ``DemoError`` naming the port, its holder, and the next free one."""
    listening = socket.socket(socket.AF_INET6 if ":" in bind else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((bind, port))
        listening.listen(512)
    except OSError as error:
        listening.close()
        raise DemoError(refusal(bind, port, error)) from error
    return listening


def is_loopback(bind: str) -> bool:
    """Whether only this computer can come to an address."""
    return bind in ("localhost", "::1") or bind.startswith("127.")


def refusal(bind: str, port: int, error: OSError) -> str:
    """What to say about a port that cannot be had."""
    if error.errno != errno.EADDRINUSE:
        return f"port {port} on {bind}: {error.strerror}. Choose another, for example: make demo PORT=8001"
    holder = held_by(port)
    taken = f"port {port} is taken{f' by {holder}' if holder else ''}"
    return f"{taken}. Choose another: make demo PORT={next_free(bind, port)}"


def next_free(bind: str, port: int) -> int:
    """The first port above ``port`` that is free now."""
    for candidate in range(port + 1, min(port + 100, 65536)):
        try:
            listen_briefly(bind, candidate)
        except OSError:
            continue
        return candidate
    return port + 1


def listen_briefly(bind: str, port: int) -> None:
    """Raises ``OSError`` when a port cannot be had."""
    with socket.socket(socket.AF_INET6 if ":" in bind else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((bind, port))
        probe.listen(1)


def held_by(port: int) -> str:
    """The program that listens on a port, as far as this user can see it, else ''."""
    inodes = {inode for name in ("tcp", "tcp6") for inode in listeners(Path("/proc/net", name), port)}
    for process in Path("/proc").glob("[0-9]*"):
        if inodes & set(sockets(process)):
            return f"{program(process)} (process {process.name})"
    return ""


def program(process: Path) -> str:
    """What a process is; the namespaces of a demo show as what starts them."""
    is_demo = b"deploy.demo.init_process" in (process / "cmdline").read_bytes()
    return "another demo" if is_demo else (process / "comm").read_text().strip()


def listeners(table: Path, port: int) -> list[str]:
    """The inodes of the sockets that listen on ``port``, from /proc/net/tcp (state 0A)."""
    rows = [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []
    return [row[9] for row in rows if row[3] == "0A" and int(row[1].rsplit(":", 1)[1], 16) == port]


def sockets(process: Path) -> list[str]:
    """The inodes of a process's sockets; none when they may not be read."""
    try:
        links = [str(entry.readlink()) for entry in (process / "fd").iterdir()]
    except OSError:
        return []
    return [link[8:-1] for link in links if link.startswith("socket:[")]
