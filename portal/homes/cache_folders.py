"""Where frameworks keep what they load or remove again: below the home, not under a known name in /tmp or /var/tmp.

Whoever makes a folder of that name first, on a node that is shared, chooses what code is loaded from it, and by a link
what is removed. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_FOLDERS = {  # each variable, and its folder among the person's caches
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",  # torch.compile (2.0 to 2.9): $TMPDIR/torchinductor_NAME
    "CUTE_DSL_CACHE_DIR": "cutlass_python_cache",  # nvidia-cutlass-dsl 4: $TMPDIR/NAME/cutlass_python_cache
    "QUACK_CACHE_DIR": "quack",  # PyTorch 2.13 with cutlass: $TMPDIR/NAME/torch_vendor_quack_cache
    "TFHUB_CACHE_DIR": "tfhub_modules",  # tensorflow_hub 0.16: $TMPDIR/tfhub_modules
    "NUMBA_CACHE_DIR": "numba",  # numba (0.68): __pycache__ beside each module, which it reads as a pickle
    "OMPI_MCA_orte_tmpdir_base": "dsportal-openmpi",  # mpirun of Open MPI 4: $TMPDIR/ompi.NODE.UID, there as here
    "PRTE_MCA_prte_tmpdir_base": "dsportal-openmpi",  # that of Open MPI 5 (PRRTE 3): $TMPDIR/prte.NODE.UID
}
_SPILLED = "POLARS_OOC_SPILL_DIR"  # Polars (1.44): /var/tmp/polars-NAME/spill, whatever TMPDIR says
_OF_NODES = "dsportal-polars"  # a node's own each, as in templates/job/job.sh: it removes there what is of no process
# Of UCX (1.13), which Open MPI loads: what it would take from an ucx.conf of the folder that one works in: files to
# write, programs to run, a folder of libraries. Builds that do not know all of these say nothing of that.
_EMPTY = (
    *("UCX_LOG_FILE", "UCX_MEMTRACK_DEST", "UCX_PROFILE_MODE", "UCX_STATS_DEST", "UCX_PROTO_INFO_DIR"),
    *("UCX_GDB_COMMAND", "UCX_MODULE_DIR"),
)
_OF_UCX = {
    **dict.fromkeys(_EMPTY, ""),
    "UCX_HANDLE_ERRORS": "none",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
}
_SWITCHES = {  # of what is kept under a known name whatever folder is set, and of what would be kept for each program
    **_OF_UCX,
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",  # torch.compile (2.13): $TMPDIR/torchinductor_NAME
    "PRTE_MCA_prte_silence_shared_fs": "1",  # Open MPI 5 warns at each mpirun where that is of a file server
    "NODE_DISABLE_COMPILE_CACHE": "1",  # npm (10.9), tsc (5.7): $TMPDIR/node-compile-cache
}


def with_own(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with those that nobody has set: neither the person, nor the site, nor a module."""
    folders = {name: f"{_caches(environ)}/{folder}" for name, folder in _FOLDERS.items()}
    of_node = {_SPILLED: f"{_caches(environ)}/{_OF_NODES}/{os.uname().nodename}"}
    return folders | of_node | _SWITCHES | dict(environ)


def _caches(environ: Mapping[str, str]) -> str:
    """The folder of a person's caches (XDG Base Directory Specification 0.8: a relative one counts for nothing)."""
    given = environ.get("XDG_CACHE_HOME", "")
    return given if given.startswith("/") else str(Path(environ.get("HOME") or Path.home(), ".cache"))
