"""The environment that a kernel or a web tool of the site gets: its modules loaded, as in a session."""

from __future__ import annotations

import os
from collections.abc import Mapping

from portal.errors import KernelError
from portal.kernels.delta import Environment
from portal.kernels.modules import ModuleSystem, environment
from portal.settings.kernel_tables import KernelTable
from portal.site import Site

SESSION_PATH = "/usr/local/bin:/usr/bin:/bin"  # the PATH of a session: secure_path of deploy/site/sudoers.dsportal


def system_of(site: Site) -> ModuleSystem:
    """The module system that the site's settings name."""
    return ModuleSystem(site.kernels.module_command, site.kernels.module_path)


def session_environ(site: Site) -> Environment:
    """What a kernel of a session finds before its modules are loaded: a session sees no shell of anybody."""
    own = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "SLURM_CONF") if name in os.environ}
    return {"PATH": SESSION_PATH, "LANG": "C.UTF-8", **own, **site.kernels.environment}


def loaded(kernel: KernelTable, site: Site) -> Environment:
    """What a kernel finds with its modules loaded; fails as :func:`with_modules`."""
    return with_modules(kernel.modules, site)


def with_modules(modules: tuple[str, ...], site: Site, own: Mapping[str, str] | None = None) -> Environment:
    """What a program finds in a session with these modules loaded.

    Arguments:
        own: variables that it has before they are loaded.

    Raises:
        KernelError: they cannot be loaded; where no ``module_path`` is set, with what the shell that asks has.
    """
    try:
        return environment(modules, system_of(site), session_environ(site) | dict(own or {}))
    except KernelError as error:
        if site.kernels.module_path or "MODULEPATH" in site.kernels.environment:
            raise
        here = os.environ.get("MODULEPATH", "")
        shown = ", ".join(f'"{path}"' for path in here.split(":") if path)
        hint = f" In the shell that asked it is [{shown}]." if here else ""
        message = f"{error.message} kernels.module_path is empty, and a session has no MODULEPATH of its own.{hint}"
        raise KernelError(message, detail=error.detail) from error
