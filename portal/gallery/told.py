"""The gallery in words: for the command ``portal notebooks``, and for the session's pages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from portal.errors import printable
from portal.gallery import copies
from portal.gallery.compare import compare
from portal.gallery.copies import CopyState, Outcome
from portal.gallery.files import MOVED, HeldFolder
from portal.gallery.stamp import TEMPLATES, TemplateRefused
from portal.gallery.units import Unit, find
from portal.homes.held_place import LinkOfOthers

WORDS = {
    copies.SAME: "as the template is now",
    copies.YOURS: "changed by you",
    copies.NEWER: "the template is newer",
    copies.BOTH: "changed by you, and the template is newer",
    copies.MISSING: "not in your copy",
}


def unit_called(name: str, units: Mapping[str, Unit]) -> Unit:
    """The template of that name.

    Raises:
        TemplateRefused: there is none.
    """
    try:
        return units[name.removesuffix(".ipynb")]
    except KeyError:
        raise TemplateRefused(f"There is no template {name!r}; there are {', '.join(units) or 'none'}.") from None


def new(unit: Unit, home: Path, folder: HeldFolder) -> Path:
    """A copy of a template in a folder; its links lead to the catalogue where both are below the home.

    Raises:
        TemplateRefused: it is one of the catalogue's.
        OSError: it cannot be written.
    """
    parent = folder.path
    shelf = home / TEMPLATES
    if parent == shelf or shelf in parent.parents:
        raise TemplateRefused(f"{parent} is in the catalogue, which is not for copies: choose another folder.")
    lessons = shelf / unit.template.path.parent.name
    links = os.path.relpath(lessons, parent / "copy") if parent == home or home in parent.parents else ""
    return copies.make_in(folder, unit, links)


def described(found: CopyState) -> str:
    """What has become of a copy: a line for all of it, and one for each file that differs."""
    lines = [f"{found.template}: {WORDS[found.word]}"]
    lines += [f"  {name}: {WORDS[word]}" for name, word in found.files.items() if word != copies.SAME]
    return "\n".join(lines)


def done(outcome: Outcome) -> str:
    """What was done with a copy."""
    return "\n".join(_done(outcome))


def _done(outcome: Outcome) -> Iterator[str]:
    if outcome.beside:
        yield (
            "You and the template changed the same file, so your copy stays as it is. "
            f"The new version is beside it, in {outcome.beside.name}."
        )
    elif not outcome.written:
        yield "Nothing was to be done: it is as the template, but for what you changed."
    else:
        yield f"As the template now: {', '.join(outcome.written)}."
    if outcome.kept:
        yield f"What was there before is kept as {', '.join(outcome.kept)}."


def main_copy(folders: Sequence[Path], name: str, into: Path) -> int:
    """Make a copy and say where it is."""
    unit = unit_called(name, find(folders))
    try:
        with copies.opened_parent(into.absolute()) as parent:
            copy = new(unit, Path.home().resolve(), parent.real)
    except OSError as error:
        raise refused(error) from error
    print(printable(f"written: {os.path.relpath(copy)}"))
    return 0


def main_state(folders: Sequence[Path], copy: Path) -> int:
    """Say what has become of a copy."""
    with opened(copy) as folder:
        print(printable(described(copies.state(folder, find(folders)))))
    return 0


def main_compare(folders: Sequence[Path], copy: Path) -> int:
    """Print the differences; 1 when there are any, as diff does."""
    with opened(copy) as folder:
        text = compare(folder, find(folders))
    print(printable(text), end="")  # a copy may be anybody's
    return 1 if text else 0


def main_update(folders: Sequence[Path], copy: Path) -> int:
    """Bring a copy up to date and say what was done."""
    with opened(copy) as folder:
        print(printable(done(copies.update(folder, find(folders)))))
    return 0


def main_reset(folders: Sequence[Path], copy: Path) -> int:
    """Make a copy as its template is and say what was done."""
    with opened(copy) as folder:
        print(printable(done(copies.reset(folder, find(folders)))))
    return 0


@contextmanager
def opened(copy: Path) -> Iterator[HeldFolder]:
    """The folder of a copy; what the file system refuses becomes an error with words for the person."""
    try:
        with HeldFolder.at(copy.absolute()) as folder:
            yield folder
    except OSError as error:
        raise refused(error) from error


def refused(error: OSError) -> TemplateRefused:
    """What the file system said, in words."""
    said = error.strerror
    if isinstance(error, LinkOfOthers) or said == MOVED:
        said = f"{error.filename} {said}"
    elif error.filename:
        said = f"{said} ({error.filename})"
    return TemplateRefused(f"It cannot be done: {said}. Nothing of yours is lost.")
