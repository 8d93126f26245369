"""The environment of a job: that of whoever submits it, without what belongs to the session.

Slurm keeps the environment of a job in its own files, hands it to every node, and shows it to who may read the job: no
word of the portal's goes there. What Slurm gave the session's own job (its cores, its GPUs) is not the new one's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from portal.errors import KernelError
from portal.homes import cache_folders
from portal.homes.private_folder import VARIABLE
from portal.kernels import module_cache
from portal.kernels.delta import Environment
from portal.kernels.modules import ModuleSystem, clean, environment
from portal.modules import session_system

KEPT = ("SLURM_CONF", "JUPYTER_PATH", VARIABLE)
MODULE_FUNCTION = "BASH_FUNC_module%%"  # how bash hands a function on: bash(1), export -f
# Slurm's and its plugins' (sbatch(1), srun(1), OUTPUT ENVIRONMENT VARIABLES), and what is of one node or one server.
_OF_SESSION = re.compile(
    r"(SLURM|SLURMD|SBATCH|SRUN|SALLOC|PMI|PMIX|JUPYTER|JUPYTERHUB|JPY|DSPORTAL|CONFIGPROXY)_.*"
    r"|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK"
    r"|HIP_VISIBLE_DEVICES|TMPDIR|PORTAL_RUNTIME_DIR|XDG_RUNTIME_DIR|INVOCATION_ID|JOURNAL_STREAM|TERM|TERMCAP|SHLVL"
    r"|OLDPWD|PWD|_"
)


def own(environ: Mapping[str, str]) -> Environment:
    """``environ`` without the words of the portal, the session's job and the portal's Python."""
    return {name: value for name, value in clean(environ).items() if not _OF_SESSION.fullmatch(name)} | _kept(environ)


def _kept(environ: Mapping[str, str]) -> Environment:
    return {name: environ[name] for name in KEPT if name in environ}


def of_job(environ: Mapping[str, str], modules: tuple[str, ...] = ()) -> Environment:
    """The environment for a job, with ``modules`` loaded, and the command ``module`` for its shell.

    Raises:
        KernelError: the modules cannot be loaded; the message is the module system's own.
    """
    base = own(environ)
    found = session_system.of(environ)
    system = found.system
    base = {**found.variables, **base}
    loaded = environment(modules, system, base, module_cache.folder_of(base)) if modules else system.base(base)
    return cache_folders.with_own(_module_command(loaded, system) | loaded | _kept(base))


def _module_command(environ: Environment, system: ModuleSystem) -> Environment:
    """The function ``module`` for a bash that reads no start-up file, as Environment Modules exports it."""
    if "BASH_ENV" in environ or MODULE_FUNCTION in environ:
        return {}
    try:
        command = system.find_command(environ)
    except KernelError:
        return {}
    return {MODULE_FUNCTION: f'() {{ eval "$({shlex.quote(command)} bash "$@")"; }}'}
