"""A copy of a template: made as one unit with a stamp, looked at, brought up to date, and made as it was.

What a person did is never lost: what would be replaced and is not as the template had it is kept beside, with the date
in its name. The stamp is written last, so that a copy whose update was cut off is brought up to date by the next one.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from portal.errors import PortalError
from portal.gallery.files import HeldFolder
from portal.gallery.sources import fingerprint
from portal.gallery.units import Unit

STAMP = ".dsportal-template.json"
SAME = "same"  # as the template is now
YOURS = "yours"  # changed by the person only
NEWER = "newer"  # changed by the template only
BOTH = "both"
MISSING = "missing"
MOST_COPIES = 1000
_TEXTS = ("template", "version", "copied_at", "links")


class TemplateRefused(PortalError):
    """What was asked of a template or of a copy cannot be done."""

    reason = "template"


@dataclass(frozen=True)
class Stamp:
    """What a copy is a copy of.

    Attributes:
        copied_at: local time, in ISO 8601.
        links: where the catalogue is, seen from the copy.
        files: the fingerprint of each file as the template had it; ``""`` = not known.
    """

    template: str
    version: str
    copied_at: str
    links: str
    files: Mapping[str, str]

    @classmethod
    def read(cls, folder: HeldFolder) -> Stamp:
        """The stamp of a copy.

        Raises:
            TemplateRefused: the folder is no copy of a template.
        """
        try:
            given = json.loads(folder.read(STAMP) or b"null")
            files = {str(name): str(digest) for name, digest in given["files"].items()}
            template, version, copied_at, links = (str(given[key]) for key in _TEXTS)
            return cls(template, version, copied_at, links, files)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise TemplateRefused(
                f"{folder.path} is no copy of a template: {STAMP}, which says what it is a copy of, is not in it, or "
                "is spoiled. Make a new copy of the template, and take your cells over."
            ) from None

    def write(self, folder: HeldFolder) -> None:
        """Keep it, if it is another one than before."""
        content = (json.dumps(asdict(self), indent=1) + "\n").encode()
        if folder.read(STAMP) != content:
            folder.write(STAMP, content)


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
    if not parent.is_dir():
        raise TemplateRefused(f"There is no folder {parent}: make it first, or choose another one.")
    return make_of(unit, parent, unit.copied(links), links, known=True)


def make_of(unit: Unit, parent: Path, contents: Mapping[str, bytes], links: str, *, known: bool) -> Path:
    """A copy with these contents; ``known`` when they are the template's own."""
    building = parent / f".new-template-{secrets.token_hex(6)}"
    building.mkdir()
    digests = {name: fingerprint(name, content) if known else "" for name, content in contents.items()}
    try:
        with HeldFolder.at(building) as folder:
            for name, content in contents.items():
                folder.write(name, content)
            _stamp(unit, links, digests).write(folder)
        return _named(building, parent, unit.name.replace("/", "-"))
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _named(building: Path, parent: Path, name: str) -> Path:
    """Give a folder that is whole its name; one that is taken gets a number."""
    for number in range(1, MOST_COPIES):
        target = parent / (name if number == 1 else f"{name}-{number}")
        if os.path.lexists(target):
            continue
        try:
            return building.rename(target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise  # else somebody was quicker
    raise TemplateRefused(f"{parent} has {MOST_COPIES - 1} copies of {name} already: remove some.")


def _stamp(unit: Unit, links: str, digests: Mapping[str, str]) -> Stamp:
    return Stamp(unit.name, unit.version, datetime.now().astimezone().isoformat(timespec="seconds"), links, digests)


def state(folder: HeldFolder, units: Mapping[str, Unit]) -> CopyState:
    """What has become of the copy in a folder.

    Raises:
        TemplateRefused: it is none, or its template is no more.
    """
    stamp = Stamp.read(folder)
    theirs = unit_of(stamp, units).copied(stamp.links)
    files = {name: _word(folder, name, content, stamp.files.get(name, "")) for name, content in theirs.items()}
    return CopyState(stamp.template, stamp.version, files)


def unit_of(stamp: Stamp, units: Mapping[str, Unit]) -> Unit:
    """The template that a copy is one of, as it is now.

    Raises:
        TemplateRefused: it is no more.
    """
    if stamp.template in units:
        return units[stamp.template]
    known = ", ".join(units) or "none"
    raise TemplateRefused(
        f"There is no template {stamp.template!r} any more: your copy stays as it is. There are {known}."
    )


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
    stamp = Stamp.read(folder)
    found = state(folder, units)
    unit = unit_of(stamp, units)
    if BOTH in found.files.values():
        return Outcome(beside=_beside(folder.path, units, unit) or make(unit, folder.path.parent, stamp.links))
    names = [name for name, word in found.files.items() if word in (NEWER, MISSING)]
    return _put(folder, unit, stamp, names)


def _beside(copy: Path, units: Mapping[str, Unit], unit: Unit) -> Path | None:
    """A copy of the present version that is there already, and that the person has not touched."""
    start = f"{unit.name.replace('/', '-')}-"
    for other in sorted(one for one in copy.parent.iterdir() if one.name.startswith(start)):
        try:
            with HeldFolder.at(other) as folder:
                found = state(folder, units)
        except (OSError, TemplateRefused):
            continue
        if (found.template, found.word) == (unit.name, SAME):
            return other
    return None


def reset(folder: HeldFolder, units: Mapping[str, Unit]) -> Outcome:
    """Make a copy as the template is now, without outputs; what was otherwise is kept beside.

    Raises:
        TemplateRefused: it is no copy, or its template is no more.
        OSError: it cannot be written.
    """
    stamp = Stamp.read(folder)
    unit = unit_of(stamp, units)
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
