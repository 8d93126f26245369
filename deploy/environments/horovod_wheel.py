"""The wheel of Horovod, compiled from its source against one framework; ``horovod.py`` puts it into an environment."""

from __future__ import annotations

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

from deploy.environments import horovod_openmpi
from deploy.environments.environment_folder import make_empty
from deploy.environments.frameworks import STAMP, say
from deploy.environments.wheels import BuildError, Pip

__all__ = ["Recipe", "wheel"]

HERE = Path(__file__).resolve().parent
RECIPE = "3"  # changes when this file builds the same sources into something else
SOURCE = "horovod==0.28.1 --hash=sha256:92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0\n"


@dataclass(frozen=True)
class Recipe:
    """What decides how the wheel comes out, beside the sources.

    Arguments:
        framework: its name, "tensorflow" or "pytorch".
        folder: the environment that holds it.
        cuda: the CUDA toolkit, or None for a build without GPUs.
        nccl: the folder with NCCL's include and lib, or None for the one that the framework brings from PyPI, or,
            where it brings none, to leave the search to CMake.
    """

    framework: str
    folder: Path
    cuda: Path | None = None
    nccl: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Horovod's own settings (its docs/install.rst, version 0.28.1)."""
        frameworks = {name: name == self.framework.upper() for name in ("TENSORFLOW", "PYTORCH", "MXNET")}
        chosen = {**frameworks, "MPI": True, "GLOO": True}
        variables = {f"HOROVOD_WITH{'' if wanted else 'OUT'}_{name}": "1" for name, wanted in chosen.items()}
        if self.cuda:
            variables |= {"HOROVOD_GPU": "CUDA", "HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_CUDA_HOME": str(self.cuda)}
        if self.cuda and (nccl := self.nccl or pips_nccl(self.folder)):
            variables |= {
                "HOROVOD_NCCL_HOME": str(nccl),
                "HOROVOD_NCCL_INCLUDE": str(nccl / "include"),
                "HOROVOD_NCCL_LIB": str(nccl / "lib"),
                "HOROVOD_NCCL_LINK": "SHARED",  # the framework has it loaded already: one NCCL in a process, not two
            }
        return variables

    @property
    def key(self) -> str:
        """A name for the wheel: another one for whatever compiles into something else."""
        compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
        parts = [
            RECIPE,
            SOURCE,
            compiler,
            horovod_openmpi.fingerprint(),
            (self.folder / STAMP).read_text(),
            repr(sorted(self.variables.items())),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def pips_nccl(environment: Path) -> Path | None:
    """The folder of PyPI's ``nvidia-nccl`` in an environment for GPUs; None where it has none."""
    found = environment.glob("lib/python3.*/site-packages/nvidia/nccl")
    return next((folder for folder in found if (folder / "include/nccl.h").is_file()), None)


# What is changed in the sources of 0.28.1 so that they compile against today's frameworks: file, old text, new text.
_STREAM_HEADER = """\
#include "tensorflow/stream_executor/stream.h"
#endif // TENSORFLOW_VERSION >= 2011000000
"""
_STREAM = """\
// TensorFlow's libraries have no such function any more; a stream tells its handle itself.
namespace stream_executor {
namespace gpu {
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);
}
} // namespace gpu
} // namespace stream_executor
"""
_STANDARD = "set(CMAKE_CXX_STANDARD 14)"
_FAST = 'string(REPLACE "-O2" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")'
_NAMED = 'set_target_properties(${%s_TARGET_LIB} PROPERTIES PREFIX "")'
_TOGETHER = """%s
if(NOT HAVE_CUDA)
    set_target_properties(${%s_TARGET_LIB} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 18)
endif()"""
_NCCL = 'set(NCCL_LIBNAME "nccl")'
CHANGES = (
    # Only for GPUs: TensorFlow 2.21 leaves AsGpuStreamValue undefined.
    ("horovod/tensorflow/mpi_ops.cc", _STREAM_HEADER, _STREAM_HEADER + _STREAM),
    # Only for GPUs: PyPI's nvidia-nccl has libnccl.so.2, and no libnccl.so beside it.
    ("cmake/Modules/FindNCCL.cmake", _NCCL, 'set(NCCL_LIBNAME "nccl" "libnccl.so.2")'),
    # What a debugger reads is stripped afterwards (LDFLAGS): it is not made. Loops become vectors by -ftree-vectorize.
    ("CMakeLists.txt", _FAST, 'set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")'),
    # Horovod's files, thirty and more, in two pieces: all read the same headers, and compiling takes a third less.
    # Those for GPUs, which nobody has compiled so, stay apart.
    ("horovod/tensorflow/CMakeLists.txt", _NAMED % "TF", _TOGETHER % (_NAMED % "TF", "TF")),
    ("horovod/torch/CMakeLists.txt", _NAMED % "PYTORCH", _TOGETHER % (_NAMED % "PYTORCH", "PYTORCH")),
    # Gloo for those who link it: TensorFlow's library links a copy that is built beside it.
    ("CMakeLists.txt", "add_subdirectory(third_party/gloo)", "add_subdirectory(third_party/gloo EXCLUDE_FROM_ALL)"),
    # PyTorch's headers need C++17 (horovod pull request 3998, merged after the release). And without a path of this
    # build in the library: the module says where Open MPI is.
    ("CMakeLists.txt", _STANDARD, "set(CMAKE_CXX_STANDARD 17)\nset(CMAKE_SKIP_RPATH TRUE)"),
    ("horovod/torch/CMakeLists.txt", _STANDARD, "set(CMAKE_CXX_STANDARD 17)\nset(CMAKE_SKIP_RPATH TRUE)"),
)


def patch(source: Path) -> None:
    """Make the sources of 0.28.1 compile against today's frameworks: :data:`CHANGES`, and a file that is left out.

    ``xla_mpi_ops.cc`` includes headers of XLA that TensorFlow's wheel no longer carries (horovod pull request 4302);
    all of its code is for GPUs and only when HOROVOD_ENABLE_XLA_OPS asks for it.

    Raises:
        BuildError: the sources are not those that the patch was made for.
    """
    xla = source / "horovod/tensorflow/xla_mpi_ops.cc"
    if "#if HAVE_GPU" not in xla.read_text():
        raise BuildError(f"{xla} is not the file that this script was made for")
    xla.write_text("// Left out: it needs headers that TensorFlow's wheel does not carry.\n")
    for name, old, new in CHANGES:
        text = (source / name).read_text()
        if old not in text:
            raise BuildError(f"{source / name} has no line {old.splitlines()[0]!r}, which this script replaces")
        (source / name).write_text(text.replace(old, new))


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
        pip.run("download", *options, "-d", str(pip.scratch), "-r", str(wanted))
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
    make_empty(sys.executable, tools)
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
        # What Horovod says names its sources, not this folder; and its build asks for symbols, of which none are kept.
        "CXXFLAGS": f"-ffile-prefix-map={source}=horovod -gtoggle",
    }
    run_build([str(staging / "bin/python"), "setup.py", "-q", "bdist_wheel"], source, variables)
    (made,) = source.glob("dist/horovod-*.whl")
    return made


def run_build(argv: Sequence[str], source: Path, variables: Mapping[str, str]) -> None:
    """Compile, with a sign of life twice a minute.

    Raises:
        BuildError: with the first error and the last lines of the log.
    """
    started = time.monotonic()
    log = source / "build.log"
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
