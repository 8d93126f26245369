"""The environment that modules give, without a shell: computed once, kept for the person, then applied.

``modulecmd python load …`` (Environment Modules) and ``$LMOD_CMD python load …`` (Lmod) print Python
assignments, read by :mod:`portal.kernels.module_output` and kept by :mod:`portal.kernels.module_cache`.
Only the standard library is used, and what a start with a cached environment does not need is imported late.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from portal.errors import KernelError
from portal.kernels import module_cache
from portal.kernels.delta import Environment, applied

USUAL_COMMANDS = (
    "/usr/share/lmod/lmod/libexec/lmod",
    "/opt/apps/lmod/lmod/libexec/lmod",
    "/usr/lib/x86_64-linux-gnu/modulecmd.tcl",
    "/usr/lib/aarch64-linux-gnu/modulecmd.tcl",
    "/usr/share/Modules/libexec/modulecmd.tcl",
    "/cm/local/apps/environment-modules/current/libexec/modulecmd.tcl",
    "/usr/local/Modules/libexec/modulecmd.tcl",
)

_SECRETS = ("JUPYTERHUB_", "DSPORTAL_", "JPY_", "CONFIGPROXY_", "JUPYTER_TOKEN")
# ipykernel ends with its parent by the first, and knows its notebook by the second (jupyter_client.launcher).
# The third is only a path: notebooks make links into their session with it.
_NO_SECRETS = ("JPY_PARENT_PID", "JPY_SESSION_NAME", "JUPYTERHUB_SERVICE_PREFIX")


class ModuleSystem(NamedTuple):
    """The module command ("" = ``LMOD_CMD``, ``MODULES_CMD`` or a usual place) and its MODULEPATH."""

    command: str = ""
    path: tuple[str, ...] = ()

    def base(self, environ: Mapping[str, str]) -> Environment:
        """``environ`` as modules should find it: no secrets of the portal, the site's MODULEPATH."""
        given = {"MODULEPATH": ":".join(self.path)} if self.path else {}
        return clean(environ) | given

    def find_command(self, environ: Mapping[str, str]) -> str:
        """The module command of this host.

        Raises:
            KernelError: there is none; the message names the places.
        """
        candidates = [self.command] if self.command else _candidates(environ)
        found = next((path for path in candidates if os.access(path, os.X_OK)), None)
        if found is None:
            places = ", ".join(candidates)
            raise KernelError(
                f"No module command is on this machine (looked for {places}). "
                "Install Environment Modules or Lmod, or set kernels.module_command."
            )
        return found


def _candidates(environ: Mapping[str, str]) -> list[str]:
    commands = (environ.get("LMOD_CMD"), environ.get("MODULES_CMD"), *USUAL_COMMANDS)
    return [command for command in commands if command]


def clean(environ: Mapping[str, str], python: str = sys.executable) -> Environment:
    """``environ`` without the portal's secrets and without the portal's own Python environment."""
    own = os.path.dirname(python)
    kept = {name: value for name, value in environ.items() if not _is_secret(name)}
    if os.path.exists(os.path.join(own, os.pardir, "pyvenv.cfg")):
        kept.pop("VIRTUAL_ENV", None)
        if "PATH" in kept:
            kept["PATH"] = ":".join(folder for folder in kept["PATH"].split(":") if folder != own)
    return kept


def _is_secret(name: str) -> bool:
    return name.startswith(_SECRETS) and name not in _NO_SECRETS


def environment(
    modules: tuple[str, ...],
    system: ModuleSystem,
    environ: Mapping[str, str],
    cache_folder: str | None = None,
) -> Environment:
    """``environ`` after ``module load`` of ``modules``, from the person's cache where it is still true.

    Raises:
        KernelError: the modules cannot be loaded; the message is the module system's own.
    """
    base = system.base(environ)
    if not modules:
        return base
    if cache_folder is None:
        return capture(modules, system, base)
    file = module_cache.file_of(cache_folder, modules, system, base)
    delta = module_cache.read(file, base)
    if delta is not None:
        return applied(delta, base)
    loaded = capture(modules, system, base)
    module_cache.write(file, base, loaded, system.find_command(base))
    return loaded


def capture(modules: tuple[str, ...], system: ModuleSystem, base: Environment) -> Environment:
    """Run the module command for the environment that ``modules`` make of ``base``.

    Raises:
        KernelError: a name is none, the command fails or is silent, or its answer cannot be read.
    """
    from portal.kernels.module_output import query

    if odd := [name for name in modules if name.startswith("-") or len(name.split()) != 1]:
        raise KernelError(f"{odd[0]!r} is no name of a module. Allowed: names as `module avail` shows them.")
    command = system.find_command(base)
    # What a login shell has loaded would conflict with the kernel's modules or leak into them.
    steps = [("purge",)] if base.get("LOADEDMODULES") else []
    env = base
    for arguments in [*steps, ("load", *modules)]:
        env = applied(query(command, arguments, env), env)
    return env
