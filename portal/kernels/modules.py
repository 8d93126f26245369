"""The environment that modules give, without a shell: asked for once, kept for the person, then applied.

``modulecmd python load …`` (Environment Modules) and ``$LMOD_CMD python load …`` (Lmod) print Python
assignments, read by :mod:`portal.kernels.module_output` and kept by :mod:`portal.kernels.module_cache`.
Only the standard library is used, and what a warm start does not need is imported late.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from portal.errors import KernelError

Environment = dict[str, str]
# What becomes of a variable: new text; text put before and after what it holds; or None, when it is taken away.
Change = str | tuple[str, str] | None
Delta = Mapping[str, Change]

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
        """The module command of this machine.

        Raises:
            KernelError: there is none; the message names the places.
        """
        candidates = (self.command,) if self.command else _candidates(environ)
        found = next((path for path in candidates if path and os.access(path, os.X_OK)), None)
        if found is None:
            places = ", ".join(path for path in candidates if path)
            raise KernelError(
                f"No module command is on this machine (looked for {places}). "
                "Install Environment Modules or Lmod, or set kernels.module_command."
            )
        return found


def _candidates(environ: Mapping[str, str]) -> tuple[str, ...]:
    return (environ.get("LMOD_CMD", ""), environ.get("MODULES_CMD", ""), *USUAL_COMMANDS)


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
        KernelError: the modules cannot be loaded; the message carries the module system's own words.
    """
    base = system.base(environ)
    if not modules:
        return base
    if cache_folder is None:
        return capture(modules, system, base)
    from portal.kernels import module_cache

    file = module_cache.file_of(cache_folder, modules, system, base)
    delta = module_cache.read(file, base)
    if delta is not None:
        return applied(delta, base)
    loaded = capture(modules, system, base)
    module_cache.write(file, base, loaded, system.find_command(base))
    return loaded


def applied(delta: Delta, environ: Mapping[str, str]) -> Environment:
    """``environ`` with every change of ``delta`` made."""
    env = {name: value for name, value in environ.items() if delta.get(name, value) is not None}
    for name, change in delta.items():
        if isinstance(change, str):
            env[name] = change
        elif change is not None:
            env[name] = change[0] + env.get(name, "") + change[1]
    return env


def difference(before: Environment, after: Environment) -> dict[str, Change]:
    """The changes that make ``after`` of ``before``; what is only put around a value is kept as that."""
    gone: dict[str, Change] = dict.fromkeys(before.keys() - after.keys())
    return gone | {
        name: _change(before.get(name, ""), value) for name, value in sorted(after.items()) if before.get(name) != value
    }


def _change(old: str, new: str) -> Change:
    start = f":{new}:".find(f":{old}:") if old else -1
    return new if start < 0 else (new[:start], new[start + len(old) :])


def capture(modules: tuple[str, ...], system: ModuleSystem, base: Environment) -> Environment:
    """Ask the module system for the environment that ``modules`` make of ``base``.

    Raises:
        KernelError: a name is none, the command fails or is silent, or its answer cannot be read.
    """
    from portal.kernels.module_output import ask

    if odd := [name for name in modules if name.startswith("-") or len(name.split()) != 1]:
        raise KernelError(f"{odd[0]!r} is no name of a module. Allowed: names as `module avail` shows them.")
    command = system.find_command(base)
    # What a login shell has loaded would conflict with the kernel's modules or leak into them.
    steps = [("purge",)] if base.get("LOADEDMODULES") else []
    env = base
    for words in [*steps, ("load", *modules)]:
        env = applied(ask(command, words, env), env)
    return env
