"""The links of a notebook template: to files beside it, to headings, and to the web (well-formed; never fetched)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from portal.notebooks.files import NOTEBOOK_MAX, read_file

_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}")


def link_faults(notebook: Mapping[str, Any], path: Path) -> Iterator[str]:
    """The dead links of the notebook at ``path``, ``<folder>/<framework>/<name>.ipynb``."""
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] != "markdown":
            continue
        for target in _targets(text_of(cell)):
            if reason := _dead(target, notebook, cell, path):
                yield f"cell {number} ({cell.get('id')}): the link {target!r} {reason}"


def _dead(target: str, notebook: Mapping[str, Any], cell: Mapping[str, Any], path: Path) -> str:
    """Why a link leads nowhere; '' when it does not."""
    parts = urlsplit(target)
    if parts.scheme == "attachment":
        return "" if unquote(parts.path) in cell.get("attachments", {}) else "has no attachment of that name"
    if parts.scheme or parts.netloc:
        names_host = _HOST.fullmatch((parts.hostname or "").lower()) and " " not in target
        if parts.scheme == "https" and names_host:
            return ""
        return "is no web address that begins with https:// and names a host"
    if not parts.path:
        return _no_heading(headings(notebook), parts.fragment)
    return _no_file(parts.path, parts.fragment, path)


def _no_file(name: str, anchor: str, path: Path) -> str:
    folder = path.parent.parent.resolve()
    place = (path.parent / unquote(name)).resolve()
    if name.startswith("/") or not place.is_relative_to(folder):
        return f"leads out of the templates: name a file below {folder.name}, seen from this notebook"
    if not place.exists():
        return f"leads to no file: there is no {place.relative_to(folder)}"
    if not anchor:
        return ""
    if place.suffix not in (".ipynb", ".md"):
        return "has an anchor, but only notebooks and Markdown files have headings"
    try:
        content = read_file(place, NOTEBOOK_MAX)
        is_notebook = place.suffix == ".ipynb"
        known = headings(json.loads(content)) if is_notebook else _anchors(content.decode())
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        return f"has an anchor, but its file cannot be read: {error}"
    return _no_heading(known, anchor)


def _no_heading(known: list[str], anchor: str) -> str:
    return "" if unquote(anchor) in known else f"leads to no heading; there are {', '.join(known)}"


def headings(notebook: Mapping[str, Any]) -> list[str]:
    """The anchors of a notebook's headings, as JupyterLab 4 names them: the text, with hyphens for spaces."""
    return [name for cell in notebook["cells"] if cell["cell_type"] == "markdown" for name in _anchors(text_of(cell))]


def _anchors(markdown: str) -> list[str]:
    found = (token for token in _tokens(markdown) if token["type"] == "heading")
    return ["".join(_texts(token)).strip().replace(" ", "-") for token in found]


def _targets(markdown: str) -> list[str]:
    """Where the links and images of a text lead, bare web addresses and those in HTML included."""
    links = [token["attrs"]["url"] for token in _tokens(markdown) if token["type"] in ("link", "image")]
    html = "\n".join(token["raw"] for token in _tokens(markdown) if token["type"] in ("inline_html", "block_html"))
    return [*links, *re.findall(r"""\b(?:href|src) *= *["']([^"']+)""", html)]


def _tokens(markdown: str) -> Iterator[dict[str, Any]]:
    """Everything in a Markdown text, from the outside in."""
    import mistune

    found = mistune.create_markdown(renderer="ast", plugins=["url", "table"])(markdown)
    waiting: list[Any] = list(reversed(found)) if isinstance(found, list) else []
    while waiting:
        token = waiting.pop()
        yield token
        waiting += reversed(token.get("children") or [])


def _texts(token: Mapping[str, Any]) -> Iterator[str]:
    """The text of a token, in pieces."""
    yield token.get("raw", "")
    for child in token.get("children") or []:
        yield from _texts(child)


def text_of(cell: Mapping[str, Any]) -> str:
    """What a cell holds; a notebook file has it as one string or as lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)
