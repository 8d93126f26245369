"""The builder of Horovod's wheel: what it asks for, what decides the wheel, and what it changes in the sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deploy.environments import horovod_environments, horovod_openmpi, horovod_wheel
from deploy.environments.horovod_wheel import Recipe
from deploy.environments.wheels import BuildError
from portal.lessons import SHARED

FOLDER = Path(__file__).parents[2] / "deploy" / "environments"
SCRIPT = FOLDER / "horovod.py"
STANDARD = "set(CMAKE_CXX_STANDARD 14)\n"
OPTIMIZED = """\
string(REPLACE "-O2" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
    add_subdirectory(third_party/gloo)
"""
NAMED = 'set_target_properties(${%s_TARGET_LIB} PROPERTIES PREFIX "")\n'
OF_STREAMS = """\
GpuStreamHandle AsGpuStreamValue(Stream* stream);
#if TENSORFLOW_VERSION >= 2011000000
#include "tensorflow/compiler/xla/stream_executor/stream.h"
#else
#include "tensorflow/stream_executor/stream.h"
#endif // TENSORFLOW_VERSION >= 2011000000
#endif // HAVE_GPU
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The files of the sources that are changed."""
    folder = tmp_path / "horovod-0.28.1"
    (folder / "horovod/tensorflow").mkdir(parents=True)
    (folder / "horovod/torch").mkdir()
    (folder / "cmake/Modules").mkdir(parents=True)
    (folder / "cmake/Modules/FindNCCL.cmake").write_text('    set(NCCL_LIBNAME "nccl")\n')
    (folder / "horovod/tensorflow/mpi_ops.cc").write_text(OF_STREAMS)
    (folder / "horovod/tensorflow/xla_mpi_ops.cc").write_text("#if HAVE_GPU\nint x;\n#endif\n")
    for file, more in {"CMakeLists.txt": OPTIMIZED, "horovod/torch/CMakeLists.txt": NAMED % "PYTORCH"}.items():
        (folder / file).write_text(f"project(horovod)\n{STANDARD}{more}")
    (folder / "horovod/tensorflow/CMakeLists.txt").write_text(NAMED % "TF")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment that looks built."""
    folder = tmp_path / "cm/shared/apps/tensorflow/2.21"
    folder.mkdir(parents=True)
    (folder / ".dsportal-stamp").write_text("made from this lock")
    return folder


def run(*options: str, version: str = "3.11") -> tuple[int, str]:
    """The exit status and what it says, where the kernels' Python is of that version."""
    with TemporaryDirectory() as folder:
        python = Path(folder, "python")
        python.write_text(f"#!/bin/sh\necho {version}\n")
        python.chmod(0o755)
        argv = [sys.executable, str(SCRIPT), "--python", str(python), *options]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_sources_are_changed_for_todays_frameworks(source: Path) -> None:
    horovod_wheel.patch(source)
    assert "int x" not in (source / "horovod/tensorflow/xla_mpi_ops.cc").read_text()
    for file in ("CMakeLists.txt", "horovod/torch/CMakeLists.txt"):
        text = (source / file).read_text()
        assert text.startswith("project(horovod)\nset(CMAKE_CXX_STANDARD 17)\nset(CMAKE_SKIP_RPATH TRUE)\n")


def test_nothing_is_compiled_that_nobody_reads_or_links(source: Path) -> None:
    horovod_wheel.patch(source)
    text = (source / "CMakeLists.txt").read_text()
    assert 'set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")' in text, "without -g"
    assert "add_subdirectory(third_party/gloo EXCLUDE_FROM_ALL)" in text


@pytest.mark.parametrize(("folder", "name"), [("tensorflow", "TF"), ("torch", "PYTORCH")])
def test_files_without_cuda_are_compiled_together(source: Path, folder: str, name: str) -> None:
    horovod_wheel.patch(source)
    *_, named, unless, together, end = (source / f"horovod/{folder}/CMakeLists.txt").read_text().splitlines()
    assert f"{named}\n" == NAMED % name
    assert (unless, end) == ("if(NOT HAVE_CUDA)", "endif()")
    assert together.strip().startswith(f"set_target_properties(${{{name}_TARGET_LIB}} PROPERTIES UNITY_BUILD ON ")


def test_on_gpus_a_stream_tells_its_handle_itself(source: Path) -> None:
    """TensorFlow's libraries lack the function that Horovod 0.28.1 declares and calls; here it has a body."""
    horovod_wheel.patch(source)
    text = (source / "horovod/tensorflow/mpi_ops.cc").read_text()
    body = text.index("inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {")
    assert text.index("stream_executor/stream.h") < body < text.index("#endif // HAVE_GPU")
    assert "stream->platform_specific_handle().stream" in text


def test_cmake_finds_the_nccl_of_pypi_by_its_whole_name(source: Path) -> None:
    horovod_wheel.patch(source)
    assert 'set(NCCL_LIBNAME "nccl" "libnccl.so.2")' in (source / "cmake/Modules/FindNCCL.cmake").read_text()


@pytest.mark.parametrize("file", ["horovod/tensorflow/xla_mpi_ops.cc", *(name for name, *_ in horovod_wheel.CHANGES)])
def test_other_sources_are_refused(source: Path, file: str) -> None:
    (source / file).write_text("something new\n")
    with pytest.raises(BuildError, match=file):
        horovod_wheel.patch(source)


def test_the_wheel_is_another_one_for_whatever_goes_into_it(environment: Path, tmp_path: Path) -> None:
    plain = Recipe("tensorflow", environment)
    assert plain.key == Recipe("tensorflow", environment).key
    others = [
        Recipe("pytorch", environment),
        Recipe("tensorflow", environment, tmp_path / "cuda"),
        Recipe("tensorflow", environment, tmp_path / "cuda", tmp_path / "nccl"),
    ]
    keys = {recipe.key for recipe in [plain, *others]}
    (environment / ".dsportal-stamp").write_text("made from a newer lock")
    assert len({*keys, plain.key}) == 5


def test_an_environment_is_another_one_for_another_framework_place_or_wheel(environment: Path) -> None:
    recipe = Recipe("tensorflow", environment)
    first = horovod_environments.stamp(recipe, Path("/cm"))
    assert first == horovod_environments.stamp(recipe, Path("/cm"))
    others = [
        horovod_environments.stamp(recipe, Path("/apps")),
        horovod_environments.stamp(Recipe("pytorch", environment), Path("/cm")),
    ]
    (environment / ".dsportal-stamp").write_text("made from a newer lock")
    assert len({first, *others, horovod_environments.stamp(recipe, Path("/cm"))}) == 4


def test_horovods_own_settings_follow_the_choice(tmp_path: Path) -> None:
    plain = Recipe("tensorflow", tmp_path).variables
    assert plain["HOROVOD_WITHOUT_PYTORCH"] == plain["HOROVOD_WITH_MPI"] == plain["HOROVOD_WITH_GLOO"] == "1"
    assert "HOROVOD_GPU" not in plain
    gpus = Recipe("pytorch", tmp_path, Path("/usr/local/cuda"), Path("/opt/nccl")).variables
    assert gpus["HOROVOD_WITH_PYTORCH"] == gpus["HOROVOD_WITHOUT_TENSORFLOW"] == "1"
    assert (gpus["HOROVOD_GPU"], gpus["HOROVOD_GPU_OPERATIONS"]) == ("CUDA", "NCCL")
    assert (gpus["HOROVOD_CUDA_HOME"], gpus["HOROVOD_NCCL_HOME"]) == ("/usr/local/cuda", "/opt/nccl")


def test_for_gpus_nccl_is_the_frameworks_own_unless_a_folder_is_named(tmp_path: Path) -> None:
    cuda, own = Path("/usr/local/cuda"), tmp_path / "lib/python3.12/site-packages/nvidia/nccl"
    assert "HOROVOD_NCCL_HOME" not in Recipe("tensorflow", tmp_path, cuda).variables
    (own / "include").mkdir(parents=True)
    (own / "include/nccl.h").touch()
    for nccl, given in ((own, None), (Path("/opt/nccl"), Path("/opt/nccl"))):
        variables = Recipe("tensorflow", tmp_path, cuda, given).variables
        assert {name: value for name, value in variables.items() if "NCCL_" in name} == {
            "HOROVOD_NCCL_HOME": f"{nccl}",
            "HOROVOD_NCCL_INCLUDE": f"{nccl}/include",
            "HOROVOD_NCCL_LIB": f"{nccl}/lib",
            "HOROVOD_NCCL_LINK": "SHARED",
        }
    assert not [name for name in Recipe("tensorflow", tmp_path).variables if "NCCL" in name]


def test_with_cuda_the_environments_for_gpus_are_built(tmp_path: Path) -> None:
    (tmp_path / "cuda/bin").mkdir(parents=True)
    (tmp_path / "cuda/bin/nvcc").touch()
    status, said = run("--cm", str(tmp_path), "--cuda", str(tmp_path / "cuda"), "tensorflow")
    place = f"{tmp_path}/shared/apps/tensorflow-gpu/2.21"
    assert (status, said.strip()) == (
        1,
        f"horovod.py: {place} is not built: run build.py tensorflow-gpu first, then this again",
    )


@pytest.mark.parametrize(("framework", "version"), [("tensorflow", "2.21"), ("pytorch", "2.13")])
def test_without_the_framework_nothing_is_fetched(framework: str, version: str, tmp_path: Path) -> None:
    status, said = run("--cm", str(tmp_path), framework)
    place = f"{tmp_path}/shared/apps/{framework}/{version}"
    assert (status, said.strip()) == (
        1,
        f"horovod.py: {place} is not built: run build.py {framework} first, then this again",
    )
    assert list(tmp_path.iterdir()) == []


def test_for_another_python_it_says_so_and_only_who_names_a_framework_is_refused(tmp_path: Path) -> None:
    words = "is Python 3.13, but the lock is for Python 3.11: give one of these with --python, or lock again as "
    for named, status in (((), 0), (("tensorflow",), 1)):
        found, said = run("--cm", str(tmp_path), *named, version="3.13")
        assert (found, words in said, "not built" in said) == (status, True, False)
        assert said.endswith("horovod.in says\n" if named else "horovod.in says. It is not offered\n")


def test_nothing_is_built_for_one_framework_when_the_other_is_missing(environment: Path, tmp_path: Path) -> None:
    status, said = run("--cm", str(tmp_path / "cm"))
    assert (status, "pytorch/2.13 is not built" in said) == (1, True)
    assert [path.name for path in (tmp_path / "cm/shared/apps").iterdir()] == ["tensorflow"]


def test_a_wrong_folder_is_named(environment: Path, tmp_path: Path) -> None:
    cm = tmp_path / "cm"
    environment.parent.rename(cm / "shared/apps/tensorflow-gpu")
    status, said = run("--cm", str(cm), "--cuda", str(tmp_path), "tensorflow")
    assert (status, said.strip()) == (1, f"horovod.py: {tmp_path} is no CUDA toolkit: it has no bin/nvcc")
    status, said = run("--cm", str(cm), "mxnet")
    assert (status, "'mxnet' is not known; there are tensorflow, pytorch" in said) == (2, True)
    status, said = run("--cm", str(cm), "--nccl", str(tmp_path))
    assert (status, "--nccl is for a build with --cuda" in said) == (2, True)


@pytest.mark.parametrize("framework", ["tensorflow", "pytorch"])
@pytest.mark.parametrize("targets", [horovod_environments.TARGETS, horovod_environments.GPU_TARGETS], ids=["", "gpu"])
def test_the_module_names_the_environment_that_is_built(
    framework: str, targets: dict[str, horovod_environments.Target]
) -> None:
    target = targets[framework]
    modulefile = FOLDER.parent / "modulefiles/shared/shared" / target.environment.name / target.environment.version
    lines = modulefile.read_text().splitlines()
    assert f"set root {target.environment.folder(Path('/cm'))}" in lines
    assert f"module load shared/{target.framework.name}/{target.framework.version}" in lines
    every = [*horovod_environments.TARGETS.values(), *horovod_environments.GPU_TARGETS.values()]
    assert {f"conflict shared/{one.environment.name}" for one in every} <= set(lines)
    nccl = f"{target.framework.folder(Path('/cm'))}/lib/python3.11/site-packages/nvidia/nccl/lib"
    assert (f"prepend-path LD_LIBRARY_PATH {nccl}" in lines) == (targets is horovod_environments.GPU_TARGETS)
    tree = horovod_openmpi.variables(Path("$root/openmpi"))
    for name in ("OPAL_PREFIX", "PMIX_INSTALL_PREFIX"):
        assert f"setenv {name} {tree[name]}" in lines
    assert f"prepend-path LD_LIBRARY_PATH {tree['LD_LIBRARY_PATH']}" in lines


def test_each_environment_gets_the_modules_that_its_framework_can_import() -> None:
    ours = {file.name for file in horovod_environments.LESSONS.glob("*.py")} - set(SHARED)  # of the notebooks alone
    for framework, target in horovod_environments.TARGETS.items():
        assert set(target.lessons) <= ours
        for name in target.lessons:
            other = {"tensorflow": "torch", "pytorch": "tensorflow"}[framework]
            assert f"import {other}" not in (horovod_environments.LESSONS / name).read_text()
    assert {name for target in horovod_environments.TARGETS.values() for name in target.lessons} == ours
