"""The notebook templates that there are: list them, find one, check them, start a new one.

A template is ``<folder>/<framework>/<name>.ipynb`` with a card in its metadata (``dsportal``).
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from portal.errors import PortalError, printable
from portal.notebooks import new
from portal.notebooks.files import is_below, real_roots
from portal.notebooks.look import Look, notebooks
from portal.notebooks.new import Kernelspec
from portal.notebooks.style import check, module_faults
from portal.notebooks.table import table
from portal.notebooks.template import Template
from portal.site import Site


class NotebookFailed(PortalError):
    """A notebook did not run to its end, or cannot be run at all."""

    reason = "notebook"


def templates(folder: Path, beside: Sequence[Path] = ()) -> tuple[Template, ...]:
    """The templates below ``folder``, by name. One that cannot be read, or is over, is left out; ``check`` says why.

    Arguments:
        beside: other folders of templates, into which a link may lead as well.
    """
    return tuple(Look(real_roots([folder, *beside])).templates(notebooks(folder)))


def path_of(folders: Sequence[Path], name: str) -> Path:
    """The file of the template called ``name``; raises :class:`NotebookFailed` when there is none."""
    for folder in folders:
        path = folder / f"{name.removesuffix('.ipynb')}.ipynb"
        if path.is_file():
            return path
    known = ", ".join(sorted({_name(path) for path in _notebooks(folders)})) or "none"
    raise NotebookFailed(f"There is no template {name!r}; there are {known}.")


def _notebooks(folders: Sequence[Path]) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.glob("*/*.ipynb"))]


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def kernels_of(site: Site) -> dict[str, Kernelspec]:
    """The kernels that exist for a site: those of its settings, and other kernelspecs in its kernels folder."""
    found = {}
    shelves = [site.kernels.folder, *(f"{site.kernels.folder}/{one.shelf}" for one in site.kernel if one.shelf)]
    for file in (file for shelf in shelves for file in Path(shelf, "kernels").glob("*/kernel.json")):
        try:
            spec = json.loads(file.read_bytes())
            found[file.parent.name] = Kernelspec(file.parent.name, spec["display_name"], spec["language"])
        except (OSError, ValueError, TypeError, LookupError):
            continue
    return found | {kernel.name: Kernelspec(kernel.name, kernel.title, kernel.language) for kernel in site.kernel}


def main_list(folders: Sequence[Path]) -> int:
    """Print the catalogue, as wide as the terminal is; of two templates of one name the first folder's."""
    found = {one.name: one for folder in reversed(folders) for one in templates(folder, folders)}
    print(printable(table([found[name] for name in sorted(found)], shutil.get_terminal_size((120, 24)).columns)))
    return 0


def main_check(
    folders: Sequence[Path], names: Sequence[str] = (), kernels: Mapping[str, Kernelspec] | None = None
) -> int:
    """Print the faults of the named templates, or of all; 1 when there is any."""
    try:
        paths = [path_of(folders, name) for name in names] or _notebooks(folders)
    except NotebookFailed as error:
        print(printable(error.message), file=sys.stderr)
        return 1
    over = _over(folders)
    faults = [
        f"{_name(path)}: {fault}"
        for path in paths
        for fault in (*_hidden(folders, path), *over.get(path, ()), *check(path, kernels))
    ]
    for beside in sorted({path.parent for path in paths}):
        faults += [f"{beside.name}: {fault}" for fault in module_faults(beside)]
    print(printable("\n".join(faults)) or f"{len(paths)} checked, no fault")
    return 1 if faults else 0


def _hidden(folders: Sequence[Path], path: Path) -> Iterator[str]:
    """A template that nobody sees: it is elsewhere, or an earlier folder has one of its name."""
    if not is_below(path, real_roots(folders)):
        yield "it leads out of the folders of templates, and is not shown: put the file itself there"
    if not path.is_file():
        return  # what it is is said by the check itself
    counts = path_of(folders, _name(path))
    if counts != path:
        yield f"{path} is not shown: {counts} has the same name. Give it another one"


def _over(folders: Sequence[Path]) -> dict[Path, list[str]]:
    """The templates that nobody sees because their folder has too much, each with what is too much."""
    found: dict[Path, list[str]] = {}
    for folder in folders:
        look = Look(real_roots(folders))
        tuple(look.templates(notebooks(folder)))
        found |= {path: [words] for path, words in look.over.items()}
    return found


def main_new(folder: Path, name: str, kernel: str, title: str, kernels: Mapping[str, Kernelspec]) -> int:
    """Write a new template and say what to do with it; raises ``NotCreated`` when it cannot be."""
    new.check_name(name)
    framework = name.partition("/")[0]
    used = next((one.kernel for one in templates(folder) if one.name.startswith(f"{framework}/")), "")
    path = new.create(folder, name, new.choose(kernels, kernel, framework, used), title)
    print(f"written: {path}\nIt runs as it is. Write your lesson over it and its card, then:")
    print(f"  portal notebooks check {name} --folder {folder}\n  portal notebooks run {name} --folder {folder}")
    return 0
