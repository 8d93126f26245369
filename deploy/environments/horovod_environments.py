"""Build Horovod from its source, against the frameworks that are built: one environment for each of them.

    horovod.py --cm FOLDER                                for TensorFlow and for PyTorch, on CPUs: Gloo and Open MPI
    horovod.py --cm FOLDER pytorch                        for PyTorch alone
    horovod.py --cm FOLDER --cuda /usr/local/cuda         for the environments for GPUs, with NCCL between GPUs

The results are ``FOLDER/shared/apps/horovod/0.28.1`` behind the module shared/horovod, and ``horovod-pytorch`` beside
it: small environments that see the framework's packages, with Horovod, modules of ``notebooks/horovod``, and an
Open MPI of their own out of Debian's packages (nothing is installed on the host). The compiler and ``make`` are the
host's (Debian: g++ and make); CMake comes as a locked wheel. With ``--cuda`` they are ``horovod-gpu`` and
``horovod-pytorch-gpu``, and see ``tensorflow-gpu`` and ``pytorch-gpu``; the toolkit must be of the framework's CUDA.

Compiling takes about three minutes on two cores for each. A wheel is kept in the cache under a name made from all that
went into it, so a second build takes seconds. The frameworks' C++ interfaces change with every version: a new
TensorFlow gets a new wheel, and so does PyTorch's build with CUDA in the place of that without.

NCCL is the one that the framework brings from PyPI, unless ``--nccl`` names a folder. What of a build with CUDA can be
tried without a GPU was tried: the changed sources compile against the headers of TensorFlow and CUDA, without a symbol
that TensorFlow lacks, and CMake finds PyPI's NCCL. It was not linked and not run: that needs nvcc and a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deploy import interpreter
from deploy.demo.console import DemoError
from deploy.environments import frameworks, horovod_openmpi, horovod_wheel
from deploy.environments.environment_folder import add_modules, make_empty, publish, see, settle
from deploy.environments.frameworks import STAMP, WrongPython, say
from deploy.environments.horovod_wheel import Recipe
from deploy.environments.recipes import ENVIRONMENTS, FOR_GPUS, Environment
from deploy.environments.wheels import BuildError, Pip, end_on_signals, pip_command

HERE = Path(__file__).resolve().parent
LESSONS = HERE.parents[1] / "notebooks" / "horovod"


@dataclass(frozen=True)
class Target:
    """A framework, the environment with Horovod for it, and the modules of the lessons that go there."""

    framework: Environment
    environment: Environment
    lessons: tuple[str, ...]


TARGETS = {
    "tensorflow": Target(
        ENVIRONMENTS["tensorflow"],
        Environment("horovod", "0.28.1", download_mib=60, disk_mib=200),
        ("horovod_srun.py", "keras3_horovod.py"),
    ),
    "pytorch": Target(
        ENVIRONMENTS["pytorch"],
        Environment("horovod-pytorch", "0.28.1", download_mib=60, disk_mib=200),
        ("horovod_srun.py",),
    ),
}
GPU_TARGETS = {
    name: Target(
        FOR_GPUS[f"{name}-gpu"],
        Environment(f"{target.environment.name}-gpu", target.environment.version, download_mib=60, disk_mib=400),
        target.lessons,
    )
    for name, target in TARGETS.items()
}


def target_of(recipe: Recipe) -> Target:
    """The environment that a recipe's wheel is for."""
    return (GPU_TARGETS if recipe.cuda else TARGETS)[recipe.framework]


def stamp(recipe: Recipe, used_at: Path) -> str:
    """What the environment is made of."""
    ours = [(LESSONS / name).read_bytes() for name in target_of(recipe).lessons]
    scripts = [Path(__file__), HERE / "horovod_wheel.py", HERE / "horovod.lock"]
    texts = [*(script.read_text() for script in scripts), str(used_at), recipe.key]
    return hashlib.sha256(b"\n".join([*ours, *(text.encode() for text in texts)])).hexdigest()


def make(recipe: Recipe, options: argparse.Namespace, folder: Path, wanted: str) -> None:
    """Build the environment beside its place, then give it its name."""
    started = time.monotonic()
    target = target_of(recipe)
    staging = folder.with_name(f".{folder.name}.building.{os.getpid()}")
    for leftover in folder.parent.glob(f".{folder.name}.building*"):
        shutil.rmtree(leftover, ignore_errors=True)
    frameworks.check_space(target.environment, folder.parent)
    make_empty(options.python, staging)
    see(staging, [recipe.folder])
    (staging / "tmp").mkdir()
    pip = Pip(pip_command(options.pip), staging / "bin" / "python", staging / "tmp", say)
    pip.fetch((HERE / "horovod.lock").read_text(), options.cache_dir)
    pip.install(HERE / "horovod.lock", options.cache_dir)
    horovod_openmpi.unpack_at(staging / "openmpi", options.cache_dir / "debian")
    made = horovod_wheel.wheel(recipe, staging, pip, options.cache_dir)
    pip.run("install", "--no-deps", "--no-index", "--no-compile", "--no-warn-script-location", str(made))
    add_modules(staging, [LESSONS / name for name in target.lessons])
    for name in ("mpirun", "mpiexec", "orted", "ompi_info"):  # Slurm starts orted on other nodes
        (staging / "bin" / name).symlink_to(f"../openmpi/usr/bin/{name}")
    shutil.rmtree(staging / "tmp")
    see(staging, [target.framework.folder(options.used_at)])
    settle(staging, target.environment.folder(options.used_at))
    (staging / STAMP).write_text(wanted)
    publish(staging, folder)
    say(f"{target.environment.title}: built in {time.monotonic() - started:.0f} s")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with every path made absolute."""
    parser = argparse.ArgumentParser(prog="horovod.py", description=__doc__.splitlines()[0], allow_abbrev=False)
    what = f"{', '.join(TARGETS)} (default: both)"
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=what)
    parser.add_argument("--cm", type=Path, required=True, help="the folder that will be seen as /cm")
    parser.add_argument("--used-at", type=Path, default=Path("/cm"), help="where it will be seen (default /cm)")
    parser.add_argument("--cuda", type=Path, help="the CUDA toolkit: build for GPUs, with NCCL")
    parser.add_argument("--nccl", type=Path, help="the folder with NCCL's include and lib (default: the framework's)")
    parser.add_argument("--pip", default="", help="an interpreter that has pip, or a pip wheel")
    parser.add_argument("--python", default=interpreter.usual(), help="the Python of the environments")
    parser.add_argument("--cache-dir", type=Path, help="where downloads and the wheel are kept")
    options = parser.parse_args(argv)
    options.cm = options.cm.resolve()
    options.named = bool(options.frameworks)
    options.frameworks = options.frameworks or list(TARGETS)
    options.cache_dir = (options.cache_dir or options.cm.parent / "cache" / "wheels").resolve()
    for name in options.frameworks:
        if name not in TARGETS:
            parser.error(f"{name!r} is not known; there are {', '.join(TARGETS)}")
    if options.nccl and not options.cuda:
        parser.error("--nccl is for a build with --cuda")
    return options


def check_python(python: str) -> None:
    """What the wheels are built with is locked for some versions of Python.

    Raises:
        WrongPython: not for this one.
    """
    frameworks.check_python(replace(TARGETS["tensorflow"].environment, recipe="horovod"), python)


def check(recipe: Recipe) -> None:
    """Raise :class:`BuildError` for whatever is missing, before anything is fetched."""
    framework = target_of(recipe).framework.name
    if not (recipe.folder / STAMP).is_file():
        raise BuildError(f"{recipe.folder} is not built: run build.py {framework} first, then this again")
    if absent := [tool for tool in ("g++", "make") if not shutil.which(tool)]:
        raise BuildError(f"{' and '.join(absent)} missing: sudo apt install g++ make")
    if recipe.cuda and not (recipe.cuda / "bin/nvcc").is_file():
        raise BuildError(f"{recipe.cuda} is no CUDA toolkit: it has no bin/nvcc")


def run(options: argparse.Namespace) -> None:
    """Build, unless the environments are there already."""
    targets = GPU_TARGETS if options.cuda else TARGETS
    recipes = [
        Recipe(name, targets[name].framework.folder(options.cm), options.cuda, options.nccl)
        for name in options.frameworks
    ]
    try:
        check_python(options.python)
    except WrongPython as error:
        if options.named:
            raise
        say(f"{error}. It is not offered")
        return
    for recipe in recipes:
        check(recipe)
    for recipe in recipes:
        environment = target_of(recipe).environment
        folder = environment.folder(options.cm)
        wanted = stamp(recipe, options.used_at)
        with frameworks.alone(folder.parent):
            if frameworks.stamp_of(folder) == wanted:
                say(f"{environment.title}: ready")
            else:
                make(recipe, options, folder, wanted)


def main(argv: Sequence[str] | None = None) -> int:
    """Build; answers the exit status."""
    os.umask(0o022)
    end_on_signals()
    try:
        run(arguments(argv))
    except (BuildError, DemoError) as error:
        print(f"horovod.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("horovod.py: stopped; run it again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
