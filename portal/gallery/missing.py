"""Modules that a template names, that another framework has, and that no copy gets (:mod:`portal.gallery.modules`)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePath

from portal.gallery import sources
from portal.gallery.units import Unit, find
from portal.notebooks.look import NAMES_MAX, frameworks

NOT_TAKEN = (
    "{template}: note: it imports {name}, and no copy has {file}: others than root and the owner of {framework} may "
    "change that file or its folder, or one is a link. Unless {name} is a package, put the module beside the template."
)


def modules(folders: Sequence[Path], names: Collection[str] = ()) -> Iterator[str]:
    """A note for each of them.

    Arguments:
        names: of the templates; none: all.
    """
    for unit in find(folders).values():
        if not names or unit.name in names:
            own = unit.template.path.parent
            wanted = sorted(_imported(unit) - {PurePath(name).stem for name in unit.files} - sys.stdlib_module_names)
            for other in frameworks(unit.root, NAMES_MAX):
                for file in (other / f"{name}.py" for name in wanted if other != own):
                    if file.is_file():
                        place = f"{other.name}/{file.name}"
                        yield NOT_TAKEN.format(template=unit.name, name=file.stem, file=place, framework=own.name)


def _imported(unit: Unit) -> set[str]:
    return set().union(*(sources.imported(sources.code(name, data)) for name, data in unit.contents.items()))
