"""The builder of the environments, with real pip and a wheel made here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from deploy.environments import frameworks

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "deploy" / "environments" / "build.py"
MODULES = (
    *(
        "__init__.py",
        "build.py",
        "frameworks.py",
        "recipes.py",
        "environment_folder.py",
        "node_packages.py",
        "wheels.py",
    ),
)
WEB_TOOLS = ("code-server", "image-trainer")


@cache
def pip() -> str:
    """The pip that the portal's own environment is installed with."""
    asked = ["/usr/bin/python3", str(ROOT / "deploy/setup.py"), "--print-pip"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


class Workshop:
    """A copy of the builder with a lock of one tiny package, and the folder it is "fetched" from."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.registry, self.cm = folder, folder / "registry", folder / "cm"
        self.registry.mkdir()
        self.builder = folder / "deploy" / "environments"
        self.builder.mkdir(parents=True)
        for name in MODULES:
            shutil.copy(BUILD.parent / name, self.builder / name)
        for name in ("__init__.py", "interpreter.py", "own_lock.py", "run_module.py"):
            shutil.copy(ROOT / "deploy" / name, self.builder.parent / name)
        self.lock = self.builder / "python3.lock"
        self.package("1.0")

    def package(self, version: str, name: str = "tiny") -> Path:
        """A wheel with one module and one script; the lock asks for it."""
        wheel = self.registry / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{name}.py", f"def main():\n    print('{name} {version}')\n")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
            archive.writestr(f"{info}/RECORD", "")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        self.lock.write_text(f"{name}=={version} \\\n    --hash=sha256:{digest}\n")
        return wheel

    def build(self, *options: str, what: str = "python3", check: bool = True) -> str:
        """What the builder prints; the registry is a folder."""
        argv = ["/usr/bin/python3", str(self.builder / "build.py"), "--cm", str(self.cm), "--pip", pip()]
        environ = {
            **os.environ,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.registry),
            "PIP_CONFIG_FILE": os.devnull,
        }
        done = subprocess.run([*argv, *options, what], capture_output=True, text=True, env=environ, check=False)
        assert (done.returncode == 0) == check, done.stdout + done.stderr
        return done.stdout + done.stderr

    @property
    def environment(self) -> Path:
        """Where the environment is built."""
        return self.cm / "shared/apps/python3/3.11"

    def names(self) -> Sequence[str]:
        """What lies beside the environment."""
        return sorted(path.name for path in self.environment.parent.iterdir())


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_an_environment_names_the_place_where_it_will_be_used(workshop: Workshop) -> None:
    printed = workshop.build()
    assert "python3 3.11: built in" in printed
    script = workshop.environment / "bin" / "tiny"
    assert script.read_text().startswith("#!/cm/shared/apps/python3/3.11/bin/python")
    assert "building" not in (workshop.environment / "pyvenv.cfg").read_text()
    assert list(workshop.environment.glob("lib/*/site-packages/__pycache__/tiny.*.pyc")), "not compiled"


def test_a_second_run_does_nothing_and_a_new_lock_builds_again(workshop: Workshop) -> None:
    workshop.build()
    made = workshop.environment.stat().st_ino
    assert workshop.build() == "python3 3.11: ready\n"
    assert workshop.environment.stat().st_ino == made
    workshop.package("2.0")
    assert "built in" in workshop.build()
    assert list(workshop.environment.glob("lib/*/site-packages/tiny-2.0.dist-info"))
    assert workshop.names() == [".build.lock", "3.11"]


def test_what_an_interrupted_run_left_is_cleared_and_what_it_fetched_is_used(workshop: Workshop) -> None:
    store = workshop.folder / "cache" / "wheels"
    store.mkdir(parents=True)
    (wheel,) = workshop.registry.iterdir()
    wheel.rename(store / wheel.name)  # fetched; the registry is gone
    (workshop.environment.parent / ".3.11.building" / "bin").mkdir(parents=True)
    assert "fetching" not in workshop.build()
    assert workshop.names() == [".build.lock", "3.11"]


def test_a_wheel_that_was_cut_short_is_fetched_again(workshop: Workshop) -> None:
    store = workshop.folder / "cache" / "wheels"
    store.mkdir(parents=True)
    (store / "tiny-1.0-py3-none-any.whl").write_bytes(b"half")
    assert "0 of 1 packages; fetching tiny" in workshop.build()


def test_a_package_that_is_not_the_locked_one_is_refused(workshop: Workshop) -> None:
    (wheel,) = workshop.registry.iterdir()
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("extra.py", "")
    printed = workshop.build(check=False)
    assert "a package is not the one that was locked" in printed
    assert not workshop.environment.exists()


def test_a_package_that_cannot_be_had_is_named(workshop: Workshop) -> None:
    (wheel,) = workshop.registry.iterdir()
    wheel.unlink()
    printed = workshop.build(check=False)
    assert "a package cannot be had" in printed
    assert "tiny==1.0" in printed


def test_a_wrong_name_lists_the_known_ones(workshop: Workshop) -> None:
    printed = workshop.build("tensorflo", check=False)
    assert (
        "'tensorflo' is not known; "
        "there are python3, tensorflow, mlflow, pytorch, jax, mxnet, pytensor, inference, dask, ray, code-server, "
        "image-trainer, tensorflow-gpu, pytorch-gpu, pytorch-gpu-cuda126, jax-gpu, inference-gpu, pytorch-cuda, "
        "modulefiles" in printed
    )


@pytest.fixture
def two_builds(workshop: Workshop) -> Workshop:
    """PyTorch's lock names a CPU build, its other lock what is in every registry."""
    other = workshop.lock.with_name("pytorch-cuda.lock")
    other.write_bytes(workshop.lock.read_bytes())
    workshop.package("2.0+cpu")
    workshop.lock.rename(workshop.lock.with_name("pytorch.lock"))
    return workshop


def tiny_of_pytorch(workshop: Workshop) -> list[str]:
    return [path.name for path in workshop.cm.glob("shared/apps/pytorch/2.13/lib/*/site-packages/tiny-*.dist-info")]


def test_a_cpu_build_is_taken_where_the_package_sources_have_it(two_builds: Workshop) -> None:
    printed = two_builds.build(what="pytorch")
    assert "another build" not in printed
    assert tiny_of_pytorch(two_builds) == ["tiny-2.0+cpu.dist-info"]
    assert two_builds.build(what="pytorch") == "pytorch 2.13: ready\n"


@pytest.mark.long
def test_another_build_is_taken_and_named_where_the_package_sources_lack_the_cpu_build(two_builds: Workshop) -> None:
    (two_builds.registry / "tiny-2.0+cpu-py3-none-any.whl").unlink()
    printed = two_builds.build(what="pytorch")
    assert "do not have tiny==2.0+cpu: another build is taken\npytorch-cuda 2.13: up to" in printed
    assert tiny_of_pytorch(two_builds) == ["tiny-1.0.dist-info"]
    assert two_builds.build(what="pytorch") == "pytorch 2.13: ready\n"


@pytest.mark.long
def test_the_cuda_build_can_be_asked_for_by_name(two_builds: Workshop) -> None:
    two_builds.build(what="pytorch")
    assert "pytorch-cuda 2.13: built in" in two_builds.build(what="pytorch-cuda")
    assert tiny_of_pytorch(two_builds) == ["tiny-1.0.dist-info"]


def test_only_what_a_first_run_needs_is_built_when_nothing_is_named() -> None:
    first_run, everything = (frameworks.arguments([*words, "--cm", "x"]).what for words in ([], ["--all"]))
    names = ["python3", "tensorflow", "mlflow"]
    assert first_run == [*names, "modulefiles"]
    assert everything == [
        *names,
        "pytorch",
        "jax",
        "mxnet",
        "pytensor",
        "inference",
        "dask",
        "ray",
        *WEB_TOOLS,
        "modulefiles",
    ]


@pytest.fixture
def stacked(workshop: Workshop) -> Workshop:
    """The environment inference, which stands on TensorFlow's."""
    workshop.lock.rename(workshop.lock.with_name("tensorflow.lock"))
    workshop.package("1.0", name="upper")
    workshop.lock.rename(workshop.lock.with_name("inference.lock"))
    return workshop


def test_an_environment_upon_another_builds_it_first_and_sees_its_packages(stacked: Workshop) -> None:
    used_at = f"--used-at={stacked.cm}"
    printed = stacked.build(used_at, what="inference")
    assert printed.index("tensorflow 2.21: built in") < printed.index("inference 1.0: built in")
    apps = stacked.cm / "shared/apps"
    python, code = apps / "inference/1.0/bin/python", "import tiny, upper; print(tiny.__file__, upper.__file__)"
    seen = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert seen.split()[0].startswith(f"{apps}/tensorflow/2.21/")
    assert seen.split()[1].startswith(f"{apps}/inference/1.0/")
    assert stacked.build(used_at, what="inference") == "tensorflow 2.21: ready\ninference 1.0: ready\n"


def test_an_environment_upon_another_brings_nothing_that_is_there_already() -> None:
    locks = {
        name: (BUILD.parent / f"{name}.lock").read_text()
        for name in ("tensorflow", "inference", "python3", "dask", "ray")
    }
    names = {name: set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)) for name, lock in locks.items()}
    assert names["inference"] & names["tensorflow"] == set()
    assert names["dask"] & names["python3"] == set()
    assert names["dask"] >= {"distributed", "dask-jobqueue", "bokeh", "cryptography"}
    assert names["ray"] & names["python3"] == set()
    assert names["inference"] >= {"openvino", "nncf", "onnxruntime", "onnx", "tf2onnx"}
