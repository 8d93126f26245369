"""What differs between a copy and its template: sources only, outputs are passed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff

from portal.gallery.files import HeldFolder
from portal.gallery.sources import fingerprint, source
from portal.gallery.stamp import stamped
from portal.gallery.units import Unit

MOST_LINES = 10_000  # of a file: the comparison takes long for more, and a copy may be anybody's


def compare(folder: HeldFolder, units: Mapping[str, Unit]) -> str:
    """A unified text of the differences, from the copy to the template as it is now; ``""`` when there are none.

    Raises:
        TemplateRefused: the folder is no copy (:func:`portal.gallery.stamp.stamped`).
        OSError: a file cannot be read.
    """
    stamp, unit = stamped(folder, units)
    theirs = unit.copied(stamp.links)
    return "".join(line for name, content in theirs.items() for line in _file(name, folder.read(name), content))


def _file(name: str, mine: bytes | None, theirs: bytes) -> Iterator[str]:
    if mine is None:
        yield f"--- {name} is not in your copy\n"
        return
    if fingerprint(name, mine) == fingerprint(name, theirs):
        return
    if b"\0" in mine + theirs:
        yield f"--- {name} is another file than the template's ({len(mine)} and {len(theirs)} bytes)\n"
        return
    left = source(name, mine).splitlines(keepends=True)
    right = source(name, theirs).splitlines(keepends=True)
    if len(left) > MOST_LINES:
        yield f"--- {name} has more than {MOST_LINES} lines in your copy, and is not compared\n"
        return
    for line in unified_diff(left, right, f"yours: {name}", f"template: {name}"):
        yield line if line.endswith("\n") else f"{line}\n"
