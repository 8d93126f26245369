"""What somebody wrote in a file: of a notebook its cells and its kernel, without what a run or an editor left in it.

Two files with the same source are the same lesson, whatever their outputs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath
from typing import Any

from portal.notebooks.validation import has_too_much

NOTEBOOK = ".ipynb"
# [words](file#heading); a web address has a colon. Each attempt ends where the next one may begin.
_LINK = re.compile(r"(\]\()([^()\s#:]+)(#[^()\s]*)?(\))")


_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


def imported(program: str) -> set[str]:
    """The modules that the text of a Python program names."""
    return set(_IMPORT.findall(program))


def source(name: str, content: bytes) -> str:
    """The source of a file as text, for people and for comparisons."""
    if name.endswith(NOTEBOOK) and (cells := _cells(content)) is not None:
        return "\n".join(cells) + "\n"
    return content.decode(errors="replace")


def fingerprint(name: str, content: bytes) -> str:
    """Equal for two files with the same source."""
    if name.endswith(NOTEBOOK) and (cells := _cells(content)) is not None:
        content = "\n".join(cells).encode(errors="surrogatepass")
    return hashlib.sha256(content).hexdigest()


def _cells(content: bytes) -> list[str] | None:
    """The kernel and the cells of a notebook; None when it is none, or one that JupyterLab opens no more."""
    try:
        if has_too_much(content.decode(errors="replace")):
            return None
        notebook = json.loads(content)
        kernel = notebook["metadata"].get("kernelspec", {}).get("name", "")
        return [f"kernel: {kernel}\n", *(_cell(cell) for cell in notebook["cells"])]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _cell(cell: dict[str, Any]) -> str:
    title = f"---- {cell['cell_type']}: {cell.get('id', '')} ----"
    parts = [title, text_of(cell)]
    if attachments := cell.get("attachments"):
        digest = hashlib.sha256(json.dumps(attachments, sort_keys=True).encode()).hexdigest()
        parts.append(f"attachments: {', '.join(sorted(attachments))} ({digest[:12]})")
    return "\n".join(parts) + "\n"


def text_of(cell: dict[str, Any]) -> str:
    """What a cell holds; a notebook file has it as one string or as lines."""
    text = cell.get("source", "")
    return text if isinstance(text, str) else "".join(text)


def code(name: str, content: bytes) -> str:
    """The program in a file: of a notebook the code cells."""
    if not name.endswith(NOTEBOOK):
        return content.decode(errors="replace")
    return "\n".join(text_of(cell) for cell in json.loads(content)["cells"] if cell["cell_type"] == "code")


def links(content: bytes) -> Iterator[str]:
    """The files that the Markdown cells of a notebook lead to, as they are written there."""
    for cell in json.loads(content)["cells"]:
        if cell["cell_type"] == "markdown":
            yield from (match[2] for match in _LINK.finditer(text_of(cell)))


def relinked(content: bytes, prefix: str, beside: Collection[str]) -> bytes:
    """A notebook whose links to other lessons lead to the catalogue, seen from another folder.

    Arguments:
        prefix: the notebook's folder in the catalogue, seen from the copy; ``""`` = links stay as they are.
        beside: what the copy has itself.
    """
    if not prefix or not any(link not in beside for link in links(content)):
        return content

    def moved(match: re.Match[str]) -> str:
        if match[2] in beside or match[2].startswith("/"):
            return match[0]
        return f"{match[1]}{PurePosixPath(prefix, match[2])}{match[3] or ''}{match[4]}"

    notebook = json.loads(content)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(moved, text_of(cell)).splitlines(keepends=True)
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()
