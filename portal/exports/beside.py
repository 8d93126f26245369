"""What an export as PDF may read of a notebook's folder: copies of the pictures and TeX files that lie there.

TeX reads whatever a notebook names, and whoever wrote that would learn it by what TeX looks for next. So it reads
nothing but what is in the folder that it works in, and no link has led there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from portal.homes.held_place import held
from portal.homes.regular_file import without_waiting

PICTURES = (".png", ".jpg", ".jpeg", ".pdf", ".svg", ".gif", ".webp", ".bmp")
OF_TEX = (".tex", ".sty", ".cls", ".bib", ".bst")
DEEPEST = 10  # folders
NAMES_MAX = 1000
FILES_MAX = 500
BYTES_MAX = 128 * 2**20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PICTURE = re.compile(r"!\[[^\]]*\]\(\s*<?([^)>\s]+)|<img[^>]+src\s*=\s*[\"']([^\"']+)")


def copy(folder: Path, notebook: Any, to: Path) -> None:
    """Copy the pictures that a notebook's text names, and the files of TeX beside it, into a folder of one's own.

    What is no regular file, is hidden, is longer than there is room, or lies behind a link, is left out.

    Arguments:
        folder: that of the notebook; what others may have put in its place is not looked into.
        to: it is made.
    """
    to.mkdir()
    left = BYTES_MAX
    with ExitStack() as stack, suppress(OSError):
        place = stack.enter_context(held(folder, moved=False))
        here = os.open(place.name, _FOLDER, dir_fd=place.folder)
        stack.callback(os.close, here)
        for name in islice(dict.fromkeys([*_named(notebook), *_of_tex(here)]), FILES_MAX):
            with suppress(OSError):
                left -= _copy(here, name, to, left)


def _named(notebook: Any) -> Iterator[str]:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        lines = cell.get("source") if isinstance(cell, dict) else ""
        text = "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
        for found in _PICTURE.finditer(text):
            name = unquote(found[1] or found[2])
            if name.lower().endswith(PICTURES):
                yield name


def _of_tex(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(one.name for one in islice(entries, NAMES_MAX) if one.name.endswith(OF_TEX))


def _copy(folder: int, name: str, to: Path, most: int) -> int:
    """Copy one file, of at most so many bytes; answers how many."""
    path = PurePosixPath(name)
    if path.is_absolute() or len(path.parts) > DEEPEST or any(part.startswith(".") for part in path.parts):
        return 0
    with ExitStack() as stack:
        for part in path.parts[:-1]:
            folder = os.open(part, _FOLDER, dir_fd=folder)
            stack.callback(os.close, folder)
        descriptor = without_waiting(path.name, os.O_RDONLY | os.O_NOFOLLOW, folder)
        file = stack.enter_context(os.fdopen(descriptor, "rb"))
        status = os.fstat(descriptor)
        if status.st_size > most or status.st_nlink > 1:  # somebody may have given another one's file a second name
            return 0
        content = file.read(most)
    place = to / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return len(content)
