"""Text that every machine with Python has: the code of its library, and what the code says of itself in docstrings.

Both are under the licence of Python (PSF-2.0). They are two kinds of text, so a model that has learned the one can be
fine-tuned on the other. Modules are put on one side, training or validation, as a whole. The standard library alone.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import warnings
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

VALIDATION = 10  # one of so many texts is kept back
TEXT_FILES = (".txt", ".md", ".rst")


class TextError(Exception):
    """There is no text to learn from: one sentence that says what to do."""


class Texts(NamedTuple):
    """Texts to learn from, and others to be tested on."""

    train: list[str]
    validation: list[str]


class Library(NamedTuple):
    """The two kinds of text in Python's library."""

    code: Texts
    prose: Texts
    modules: int


def code_and_prose(source: str) -> tuple[str, list[str]]:
    """A module's code without docstrings and comments, and its docstrings.

    Raises:
        SyntaxError: it is no module of this Python.
    """
    with warnings.catch_warnings(action="ignore"):  # of a library's old spellings
        tree = ast.parse(source)
    prose = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            prose.append(text)
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree), prose


def is_kept_back(module: str) -> bool:
    """Whether a module is for validation: by its name, so every run and every machine does the same.

    ``_pydecimal`` is ``decimal`` once more, in Python: such twins are on the same side.
    """
    name = re.sub(r"^_(py)?", "", module)
    return zlib.crc32(name.encode()) % VALIDATION == 0


def split(texts: Iterable[tuple[str, bool]]) -> Texts:
    """Texts, each with whether it is kept back; one that is on both sides (an inherited docstring) only trains."""
    given = list(texts)
    train = [text for text, kept_back in given if not kept_back]
    known = set(train)
    return Texts(train, [text for text, kept_back in given if kept_back and text not in known])


def library(folder: Path | None = None) -> Library:
    """What the modules in a folder hold, that of this Python's library without another.

    Raises:
        TextError: there are too few modules.
    """
    folder = folder or Path(sysconfig.get_path("stdlib"))
    read = [(path.stem, *code_and_prose(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.py"))]
    code = split((text, is_kept_back(name)) for name, text, _ in read)
    prose = split((text, is_kept_back(name)) for name, _, texts in read for text in texts)
    if not all((*code, *prose)):
        raise TextError(f"{folder} holds too few modules of Python to learn from: name a text_folder of yours.")
    return Library(code, prose, len(read))


def own_texts(folder: Path) -> Texts:
    """The paragraphs of the text files in a folder; the last tenth of each file is kept back.

    Raises:
        TextError: there are too few.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix in TEXT_FILES and path.is_file())
    texts = split(one for file in files for one in _paragraphs(file.read_text(encoding="utf-8", errors="replace")))
    if not all(texts):
        endings = ", ".join(TEXT_FILES)
        raise TextError(f"{folder} holds too little text: give a folder with files ({endings}) of ten paragraphs each.")
    return texts


def _paragraphs(text: str) -> Sequence[tuple[str, bool]]:
    found = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    last = len(found) - len(found) // VALIDATION
    return [(part, place >= last) for place, part in enumerate(found)]
