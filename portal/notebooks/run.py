"""Run one notebook template on its own kernel, with other values for its parameters."""

from __future__ import annotations

import ast
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

from portal.errors import printable
from portal.homes import temporary
from portal.homes.held_place import held
from portal.homes.own_folder import of_others_in
from portal.notebooks.catalogue import NotebookFailed, path_of
from portal.notebooks.output import GivenInput, HeldOutput
from portal.notebooks.style import NO_NOTEBOOK, parameters
from portal.notebooks.validation import bound, in_short
from portal.site import load

Log = Callable[[str], None]
TEMPLATE = "PORTAL_KERNEL_TEMPLATE"  # its name in portal/kernels/startup/sitecustomize.py; kernels get no DSPORTAL_…
PROVISIONER = "dsportal-module"  # as in a session
READ = {"metadata", "metadata / kernelspec", "metadata / kernelspec / name", "cells", "source", "metadata / tags"}
MESSAGE_MAX = 200  # characters of what is wrong with a notebook, which may be the whole of it


def run(
    path: Path,
    output: Path,
    parameters: Mapping[str, object],
    cwd: Path,
    kernel: str | None = None,
    log: Log = print,
    opened: IO[bytes] | None = None,
) -> Path:
    """Run a notebook from top to bottom with other values for its parameters, and keep the result in ``output``.

    Arguments:
        cwd: where it runs; relative folders in the notebook are below it.
        kernel: the kernelspec to use instead of the notebook's own.
        log: gets one line for each cell that runs.
        opened: the notebook, which was opened at ``path`` and looked at; None = it is opened now.

    Raises:
        NotebookFailed: a parameter or the kernel is unknown, ``output`` cannot be written, or a cell failed; then
            ``output`` holds everything up to there.

    The kernel starts as one of a session does: of a folder that others can change it imports nothing by itself.
    """
    import papermill
    from jupyter_client.provisioning.factory import KernelProvisionerFactory
    from papermill.iorw import papermill_io

    logging.getLogger("papermill").setLevel(logging.ERROR)  # it warns of every parameter that is not Python's
    source = GivenInput.of(path, opened)
    papermill_io.register(str(path), source)
    _check_parameters(path, source.text, parameters, kernel)
    KernelProvisionerFactory.instance().default_provisioner_name = PROVISIONER
    _keep_whole("JUPYTER_PATH")
    with temporary.folder("dsportal-") as private, HeldOutput.at(output, source) as kept:
        papermill_io.register(str(output), kept)
        with _in_words(path, output, kept):
            papermill.execute_notebook(
                _as_it_is(path), _as_it_is(output), dict(parameters), engine_name=_engine(log), kernel_name=kernel,
                progress_bar=False, cwd=cwd, config=_private_kernel(private),
            )  # fmt: skip
    return output


def refuse_root() -> None:
    """Nothing is run for root.

    Raises:
        NotebookFailed: root asks.
    """
    if os.geteuid() == 0:
        raise NotebookFailed(
            "root runs no notebooks: whoever can change one, or the environment of its kernel, would have root's "
            "rights. Run it as a person, in the terminal of a session for example."
        )


@contextmanager
def _in_words(path: Path, output: Path, kept: HeldOutput) -> Iterator[None]:
    """What can go wrong, as :func:`run` tells it."""
    from jupyter_client.kernelspec import NoSuchKernel
    from papermill.exceptions import PapermillExecutionError
    from tornado.web import HTTPError

    try:
        yield
    except PapermillExecutionError as error:
        raise _cell_failed(path, output, kept.cells, error) from error
    except NoSuchKernel as error:
        raise NotebookFailed(_no_kernel(error.name)) from error
    except HTTPError as error:  # as a session's kernels say why they do not start
        raise NotebookFailed(f"{path.name}: {error}") from error
    except RuntimeError as error:  # the kernel died, or did not start
        raise NotebookFailed(f"{path.name}: {error}. What it did so far is in {output}.") from error


def _as_it_is(path: Path) -> str:
    """A path in which papermill fills nothing in."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _check_parameters(path: Path, text: bytes, given: Mapping[str, object], kernel: str | None) -> None:
    import papermill
    from nbformat import ValidationError

    try:
        notebook = _readable(text)
        known = sorted(papermill.inspect_notebook(_as_it_is(path))) or _assigned(notebook)
    except (*NO_NOTEBOOK, ValidationError) as error:
        said = in_short((str(error) or repr(error)).splitlines()[0])
        raise NotebookFailed(f"{path.name} cannot be read as a notebook: {said}") from error
    if not (kernel or notebook["metadata"].get("kernelspec", {}).get("name")):
        raise NotebookFailed(f"{path.name} names no kernel: choose one with --kernel.")
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise NotebookFailed(f"{path.name} has no parameter {name!r}; it has {', '.join(known)}.{hint}")


def _readable(text: bytes) -> Mapping[str, Any]:
    """A notebook, in today's format.

    What is missing in it, is called in an odd way or is nothing that a run reads, may be: papermill gets along with it.

    Raises:
        ValueError: a value is not of the kind that it is read as; or another error of :data:`NO_NOTEBOOK`.
        nbformat.ValidationError: it is of an old format and cannot be made one of today.
    """
    import nbformat
    from nbformat.validator import iter_validate

    bound()  # papermill's readings, too
    notebook: Mapping[str, Any] = nbformat.reads(text.decode(), as_version=nbformat.current_nbformat)
    for fault in iter_validate(notebook):
        place = " / ".join(str(part) for part in fault.path if not isinstance(part, int))
        if fault.validator in ("type", "oneOf") and place in READ:
            raise ValueError(f"{place}: {fault.message[:MESSAGE_MAX]}")
    return notebook


def _assigned(notebook: Mapping[str, Any]) -> list[str]:
    """The names that a parameters cell gives values to, in a language that papermill cannot read, such as R."""
    tagged = ("".join(cell["source"]) for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", ()))
    return sorted(parameters("\n".join(tagged)))


def _private_kernel(folder: Path) -> Any:
    """The kernel's sockets as files in a private folder: TCP would let others on the node read its output."""
    from traitlets.config import Config

    return Config({"KernelManager": {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}})


def _engine(log: Log) -> str:
    """Register the engine that calls ``log`` for each cell; returns its name."""
    from papermill.engines import NBClientEngine, papermill_engines

    class Engine(NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
            cells = len(nb_man.nb.cells)
            started = nb_man.cell_start

            def cell_start(cell: Any, cell_index: int | None = None, **rest: Any) -> None:
                if cell.cell_type == "code" and cell_index is not None:
                    is_injected = "injected-parameters" in cell.metadata.get("tags", ())
                    name = "the values given" if is_injected else cell.get("id", "")
                    log(printable(f"cell {cell_index + 1} of {cells}: {name}"))
                started(cell, cell_index, **rest)

            nb_man.cell_start = cell_start
            return super().execute_managed_notebook(nb_man, kernel_name, **options)

    papermill_engines.register("dsportal", Engine)
    return "dsportal"


def _cell_failed(path: Path, output: Path, cells: Sequence[dict[str, Any]], error: Any) -> NotebookFailed:
    """The error of a cell: its name, the exception, and the last lines of its traceback."""
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


def kernels_folder(given: str | None, usual: str) -> str:
    """The folder with the kernelspecs of a site.

    Arguments:
        given: its settings file; None = ``usual``, or no file where this person cannot read that one. A compute node
            need not have it: in a session JUPYTER_PATH names the folder, so the answer is "".
    """
    site = given or (usual if os.access(usual, os.R_OK) else "")
    return load(site).kernels.folder if site else ""


def main_run(
    folders: Sequence[Path], name: str, output: str, parameters: Sequence[str], kernels_folder: str, kernel: str = ""
) -> int:
    """Run one template here, with ``NAME=VALUE`` parameters, on a kernel of the site; 1 when it fails, or root asks.

    Its files go below the current folder. The modules that lie beside it come first, wherever that is; or last, and
    for the cells alone, where others can change its folder.
    """
    if kernels_folder:
        _put_first("JUPYTER_PATH", kernels_folder)
    try:
        refuse_root()
        path = path_of(folders, name)
        _put_beside(path.parent.absolute())
        target = Path(output or f"{path.stem}-run.ipynb").absolute()
        values = dict(assignment(text) for text in parameters)
        run(path, target, values, Path.cwd(), kernel or None, lambda line: print(line, flush=True))
    except NotebookFailed as error:
        print(printable(error.message), file=sys.stderr)
        return 1
    print(printable(f"done: {target}"))
    return 0


def _put_beside(folder: Path) -> None:
    """Let the kernel find what lies beside a template."""
    try:
        with held(folder / "module", follow=False) as place:
            is_private = place.is_private and not of_others_in(folder)
    except OSError:  # behind somebody else's link
        is_private = False
    if is_private:
        _put_first("PYTHONPATH", str(folder))
    else:
        os.environ[TEMPLATE] = str(folder)


def _keep_whole(variable: str) -> None:
    """Let nothing be searched in the folder that one is in, which an empty word names: others may come there."""
    if words := os.environ.get(variable):
        os.environ[variable] = os.pathsep.join(filter(os.path.isabs, words.split(os.pathsep)))


def _put_first(variable: str, folder: str) -> None:
    """Let the kernel search a folder before those that the environment variable names already."""
    known = os.environ.get(variable)
    os.environ[variable] = f"{folder}{os.pathsep}{known}" if known else folder


def assignment(text: str) -> tuple[str, object]:
    """``epochs=3`` → ``("epochs", 3)``; a value that is no Python literal is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise NotebookFailed(f"{text!r} is no parameter: write NAME=VALUE, for example epochs=3.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
