"""The builder of Horovod's wheel: what it asks for, what decides the wheel, and what it changes in the sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.environments import horovod_environments, horovod_openmpi, horovod_wheel
from deploy.environments.horovod_wheel import Recipe
from deploy.environments.wheels import BuildError

FOLDER = Path(__file__).parents[2] / "deploy" / "environments"
SCRIPT = FOLDER / "horovod.py"
STANDARD = "set(CMAKE_CXX_STANDARD 14)\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The three files of the sources that are changed."""
    folder = tmp_path / "horovod-0.28.1"
    (folder / "horovod/tensorflow").mkdir(parents=True)
    (folder / "horovod/torch").mkdir()
    (folder / "horovod/tensorflow/xla_mpi_ops.cc").write_text("#if HAVE_GPU\nint x;\n#endif\n")
    for file in ("CMakeLists.txt", "horovod/torch/CMakeLists.txt"):
        (folder / file).write_text(f"project(horovod)\n{STANDARD}")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment that looks built."""
    folder = tmp_path / "cm/shared/apps/tensorflow/2.21"
    folder.mkdir(parents=True)
    (folder / ".dsportal-stamp").write_text("made from this lock")
    return folder


def run(*options: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_sources_are_changed_for_todays_frameworks(source: Path) -> None:
    horovod_wheel.patch(source)
    assert "int x" not in (source / "horovod/tensorflow/xla_mpi_ops.cc").read_text()
    for file in ("CMakeLists.txt", "horovod/torch/CMakeLists.txt"):
        assert (
            source / file
        ).read_text() == "project(horovod)\nset(CMAKE_CXX_STANDARD 17)\nset(CMAKE_SKIP_RPATH TRUE)\n"


@pytest.mark.parametrize(
    "file", ["horovod/tensorflow/xla_mpi_ops.cc", "CMakeLists.txt", "horovod/torch/CMakeLists.txt"]
)
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


@pytest.mark.parametrize(("framework", "version"), [("tensorflow", "2.21"), ("pytorch", "2.13")])
def test_without_the_framework_nothing_is_fetched(framework: str, version: str, tmp_path: Path) -> None:
    status, said = run("--cm", str(tmp_path), framework)
    place = f"{tmp_path}/shared/apps/{framework}/{version}"
    assert (status, said.strip()) == (
        1,
        f"horovod.py: {place} is not built: run build.py {framework} first, then this again",
    )
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_built_for_one_framework_when_the_other_is_missing(environment: Path, tmp_path: Path) -> None:
    status, said = run("--cm", str(tmp_path / "cm"))
    assert (status, "pytorch/2.13 is not built" in said) == (1, True)
    assert [path.name for path in (tmp_path / "cm/shared/apps").iterdir()] == ["tensorflow"]


def test_a_wrong_folder_is_named(environment: Path, tmp_path: Path) -> None:
    cm = tmp_path / "cm"
    status, said = run("--cm", str(cm), "--cuda", str(tmp_path), "tensorflow")
    assert (status, said.strip()) == (1, f"horovod.py: {tmp_path} is no CUDA toolkit: it has no bin/nvcc")
    status, said = run("--cm", str(cm), "mxnet")
    assert (status, "'mxnet' is not known; there are tensorflow, pytorch" in said) == (2, True)
    status, said = run("--cm", str(cm), "--nccl", str(tmp_path))
    assert (status, "--nccl is for a build with --cuda" in said) == (2, True)


@pytest.mark.parametrize("framework", ["tensorflow", "pytorch"])
def test_the_module_names_the_environment_that_is_built(framework: str) -> None:
    target = horovod_environments.TARGETS[framework]
    modulefile = FOLDER.parent / "modulefiles/shared/shared" / target.environment.name / target.environment.version
    lines = modulefile.read_text().splitlines()
    assert f"set root {target.environment.folder(Path('/cm'))}" in lines
    assert f"module load shared/{framework}/{target.framework.version}" in lines
    assert {"conflict shared/horovod", "conflict shared/horovod-pytorch"} <= set(lines)
    tree = horovod_openmpi.variables(Path("$root/openmpi"))
    for name in ("OPAL_PREFIX", "PMIX_INSTALL_PREFIX"):
        assert f"setenv {name} {tree[name]}" in lines
    assert f"prepend-path LD_LIBRARY_PATH {tree['LD_LIBRARY_PATH']}" in lines


def test_each_environment_gets_the_modules_that_its_framework_can_import() -> None:
    ours = {file.name for file in horovod_environments.LESSONS.glob("*.py")}
    for framework, target in horovod_environments.TARGETS.items():
        assert set(target.lessons) <= ours
        for name in target.lessons:
            other = {"tensorflow": "torch", "pytorch": "tensorflow"}[framework]
            assert f"import {other}" not in (horovod_environments.LESSONS / name).read_text()
    assert {name for target in horovod_environments.TARGETS.values() for name in target.lessons} == ours
