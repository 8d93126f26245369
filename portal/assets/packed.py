"""Files as browsers are sent them: packed by gzip or Brotli, once, and kept in memory."""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import brotli

PACKED_FROM = 1024  # bytes; smaller ones stay as they are
LOWEST_PRIORITY = 19
_REFUSED = re.compile(r";\s*q=0(\.0*)?\s*\Z")


@dataclass(frozen=True)
class Asset:
    """One file as it is sent: ``encoding`` is what packed it (RFC 9110, 8.4.1), ``""`` for a body as it is."""

    body: bytes
    encoding: str


def taken(accept_encoding: str) -> set[str]:
    """The encodings that a browser takes, by its header ``Accept-Encoding``."""
    parts = (part.strip().lower() for part in accept_encoding.split(","))
    return {part.partition(";")[0].strip() for part in parts if not _REFUSED.search(part)}


class PackedFiles:
    """What was asked for once, as it is sent.

    gzip takes a fifth of a second for all that a Lab begins with. Brotli makes it a fifth smaller and takes seven
    seconds: a thread of the lowest priority does that, one file after the other, and until it has, browsers get gzip.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, asyncio.Task[Asset]] = {}
        self._smaller: dict[Path, Asset] = {}
        self._asked: SimpleQueue[Path] = SimpleQueue()
        self._packs = False

    async def read(self, file: Path, encodings: set[str]) -> Asset | None:
        """A file in the smallest form that ``encodings`` has; ``None`` where it must be read as it is.

        Errors:
            OSError: there is no such file, or it cannot be read.
        """
        if file not in self._kept:
            self._kept[file] = asyncio.ensure_future(asyncio.to_thread(_packed, file))
            self.pack_smaller(file)
        try:
            asset = await asyncio.shield(self._kept[file])
        except OSError:
            self._kept.pop(file, None)
            raise
        if "br" in encodings and file in self._smaller:
            return self._smaller[file]
        return asset if not asset.encoding or asset.encoding in encodings else None

    def pack_smaller(self, *files: Path) -> None:
        """Have Brotli pack these when there is time."""
        for file in files:
            self._asked.put(file)
        if not self._packs:
            self._packs = True
            threading.Thread(target=self._pack, name="packs files", daemon=True).start()

    def _pack(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)  # on Linux, of this thread alone
        while True:
            file = self._asked.get()
            if file in self._smaller:
                continue
            try:
                body = file.read_bytes()
            except OSError:
                continue  # whoever asks for it is told
            if _shrinks(file, body):
                self._smaller[file] = Asset(brotli.compress(body, mode=brotli.MODE_TEXT), "br")


def _packed(file: Path) -> Asset:
    body = file.read_bytes()
    return Asset(gzip.compress(body, 9, mtime=0), "gzip") if _shrinks(file, body) else Asset(body, "")


def media_type(name: str) -> str:
    """What a file is, by its name (RFC 6838)."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _shrinks(file: Path, body: bytes) -> bool:
    kind = media_type(file.name)
    is_text = kind.startswith("text/") or kind in ("application/javascript", "image/svg+xml")
    return is_text and len(body) >= PACKED_FROM
