"""Whether a file holds what a page of JupyterLab shows of it, as far as that runs."""

from __future__ import annotations

import codecs
import io
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat

from portal.homes.held_place import KEPT_MAX
from portal.homes.regular_file import without_waiting
from portal.notebooks import validation
from portal.notebooks.style import NO_NOTEBOOK

PLAIN = ("utf-8", "utf-8-sig", "ascii", "iso8859-1")  # in others Python may read what no page shows


def holds(path: Path, shown: Sequence[object]) -> bool:
    """Whether a file holds all that documents show of it.

    Arguments:
        shown: of each document its text, or the notebook as nbformat has it; outputs are not looked at.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb", opener=without_waiting) as file:
        read = file.read(KEPT_MAX + 1)
    try:
        if len(read) > KEPT_MAX or not _is_plain(read):
            return False
        text = read.decode()
        return all(_is_shown(text, one) for one in shown)
    except (*NO_NOTEBOOK, nbformat.ValidationError, SyntaxError):
        return False


def _is_plain(program: bytes) -> bool:
    """Whether Python, if it is the one that runs this, reads the letters that a page shows."""
    lines = io.BytesIO(program.replace(b"\r", b"\n"))
    return codecs.lookup(tokenize.detect_encoding(lines.readline)[0]).name in PLAIN


def _is_shown(text: str, shown: object) -> bool:
    if isinstance(shown, str):
        return _lines(text) == shown
    if not isinstance(shown, Mapping) or validation.has_too_much(text):
        return False
    return _run(nbformat.reads(text, as_version=4)) == _run(shown)


def _lines(text: str) -> str:
    """As JupyterLab (4.6) shows them, which has one way to end a line, whatever the file has."""
    return text.replace("\r\n" if "\r\n" in text else "\r", "\n")


def _run(notebook: Mapping[str, object]) -> list[object]:
    """What of a notebook makes what runs: its kernel, and its cells with their tags; not those without anything."""
    cells = notebook.get("cells")
    parts = [_part(cell) for cell in (cells if isinstance(cells, list) else ())]
    language = _in(notebook, "metadata", "language_info", "name") or ""  # papermill writes parameters in it
    kernel = [_in(notebook, "metadata", "kernelspec", word) or "" for word in ("name", "language")]
    return [language, *kernel, *(part for part in parts if part[1] or part[2])]


def _part(cell: object) -> tuple[object, object, object]:
    return _in(cell, "cell_type"), _in(cell, "source"), _in(cell, "metadata", "tags") or []


def _in(found: object, *names: str) -> object:
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
