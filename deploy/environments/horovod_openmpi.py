"""Debian's Open MPI in a folder of its own: ``horovod.py`` compiles against it, and the environment runs with it.

The packages are the group ``openmpi`` of the demo's lock. Nothing is installed: the tree can lie anywhere, because
Open MPI and PMIx find their parts through variables.
"""

from __future__ import annotations

from pathlib import Path

from deploy.demo import debs, fetch_debs, unpack_debs
from deploy.demo.state_folder import State

__all__ = ["fingerprint", "unpack_at", "variables"]

GROUP = "openmpi"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Debian's alternatives, which are made when a package is installed: link → what it points to.
COMMANDS = {"mpirun": "orterun", "mpiexec": "orterun", "mpicc": "opal_wrapper", "mpicxx": "opal_wrapper"}
SETTINGS = {"mpicc": "mpicc", "mpicxx": "mpic++"}  # the wrappers read a file that has their own name


def fingerprint() -> str:
    """What the tree is made of."""
    return debs.fingerprint(debs.load(GROUP))


def unpack_at(tree: Path, store: Path) -> None:
    """Fetch the packages into ``store`` and unpack them at ``tree``.

    Raises:
        DemoError: they cannot be had.
    """
    unpack_debs.unpack(fetch_debs.fetch(State(store), GROUP), tree, fingerprint())
    for name, target in COMMANDS.items():
        link(tree / "usr/bin" / name, target)
    for name, of in SETTINGS.items():
        link(tree / "usr/share/openmpi" / f"{name}-wrapper-data.txt", f"{of}-wrapper-data.txt")


def link(place: Path, target: str) -> None:
    """A link, unless the packages have the file."""
    if not place.exists():
        place.unlink(missing_ok=True)
        place.symlink_to(target)


def variables(tree: Path) -> dict[str, str]:
    """What programs need to run Open MPI out of ``tree``; the module shared/horovod sets the same."""
    return {
        "OPAL_PREFIX": str(tree / "usr"),
        "PMIX_INSTALL_PREFIX": str(tree / LIBRARIES / "pmix2"),
        "LD_LIBRARY_PATH": str(tree / LIBRARIES),
    }
