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
NAMES_MAX = 10_000  # names of any kind that are looked at for them
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
        self._left = BYTES_MAX
        self.over: dict[Path, str] = {}  # what is not shown because of the bounds, and why

    def templates(self, paths: Sequence[Path]) -> Iterator[Template]:
        """The templates in these files; one that cannot be read, or has no card, is left out."""
        turns = shares.in_turns(paths)
        self.over.update(dict.fromkeys(turns[NOTEBOOKS_MAX:], TOO_MANY))
        found = {path: self._template(path) for path in turns[:NOTEBOOKS_MAX]}
        return filter(None, map(found.get, paths))

    def _template(self, path: Path) -> Template | None:
        try:
            with opened(path, self._roots) as descriptor:
                status = os.fstat(descriptor)
                file = (status.st_dev, status.st_ino)
                if file not in self._found and self._left < status.st_size <= NOTEBOOK_MAX:
                    self.over[path] = TOO_MUCH
                    return None
                if file not in self._found:
                    content = content_of(descriptor, NOTEBOOK_MAX, str(path))
                    self._left -= len(content)
                    self._found[file] = parsed(content, path)
        except OSError:
            return None
        known = self._found[file]
        return _under(known, path) if known else None


def _under(template: Template, path: Path) -> Template | None:
    """A template by the name that ``path`` gives it; None where no page can show that name."""
    name = f"{path.parent.name}/{path.stem}"
    return replace(template, name=name, path=path) if is_shown(name) else None


def notebooks(folder: Path) -> list[Path]:
    """The notebooks ``<framework>/<name>.ipynb`` of a folder, by name; hidden ones are left out.

    Raises:
        OSError: the folder is there and does not answer.
    """
    frameworks = [one for one in sorted(islice(_inside(folder), NAMES_MAX)) if _is_listed(one)]
    found = shares.listed(frameworks, NAMES_MAX, lambda one, most: list(islice(_inside(one), most)))
    places = (place for places in found.values() for place in places)
    return sorted(place for place in places if place.suffix == ".ipynb" and _is_listed(place))


def _is_listed(place: Path) -> bool:
    return not place.name.startswith(".")


def _inside(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield folder / entry.name
    except OSError as error:
        if error.errno not in SILENT:
            raise
