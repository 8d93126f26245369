"""Start a kernel in the environment of its modules: the first program of every module kernel.

It stands in ``kernel.json``, so that papermill, nbconvert, VS Code and all others start the same kernel::

    <portal's python> -I -S <this file> --name NAME --module M … -- python3 -m ipykernel_launcher …

It runs as a file and not with ``-m``, which would search the notebook's folder first; with ``-I -S``
because nothing but the standard library is needed, and nothing of the person's may come in between.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

if __name__ == "__main__":  # behind the standard library: only this package itself is missing from the path
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from portal.errors import KernelError
from portal.kernels import module_cache
from portal.kernels.containers import Container, without_outside
from portal.kernels.delta import Environment
from portal.kernels.modules import ModuleSystem, environment

ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")  # of a virtual environment (PEP 405), of a conda environment


class Launch(NamedTuple):
    """How a kernel is started: the modules to load, then the command, found in the PATH they give, or in an image."""

    name: str
    modules: tuple[str, ...]
    system: ModuleSystem
    command: tuple[str, ...]
    container: Container = Container()

    def argv(self, python: str = sys.executable) -> list[str]:
        """The command line for ``kernel.json``; :meth:`from_argv` reads it."""
        options = [("--name", self.name), ("--module-command", self.system.command)]
        options += [("--module", module) for module in self.modules]
        options += [("--module-path", path) for path in self.system.path]
        options += self.container.options()
        given = [text for name, value in options if value for text in (name, value)]
        return [python, "-I", "-S", os.path.abspath(__file__), *given, "--", *self.command]

    @classmethod
    def from_argv(cls, argv: list[str]) -> Launch | None:
        """Read a command line of :meth:`argv`; None when it is any other command."""
        if len(argv) < 4 or os.path.basename(argv[3]) != "run_kernel.py":
            return None
        return cls.from_options(argv[4:])

    @classmethod
    def from_options(cls, options: list[str]) -> Launch | None:
        """Read what follows the name of this file; None when it is not complete."""
        if "--" not in options:
            return None
        end = options.index("--")
        given = list(zip(options[:end:2], options[1:end:2], strict=True)) if end % 2 == 0 else []
        one = dict(given)

        def several(name: str) -> tuple[str, ...]:
            return tuple(value for option, value in given if option == name)

        system = ModuleSystem(one.get("--module-command", ""), several("--module-path"))
        container = Container(one.get("--container", ""), several("--bind"), one.get("--container-command", ""))
        return cls(one.get("--name", ""), several("--module"), system, tuple(options[end + 1 :]), container)

    def ready(self, environ: Mapping[str, str], folder: str = "") -> tuple[list[str], Environment]:
        """The command with its program's whole path, and the environment to run it in.

        Arguments:
            folder: where the kernel is started; "" is the present folder.

        Raises:
            KernelError: the modules cannot be loaded, their PATH does not have the program, or there is no container.
        """
        env = environment(self.modules, self.system, environ, module_cache.folder_of(os.environ))
        if not self.container.image:
            found = program(self.command[0], env)
            return [found, *self.command[1:]], _with_own_programs(found, env)
        sockets = os.path.dirname(_connection_file(self.command))
        started = self.container.command(list(self.command), env, os.path.abspath(folder or "."), sockets)
        return started, without_outside(env)


def _with_own_programs(python: str, env: Environment) -> Environment:
    """``env`` in which the programs of a Python's environment come before those of modules, as after ``activate``."""
    folder = os.path.dirname(python)
    is_environment = any(os.path.exists(f"{os.path.dirname(folder)}/{mark}") for mark in ENVIRONMENT_MARKS)
    if not is_environment or env.get("PATH", "").startswith(f"{folder}:"):
        return env
    return env | {"PATH": f"{folder}:{env['PATH']}" if env.get("PATH") else folder}


def _connection_file(command: tuple[str, ...]) -> str:
    """The file in whose folder the sockets are; "" where the command names none."""
    return next((file for word, file in pairwise(command) if word in ("-f", "--args")), "")


def program(name: str, env: Environment) -> str:
    """The whole path of a program in the PATH of ``env``.

    Raises:
        KernelError: it is not there.
    """
    folders = [folder for folder in env.get("PATH", os.defpath).split(":") if folder]
    candidates = [name] if "/" in name else [f"{folder}/{name}" for folder in folders]
    found = next((path for path in candidates if _is_program(path)), None)
    if found is None:
        loaded = env.get("LOADEDMODULES", "").replace(":", ", ")
        where = f"after loading the modules {loaded}" if loaded else "and no module was loaded"
        raise KernelError(f"The program {name!r} is not found {where}. PATH is {env.get('PATH', '')!r}.")
    return found


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def main(options: list[str]) -> int:
    """Become the kernel; on a fault, one line that says which, and exit status 1."""
    launch = Launch.from_options(options)
    if launch is None or not launch.command:
        print("portal: run_kernel.py needs --name NAME [--module M]… -- COMMAND…", file=sys.stderr)
        return 2
    try:
        command, env = launch.ready(os.environ)
        os.execve(command[0], command, env)  # noqa: S606
    except KernelError as error:
        print(f"portal: the kernel {launch.name} cannot start: {error.message}", file=sys.stderr)
    except OSError as error:
        print(f"portal: the kernel {launch.name} cannot start: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
