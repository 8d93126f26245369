"""``portal kernels test``: does each kernel start, and do its frameworks see the GPUs that Slurm gave?

It starts each kernel as a session would, out of its kernelspec, so it needs no settings file: a person runs it in the
terminal of a session, and :mod:`portal.gpus.job` in a job of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from portal.errors import KernelError, printable
from portal.gpus import start
from portal.gpus.frameworks import KernelPython, as_in_a_session, kernel_python
from portal.lessons import lesson_gpus
from portal.trials.told import line_of
from portal.trials.trial import FrameworkTrial, Trial

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpecManager

NO_PYTHON = "it is no Python that ipykernel starts, so no framework was asked"


def trial(name: str, specs: KernelSpecManager, environ: Mapping[str, str] = os.environ) -> Trial:
    """Start one kernel, have it calculate, and ask its frameworks."""
    given = lesson_gpus.given(environ)
    partition = environ.get("SLURM_JOB_PARTITION", "")
    found = Trial(int(time.time()), gpus=given, partition=partition, node=environ.get("SLURMD_NODENAME", ""))
    try:
        began = start.started(name, specs, as_in_a_session({}, environ))
        found = replace(found, start_s=round(began.seconds, 2), language=began.language)
        note, frameworks = asked(specs.get_kernel_spec(name).to_dict(), environ)
    except KernelError as error:
        return replace(found, fault=error.message)
    return replace(found, note=note, frameworks=frameworks)


def asked(spec: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> tuple[str, tuple[FrameworkTrial, ...]]:
    """What the frameworks of one kernel see, each beside what Slurm gave; a note where there is none.

    Raises:
        KernelError: its Python cannot be asked.
    """
    python = kernel_python(spec, environ)
    if python is None:
        return NO_PYTHON, ()
    built = python.ask("built")
    if not built:
        return f"it has none of {', '.join(lesson_gpus.FRAMEWORKS)}", ()
    return "", tuple(_of_framework(python, framework, what) for framework, what in built.items())


def _of_framework(python: KernelPython, framework: str, built: str) -> FrameworkTrial:
    try:
        answer = python.ask(framework)
    except KernelError as error:
        return FrameworkTrial(framework, words=f"{framework} does not work: {error.message}", is_fault=True)
    version = str(answer["version"])
    seen = answer["seen"]
    if seen is None:
        return FrameworkTrial(framework, version, None, f"{framework} {version} is imported; it counts no GPUs")
    given = lesson_gpus.given(python.environ)
    if words := lesson_gpus.sentence(framework, seen, given, python.environ, built):
        return FrameworkTrial(framework, version, seen, words, is_fault=True)
    for_what = f" (built for {built})" if built else ""
    beside = {None: "", 0: ", and Slurm gave none"}.get(given, ", as many as Slurm gave")
    return FrameworkTrial(framework, version, seen, f"{framework} sees {seen} GPUs{for_what}{beside}")


def main(folder: str, names: Sequence[str], *, as_json: bool = False) -> int:
    """Test the kernels named, or all, and print what was found; 1 when one fails, or sees other GPUs than given."""
    if os.geteuid() == 0:
        raise KernelError(
            "root starts no kernels: whoever can change an environment would have root's rights. "
            "With --partition NAME --user PERSON they are started in a job of that person's."
        )
    specs = kernelspecs(folder)
    known = sorted(specs.find_kernel_specs())
    if unknown := [name for name in names if name not in known]:
        raise KernelError(f"There is no kernel {', '.join(unknown)}; there are {', '.join(known) or 'none'}.")
    if lesson_gpus.given() is None and not as_json:
        print("This is no job of Slurm, so there is nothing to compare: --partition NAME asks in a job.")
    is_faulty = False
    for name in names or known:
        found = trial(name, specs)
        is_faulty |= found.is_fault
        lines = [line_of("kernel", name, found)] if as_json else told(name, found)
        print(*map(printable, lines), sep="\n", flush=True)
    return int(is_faulty)


def told(name: str, found: Trial) -> list[str]:
    """What was found of a kernel, line by line."""
    return [f"{name}: {line}" for line in found.lines()]


def kernelspecs(folder: str) -> KernelSpecManager:
    """The kernelspecs that Jupyter finds, those of ``folder`` before all others."""
    from jupyter_client.kernelspec import KernelSpecManager

    manager = KernelSpecManager(ensure_native_kernel=False)  # the portal's own Python is no kernel of the site
    if folder:
        ours = [os.path.join(one, "kernels") for one in folder.split(os.pathsep)]  # noqa: PTH118  texts
        manager.kernel_dirs = [*ours, *manager.kernel_dirs]
    return manager
