"""The files of one kernelspec: how its kernel is started, and what people see of it.

They are made only after the modules were really loaded, or the container started, and its Python or R answered; an
image that would be fetched for that is not tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from portal.catalogue import icons, rights
from portal.catalogue.loaded import loaded, system_of
from portal.catalogue.tried import TrialFault, tried
from portal.errors import KernelError, printable
from portal.homes import temporary
from portal.kernels.containers import Container, is_address, without_outside
from portal.kernels.delta import Environment
from portal.kernels.python_start import parts_of
from portal.kernels.run_kernel import Launch, program
from portal.settings.kernel_tables import KernelTable
from portal.site import Site

PROBE_TIMEOUT_S = 60
MARK = "dsportal"
LOADED_FROM = ("PYTHONPATH", "R_LIBS", "R_LIBS_SITE", "LD_LIBRARY_PATH")
IN_AN_IMAGE = ("*", "usr/*", "usr/local/*")  # of one that is a folder
_START = {
    "python": ("-m", "ipykernel_launcher", "-f", "{connection_file}"),
    "R": ("--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"),
}
_PROBE = {
    "python": ("-c", "import ipykernel; print(ipykernel.__version__)"),
    "R": ("--slave", "-e", "cat(as.character(packageVersion('IRkernel')))"),
}
_MISSING = {
    "python": "has no ipykernel; install it there: python -m pip install ipykernel",
    "R": "has no IRkernel; install it there: install.packages('IRkernel')",
}


def kernelspec_files(kernel: KernelTable, site: Site, table: str = "", *, is_own: bool = False) -> dict[str, bytes]:
    """The files of one kernelspec, made after its modules were loaded, as in a session, and its interpreter answered.

    Arguments:
        table: the ``[[kernel]]`` whose pattern stands for it, if one does.
        is_own: True for a kernel of whoever asks, which is tried with nobody else's rights, root's own not excepted.

    Raises:
        KernelError: a module cannot be loaded, or the interpreter is not there or has no kernel.
    """
    spec = kernelspec(kernel, site, is_own=is_own)
    if table:
        spec["metadata"][MARK]["table"] = table
    text = json.dumps(spec, indent=1, ensure_ascii=False) + "\n"
    return {"kernel.json": text.encode(), "logo-svg.svg": icons.icon(kernel)}


def kernelspec(kernel: KernelTable, site: Site, *, is_own: bool = False) -> dict[str, Any]:
    """What stands in ``kernel.json``; made, and failing, as :func:`kernelspec_files` says."""
    env = loaded(kernel, site)
    start = launch(kernel, site)
    if not kernel.container:
        program(start.command[0], env)  # it is there
    elif is_address(kernel.container):
        _check_fetching(start.container, env)
    version = _probe(start, kernel, env, is_own=is_own) if is_tried(kernel) else ""
    spec: dict[str, Any] = {
        "argv": _argv(start, kernel, env),
        "display_name": kernel.title,
        "language": kernel.language,
        "interrupt_mode": "signal",
        "metadata": {"debugger": _has_debugger(kernel, version), MARK: _marks(kernel)},
    }
    variables = site.kernels.environment
    if variables or kernel.environment:
        spec["env"] = {name: _written(value) for name, value in variables.items()} | _activated(kernel)
    return spec


def _check_fetching(container: Container, env: Environment) -> None:
    """Refuse an address where what starts containers here fetches none; the nodes alone may have what does."""
    path = env.get("PATH", "")
    if container.has_runtime(path):
        container.check(path)


def is_tried(kernel: KernelTable) -> bool:
    """Whether its interpreter is asked before somebody starts it."""
    return not kernel.argv and not is_address(kernel.container)


def launch(kernel: KernelTable, site: Site) -> Launch:
    """How a kernel of the site is started."""
    command = kernel.argv or (interpreter(kernel), *_START[kernel.language])
    container = Container(kernel.container, kernel.binds, site.kernels.container_command)
    return Launch(kernel.name, kernel.modules, system_of(site), command, container)


def interpreter(kernel: KernelTable) -> str:
    """The program that its start line begins with."""
    if kernel.language == "R":
        return "R"
    return f"{kernel.environment}/bin/python" if kernel.environment else kernel.python or "python3"


def stranger(kernel: KernelTable, site: Site) -> tuple[int, int] | None:
    """Who can change what is run when this kernel is tried (:func:`portal.catalogue.rights.stranger`).

    Raises:
        KernelError: its modules cannot be loaded, or its program is not there.
    """
    if is_address(kernel.container):
        return None
    if kernel.argv and kernel.argv[1:2] != ("-m",):  # another program, whose own choice it is what runs
        return rights.NOBODY, rights.NOBODY
    return rights.stranger(*_of_trial(kernel, site))


def rights_of_trial(kernel: KernelTable, site: Site) -> rights.Rights:
    """With whose rights it is tried (:func:`portal.catalogue.rights.of_trial`); fails as :func:`stranger`."""
    return rights.of_trial(*_of_trial(kernel, site))


def _of_trial(kernel: KernelTable, site: Site) -> list[Path]:
    env = loaded(kernel, site)
    command = kernel.argv or (interpreter(kernel),)
    return _run_in_trial(kernel, "" if kernel.container else program(command[0], env), env)


def _run_in_trial(kernel: KernelTable, path: str, env: Environment) -> list[Path]:
    """What somebody could have changed of that: the image, or the program at ``path`` and what it loads."""
    if kernel.container:
        image = Path(kernel.container)
        return [image, *(inner for form in IN_AN_IMAGE for inner in image.glob(form))]
    prefixes = dict.fromkeys(one.parent.parent for one in (Path(path), Path(path).resolve()))
    packages = [inner for prefix in prefixes for inner in prefix.glob("lib*/python3*/*-packages/*")]
    named = [Path(one) for name in LOADED_FROM for one in parts_of(name, env.get(name, "")) if one.startswith("/")]
    return [Path(path), *packages, *named]


def _argv(start: Launch, kernel: KernelTable, env: Environment) -> list[str]:
    """Modules and containers are found again at each start: a module's new default version needs no new sync.

    Without them the PATH of a session may be another one, and jupyter_client would take a bare "python3" for its own.
    """
    if kernel.modules or kernel.container:
        return start.argv()
    return [program(start.command[0], env), *start.command[1:]]


def _marks(kernel: KernelTable) -> dict[str, Any]:
    """What the portal remembers of it in its kernelspec."""
    more = {"container": kernel.container, "environment": kernel.environment, "badge": kernel.badge}
    return {"modules": list(kernel.modules)} | {name: text for name, text in more.items() if text}


def _activated(kernel: KernelTable) -> dict[str, str]:
    """The variables that make a virtual or conda environment the one of a kernel's own programs, too."""
    folder = kernel.environment
    if not folder:
        return {}
    written = _written(folder)
    path = {"PATH": f"{written}/bin:${{PATH}}"}
    if Path(folder, "conda-meta").is_dir():
        return path | {"CONDA_PREFIX": written, "CONDA_DEFAULT_ENV": _written(Path(folder).name)}
    return path | {"VIRTUAL_ENV": written}


def _written(text: str) -> str:
    """A text as it stands among the variables of a kernelspec: Jupyter fills in what begins with $ there."""
    return text.replace("$", "$$")


def _probe(start: Launch, kernel: KernelTable, env: Environment, *, is_own: bool = False) -> str:
    """The version of the kernel package that an interpreter has."""
    words = [start.command[0], *_PROBE[kernel.language]]
    path = words[0] if kernel.container else program(words[0], env)
    others = rights.of_trial(*_run_in_trial(kernel, path, env)) if not is_own else rights.Rights()
    try:
        with _line(start.container, [path, *words[1:]], env) as (command, quiet):
            done = tried(command, quiet, PROBE_TIMEOUT_S, others)
    except TrialFault as fault:
        raise KernelError(f"{path} {fault}") from fault
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no word"]
        missing = f"{path} {_MISSING[kernel.language]}"
        if kernel.container:
            missing = f"the container {kernel.container} does not start, or in it {missing}"
        raise KernelError(f"{missing} (it said: {printable(last[0])})")
    return done.stdout.strip()


@contextmanager
def _line(container: Container, words: list[str], env: Environment) -> Iterator[tuple[list[str], Environment]]:
    """The command line of a trial, and its environment; an image has a place where nobody else can put another."""
    if not container.image:
        yield words, dict(env)
        return
    quiet = without_outside({name: text for name, text in env.items() if name != "HOME"})  # root's is in no image
    with temporary.folder("dsp-mnt-", "/tmp") as place:  # noqa: S108  whoever it is tried as comes there
        place.chmod(0o755)  # it is mounted on by others, and root's all the same
        yield container.command(words, quiet, "/", "", str(place)), quiet


def _has_debugger(kernel: KernelTable, version: str) -> bool:
    """Whether JupyterLab may offer its debugger: ipykernel can do it since version 6."""
    major = version.partition(".")[0]
    return kernel.language == "python" and major.isdigit() and int(major) >= 6
