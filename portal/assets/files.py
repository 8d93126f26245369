"""The files of JupyterLab that browsers load: which there are, which every Lab begins with, and their short form.

Each carries a hash of its content in its name, so that a browser keeps it for ever. A session whose own JupyterLab is
the same as the hub's has its page load them from the hub's host: they are in the browser's cache by then, for the hub's
pages have fetched them while the person chose and waited, and they are the same for the next session.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
import re
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "jupyter" / "lab" / "static"
LIST = "first.json"  # the addresses of what every Lab begins with
PACKED_FROM = 1024  # bytes; smaller ones stay as they are
# What a launcher and an opened notebook load in JupyterLab 4.6, by the first part of the names.
CHUNKS = (
    79, 213, 219, 479, 1207, 1587, 1815, 2116, 2154, 2287, 2985, 3301, 3508, 3588, 4232, 4350, 4550, 4571, 4607,
    5098, 5199, 5269, 5361, 5695, 5786, 6237, 6715, 6740, 6925, 7178, 7329, 7335, 7624, 8193, 8608, 8690, 8754,
    8777, 9111, 9198, 9797,
)  # fmt: skip
FIRST = frozenset({"main", "jlab_core", *map(str, CHUNKS)})
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,120}\Z", re.ASCII)
_HASHED = re.compile(r"(?P<part>[A-Za-z0-9_]+)\.(?P<hash>[0-9a-f]{16})\.js\Z")
_NO_PAGES = {".html", ".json", ".txt"}


@dataclass(frozen=True)
class Asset:
    """One file as it is sent: ``body`` is packed by gzip if ``is_packed``."""

    body: bytes
    is_packed: bool
    media_type: str


def key_of(folder: Path) -> str:
    """A name for exactly these files, of 16 hexadecimal digits; ``""`` where there is no JupyterLab."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
        page = (folder / "index.html").read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(page + "\n".join(names).encode()).hexdigest()[:16]


class LabAssets:
    """The files of one JupyterLab; what was asked for once is kept in memory as it is sent (4 MB in all)."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.key = key_of(folder)
        self._folder = folder
        self._kept: dict[str, asyncio.Task[Asset]] = {}
        names = (entry.name for entry in folder.iterdir()) if self.key else ()
        self._names = {name for name in names if _NAME.match(name) and Path(name).suffix not in _NO_PAGES}

    def first(self) -> list[str]:
        """What every Lab begins with: names with the query that JupyterLab itself asks with."""
        found = filter(None, map(_HASHED.match, sorted(self._names)))
        return [f"{match[0]}?v={match['hash']}" for match in found if match["part"] in FIRST]

    async def read(self, name: str) -> Asset | None:
        """One file; ``None`` for what is none of JupyterLab's."""
        if name not in self._names:
            return None
        if name not in self._kept:
            self._kept[name] = asyncio.ensure_future(asyncio.to_thread(_packed, self._folder / name))
        try:
            return await asyncio.shield(self._kept[name])
        except OSError:
            self._kept.pop(name, None)
            return None

    def unpacked(self, name: str) -> Path:
        """A file that :meth:`read` has found, for who takes no gzip."""
        return self._folder / name

    async def prepare(self) -> None:
        """Pack what every Lab begins with, one file after the other, before somebody asks."""
        for name in self.first():
            await self.read(name.partition("?")[0])


def _packed(file: Path) -> Asset:
    body = file.read_bytes()
    media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    is_text = media_type.startswith("text/") or media_type in ("application/javascript", "image/svg+xml")
    if not is_text or len(body) < PACKED_FROM:
        return Asset(body, False, media_type)
    return Asset(gzip.compress(body, 9, mtime=0), True, media_type)
