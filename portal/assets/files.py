"""The files of JupyterLab that browsers load: which there are, which every Lab begins with, and their short form.

Each carries a hash of its content in its name, so that a browser keeps it for ever. A session whose own JupyterLab is
the same as the hub's has its page load them from the hub's host: they are in the browser's cache by then, for the hub's
pages have fetched them while the person chose and waited, and they are the same for the next session.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from portal.assets.packed import Asset, PackedFiles

FOLDER = Path(sys.prefix) / "share" / "jupyter" / "lab" / "static"
LIST = "first.json"  # the addresses of what every Lab begins with
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


def key_of(folder: Path) -> str:
    """A name for exactly these files, of 16 hexadecimal digits; ``""`` where there is no JupyterLab."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
        page = (folder / "index.html").read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(page + "\n".join(names).encode()).hexdigest()[:16]


class LabAssets:
    """The files of one JupyterLab."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.key = key_of(folder)
        self._folder = folder
        self._packed = PackedFiles()
        names = (entry.name for entry in folder.iterdir()) if self.key else ()
        self._names = {name for name in names if _NAME.match(name) and Path(name).suffix not in _NO_PAGES}

    def first(self) -> list[str]:
        """What every Lab begins with: names with the query that JupyterLab itself asks with.

        Who asks for the list asks for these next, so they are packed from here on.
        """
        found = [match for match in map(_HASHED.match, sorted(self._names)) if match and match["part"] in FIRST]
        self._packed.pack_smaller(*(self._folder / match[0] for match in found))
        return [f"{match[0]}?v={match['hash']}" for match in found]

    async def read(self, name: str, encodings: set[str]) -> Asset | Path | None:
        """One file as a browser takes it, or where it lies for who takes none; ``None`` for none of JupyterLab's."""
        if name not in self._names:
            return None
        file = self._folder / name
        try:
            return await self._packed.read(file, encodings) or file
        except OSError:
            return None
