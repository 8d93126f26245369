"""Modules that templates take from the folders of other frameworks.

In a copy such a module lies beside the notebook, where Python looks first. So it comes only from where nobody else than
root, and the owner of the template's own framework, may write: else who has one framework would run code in the copies
of all the others. Nor does it take the place of a module of Python's own.
"""

from __future__ import annotations

import contextlib
import stat
import sys
from collections import ChainMap
from collections.abc import Iterable, Mapping
from pathlib import Path

from portal import data

ROOT = 0


class Modules:
    """The modules of the folder of templates at ``root``.

    All of the portal's own folder belongs to whoever installed the portal, with an umask of 002, too: as its code does.
    """

    def __init__(self, root: Path) -> None:
        self._is_ours = False
        with contextlib.suppress(FileNotFoundError):  # it is missing, which is said elsewhere
            self._is_ours = root == data.folder("notebooks")
        self._by_owner: dict[int, dict[str, Path]] = {}

    def add(self, framework: Path, files: Iterable[Path]) -> None:
        """The modules of one framework; of two with one name and owner the first that is added counts."""
        for file in files:
            owner = ROOT if self._is_ours else _only_owner(framework, file)
            if owner is not None and file.stem not in sys.stdlib_module_names:
                self._by_owner.setdefault(owner, {}).setdefault(file.stem, file)

    def of(self, framework: Path) -> Mapping[str, Path]:
        """What the templates of a framework may take, by the names of the modules: its owner's first, then root's."""
        try:
            owner = framework.stat().st_uid
        except OSError:
            return {}
        return ChainMap(self._by_owner.get(owner, {}), self._by_owner.get(ROOT, {}))


def _only_owner(*places: Path) -> int | None:
    """The only account besides root that may change these; None where others may, or where one is a link."""
    try:
        found = [place.lstat() for place in places]
    except OSError:
        return None
    if any(stat.S_ISLNK(one.st_mode) or one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for one in found):
        return None
    owners = {one.st_uid for one in found} - {ROOT}
    return None if len(owners) > 1 else next(iter(owners), ROOT)
