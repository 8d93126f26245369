"""A copy of a template: made as one unit with a stamp, looked at, brought up to date, and made as it was.

What a person did is never lost: what would be replaced and is not as the template had it is kept beside, with the date
in its name. The stamp is written last, so that a copy whose update was cut off is brought up to date by the next one.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from portal.gallery.files import HeldFolder
from portal.gallery.sources import fingerprint
from portal.gallery.stamp import STAMP, Stamp, TemplateRefused, stamped
from portal.gallery.units import Unit

SAME = "same"  # as the template is now
YOURS = "yours"  # changed by the person only
NEWER = "newer"  # changed by the template only
BOTH = "both"
MISSING = "missing"
MOST_COPIES = 1000


@dataclass(frozen=True)
class CopyState:
    """What has become of a copy: for each file of the template one of the words above."""

    template: str
    version: str
    files: Mapping[str, str]

    @property
    def word(self) -> str:
        """One word for all of it; a file that is missing is one that the person changed."""
        found = set(self.files.values())
        if BOTH in found or (NEWER in found and found & {YOURS, MISSING}):
            return BOTH
        return NEWER if NEWER in found else YOURS if found & {YOURS, MISSING} else SAME


def make(unit: Unit, parent: Path, links: str = "") -> Path:
    """A new copy, in a folder of its own below ``parent``; it is there as a whole or not at all.

    Raises:
        TemplateRefused: there is no such folder.
        OSError: it cannot be written.
    """
    with opened_parent(parent) as folder:
        return make_in(folder, unit, links)


@contextmanager
def opened_parent(parent: Path) -> Iterator[HeldFolder]:
    """The folder that copies are to be made in, a link of the person's own followed.

    Raises:
        TemplateRefused: there is no such folder.
        OSError: somebody else's link is on the way, where others can put one.
    """
    if not parent.is_dir():
        raise TemplateRefused(f"There is no folder {parent}: make it first, or choose another one.")
    with HeldFolder.at(parent, follow=True) as folder:
        yield folder


def make_in(parent: HeldFolder, unit: Unit, links: str) -> Path:
    """A new copy in a folder that is held."""
    return make_of(unit, parent, unit.copied(links), links, known=True)


def make_of(unit: Unit, parent: HeldFolder, contents: Mapping[str, bytes], links: str, *, known: bool) -> Path:
    """A copy with these contents; ``known`` when they are the template's own.

    Where others can change the parent, they can exchange what is made in it at any moment: so it is written, looked at
    and taken away by its descriptor.

    Raises:
        TemplateRefused: it was exchanged.
        OSError: it cannot be written.
    """
    building = f".new-template-{secrets.token_hex(6)}"
    digests = {name: fingerprint(name, content) if known else "" for name, content in contents.items()}
    with parent.made(building) as folder:
        try:
            for name, content in contents.items():
                folder.write(name, content)
            _stamp(unit, links, digests).write(folder)
            return parent.path / _named(parent, folder, building, unit)
        except BaseException:
            folder.clear([*contents, STAMP])
            if parent.has(building, folder):
                parent.remove_empty(building)
            raise


def _named(parent: HeldFolder, folder: HeldFolder, building: str, unit: Unit) -> str:
    """Give a folder that is whole its name; one that is taken gets a number."""
    if not parent.has(building, folder):
        raise TemplateRefused(_exchanged(parent.path / building))
    for name in _names(unit):
        try:
            parent.give_name(building, name)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            continue  # it is taken
        if not parent.has(name, folder):
            raise TemplateRefused(_exchanged(parent.path / name))
        return name
    raise TemplateRefused(f"{parent.path} has {MOST_COPIES - 1} copies of {unit.name} already: remove some.")


def _exchanged(place: Path) -> str:
    return (
        f"There is no copy: somebody who can change {place.parent} put something else in its place while it was made. "
        f"What lies at {place} is not yours to trust. Choose a folder that only you can change."
    )


def _names(unit: Unit) -> Iterator[str]:
    """The names that copies of a template have."""
    name = unit.name.replace("/", "-")
    yield name
    yield from (f"{name}-{number}" for number in range(2, MOST_COPIES))


def _stamp(unit: Unit, links: str, digests: Mapping[str, str]) -> Stamp:
    return Stamp(unit.name, unit.version, datetime.now().astimezone().isoformat(timespec="seconds"), links, digests)


def state(folder: HeldFolder, units: Mapping[str, Unit]) -> CopyState:
    """What has become of the copy in a folder.

    Raises:
        TemplateRefused: it is none, or its template is no more.
    """
    stamp, unit = stamped(folder, units)
    theirs = unit.copied(stamp.links)
    files = {name: _word(folder, name, content, stamp.files.get(name, "")) for name, content in theirs.items()}
    return CopyState(stamp.template, stamp.version, files)


def _word(folder: HeldFolder, name: str, theirs: bytes, base: str) -> str:
    mine = folder.read(name)
    if mine is None:
        return MISSING if base else NEWER  # the template has a file more
    now = fingerprint(name, theirs)
    hers = fingerprint(name, mine)
    if hers == now:
        return SAME
    return YOURS if base == now else NEWER if base == hers else BOTH


@dataclass(frozen=True)
class Outcome:
    """What was done with a copy.

    Attributes:
        written: files that are as the template has them now.
        kept: what was there before, by the names that it has now.
        beside: the new version in a folder of its own, where it could not be brought into the copy.
    """

    written: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    beside: Path | None = None


def update(folder: HeldFolder, units: Mapping[str, Unit]) -> Outcome:
    """Bring the template's changes into a copy, where the person did not change the same file.

    Where both changed one, the copy stays as it is, so that notebook and modules do not come apart, and the new
    version is put beside it as a copy of its own.

    Raises:
        TemplateRefused: it is no copy, or its template is no more.
        OSError: it cannot be written.
    """
    stamp, unit = stamped(folder, units)
    found = state(folder, units)
    if BOTH in found.files.values():
        with folder.above() as parent:
            return Outcome(beside=_beside(parent, units, unit) or make_in(parent, unit, stamp.links))
    names = [name for name, word in found.files.items() if word in (NEWER, MISSING)]
    return _put(folder, unit, stamp, names)


def _beside(parent: HeldFolder, units: Mapping[str, Unit], unit: Unit) -> Path | None:
    """A copy of the present version that is there already, that is the person's, and that nobody has touched.

    Only names that a copy gets are looked at: others may have put any number of other things there.
    """
    for name in _names(unit):
        try:
            with parent.inner(name) as folder:
                found = state(folder, units) if folder.is_of_person else None
        except (OSError, TemplateRefused):
            continue
        if found and (found.template, found.word) == (unit.name, SAME):
            return parent.path / name
    return None


def reset(folder: HeldFolder, units: Mapping[str, Unit]) -> Outcome:
    """Make a copy as the template is now, without outputs; what was otherwise is kept beside.

    Raises:
        TemplateRefused: it is no copy, or its template is no more.
        OSError: it cannot be written.
    """
    stamp, unit = stamped(folder, units)
    names = [name for name, content in unit.copied(stamp.links).items() if folder.read(name) != content]
    return _put(folder, unit, stamp, names)


def _put(folder: HeldFolder, unit: Unit, stamp: Stamp, names: list[str]) -> Outcome:
    contents = unit.copied(stamp.links)
    kept = []
    for name in names:
        mine = folder.read(name)
        keep_as = ""
        if mine is not None and not _is_pristine(name, mine, stamp):
            keep_as = folder.free_name(_dated(name))
            kept.append(keep_as)
        folder.write(name, contents[name], keep_as=keep_as)
    digests = {name: fingerprint(name, content) for name, content in contents.items()}
    now = _stamp(unit, stamp.links, digests)
    if names or (now.version, now.files) != (stamp.version, dict(stamp.files)):
        now.write(folder)
    return Outcome(tuple(names), tuple(kept))


def _is_pristine(name: str, mine: bytes, stamp: Stamp) -> bool:
    """Whether a file is as the template had it, outputs included: then nothing of the person's is in it."""
    return stamp.files.get(name) == fingerprint(name, mine) and b'"output_type"' not in mine


def _dated(name: str) -> str:
    place = PurePosixPath(name)
    return str(place.with_name(f"{place.stem}-kept-{datetime.now():%Y-%m-%d}{place.suffix}"))
