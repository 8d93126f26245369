"""``~/templates``: the catalogue in a person's home, for reading and trying; always as it is now.

Its files are not writable; whoever wants to keep something makes a copy. What a person changed all the same, and what
was changed when these were copies to work in (up to 0.1), goes to ``~/templates-kept`` as a copy with a stamp before
the catalogue takes its place. It runs as the person at the start of a session; whatever they put in the way stays.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import stat
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path, PurePosixPath

from portal.gallery import copies
from portal.gallery.files import HeldFolder, real_folder
from portal.gallery.stamp import TEMPLATES, TemplateRefused
from portal.gallery.units import FILE_MAX, Unit, find
from portal.notebooks.files import read_file, real_roots

KEPT = "templates-kept"
README = "README.md"
MODE = 0o444
_WRITABLE = 0o222


def offered(kernel_folders: Sequence[str]) -> frozenset[str] | None:
    """The names of the kernels in these folders; None when there is none, for then it is not known what is offered."""
    found: set[str] = set()
    for folder in kernel_folders:
        with contextlib.suppress(OSError):
            found |= {file.parent.name.lower() for file in Path(folder).glob("*/kernel.json")}
    return frozenset(found) or None


def is_offered(unit: Unit, kernels: Collection[str] | None) -> bool:
    """Whether a template can run here."""
    return kernels is None or unit.template.kernel.lower() in kernels


def fill(
    home: Path, folders: Sequence[Path], known: MutableMapping[str, str], kernels: Collection[str] | None
) -> Iterator[str]:
    """Make ``~/templates`` the catalogue as it is now; yields notes on what was left as it was.

    Arguments:
        known: the hash of each file that we put there, by its place below the home; it is brought up to date.
        kernels: the names of the kernels that are offered; templates for others are not shown. None = show all.
    """
    missing = [folder for folder in folders if not folder.is_dir()]
    for folder in missing:
        yield f"The notebook templates are missing: there is no folder {folder}."
    units = [unit for unit in find(folders).values() if is_offered(unit, kernels)]
    wanted = _wanted(folders, units)
    with HeldFolder.at(home) as held:
        shelf = Shelf(held, known, wanted)
        yield from shelf.clear()
        yield from shelf.keep(units)
        for place in wanted:
            shelf.show(place)
        if not missing:  # else what it has would go, and come back when its file server does
            shelf.take_away()


def _wanted(folders: Sequence[Path], units: Sequence[Unit]) -> dict[str, bytes]:
    """What is to lie in the home, by its place there. Where two folders have one file, the first counts."""
    found = {}
    roots = real_roots(folders)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):  # there is none, or none that anybody would read
            found[f"{TEMPLATES}/{README}"] = read_file(folder / README, FILE_MAX, roots)
    for unit in units:
        for place, name in _places(unit).items():
            found.setdefault(place, unit.contents[name])
    return found


def _places(unit: Unit) -> dict[str, str]:
    """The files of a template by their places below the home, each with its name in a copy."""
    return {f"{TEMPLATES}/{path.relative_to(unit.root)}": name for name, path in unit.files.items()}


class Shelf:
    """The catalogue in one home: what lies there, what we know to have put there, and what is to lie there."""

    def __init__(self, held: HeldFolder, known: MutableMapping[str, str], wanted: Mapping[str, bytes]) -> None:
        self._held = held
        self._known = known
        self._wanted = dict(wanted)
        self._left: set[str] = set()  # as they are: something of the person's is in the way

    def clear(self) -> Iterator[str]:
        """Leave out what a file or a link of the person's is in the way of."""
        for folder in sorted({str(PurePosixPath(place).parent) for place in self._wanted}):
            if real_folder(self._held.path, Path(folder)) is None:
                self._left |= {place for place in self._wanted if place.startswith(f"{folder}/")}
                yield f"~/{folder} is not a folder of yours (a file or a link is there): it has no templates."
        for place in self._wanted.keys() - self._left:
            if self._held.kind(place) not in (None, stat.S_IFREG):
                self._left.add(place)

    def keep(self, units: Sequence[Unit]) -> Iterator[str]:
        """Take what the person has changed out of the way; what cannot be kept is left where it is."""
        changed = {place for place in self._wanted.keys() - self._left if self._is_changed(place)}
        for unit in units:
            places = _places(unit)
            if changed & places.keys():
                yield from self._keep(unit, places)
        if f"{TEMPLATES}/{README}" in changed:
            self._held.move(f"{TEMPLATES}/{README}", self._held.free_name(f"{KEPT}/{README}"))

    def _keep(self, unit: Unit, places: Mapping[str, str]) -> Iterator[str]:
        """Make a copy of a template as the person has it."""
        try:
            if real_folder(self._held.path, Path(KEPT)) is None:
                raise NotADirectoryError(errno.ENOTDIR, f"~/{KEPT} is not a folder of yours")
            mine = {name: self._held.read(place) for place, name in places.items() if place not in self._left}
            contents = {name: content for name, content in mine.items() if content is not None}
            links = f"../../{TEMPLATES}/{unit.template.path.parent.name}"
            with self._held.inner(KEPT) as kept:
                copy = copies.make_of(unit, kept, contents, links, known=False)
        except (OSError, TemplateRefused) as error:
            self._left |= places.keys()
            yield f"~/{TEMPLATES}/{unit.name} was changed by you and stays as it is, for it cannot be kept: {error}."
        else:
            yield f"~/{TEMPLATES}/{unit.name} was changed by you: your copy is now in ~/{KEPT}/{copy.name}."

    def _is_changed(self, place: str) -> bool:
        """Whether something of the person's is in a file: neither what we put there, nor what we would."""
        if self._held.kind(place) is None or self._stands(place):
            return False
        return self._hash_of(place) not in (digest_of(self._wanted[place]), self._known.get(place))

    def _stands(self, place: str) -> bool:
        """Whether a file is the present one, as far as its metadata tell: nothing was able to write it since."""
        found = self._held.stat(place)
        if found is None or found.st_mode & _WRITABLE or found.st_size != len(self._wanted[place]):
            return False
        return self._known.get(place) == digest_of(self._wanted[place])

    def show(self, place: str) -> None:
        """Put a file of the catalogue there, if it is not."""
        if place in self._left or self._stands(place):
            return
        now = digest_of(self._wanted[place])
        if self._held.kind(place) is not None and self._hash_of(place) == now:
            self._held.set_mode(place, MODE)
        else:
            self._held.write(place, self._wanted[place], MODE)
        self._known[place] = now

    def take_away(self) -> None:
        """Remove what is in the catalogue no more; what the person changed of it is theirs from now on."""
        for place in sorted(self._known.keys() - self._wanted.keys()):
            with contextlib.suppress(OSError):  # a link or a folder is in its place
                if self._held.kind(place) is not None and self._hash_of(place) == self._known[place]:
                    self._held.remove(place)
            del self._known[place]

    def _hash_of(self, place: str) -> str:
        """The hash of a file; '' when it cannot be read, so that it counts as changed."""
        try:
            return digest_of(self._held.read(place) or b"")
        except OSError:
            return ""


def digest_of(content: bytes) -> str:
    """The hash by which we know what we put there."""
    return hashlib.sha256(content).hexdigest()
