"""The kernel of a person's environment: a kernelspec of hers, by the site's own machinery (:mod:`portal.catalogue`).

It is made after the modules were really loaded and its Python has answered, so that one that cannot start is none.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from portal.environments.order import EnvironmentOrder
from portal.environments.place import EnvironmentRefused
from portal.errors import KernelError
from portal.kernels.modules import ModuleSystem
from portal.modules.session_system import SessionModules

BADGE = "own"


def own_kernels(environ: Mapping[str, str]) -> Path:
    """Where a person's own kernelspecs lie, and the session's server looks (:mod:`portal.kernels.manager`)."""
    return Path(environ.get("HOME") or Path.home(), ".local", "share", "jupyter", "kernels")


def check_free(order: EnvironmentOrder, environ: Mapping[str, str]) -> None:
    """Look whether its kernel would be in the way of another one.

    Raises:
        EnvironmentRefused: a kernel of this name is there.
    """
    folders = [Path(one, "kernels") for one in environ.get("JUPYTER_PATH", "").split(":") if one]
    for folder in (*folders, own_kernels(environ)):
        if (folder / order.kernel).exists():
            raise EnvironmentRefused(
                f"There is a kernel {order.kernel} in {folder} already: choose another name than {order.name}."
            )


def files(order: EnvironmentOrder, path: str, modules: SessionModules) -> dict[str, bytes]:
    """The files of its kernelspec, which names trees that a shell has added and others can change only if it must.

    Arguments:
        path: the folder of the environment; "" for a kernel out of modules alone.

    Raises:
        KernelError: a module cannot be loaded, or its Python is not there or has no kernel.
    """
    lasting = modules.lasting()
    if lasting.path != modules.system.path:
        with contextlib.suppress(KernelError):
            return _files_of(order, path, lasting, modules.variables)
    return _files_of(order, path, modules.system, modules.variables)


def _files_of(
    order: EnvironmentOrder, path: str, system: ModuleSystem, variables: Mapping[str, str]
) -> dict[str, bytes]:
    # A site's settings take a while to import: never in the loop of a session's server, which lists and begins.
    from portal.catalogue.built import kernelspec_files, launch
    from portal.settings.kernel_tables import KernelsTable, KernelTable
    from portal.site import Site

    tables = KernelsTable(module_command=system.command, module_path=system.path, environment=dict(variables))
    table = KernelTable(name=order.kernel, title=order.title, modules=order.modules, environment=path, badge=BADGE)
    site = Site(kernels=tables)
    made = kernelspec_files(table, site, is_own=True)
    spec = json.loads(made["kernel.json"])
    # Always by our first program: an environment that is gone is said at once, in words.
    spec["argv"] = launch(table, site).argv()
    return made | {"kernel.json": (json.dumps(spec, indent=1, ensure_ascii=False) + "\n").encode()}


def write(order: EnvironmentOrder, made: Mapping[str, bytes], environ: Mapping[str, str]) -> None:
    """Put the kernelspec where every Jupyter client of hers finds it.

    Raises:
        OSError: it cannot be written.
    """
    from portal.catalogue.specs import put_in_place

    put_in_place(own_kernels(environ) / order.kernel, dict(made))


def remove(order: EnvironmentOrder, environ: Mapping[str, str]) -> None:
    """Take the kernelspec away, if it is there.

    Raises:
        OSError: it cannot be removed.
    """
    target = own_kernels(environ) / order.kernel
    if target.is_symlink():
        target.unlink()
    elif target.is_dir():
        shutil.rmtree(target)
