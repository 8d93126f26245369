"""The catalogue: every template that there is, with the modules and the small data that belong to it.

What belongs to a notebook is read from what it says: files beside it that its code names, the modules that those
import, also from the folder of another framework (:mod:`portal.gallery.modules`), and files that its text leads to.
Whatever it does not name stands in its card, as ``files``. In a copy all of that lies beside the notebook.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from portal.gallery import sources
from portal.gallery.modules import Modules
from portal.notebooks import shares
from portal.notebooks.files import NOTEBOOK_MAX, is_below, read_file, real_roots
from portal.notebooks.look import NAMES_MAX, Look, frameworks
from portal.notebooks.template import FILES_MAX, Template

FILE_MAX = 4 * 2**20
UNIT_MAX = 16 * 2**20  # a session reads it at its start: more than that belongs to the storage
KEPT_MAX = 128 * 2**20  # of all templates of a folder
PLACES_MAX = 50_000  # files and folders that are looked at in one folder of templates
SEARCHED_MAX = 4 * 2**30  # bytes of its texts, each for each name that is looked for in it: about two seconds
READ_AS = 32  # names: what it takes to read a text
UNREADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)  # or no notebook
LEFT_OUT = {"__pycache__", "README.md"}
PROGRAMS = {".py", ".r", ".R", ".sh"}


@dataclass(frozen=True)
class Unit:
    """One template with everything that belongs to it.

    Attributes:
        root: the folder of templates that it is in.
        roots: where all folders of templates really are: a link that leads elsewhere is not followed.
        files: each file by its name in a copy; the notebook is the first.
    """

    template: Template
    root: Path
    roots: Sequence[Path]
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
    def size(self) -> int:
        """The bytes of its files, as they were first looked at."""
        return sum(path.stat().st_size for path in self.files.values())

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """What is in the files, as it is now."""
        return {name: read_file(path, UNIT_MAX, self.roots) for name, path in self.files.items()}

    def read(self, room: int) -> int | None:
        """Read all of it, and answer its bytes; None where it has more than ``room``: files may grow meanwhile."""
        if self.size > room:
            return None
        size = sum(map(len, self.contents.values()))
        if size > room:
            del self.contents
            return None
        return size

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

    One that cannot be read is left out; ``portal notebooks check`` says why. So is one with which those of its folder
    would take more than :data:`KEPT_MAX`, and what leads out of all folders: it would be read with the rights of this
    person, and may be the person's own. Of that room each framework has a part, which no other one's templates take.
    """
    roots = real_roots(folders)
    found: dict[str, Unit] = {}
    for folder in folders:
        found |= _found_in(folder, roots, found)
    return dict(sorted(found.items()))


def _found_in(folder: Path, roots: Sequence[Path], known: Collection[str]) -> dict[str, Unit]:
    """The templates of one folder, but those whose names are ``known``."""
    listing = Listing(folder, roots)
    units: dict[Path, Unit] = {}
    for template in Look(roots).templates(listing.notebooks):
        if template.name not in known:
            with contextlib.suppress(*UNREADABLE):
                units[template.path] = Unit(template, folder, roots, listing.files(template))
    found: dict[str, Unit] = {}

    def take(path: Path, room: int) -> int | None:
        try:
            size = units[path].read(room)
        except UNREADABLE:
            return 0
        if size is not None:
            found[units[path].name] = units[path]
        return size

    shares.dealt(units, KEPT_MAX, take)
    return found


@dataclass
class _Left:
    """How many places may still be looked at, and how many bytes searched."""

    places: int
    search: int


class Listing:
    """What is in a folder of templates; each of its folders is read once, for it may be on a file server.

    What is over the bounds of one look belongs to no template. Each framework has a part of them.
    """

    def __init__(self, root: Path, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._left = _Left(PLACES_MAX, 0)
        self._found: dict[Path, list[Path]] = {}
        self._beside: dict[Path, list[Path]] = {}
        modules = Modules(root)
        self.notebooks: list[Path] = []
        listed = shares.listed(list(self._folders(root)), self._left.places // 2, self._first)
        self._left.places -= sum(map(len, listed.values()))
        for folder, names in listed.items():
            with contextlib.suppress(OSError):
                shown = _shown(names)
                notebooks = (one for one in shown if one.suffix == sources.NOTEBOOK)
                self.notebooks += [one for one in notebooks if self._is_file(one, NOTEBOOK_MAX)]
                others = [one for one in shown if one.suffix != sources.NOTEBOOK and one.name not in LEFT_OUT]
                self._beside[folder] = others
                modules.add(folder, (one for one in others if one.suffix == ".py" and self._is_file(one)))
        with_notebooks = {one.parent for one in self.notebooks}
        self._modules = {one: modules.of(one) for one in with_notebooks}
        searched = shares.parts(with_notebooks, SEARCHED_MAX)
        places = shares.parts(with_notebooks, self._left.places)
        self._lefts = {one: _Left(places[one], searched[one]) for one in with_notebooks}

    def files(self, template: Template) -> dict[str, Path]:
        """What belongs to a template, by the names in a copy.

        Raises:
            OSError: something of it cannot be read.
        """
        folder = template.path.parent
        self._left = self._lefts[folder]
        found = {template.path.name: template.path}
        for name in template.files[:FILES_MAX]:
            found.update(islice(self._whole(folder / name, folder), FILES_MAX))
        waiting = list(found.values())
        while waiting and len(found) <= FILES_MAX:
            file = waiting.pop()
            for name, used in islice(self._used_by(file, folder), FILES_MAX):
                if name not in found:
                    found[name] = used
                    waiting.append(used)
        return dict(_within(found.items(), UNIT_MAX))

    def _used_by(self, file: Path, folder: Path) -> Iterator[tuple[str, Path]]:
        """What a notebook or a program names: its name in a copy, and the file."""
        is_notebook = file.suffix == sources.NOTEBOOK
        if not is_notebook and file.suffix not in PROGRAMS:
            return
        beside = self._beside[folder]
        if not self._may_search(file.stat().st_size * READ_AS):
            return
        content = read_file(file, UNIT_MAX, self._roots)
        text = sources.code(file.name, content)
        if not self._may_search(len(text) * len(beside)):
            return
        for other in beside:
            if _is_named(other, text):
                yield from self._whole(other, folder)
        own = {other.stem for other in beside if other.suffix == ".py"}
        modules = self._modules[folder]
        for module in sorted(sources.imported(text) - own):
            if module in modules:
                yield f"{module}.py", modules[module]
        for link in dict.fromkeys(sources.links(content)) if is_notebook else ():
            if not self._left.places:
                return
            if not link.endswith(sources.NOTEBOOK) and not link.startswith(("/", "..")):
                yield from self._whole(folder / link, folder)

    def _may_search(self, size: int) -> bool:
        """Whether so much may be searched; what is too long for that hides nothing that is short."""
        if size > self._left.search:
            return False
        self._left.search -= size
        return True

    def _folders(self, root: Path) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            found = frameworks(root, min(NAMES_MAX, self._left.places))
            self._left.places -= len(found)
            yield from (one for one in found if _is_folder(one) and is_below(one, self._roots))

    def _inside(self, folder: Path) -> list[Path]:
        """What is in a folder, by name, as far as this look goes; hidden files and folders are left out."""
        found = list(islice(folder.iterdir(), min(NAMES_MAX, self._left.places)))
        self._left.places -= len(found)
        return _shown(found)

    def _first(self, folder: Path, most: int) -> list[Path]:
        with contextlib.suppress(OSError):
            return list(islice(folder.iterdir(), min(NAMES_MAX, most)))
        return []

    def _is_file(self, place: Path, most: int = FILE_MAX) -> bool:
        """Whether it is a regular file of the templates, of at most so many bytes."""
        return _is_small(place, most) and is_below(place, self._roots)

    def _whole(self, place: Path, folder: Path) -> Iterator[tuple[str, Path]]:
        """A file, or the files of a folder, below ``folder``; hidden and long ones, links to folders are left out."""
        if not place.is_relative_to(folder) or ".." in place.parts:
            return
        if place not in self._found and self._left.places:
            self._left.places -= 1
            self._found[place] = list(islice(self._files(place), FILES_MAX))
        for one in self._found.get(place, ()):
            yield str(one.relative_to(folder)), one

    def _files(self, place: Path) -> Iterator[Path]:
        if _is_folder(place) and not place.is_symlink():
            for one in self._inside(place):
                if one.name not in LEFT_OUT:
                    yield from self._files(one)
        elif self._is_file(place):
            yield place


def _shown(names: Iterable[Path]) -> list[Path]:
    return sorted(one for one in names if not one.name.startswith("."))


def _is_named(other: Path, text: str) -> bool:
    """Whether a program names a file or a module by its name, or a folder in a path or in quotes."""
    if other.suffix == ".py":
        return other.stem in text
    if other.name not in text:
        return False
    return _is_small(other, FILE_MAX) or bool(re.search(rf"""(?<![\w.]){re.escape(other.name)}["'/]""", text))


def _within(files: Iterable[tuple[str, Path]], most: int) -> Iterator[tuple[str, Path]]:
    """The first files that are no longer than ``most`` bytes together."""
    for name, path in files:
        most -= path.stat().st_size
        if most < 0:
            return
        yield name, path


def _is_folder(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:  # a link to where this person may not look
        return False


def _is_small(place: Path, most: int) -> bool:
    try:
        found = place.stat()
    except OSError:  # as above
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= most
