"""The notebook templates that there are: list them, find one, check them, start a new one.

A template is ``<folder>/<framework>/<name>.ipynb`` with a card in its metadata (``dsportal``).
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from portal.errors import PortalError
from portal.notebooks import new
from portal.notebooks.new import Kernelspec
from portal.notebooks.style import check, module_faults, titles
from portal.notebooks.table import table
from portal.notebooks.template import Template
from portal.site import Site


class NotebookFailed(PortalError):
    """A notebook did not run to its end, or cannot be run at all."""

    reason = "notebook"


def templates(folder: Path) -> tuple[Template, ...]:
    """The templates below ``folder``, by name. One that cannot be read is left out; ``check`` says why."""
    found = (_template(path) for path in sorted(folder.glob("*/*.ipynb")) if not path.name.startswith("."))
    return tuple(template for template in found if template)


def _template(path: Path) -> Template | None:
    try:
        notebook = json.loads(path.read_bytes())
        card = notebook["metadata"]["dsportal"]
        title = titles(notebook)[0]
        return Template(name=f"{path.parent.name}/{path.stem}", path=path, title=title, **card)
    except (OSError, ValueError, TypeError, LookupError):
        return None


def path_of(folder: Path, name: str) -> Path:
    """The file of the template called ``name``; raises :class:`NotebookFailed` when there is none."""
    path = folder / f"{name.removesuffix('.ipynb')}.ipynb"
    if path.is_file():
        return path
    known = ", ".join(sorted(f"{p.parent.name}/{p.stem}" for p in folder.glob("*/*.ipynb"))) or "none"
    raise NotebookFailed(f"There is no template {name!r}; there are {known}.")


def kernels_of(site: Site) -> dict[str, Kernelspec]:
    """The kernels that exist for a site: those of its settings, and other kernelspecs in its kernels folder."""
    found = {}
    for file in Path(site.kernels.folder, "kernels").glob("*/kernel.json"):
        try:
            spec = json.loads(file.read_bytes())
            found[file.parent.name] = Kernelspec(file.parent.name, spec["display_name"], spec["language"])
        except (OSError, ValueError, TypeError, LookupError):
            continue
    return found | {kernel.name: Kernelspec(kernel.name, kernel.title, kernel.language) for kernel in site.kernel}


def main_list(folder: Path) -> int:
    """Print the catalogue, as wide as the terminal is."""
    print(table(templates(folder), shutil.get_terminal_size((120, 24)).columns))
    return 0


def main_check(folder: Path, names: Sequence[str] = (), kernels: Mapping[str, Kernelspec] | None = None) -> int:
    """Print the faults of the named templates, or of all; 1 when there is any."""
    try:
        paths = [path_of(folder, name) for name in names] or sorted(folder.glob("*/*.ipynb"))
    except NotebookFailed as error:
        print(error.message, file=sys.stderr)
        return 1
    faults = [f"{path.parent.name}/{path.stem}: {fault}" for path in paths for fault in check(path, kernels)]
    for beside in sorted({path.parent for path in paths}):
        faults += [f"{beside.name}: {fault}" for fault in module_faults(beside)]
    print("\n".join(faults) or f"{len(paths)} checked, no fault")
    return 1 if faults else 0


def main_new(folder: Path, name: str, kernel: str, title: str, kernels: Mapping[str, Kernelspec]) -> int:
    """Write a new template and say what to do with it; raises ``NotCreated`` when it cannot be."""
    new.check_name(name)
    framework = name.partition("/")[0]
    used = next((one.kernel for one in templates(folder) if one.name.startswith(f"{framework}/")), "")
    path = new.create(folder, name, new.choose(kernels, kernel, framework, used), title)
    print(f"written: {path}\nIt runs as it is. Write your lesson over it and its card, then:")
    print(f"  portal notebooks check {name} --folder {folder}\n  portal notebooks run {name} --folder {folder}")
    return 0
