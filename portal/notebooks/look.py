"""One look at a folder of templates: what its notebooks say of themselves, at a cost that has an end.

Whoever may write into such a folder would otherwise decide how long the hub parses, and how much memory it takes. Each
folder of the site has bounds of its own, so that one folder hides nothing of another.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from portal.notebooks import shares
from portal.notebooks.files import NOTEBOOK_MAX, content_of, opened
from portal.notebooks.style import is_shown
from portal.notebooks.template import Template, parsed

NOTEBOOKS_MAX = 500  # of one folder
BYTES_MAX = 32 * 2**20  # of the notebooks of one folder: parsing holds the interpreter, some MiB at a time
NAMES_MAX = 10_000  # folders that are looked at for them, and names of any kind in these
ENTRIES_MAX = 100_000  # names of any kind that are read for those folders
SILENT = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG}  # it has none
TOO_MANY = f"it is not shown: the folder has more than {NOTEBOOKS_MAX} notebooks; of each framework the first ones are"
TOO_MUCH = f"it is not shown: with those before it the notebooks of the folder have over {BYTES_MAX // 2**20} MiB"


class Look:
    """The templates of one folder, each file read once, whatever number of names it has.

    Arguments:
        roots: where all folders of templates really are; what is elsewhere is not read.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._found: dict[tuple[int, int], Template | None] = {}
        self.over: dict[Path, str] = {}  # what is not shown because of the bounds, and why

    def templates(self, paths: Sequence[Path]) -> Iterator[Template]:
        """The templates in these files; one that cannot be read, or has no card, is left out."""
        turns = shares.in_turns(paths)
        self.over.update(dict.fromkeys(turns[NOTEBOOKS_MAX:], TOO_MANY))
        found: dict[Path, Template | None] = {}
        over = shares.dealt(turns[:NOTEBOOKS_MAX], BYTES_MAX, lambda path, room: self._take(path, room, found))
        self.over.update(dict.fromkeys(over, TOO_MUCH))
        return filter(None, map(found.get, paths))

    def _take(self, path: Path, room: int, found: dict[Path, Template | None]) -> int | None:
        """Read the template at ``path``, and answer the bytes that took; None where it has more than ``room``."""
        taken = 0
        try:
            with opened(path, self._roots) as descriptor:
                status = os.fstat(descriptor)
                file = (status.st_dev, status.st_ino)
                if file not in self._found and room < status.st_size <= NOTEBOOK_MAX:
                    return None
                if file not in self._found:
                    content = content_of(descriptor, NOTEBOOK_MAX, str(path))
                    taken = len(content)
                    self._found[file] = parsed(content, path)
        except OSError:
            return 0
        known = self._found[file]
        found[path] = _under(known, path) if known else None
        return taken


def _under(template: Template, path: Path) -> Template | None:
    """A template by the name that ``path`` gives it; None where no page can show that name."""
    name = f"{path.parent.name}/{path.stem}"
    return replace(template, name=name, path=path) if is_shown(name) else None


def notebooks(folder: Path) -> list[Path]:
    """The notebooks ``<framework>/<name>.ipynb`` of a folder, by name; hidden ones are left out.

    Raises:
        OSError: the folder is there and does not answer.
    """
    found = shares.listed(frameworks(folder, NAMES_MAX), NAMES_MAX, _first)
    places = (place for places in found.values() for place in places)
    return sorted(place for place in places if place.suffix == ".ipynb" and not place.name.startswith("."))


def frameworks(folder: Path, most: int) -> list[Path]:
    """The folders in a folder of templates, and what may lead to some, by name; hidden ones are left out.

    Of more than ``most`` each owner has a part, and what is no folder takes none.

    Raises:
        OSError: as above.
    """
    names = (one.name for one in islice(_inside(folder), ENTRIES_MAX) if _may_be_shown(one))
    return sorted(shares.of_each_owner([folder / name for name in sorted(names)], most))


def _may_be_shown(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith("."):
        return False
    try:
        return entry.is_symlink() or entry.is_dir(follow_symlinks=False)
    except OSError:  # it is gone by now
        return False


def _first(folder: Path, most: int) -> list[Path]:
    return [folder / entry.name for entry in islice(_inside(folder), most)]


def _inside(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        if error.errno not in SILENT:
            raise
