"""Kernelspecs from the site's settings: each ``[[kernel]]`` becomes a folder that every Jupyter client reads.

A kernel is written only after its modules were really loaded and its interpreter answered. Kernelspecs that
somebody else put into the folder are never touched: ours carry a mark in their metadata.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from portal.errors import KernelError
from portal.kernels.delta import Environment
from portal.kernels.modules import ModuleSystem, environment
from portal.kernels.run_kernel import Launch, program
from portal.settings.kernel_tables import KernelTable
from portal.site import Site

PROBE_TIMEOUT_S = 60
SESSION_PATH = "/usr/local/bin:/usr/bin:/bin"  # the PATH of a session: secure_path of deploy/site/sudoers.dsportal
_MARK = "dsportal"
_LOGOS = Path(__file__).with_name("logos")
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


@dataclass(frozen=True)
class Synced:
    """What became of one kernel; ``reason`` says why it is faulty."""

    name: str
    state: Literal["written", "unchanged", "removed", "faulty"]
    reason: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {self.state}"
        return f"{text} ({self.reason})" if self.reason else text


def sync(site: Site) -> list[Synced]:
    """Write the kernelspecs of ``site`` and remove those of kernels it no longer has.

    A faulty kernel keeps the kernelspec of its last good sync: the fault may pass before a person starts it.
    """
    folder = Path(site.kernels.folder, "kernels")
    written = [_sync_one(kernel, site, folder) for kernel in site.kernel]
    gone = sorted(set(ours(folder)) - {kernel.name for kernel in site.kernel})
    return [*written, *(_remove(folder / name) for name in gone)]


def main_sync(site: Site) -> int:
    """``portal kernels sync``: one line for each kernel; exit status 1 when one is faulty."""
    try:
        results = sync(site)
    except OSError as error:
        print(f"{error.filename}: cannot be written ({error.strerror}); run this as the owner of kernels.folder")
        return 1
    for result in results:
        print(result)
    if not results:
        print("The site has no [[kernel]]: nothing to write.")
    return int(any(result.state == "faulty" for result in results))


def main_list(site: Site) -> int:
    """``portal kernels list``: one line for each kernel of the site; exit status 1 when one is not written."""
    there = ours(Path(site.kernels.folder, "kernels"))
    for kernel in site.kernel:
        modules = " ".join(kernel.modules) or "no modules"
        state = "ready" if kernel.name in there else "not written; run: portal kernels sync"
        print(f"{kernel.name}: {kernel.title} [{modules}] {state}")
    return int(any(kernel.name not in there for kernel in site.kernel))


def ours(folder: Path) -> dict[str, dict[str, Any]]:
    """The kernelspecs in ``folder`` that :func:`sync` made, by name."""
    return {file.parent.name: spec for file in folder.glob("*/kernel.json") if (spec := _marked(file))}


def _marked(file: Path) -> dict[str, Any] | None:
    try:
        spec = json.loads(file.read_text(encoding="utf-8"))
        return spec if _MARK in spec["metadata"] else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _sync_one(kernel: KernelTable, site: Site, folder: Path) -> Synced:
    target = folder / kernel.name
    if target.exists() and not _marked(target / "kernel.json"):
        return Synced(kernel.name, "faulty", f"{target} was not made by the portal and stays as it is")
    try:
        files = kernelspec_files(kernel, site)
    except KernelError as error:
        return Synced(kernel.name, "faulty", error.message)
    if _holds(target, files):
        return Synced(kernel.name, "unchanged")
    _replace(target, files)
    return Synced(kernel.name, "written")


def system_of(site: Site) -> ModuleSystem:
    """The module system that the site's settings name."""
    return ModuleSystem(site.kernels.module_command, site.kernels.module_path)


def session_environ(site: Site) -> Environment:
    """What a kernel of a session finds before its modules are loaded: a session sees no shell of anybody."""
    own = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "SLURM_CONF") if name in os.environ}
    return {"PATH": SESSION_PATH, "LANG": "C.UTF-8", **own, **site.kernels.environment}


def _loaded(kernel: KernelTable, site: Site) -> Environment:
    try:
        return environment(kernel.modules, system_of(site), session_environ(site))
    except KernelError as error:
        if site.kernels.module_path or "MODULEPATH" in site.kernels.environment:
            raise
        here = os.environ.get("MODULEPATH", "")
        shown = ", ".join(f'"{path}"' for path in here.split(":") if path)
        hint = f" In the shell that asked it is [{shown}]." if here else ""
        message = f"{error.message} kernels.module_path is empty, and a session has no MODULEPATH of its own.{hint}"
        raise KernelError(message, detail=error.detail) from error


def kernelspec_files(kernel: KernelTable, site: Site) -> dict[str, bytes]:
    """The files of one kernelspec, made after its modules were loaded, as in a session, and its interpreter answered.

    Raises:
        KernelError: a module cannot be loaded, or the interpreter is not there or has no kernel.
    """
    text = json.dumps(kernelspec(kernel, site), indent=1, ensure_ascii=False) + "\n"
    return {"kernel.json": text.encode(), "logo-svg.svg": (_LOGOS / f"{kernel.language}.svg").read_bytes()}


def kernelspec(kernel: KernelTable, site: Site) -> dict[str, Any]:
    """What stands in ``kernel.json``; made, and failing, as :func:`kernelspec_files` says."""
    system = system_of(site)
    env = _loaded(kernel, site)
    command = kernel.argv or (_interpreter(kernel), *_START[kernel.language])
    path = program(command[0], env)
    version = "" if kernel.argv else _probe(path, kernel, env)
    # Found again at each start: a module's new default version needs no new sync. Without modules the PATH
    # of a session may be another one, and jupyter_client would take a bare "python3" for its own.
    launch = Launch(kernel.name, kernel.modules, system, command)
    spec: dict[str, Any] = {
        "argv": launch.argv() if kernel.modules else [path, *command[1:]],
        "display_name": kernel.title,
        "language": kernel.language,
        "interrupt_mode": "signal",
        "metadata": {"debugger": _has_debugger(kernel, version), _MARK: {"modules": list(kernel.modules)}},
    }
    if site.kernels.environment:  # Jupyter fills in what begins with $ there
        spec["env"] = {name: value.replace("$", "$$") for name, value in site.kernels.environment.items()}
    return spec


def _interpreter(kernel: KernelTable) -> str:
    if kernel.language == "R":
        return "R"
    return kernel.python or "python3"


def _probe(path: str, kernel: KernelTable, env: Environment) -> str:
    """The version of the kernel package that an interpreter has."""
    quiet = env | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [path, *_PROBE[kernel.language]],
            env=quiet,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise KernelError(f"{path} did not answer within {PROBE_TIMEOUT_S} s") from error
    except OSError as error:
        raise KernelError(f"{path} cannot be run: {error.strerror}") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no word"]
        raise KernelError(f"{path} {_MISSING[kernel.language]} (it said: {last[0]})")
    return done.stdout.strip()


def _has_debugger(kernel: KernelTable, version: str) -> bool:
    """Whether JupyterLab may offer its debugger: ipykernel can do it since version 6."""
    major = version.partition(".")[0]
    return kernel.language == "python" and major.isdigit() and int(major) >= 6


def _holds(target: Path, files: dict[str, bytes]) -> bool:
    try:
        return all((target / name).read_bytes() == content for name, content in files.items())
    except OSError:
        return False


def _replace(target: Path, files: dict[str, bytes]) -> None:
    """Put a whole folder in place: a Jupyter client sees the old kernelspec or the new one."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".sync-", dir=target.parent) as unfinished:
        new = Path(unfinished, "new")
        old = Path(unfinished, "old")
        new.mkdir()
        new.chmod(0o755)  # whatever the umask: everybody reads kernelspecs
        for name, content in files.items():
            (new / name).write_bytes(content)
            (new / name).chmod(0o644)
        if target.exists():
            target.rename(old)
        new.rename(target)


def _remove(target: Path) -> Synced:
    shutil.rmtree(target)
    return Synced(target.name, "removed")
