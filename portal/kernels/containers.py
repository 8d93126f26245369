"""The command that starts a kernel inside an image: built at each start, for what a node has differs from node to node.

Apptainer and Singularity (``exec``, their user guide, "bind paths" and "GPU support") and Charliecloud
(``ch-run(1)``, tried with 0.31). Every start of a kernel in a container imports this; standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from portal.errors import KernelError
from portal.homes.own_folder import make_own

RUNTIMES = ("apptainer", "singularity", "ch-run")
CHARLIECLOUD = "ch-run"
NVIDIA = "/dev/nvidiactl"  # there is a driver of NVIDIA's on this node
MOUNTED = "mnt"  # beside the sockets
OF_OUTSIDE = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")  # set by modules for the programs of the node


def is_address(image: str) -> bool:
    """Whether an image is one that its runtime fetches, with gigabytes of it, at a first start."""
    return "://" in image


class Container(NamedTuple):
    """An image, what of the node is seen in it beside the home, and the runtime ("" = the first one in the PATH)."""

    image: str = ""
    binds: tuple[str, ...] = ()
    runtime: str = ""

    def options(self) -> list[tuple[str, str]]:
        """The words for ``kernel.json`` that say it; empty ones are left out there."""
        return [
            ("--container", self.image),
            ("--container-command", self.runtime),
            *(("--bind", folder) for folder in self.binds),
        ]

    def has_runtime(self, path: str) -> bool:
        """Whether something on this machine starts containers."""
        return bool(self._runtime(path))

    def _runtime(self, path: str) -> str:
        wanted = [self.runtime] if self.runtime else [f"{folder}/{name}" for name in RUNTIMES for folder in _in(path)]
        return next((one for one in wanted if os.path.isfile(one) and os.access(one, os.X_OK)), "")

    def find_runtime(self, path: str) -> str:
        """The whole path of the runtime.

        Raises:
            KernelError: no runtime is there; the message names what was looked for.
        """
        found = self._runtime(path)
        if not found:
            looked_for = self.runtime or f"{', '.join(RUNTIMES)} in {path}"
            raise KernelError(
                f"Nothing on this machine starts containers (looked for {looked_for}). Install Apptainer, name a "
                "module that has it in the kernel's modules, or set kernels.container_command."
            )
        return found

    def check(self, path: str) -> str:
        """The whole path of the runtime, which can start this image.

        Raises:
            KernelError: there is no runtime, it fetches no images, or the image is not there.
        """
        runtime = self.find_runtime(path)
        if is_address(self.image) and os.path.basename(runtime) == CHARLIECLOUD:
            raise KernelError(
                f"The image {self.image} is an address, and {runtime} (Charliecloud) fetches none: it needs Apptainer "
                "or Singularity. Install it, name a module that has it in the kernel's modules, or make a folder or a "
                "SquashFS file of the image (ch-image pull, ch-convert) and name that as the kernel's container."
            )
        if not is_address(self.image) and not os.path.exists(self.image):
            raise KernelError(f"The image {self.image} is not there, or closed to you.")
        return runtime

    def command(
        self, inside: list[str], env: Mapping[str, str], folder: str, sockets: str, mounted: str = ""
    ) -> list[str]:
        """The command line that runs the words ``inside`` the image.

        Arguments:
            env: the environment of the kernel, modules loaded.
            folder: the folder that the kernel is started in, whole.
            sockets: the folder of the session's sockets; "" where none is needed.
            mounted: where Charliecloud mounts an image that is a file; "" = see :func:`mount_point`.

        Raises:
            KernelError: as :meth:`check` says.
            OSError: that place cannot be made.
        """
        runtime = self.check(env.get("PATH", os.defpath))
        seen = [*([sockets] if sockets else []), *self.binds]
        if os.path.basename(runtime) == CHARLIECLOUD:
            return [
                runtime,
                *_home(env),
                *([] if os.path.isdir(self.image) else [f"--mount={mounted or mount_point(sockets)}"]),
                *(f"--bind={one}" for one in seen),
                f"--cd={folder}",
                self.image,
                "--",
                *inside,
            ]
        driver = ["--nv"] if os.path.exists(NVIDIA) else []
        binds = [word for one in seen for word in ("--bind", one)]
        return [runtime, "exec", *driver, *binds, "--pwd", folder, self.image, *inside]


def mount_point(sockets: str) -> str:
    """An empty folder of the person's alone, beside the sockets; else a private one that goes with this program.

    Charliecloud's own is below ``/var/tmp/NAME.ch``, which others can make first: it enters the image by that path
    (0.31). Each start mounts in a name space of its own, so that one folder does for all of a session, and goes with
    it: whoever removed it after one kernel would take it from another that starts.
    """
    from portal.homes import held_place, temporary  # few starts need them

    place = Path(sockets, MOUNTED)
    if sockets:
        with suppress(OSError):
            make_own(place)
        if held_place.is_own_all_the_way(place):
            return str(place)
    return str(temporary.made_until_exit("dsp-mnt-"))


def without_outside(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` without what is set for the programs of the node: those of an image are others."""
    return {name: value for name, value in env.items() if name not in OF_OUTSIDE}


def _in(path: str) -> list[str]:
    return [folder for folder in path.split(":") if folder]


def _home(env: Mapping[str, str]) -> list[str]:
    """Charliecloud makes ``/home/NAME`` itself; any other home has to be in the image as an empty folder."""
    home = env.get("HOME", "")
    if not home:
        return []
    usual = os.path.join("/home", env.get("USER", ""))
    return ["--home"] if home == usual else [f"--bind={home}", f"--set-env=HOME={home}"]
