"""The house style of the notebook templates.

One title; one parameters cell, which is the first code cell, with a comment on each parameter; no outputs; a card;
named cells; a kernel that exists; no dead link; shared modules beside it that are as all the others.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from portal.language.texts import N_
from portal.lessons import SHARED
from portal.notebooks.files import NOTEBOOK_MAX, read_file
from portal.notebooks.links import link_faults, text_of
from portal.notebooks.validation import bound, in_short

# What a template says of itself, in its notebook metadata under "dsportal": the key and its kind.
CARD: dict[str, type] = {
    "framework": str,
    "kernel": str,
    "gpus": int,
    "minutes_cpu": int,
    "dataset": str,
    "summary": str,
}
OPTIONAL: dict[str, type] = {"minutes_gpu": int, "level": int}  # minutes_gpu: where somebody has measured it
LEVELS = {
    1: N_("First steps"),
    2: N_("In depth"),
    3: N_("On many processes and nodes"),
}  # of the way through the templates
FILES = "files"  # left out where the cells name all that a copy needs
NO_NOTEBOOK = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)  # of JSON of any shape
TEXT_MAX = 1000  # characters of a text on a card


def check(path: Path, kernels: Collection[str] | None = None) -> list[str]:
    """The faults of one notebook against the house style; an empty list when there is none.

    ``kernels`` are the names of the kernels that exist; None = the kernel is not checked.
    """
    import nbformat

    bound()
    try:
        notebook = json.loads(read_file(path, NOTEBOOK_MAX))
        # Ids first: nbformat invents the ones that are missing, and says nothing that a person could use.
        if faults := list(_id_faults(notebook)):
            return faults
        nbformat.validate(notebook)
    except (*NO_NOTEBOOK, nbformat.ValidationError) as error:
        return [f"not a notebook: {in_short(str(error).splitlines()[0])}"]
    rules = (_title_faults, _parameter_faults, _output_faults, _card_faults)
    found = [fault for rule in rules for fault in rule(notebook)]
    found += _file_faults(notebook, path)
    return [*found, *_kernel_faults(notebook, kernels), *link_faults(notebook, path)]


def is_card(card: Mapping[str, Any]) -> bool:
    """Whether the values of a card are what its readers, the hub among them, take them for."""
    kinds = CARD | {key: kind for key, kind in OPTIONAL.items() if key in card}
    is_sound = all(_is_of_kind(card.get(key), kind) for key, kind in kinds.items())
    return is_sound and card.get("level", min(LEVELS)) in LEVELS and _are_names(card.get(FILES, []))


def _is_of_kind(value: object, kind: type) -> bool:
    # isinstance would take True for a whole number
    return type(value) is kind and (not isinstance(value, str) or is_shown(value))


def is_shown(text: str) -> bool:
    """Whether a page can show a text: it is short, and without halves of letters, which UTF-8 does not have."""
    return len(text) <= TEXT_MAX and not re.search("[\ud800-\udfff]", text)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def card_of(notebook: Mapping[str, Any]) -> Mapping[str, Any]:
    """The card of a notebook; an empty one where it has none."""
    card = notebook["metadata"].get("dsportal", {})
    return card if isinstance(card, Mapping) else {}


def module_faults(folder: Path) -> list[str]:
    """The faults of the shared modules in a folder of templates: each is a copy of the one in portal/lessons."""
    return [
        f"{name} is not the one that all lessons share: copy {original} over it"
        for name, original in SHARED.items()
        if os.path.lexists(folder / name) and not _is_copy(folder / name, original.read_bytes())
    ]


def _is_copy(path: Path, content: bytes) -> bool:
    """Whether a file has this content; of one that is longer nothing is read."""
    try:
        return read_file(path, len(content)) == content
    except OSError:  # it cannot be read either by those who copy it
        return False


def titles(notebook: Mapping[str, Any]) -> list[str]:
    """The lines of the Markdown cells that are titles."""
    cells = (text_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    prose = (re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL) for text in cells)
    return [match.strip() for text in prose for match in re.findall(r"^# +(.+)$", text, re.MULTILINE)]


def _title_faults(notebook: Mapping[str, Any]) -> Iterator[str]:
    found = len(titles(notebook))
    if not all(is_shown(title) for title in titles(notebook)):
        yield f"the title is longer than {TEXT_MAX} characters, or has some that UTF-8 does not have"
    if found != 1:
        yield f"{found} titles (lines that start with '# '); there must be one"
    cells = notebook["cells"]
    if not cells or cells[0]["cell_type"] != "markdown" or not text_of(cells[0]).startswith("# "):
        yield "the first cell must be Markdown and start with the title"
    elif len([line for line in text_of(cells[0]).splitlines() if line.strip()]) < 2:
        yield "the first cell must say in one line, under the title, what the notebook does"


def _parameter_faults(notebook: Mapping[str, Any]) -> Iterator[str]:
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", ())]
    if len(tagged) != 1 or tagged[0]["cell_type"] != "code":
        yield f"{len(tagged)} cells have the tag 'parameters'; there must be one, and it must hold code"
        return
    if tagged[0] is not next(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        yield "the cell with the tag 'parameters' must be the first code cell: a person looks for the values there"
    values = parameters(text_of(tagged[0]))
    for name in (name for name, comment in values.items() if not comment):
        yield f"the parameter {name} has no comment: say behind it, or in the line above, what it is"
    if not values:
        yield "the cell with the tag 'parameters' gives no name a value"


def parameters(source: str) -> dict[str, str]:
    """The names that a parameters cell gives values to, in Python or R, and the comment on each ('' = none)."""
    found: dict[str, str] = {}
    name = ""
    above = ""
    for line in source.splitlines():
        code, _, comment = re.sub(r"\"[^\"]*\"|'[^']*'", "''", line).partition("#")
        if match := re.match(r"([A-Za-z.][\w.]*) *(?::[^=]*)?(?:<-|=(?!=))", code):
            name = match[1]
            found[name] = comment.strip() or above
        elif name and code.strip():
            found[name] = found[name] or comment.strip()
        above = "" if code.strip() else comment.strip()
    return found


def _output_faults(notebook: Mapping[str, Any]) -> Iterator[str]:
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell.get("outputs") or cell.get("execution_count") is not None:
            yield f"cell {number} ({cell.get('id')}) has outputs or a number: clear all outputs before you commit"
        if extra := sorted(set(cell["metadata"]) - {"tags"}):
            yield f"cell {number} ({cell.get('id')}) has metadata that a run or an editor left: {', '.join(extra)}"


def _id_faults(notebook: Mapping[str, Any]) -> Iterator[str]:
    if (notebook["nbformat"], notebook["nbformat_minor"]) < (4, 5):
        yield "the format is older than 4.5, which gives every cell an id: save it with a current Jupyter"
        return
    known: set[str] = set()
    for number, name in enumerate((cell.get("id", "") for cell in notebook["cells"]), start=1):
        if not name:
            yield f"cell {number} has no id: save it with a current Jupyter"
        elif re.fullmatch(r"[0-9a-f]{8}|[0-9a-f-]{36}", name):
            yield f"cell {number} has the random id {name}: give it a word, so that a change reads well"
        elif name in known:
            yield f"cell {number} has the id {name} of an earlier cell"
        else:
            known.add(name)


def _card_faults(notebook: Mapping[str, Any]) -> Iterator[str]:
    card = card_of(notebook)
    spec = notebook["metadata"].get("kernelspec", {})
    kinds = CARD | {key: kind for key, kind in OPTIONAL.items() if key in card}
    for key in sorted(set(card) - set(kinds) - {FILES}):
        known = ", ".join([*CARD, *OPTIONAL, FILES])
        yield f"the card (metadata.dsportal) has the unknown key {key!r}; there are {known}"
    for key, kind in kinds.items():
        if not _is_of_kind(card.get(key), kind) or card[key] == "":
            wanted = f"a text of at most {TEXT_MAX} characters" if kind is str else "a whole number"
            yield f"the card (metadata.dsportal) needs {key!r}, {wanted}"
    if card.get("level", min(LEVELS)) not in list(LEVELS):
        levels = ", ".join(f"{number} ({words})" for number, words in LEVELS.items())
        yield f"the card's level is {card['level']!r}; there are {levels}"
    if not spec.get("language"):
        yield "the notebook's kernelspec has no language: choose its kernel and save it with a current Jupyter"
    if spec.get("name") != card.get("kernel"):
        yield f"the card's kernel is {card.get('kernel')!r}, but the notebook's is {spec.get('name')!r}"


def _file_faults(notebook: Mapping[str, Any], path: Path) -> Iterator[str]:
    names = card_of(notebook).get(FILES, [])
    if not _are_names(names):
        yield f"the card's {FILES!r} is {names!r}: a list of the names of files and folders beside the notebook"
        return
    for name in names:
        if name.startswith("/") or ".." in Path(name).parts:
            yield f"the card's {FILES!r} names {name!r}, which is not beside the notebook: put it there"
        elif not (path.parent / name).exists():
            yield f"the card's {FILES!r} names {name!r}, which does not exist"


def _kernel_faults(notebook: Mapping[str, Any], kernels: Collection[str] | None) -> Iterator[str]:
    name = card_of(notebook).get("kernel")
    if isinstance(name, str) and name and kernels is not None and name not in kernels:
        yield f"there is no kernel {name!r}; there are {', '.join(sorted(kernels)) or 'none'}"
