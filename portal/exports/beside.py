"""What an export as PDF may read of a notebook's folder: copies of the pictures that lie there.

What reads files as a notebook names them works in a folder of its own; what lies beside the notebook is not there. The
pictures that it names are copied to it, and no link has led to one. TeX reads more than that, as
:mod:`portal.exports.converter` says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from portal.homes.held_place import held
from portal.homes.regular_file import without_waiting

PICTURES = {".png", ".jpg", ".jpeg", ".pdf", ".svg", ".gif", ".webp", ".bmp"}
DEEPEST = 5  # folders
NAMES_MAX = 5000  # that are looked at
FILES_MAX = 500
BYTES_MAX = 128 * 2**20
TEXT_MAX = 2**20  # characters of the notebook's text that are searched for them
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def copy(folder: Path, notebook: Any, to: Path) -> None:
    """Copy the pictures whose names are in a notebook's text into a folder of one's own.

    What is no regular file, is hidden, is longer than there is room, or lies behind a link, is left out.

    Arguments:
        folder: that of the notebook; what others may have put in its place is not looked into.
        to: it is made.
    """
    to.mkdir()
    left = BYTES_MAX
    text = _text(notebook)
    with ExitStack() as stack, suppress(OSError):
        place = stack.enter_context(held(folder, moved=False))
        here = os.open(place.name, _FOLDER, dir_fd=place.folder)
        stack.callback(os.close, here)
        names = (
            name for name in islice(_files(here, DEEPEST, PurePosixPath()), NAMES_MAX) if name and _is_meant(name, text)
        )
        for name in islice(names, FILES_MAX):
            with suppress(OSError):
                left -= _copy(here, name, to, left)


def _text(notebook: Any) -> str:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    found = [cell for cell in (cells if isinstance(cells, list) else ()) if isinstance(cell, dict)]
    lines = (cell.get("source") for cell in found if cell.get("cell_type") != "code")
    return "\n".join("".join(map(str, one)) if isinstance(one, list) else str(one) for one in lines)[:TEXT_MAX]


def _is_meant(name: PurePosixPath, text: str) -> bool:
    """Whether the text has its name, without the ending, as it is or as an address has it."""
    return name.suffix.lower() in PICTURES and (name.stem in text or quote(os.fsencode(name.stem)) in text)


def _files(folder: int, depth: int, above: PurePosixPath) -> Iterator[PurePosixPath | None]:
    """The files below a folder, those of the folder itself first; None for what is none."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in islice(entries, NAMES_MAX):
            is_shown = not entry.name.startswith(".")
            is_file = is_shown and entry.is_file(follow_symlinks=False)
            if is_shown and depth and entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            yield above / entry.name if is_file else None
    for name in sorted(folders):
        with suppress(OSError), ExitStack() as stack:
            inner = os.open(name, _FOLDER, dir_fd=folder)
            stack.callback(os.close, inner)
            yield from _files(inner, depth - 1, above / name)


def _copy(folder: int, path: PurePosixPath, to: Path, most: int) -> int:
    """Copy one file, of at most so many bytes; answers how many."""
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
