"""``portal kernels test``: do the frameworks of each kernel see the GPUs that Slurm gave?

It starts each kernel's Python as a session would, out of its kernelspec, so it needs no settings file: a person runs it
in the terminal of a session, and :mod:`portal.gpus.job` in a job of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.errors import KernelError
from portal.gpus.frameworks import KernelPython, kernel_python
from portal.lessons import lesson_gpus


@dataclass(frozen=True)
class Finding:
    """What was found of one kernel, or of one framework of it."""

    kernel: str
    words: str
    is_fault: bool = False

    def __str__(self) -> str:
        return f"{self.kernel}: {self.words}"


def findings(kernel: str, spec: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """What the frameworks of one kernel see, each beside what Slurm gave."""
    try:
        python = kernel_python(spec, environ)
        built = python.ask("built") if python else {}
    except KernelError as error:
        yield Finding(kernel, error.message, is_fault=True)
        return
    if python is None:
        yield Finding(kernel, "not asked: it is no Python that ipykernel starts")
    elif not built:
        yield Finding(kernel, f"it has none of {', '.join(lesson_gpus.FRAMEWORKS)}")
    for framework, what in built.items():
        if python:
            yield _of_framework(kernel, python, framework, what)


def _of_framework(kernel: str, python: KernelPython, framework: str, built: str) -> Finding:
    try:
        seen = int(python.ask(framework)["seen"])
    except KernelError as error:
        return Finding(kernel, f"{framework} does not work: {error.message}", is_fault=True)
    given = lesson_gpus.given(python.environ)
    if words := lesson_gpus.sentence(framework, seen, given, python.environ, built):
        return Finding(kernel, words, is_fault=True)
    for_what = f" (built for {built})" if built else ""
    beside = {None: "", 0: ", and Slurm gave none"}.get(given, ", as many as Slurm gave")
    return Finding(kernel, f"{framework} sees {seen} GPUs{for_what}{beside}")


def main(folder: str, names: Sequence[str]) -> int:
    """Ask the kernels named, or all, and print what they see; 1 when one sees other GPUs than Slurm gave, or fails."""
    specs = _specs(folder)
    if unknown := [name for name in names if name not in specs]:
        raise KernelError(f"There is no kernel {', '.join(unknown)}; there are {', '.join(specs) or 'none'}.")
    if lesson_gpus.given() is None:
        print("This is no job of Slurm, so there is nothing to compare: --partition NAME asks in a job.")
    is_faulty = False
    for name in names or specs:
        for finding in findings(name, specs[name]):
            print(finding, flush=True)
            is_faulty |= finding.is_fault
    return int(is_faulty)


def _specs(folder: str) -> dict[str, dict[str, Any]]:
    """The kernelspecs that Jupyter finds, those of ``folder`` before all others."""
    from jupyter_client.kernelspec import KernelSpecManager

    manager = KernelSpecManager(ensure_native_kernel=False)  # the portal's own Python is no kernel of the site
    if folder:
        ours = [os.path.join(one, "kernels") for one in folder.split(os.pathsep)]  # noqa: PTH118  texts
        manager.kernel_dirs = [*ours, *manager.kernel_dirs]
    found = manager.get_all_specs()
    return {name: found[name]["spec"] for name in sorted(found)}
