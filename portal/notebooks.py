"""The notebook templates: list them, check their style, start a new one, run one, put them into a person's home.

A template is ``<folder>/<framework>/<name>.ipynb`` with a card in its metadata (``dsportal``). The list and
:func:`prepare_home` need nothing but the standard library: the latter runs at every session start, before
Jupyter is imported.
"""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portal import notebook_new
from portal.errors import PortalError
from portal.home import prepare_home
from portal.notebook_list import table
from portal.notebook_new import Kernel
from portal.notebook_style import check, parameters, titles

if TYPE_CHECKING:  # a session starts without the settings
    from portal.site import Site

__all__ = ["NotebookFailed", "Template", "catalogue", "check", "prepare_home", "run"]

Log = Callable[[str], None]


class NotebookFailed(PortalError):
    """A notebook did not run to its end, or cannot be run at all."""

    reason = "notebook"


@dataclass(frozen=True)
class Template:
    """One notebook template; ``name`` is ``<folder>/<file>`` without the ending."""

    name: str
    path: Path
    title: str
    summary: str
    framework: str
    kernel: str
    gpus: int
    minutes_cpu: int
    minutes_gpu: int
    dataset: str


def catalogue(folder: Path) -> tuple[Template, ...]:
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


def run(
    path: Path,
    output: Path,
    parameters: Mapping[str, object],
    cwd: Path,
    kernel: str | None = None,
    log: Log = print,
) -> Path:
    """Run a notebook from top to bottom with other values for its parameters, and keep the result in ``output``.

    Arguments:
        cwd: where it runs; relative folders in the notebook are below it.
        kernel: the kernelspec to use instead of the notebook's own.
        log: gets one line for each cell that runs.

    Raises:
        NotebookFailed: a parameter or the kernel is unknown, or a cell failed; then ``output`` holds everything
            up to there.
    """
    import papermill
    from jupyter_client.kernelspec import NoSuchKernel
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.ERROR)  # it warns of every parameter that is not Python's
    _check_parameters(path, parameters)
    with tempfile.TemporaryDirectory(prefix="dsportal-") as private:
        try:
            papermill.execute_notebook(
                path, output, dict(parameters), engine_name=_engine(log), kernel_name=kernel,
                progress_bar=False, cwd=cwd, config=_private_kernel(private),
            )  # fmt: skip
        except PapermillExecutionError as error:
            raise _cell_failed(path, output, error) from error
        except NoSuchKernel as error:
            raise NotebookFailed(_no_kernel(error.name)) from error
        except RuntimeError as error:  # the kernel died, or did not start
            raise NotebookFailed(f"{path.name}: {error}. What it did so far is in {output}.") from error
    return output


def _check_parameters(path: Path, given: Mapping[str, object]) -> None:
    import papermill

    if not path.is_file():
        raise NotebookFailed(f"There is no notebook {path}.")
    try:
        known = sorted(papermill.inspect_notebook(path)) or _assigned(path)
    except ValueError as error:
        raise NotebookFailed(f"{path.name} cannot be read as a notebook: {error}") from error
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise NotebookFailed(f"{path.name} has no parameter {name!r}; it has {', '.join(known)}.{hint}")


def _assigned(path: Path) -> list[str]:
    """The names that a parameters cell gives values to, in a language that papermill cannot read, such as R."""
    cells = json.loads(path.read_bytes())["cells"]
    tagged = ("".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", ()))
    return sorted(parameters("\n".join(tagged)))


def _private_kernel(folder: str) -> Any:
    """The kernel's sockets as files in a private folder: TCP would let others on the node read its output."""
    from traitlets.config import Config

    return Config({"KernelManager": {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}})


def _engine(log: Log) -> str:
    """Register the engine that tells ``log`` of each cell; returns its name."""
    from papermill.engines import NBClientEngine, papermill_engines

    class Engine(NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
            cells, started = len(nb_man.nb.cells), nb_man.cell_start

            def cell_start(cell: Any, cell_index: int | None = None, **rest: Any) -> None:
                if cell.cell_type == "code" and cell_index is not None:
                    given = "injected-parameters" in cell.metadata.get("tags", ())
                    log(f"cell {cell_index + 1} of {cells}: {'the values given' if given else cell.get('id', '')}")
                started(cell, cell_index, **rest)

            nb_man.cell_start = cell_start
            return super().execute_managed_notebook(nb_man, kernel_name, **options)

    papermill_engines.register("dsportal", Engine)
    return "dsportal"


def _cell_failed(path: Path, output: Path, error: Any) -> NotebookFailed:
    """The error of a cell: its name, the exception, and the last lines of its traceback."""
    cells = json.loads(output.read_bytes())["cells"]
    failed: dict[str, Any] = next((c for c in cells if c["metadata"].get("papermill", {}).get("exception")), {})
    name = failed.get("id") or f"number {error.exec_count}"
    colours = re.compile(r"\x1b\[[0-9;]*m")
    trace = [line for line in colours.sub("", "\n".join(error.traceback)).splitlines() if line.strip()]
    last = "\n".join(f"    {line}" for line in trace[-6:])
    return NotebookFailed(
        f"{path.name}: the cell {name!r} failed with {error.ename}: {error.evalue}\n{last}\n"
        f"Everything up to there is in {output}.",
        detail="\n".join(trace),
    )


def _no_kernel(name: str) -> str:
    from jupyter_client.kernelspec import KernelSpecManager

    known = ", ".join(sorted(KernelSpecManager().find_kernel_specs())) or "none"
    return f"There is no kernel {name!r}; there are {known}. 'portal kernels sync' writes those of the site."


def kernels_of(site: Site) -> dict[str, Kernel]:
    """The kernels that exist for a site: those of its settings, and other kernelspecs in its kernels folder."""
    found = {}
    for file in Path(site.kernels.folder, "kernels").glob("*/kernel.json"):
        try:
            spec = json.loads(file.read_bytes())
            found[file.parent.name] = Kernel(file.parent.name, spec["display_name"], spec["language"])
        except (OSError, ValueError, TypeError, LookupError):
            continue
    return found | {kernel.name: Kernel(kernel.name, kernel.title, kernel.language) for kernel in site.kernel}


def main_list(folder: Path) -> int:
    """Print the catalogue, as wide as the terminal is."""
    print(table(catalogue(folder), shutil.get_terminal_size((120, 24)).columns))
    return 0


def main_check(folder: Path, names: Sequence[str] = (), kernels: Mapping[str, Kernel] | None = None) -> int:
    """Print the faults of the named templates, or of all; 1 when there is any."""
    try:
        paths = [_path_of(folder, name) for name in names] or sorted(folder.glob("*/*.ipynb"))
    except NotebookFailed as error:
        print(error.message, file=sys.stderr)
        return 1
    faults = [f"{path.parent.name}/{path.stem}: {fault}" for path in paths for fault in check(path, kernels)]
    print("\n".join(faults) or f"{len(paths)} checked, no fault")
    return 1 if faults else 0


def main_new(folder: Path, name: str, kernel: str, title: str, kernels: Mapping[str, Kernel]) -> int:
    """Write a new template and say what to do with it; raises ``NotCreated`` when it cannot be."""
    notebook_new.check_name(name)
    framework = name.partition("/")[0]
    used = next((one.kernel for one in catalogue(folder) if one.name.startswith(f"{framework}/")), "")
    path = notebook_new.create(folder, name, notebook_new.choose(kernels, kernel, framework, used), title)
    print(f"written: {path}\nIt runs as it is. Write your lesson over it and its card, then:")
    print(f"  portal notebooks check {name} --folder {folder}\n  portal notebooks run {name} --folder {folder}")
    return 0


def main_run(
    folder: Path, name: str, output: str, parameters: Sequence[str], kernels_folder: str, kernel: str = ""
) -> int:
    """Run one template here, with ``NAME=VALUE`` parameters, on a kernel of the site; 1 when it fails.

    Its files go below the current folder; the modules that lie beside it come first, wherever that is.
    """
    _put_first("JUPYTER_PATH", kernels_folder)
    try:
        path = _path_of(folder, name)
        _put_first("PYTHONPATH", str(path.parent.absolute()))
        target = Path(output or f"{path.stem}-run.ipynb").absolute()
        values = dict(map(_assignment, parameters))
        run(path, target, values, Path.cwd(), kernel or None, lambda line: print(line, flush=True))
    except NotebookFailed as error:
        print(error.message, file=sys.stderr)
        return 1
    print(f"done: {target}")
    return 0


def _put_first(variable: str, folder: str) -> None:
    """Let the kernel look into a folder before those that the environment variable names already."""
    os.environ[variable] = os.pathsep.join(filter(None, (folder, os.environ.get(variable))))


def _path_of(folder: Path, name: str) -> Path:
    path = folder / f"{name.removesuffix('.ipynb')}.ipynb"
    if path.is_file():
        return path
    known = ", ".join(sorted(f"{p.parent.name}/{p.stem}" for p in folder.glob("*/*.ipynb"))) or "none"
    raise NotebookFailed(f"There is no template {name!r}; there are {known}.")


def _assignment(text: str) -> tuple[str, object]:
    """``epochs=3`` → ``("epochs", 3)``; a value that is no Python literal is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise NotebookFailed(f"{text!r} is no parameter: write NAME=VALUE, for example epochs=3.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
