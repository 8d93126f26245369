"""Asks the Python of a kernel for its frameworks: what they are built for, and how many GPUs they see.

The kernel's Python gets the text of ``portal/lessons/lesson_gpus.py``, the module by which lessons compare, too. So a
kernel in a container answers as well, where the portal's files are not.
"""

from __future__ import annotations

import json
import os
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.catalogue.loaded import SESSION_PATH
from portal.catalogue.rights import Rights
from portal.catalogue.tried import TrialFault, tried
from portal.errors import KernelError
from portal.kernels.delta import Environment
from portal.kernels.modules import clean
from portal.kernels.run_kernel import Launch, program
from portal.lessons import SHARED

TIMEOUT_S = 300  # a framework for GPUs is some gigabytes, and may lie on a slow file server
_OWN = ("HOME", "USER", "LOGNAME", "TMPDIR")
_OF_JOB = ("SLURM_", "CUDA_VISIBLE_DEVICES", "NVIDIA_", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_STARTS = (["-m", "ipykernel_launcher"], ["-m", "ipykernel"])


@dataclass(frozen=True)
class KernelPython:
    """The start of the command line that runs a kernel's Python, and its environment, modules loaded."""

    command: tuple[str, ...]
    environ: Environment

    def ask(self, word: str, rights: Rights | None = None) -> Any:
        """What ``lesson_gpus`` answers to a word, with the rights of whoever asks, or those that are given.

        Raises:
            KernelError: it cannot be run, does not answer in time, or ends with an error.
        """
        argv = [*self.command, "-c", SHARED["lesson_gpus.py"].read_text(), word]
        try:
            done = tried(argv, self.environ, TIMEOUT_S, rights or {})
        except TrialFault as fault:
            raise KernelError(f"{self.command[0]} {fault}") from fault
        if done.returncode:
            last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
            raise KernelError(last[0] if last else f"it ended with status {done.returncode} and without a word")
        return json.loads(done.stdout.splitlines()[-1])


def kernel_python(spec: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> KernelPython | None:
    """The Python that a kernelspec starts, as a session starts it; None for a kernel of another language or kind.

    Raises:
        KernelError: its modules cannot be loaded, or the program is not there.
    """
    argv = list(spec["argv"])
    here = as_in_a_session(spec.get("env", {}), environ)
    launch = Launch.from_argv(argv)
    command = list(launch.command) if launch else argv
    if str(spec.get("language", "")).lower() != "python" or not _named(command):
        return None
    if launch:
        command, here = launch.ready(here)
    else:
        command = [program(command[0], here), *command[1:]]
    named = _named(command)
    return KernelPython(tuple(command[:named]), here | {"PYTHONDONTWRITEBYTECODE": "1"})


def _named(command: Sequence[str]) -> int:
    """Where the words stand that have a Python run ipykernel; 0: nowhere."""
    return next((at for start in _STARTS for at in range(len(command)) if list(command[at : at + 2]) == start), 0)


def as_in_a_session(own: Mapping[str, str], environ: Mapping[str, str]) -> Environment:
    """A session sees no shell of anybody: only who it is, the job that it is in, and what the kernelspec sets."""
    kept = {name: value for name, value in environ.items() if name in _OWN or name.startswith(_OF_JOB)}
    base = {"PATH": SESSION_PATH, "LANG": "C.UTF-8"} | kept
    return clean(base | {name: string.Template(value).safe_substitute(base) for name, value in own.items()})


def for_cpus_alone(built: Mapping[str, str]) -> Sequence[str]:
    """The frameworks that are built for CPUs, where none of the environment is built for GPUs."""
    return [name for name, what in built.items() if what == "CPUs"] if set(built.values()) == {"CPUs"} else []
