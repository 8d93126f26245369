"""The catalogue: every template that there is, with the modules and the small data that belong to it.

What belongs to a notebook is read from what it says: files beside it that its code names, the modules that those
import, also from the folder of another framework, and files that its text leads to. Whatever it does not name stands in
its card, as ``files``. In a copy all of that lies beside the notebook.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from portal.gallery import sources
from portal.notebooks.template import Template, read

FILE_MAX = 16 * 2**20
FILES_MAX = 200  # of one template
LEFT_OUT = {"__pycache__", "README.md"}
PROGRAMS = {".py", ".r", ".R", ".sh"}
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


@dataclass(frozen=True)
class Unit:
    """One template with everything that belongs to it.

    Attributes:
        root: the folder of templates that it is in.
        files: each file by its name in a copy; the notebook is the first.
    """

    template: Template
    root: Path
    files: Mapping[str, Path]

    @property
    def name(self) -> str:
        """``<framework>/<lesson>``."""
        return self.template.name

    @property
    def notebook(self) -> str:
        """The notebook's name in a copy."""
        return self.template.path.name

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """What is in the files, as it is now."""
        return {name: path.read_bytes() for name, path in self.files.items()}

    def copied(self, links: str) -> dict[str, bytes]:
        """What is in the files of a copy from which the catalogue is at ``links`` (:func:`sources.relinked`)."""
        notebook = sources.relinked(self.contents[self.notebook], links, self.files)
        return {**self.contents, self.notebook: notebook}

    @cached_property
    def version(self) -> str:
        """Changes with any source of the template, and with nothing else."""
        parts = [f"{name} {sources.fingerprint(name, content)}" for name, content in sorted(self.contents.items())]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def find(folders: Sequence[Path]) -> dict[str, Unit]:
    """The templates of all folders, by name; where two have the same, the first folder's counts.

    One that cannot be read is left out; ``portal notebooks check`` says why.
    """
    found: dict[str, Unit] = {}
    for folder in folders:
        for path in notebooks(folder):
            template = read(path)
            if template and template.name not in found:
                with contextlib.suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
                    unit = Unit(template, folder, _files(template, folder))
                    if unit.contents:  # all of it can be read
                        found[unit.name] = unit
    return dict(sorted(found.items()))


def notebooks(folder: Path) -> list[Path]:
    """The notebooks of a folder of templates, with a card or without."""
    found = (path for path in folder.glob("*/*.ipynb") if not path.name.startswith(".") and path.is_file())
    return sorted(path for path in found if path.stat().st_size <= FILE_MAX)


def _files(template: Template, root: Path) -> dict[str, Path]:
    folder = template.path.parent
    found = {template.path.name: template.path}
    for name in template.files:
        found.update(islice(_whole(folder / name, folder), FILES_MAX))
    waiting = list(found.values())
    while waiting and len(found) <= FILES_MAX:
        file = waiting.pop()
        for name, used in _used_by(file, folder, root):
            if name not in found:
                found[name] = used
                waiting.append(used)
    return found


def _used_by(file: Path, folder: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """What a notebook or a program names: its name in a copy, and the file."""
    is_notebook = file.suffix == sources.NOTEBOOK
    if not is_notebook and file.suffix not in PROGRAMS:
        return
    content = file.read_bytes()
    text = sources.code(file.name, content)
    imported = set(_IMPORT.findall(text))
    for other in _beside(folder):
        if other.name in text or (other.suffix == ".py" and other.stem in text):
            yield from _whole(other, folder)
    for module in imported:
        if not (folder / f"{module}.py").is_file():
            yield from ((one.name, one) for one in sorted(root.glob(f"*/{module}.py"))[:1])
    for link in sources.links(content) if is_notebook else ():
        if not link.endswith(sources.NOTEBOOK) and not link.startswith(("/", "..")):
            yield from _whole(folder / link, folder)


def _beside(folder: Path) -> list[Path]:
    others = (one for one in folder.iterdir() if one.suffix != sources.NOTEBOOK and one.name not in LEFT_OUT)
    return sorted(one for one in others if not one.name.startswith("."))


def _whole(place: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """A file, or all files of a folder, below ``folder``; hidden and long ones, and links to folders, are left out."""
    if not place.is_relative_to(folder) or ".." in place.parts:
        return
    if place.is_dir() and not place.is_symlink():
        inner = (one for one in sorted(place.iterdir()) if not one.name.startswith(".") and one.name not in LEFT_OUT)
        for one in inner:
            yield from _whole(one, folder)
    elif place.is_file() and place.stat().st_size <= FILE_MAX:
        yield str(place.relative_to(folder)), place
