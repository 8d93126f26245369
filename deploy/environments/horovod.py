#!/usr/bin/python3
"""Build Horovod from its source, against an environment that is built, into an environment behind shared/horovod.

    horovod.py --cm FOLDER                                for the CPU: Gloo and Open MPI
    horovod.py --cm FOLDER --cuda /usr/local/cuda         with NCCL between GPUs (--nccl names another folder for it)
    horovod.py --cm FOLDER --torch FOLDER/shared/apps/pytorch/2.13       for PyTorch as well

The result is ``FOLDER/shared/apps/horovod/0.28.1``: a small environment that sees TensorFlow's packages, with Horovod,
the modules of ``notebooks/horovod``, and an Open MPI of its own out of Debian's packages (nothing is installed on the
host). The compiler and ``make`` are the host's (Debian: g++ and make); CMake comes as a locked wheel.

Compiling takes about four minutes on two cores. The wheel is kept in the cache under a name made from all that went
into it, so a second build takes seconds. TensorFlow's C++ interface changes with every version: a new TensorFlow
gets a new wheel.

The build with CUDA and NCCL follows Horovod's own recipe. It has not been tried: no GPU was at hand.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import build
import horovod_openmpi
from build import STAMP, Environment, say
from folders import add_modules, see
from horovod_openmpi import DemoError
from wheels import BuildError, Pip, pip_command

HERE = Path(__file__).resolve().parent
LESSONS = HERE.parents[1] / "notebooks" / "horovod"

RECIPE = "1"  # changes when this file builds the same sources into something else
SOURCE = "horovod==0.28.1 --hash=sha256:92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0\n"
HOROVOD = Environment("horovod", "0.28.1", download_mib=60, disk_mib=200)
TENSORFLOW = build.ENVIRONMENTS["tensorflow"]


@dataclass(frozen=True)
class Recipe:
    """What decides how the wheel comes out, beside the sources.

    Arguments:
        torch: an environment with PyTorch in it, or None.
        cuda: the CUDA toolkit, or None for a build without GPUs.
        nccl: the folder with NCCL's include and lib, or None to leave the search to CMake.
    """

    tensorflow: Path
    torch: Path | None
    cuda: Path | None
    nccl: Path | None

    @property
    def variables(self) -> dict[str, str]:
        """Horovod's own settings (its docs/install.rst, version 0.28.1)."""
        chosen = {"TENSORFLOW": True, "PYTORCH": self.torch is not None, "MXNET": False, "MPI": True, "GLOO": True}
        variables = {f"HOROVOD_WITH{'' if wanted else 'OUT'}_{name}": "1" for name, wanted in chosen.items()}
        if self.cuda:
            variables |= {"HOROVOD_GPU": "CUDA", "HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_CUDA_HOME": str(self.cuda)}
        if self.nccl:
            variables |= {"HOROVOD_NCCL_HOME": str(self.nccl)}
        return variables

    @property
    def key(self) -> str:
        """A name for the wheel: another one for whatever compiles into something else."""
        frameworks = [(folder / STAMP).read_text() for folder in (self.tensorflow, self.torch) if folder]
        compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
        parts = [
            RECIPE,
            SOURCE,
            compiler,
            horovod_openmpi.fingerprint(),
            *frameworks,
            repr(sorted(self.variables.items())),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def patch(source: Path) -> None:
    """Make the sources of 0.28.1 compile against today's frameworks.

    ``xla_mpi_ops.cc`` includes headers of XLA that TensorFlow's wheel no longer carries (horovod pull request 4302);
    all of its code is for GPUs and only when HOROVOD_ENABLE_XLA_OPS asks for it. PyTorch's headers need C++17
    (horovod pull request 3998, merged after the release).

    Raises:
        BuildError: the sources are not those that the patch was made for.
    """
    xla = source / "horovod/tensorflow/xla_mpi_ops.cc"
    if "#if HAVE_GPU" not in xla.read_text():
        raise BuildError(f"{xla} is not the file that this script was made for")
    xla.write_text("// Left out: it needs headers that TensorFlow's wheel does not carry.\n")
    for file in (source / "CMakeLists.txt", source / "horovod/torch/CMakeLists.txt"):
        text, old = file.read_text(), "set(CMAKE_CXX_STANDARD 14)"
        if old not in text:
            raise BuildError(f"{file} has no line {old!r}, which this script replaces")
        # Without a path of this build in the library: the module says where Open MPI is.
        file.write_text(text.replace(old, "set(CMAKE_CXX_STANDARD 17)\nset(CMAKE_SKIP_RPATH TRUE)"))


def wheel(recipe: Recipe, staging: Path, pip: Pip, cache: Path) -> Path:
    """The wheel of ``recipe``, out of the cache or compiled now."""
    kept = cache / "horovod" / recipe.key
    if found := sorted(kept.glob("horovod-*.whl")):
        say(f"  the wheel is in the cache: {found[0]}")
        return found[0]
    source = unpacked_source(pip, cache)
    patch(source)
    made = compile_wheel(recipe, source, staging, pip)
    kept.mkdir(parents=True, exist_ok=True)
    beside = shutil.copyfile(made, kept / f".{made.name}")
    return Path(beside).rename(kept / made.name)


def unpacked_source(pip: Pip, cache: Path) -> Path:
    """The source archive, fetched with its hash checked, and unpacked in the scratch folder."""
    archive = cache / "horovod-0.28.1.tar.gz"
    if not archive.is_file():
        (wanted := pip.scratch / "source.txt").write_text(SOURCE)
        options = ["--require-hashes", "--no-deps", "--no-binary=:all:", "--no-build-isolation"]
        pip._run("download", *options, "-d", str(pip.scratch), "-r", str(wanted))
        shutil.copyfile(pip.scratch / archive.name, archive.with_suffix(".part"))
        archive.with_suffix(".part").rename(archive)
    if hashlib.sha256(archive.read_bytes()).hexdigest() not in SOURCE:
        raise BuildError(f"{archive} is not what was locked: take it away and run this again")
    with tarfile.open(archive) as content:
        content.extractall(pip.scratch)  # noqa: S202  its hash is checked; 3.11.2 has no filters
    return pip.scratch / "horovod-0.28.1"


def compile_wheel(recipe: Recipe, source: Path, staging: Path, pip: Pip) -> Path:
    """Run Horovod's build; answers the wheel, in ``source/dist``."""
    tools = pip.scratch / "tools"
    build.make_empty(sys.executable, tools)
    tool_pip = Pip(pip.command, tools / "bin/python", pip.scratch, say)
    store = pip.scratch / "store"
    tool_pip.fetch((HERE / "horovod-build.lock").read_text(), store)
    tool_pip.install(HERE / "horovod-build.lock", store)
    openmpi = staging / "openmpi"
    variables = {
        **os.environ,
        **recipe.variables,
        **horovod_openmpi.variables(openmpi),
        "PATH": f"{tools}/bin:{openmpi}/usr/bin:{os.environ['PATH']}",
        "MPI_HOME": str(openmpi / "usr"),
        "MAKEFLAGS": os.environ.get("MAKEFLAGS") or f"-j{len(os.sched_getaffinity(0))}",
        "LDFLAGS": "-Wl,-s",  # without the symbols for a debugger: 2 MB instead of 54
        "CXXFLAGS": f"-ffile-prefix-map={source}=horovod",  # what Horovod says names its sources, not this folder
    }
    run_build([str(staging / "bin/python"), "setup.py", "-q", "bdist_wheel"], source, variables)
    (made,) = source.glob("dist/horovod-*.whl")
    return made


def run_build(argv: Sequence[str], source: Path, variables: Mapping[str, str]) -> None:
    """Compile, with a sign of life twice a minute.

    Raises:
        BuildError: with the first error and the last lines of the log.
    """
    started, log = time.monotonic(), source / "build.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(argv, cwd=source, env=dict(variables), stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        while True:
            try:
                process.wait(30)
                break
            except subprocess.TimeoutExpired:
                say(f"        … {time.monotonic() - started:.0f} s of compiling")
            except BaseException:
                process.terminate()
                raise
    if process.returncode:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower()][:3]
        raise BuildError(
            "\n".join(["Horovod did not compile:", *(f"    {line[:240]}" for line in errors + lines[-8:])])
        )


def stamp(recipe: Recipe, used_at: Path) -> str:
    """What the environment is made of."""
    ours = [file.read_bytes() for file in sorted(LESSONS.glob("*.py"))]
    texts = [(HERE / "horovod.lock").read_text(), str(used_at), Path(__file__).read_text(), recipe.key]
    return hashlib.sha256(b"\n".join([*ours, *(text.encode() for text in texts)])).hexdigest()


def make(recipe: Recipe, options: argparse.Namespace, folder: Path, wanted: str) -> None:
    """Build the environment beside its place, then give it its name."""
    started = time.monotonic()
    staging = folder.with_name(f".{folder.name}.building.{os.getpid()}")
    for leftover in folder.parent.glob(f".{folder.name}.building*"):
        shutil.rmtree(leftover, ignore_errors=True)
    build.check_space(HOROVOD, folder.parent)
    build.make_empty(options.python, staging)
    frameworks = [found for found in (recipe.tensorflow, recipe.torch) if found]
    see(staging, frameworks)
    (staging / "tmp").mkdir()
    pip = Pip(pip_command(options.pip), staging / "bin" / "python", staging / "tmp", say)
    pip.fetch((HERE / "horovod.lock").read_text(), options.cache_dir)
    pip.install(HERE / "horovod.lock", options.cache_dir)
    horovod_openmpi.unpack_at(staging / "openmpi", options.cache_dir / "debian")
    made = wheel(recipe, staging, pip, options.cache_dir)
    pip._run("install", "--no-deps", "--no-index", "--no-compile", "--no-warn-script-location", str(made))
    add_modules(staging, sorted(LESSONS.glob("*.py")))
    for name in ("mpirun", "mpiexec", "ompi_info"):
        (staging / "bin" / name).symlink_to(f"../openmpi/usr/bin/{name}")
    shutil.rmtree(staging / "tmp")
    see(staging, [options.used_at / found.relative_to(options.cm) for found in frameworks])
    build.settle(staging, HOROVOD.folder(options.used_at))
    (staging / STAMP).write_text(wanted)
    build.publish(staging, folder)
    say(f"{HOROVOD.title}: built in {time.monotonic() - started:.0f} s")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--cm", type=Path, required=True, help="the folder that will be seen as /cm")
    parser.add_argument("--used-at", type=Path, default=Path("/cm"), help="where it will be seen (default /cm)")
    parser.add_argument("--torch", type=Path, help="an environment below --cm that has PyTorch: build for it, too")
    parser.add_argument("--cuda", type=Path, help="the CUDA toolkit: build for GPUs, with NCCL")
    parser.add_argument("--nccl", type=Path, help="the folder with NCCL's include and lib (default: CMake looks)")
    parser.add_argument("--pip", default="", help="an interpreter that has pip, or a pip wheel")
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python of the environments")
    parser.add_argument("--cache-dir", type=Path, help="where downloads and the wheel are kept")
    options = parser.parse_args(argv)
    options.cm = options.cm.resolve()
    options.torch = options.torch and options.torch.resolve()
    options.cache_dir = (options.cache_dir or options.cm.parent / "cache" / "wheels").resolve()
    if options.nccl and not options.cuda:
        parser.error("--nccl is for a build with --cuda")
    return options


def check(recipe: Recipe) -> None:
    """Raise :class:`BuildError` for whatever is missing, before anything is fetched."""
    if recipe.torch and not recipe.torch.is_relative_to(recipe.tensorflow.parents[3]):
        raise BuildError(f"{recipe.torch} is not in the folder of --cm, where the environments are")
    for folder in (recipe.tensorflow, recipe.torch):
        if folder and not (folder / STAMP).is_file():
            raise BuildError(f"{folder} is not built: run build.py first, then this again")
    if absent := [tool for tool in ("g++", "make") if not shutil.which(tool)]:
        raise BuildError(f"{' and '.join(absent)} missing: sudo apt install g++ make")
    if recipe.cuda and not (recipe.cuda / "bin/nvcc").is_file():
        raise BuildError(f"{recipe.cuda} is no CUDA toolkit: it has no bin/nvcc")


def run(options: argparse.Namespace) -> None:
    """Build, unless the environment is there already."""
    recipe = Recipe(TENSORFLOW.folder(options.cm), options.torch, options.cuda, options.nccl)
    check(recipe)
    folder, wanted = HOROVOD.folder(options.cm), stamp(recipe, options.used_at)
    with build.alone(folder.parent):
        if build.stamp_of(folder) == wanted:
            say(f"{HOROVOD.title}: ready")
        else:
            make(recipe, options, folder, wanted)


def main(argv: Sequence[str] | None = None) -> int:
    os.umask(0o022)
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
