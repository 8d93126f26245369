"""The framework environments: each has a lock that pip can hold to, and a module that leads to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.environments import frameworks, recipes
from deploy.environments.environment_folder import add_modules
from deploy.environments.recipes import BY_NAME, FOR_GPUS, Environment
from deploy.environments.wheels import pins

MODULES = Path(__file__).parents[2] / "deploy" / "modulefiles" / "shared" / "shared"


@pytest.mark.parametrize("one", BY_NAME.values(), ids=BY_NAME)
def test_every_package_of_an_environment_is_pinned_by_its_hash(one: Environment) -> None:
    found = pins(one.lock.read_text())
    assert len(found) > (0 if one.is_of_npm else 10)
    assert [pin.name for pin in found if not pin.hashes] == []
    assert one.lock.with_suffix(".in").is_file()


@pytest.mark.parametrize("one", BY_NAME.values(), ids=BY_NAME)
def test_a_module_leads_to_the_environment(one: Environment) -> None:
    name = {"python3": "python"}.get(one.name, one.name)
    text = (MODULES / name / one.version).read_text()
    assert f"/cm/shared/apps/{one.name}/{one.version}" in text
    assert (MODULES / name / ".version").is_file()


@pytest.mark.parametrize("one", [one for one in BY_NAME.values() if one.is_of_npm], ids=lambda one: one.name)
def test_every_package_of_npm_is_pinned_by_its_hash_and_names_no_registry(one: Environment) -> None:
    (lock,) = (file for file in one.made_of if file.name == "package-lock.json")
    packages = {name: found for name, found in json.loads(lock.read_text())["packages"].items() if name}
    assert len(packages) > 10
    assert [name for name, found in packages.items() if not found["integrity"].startswith("sha512-")] == []
    assert "http" not in "".join(found.get("resolved", "") for found in packages.values())


def test_an_environment_is_another_one_when_any_file_that_it_is_made_of_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipes, "HERE", tmp_path)
    one = Environment("tool", "1", 1, 1, modules=("page.py", "trainer"), is_of_npm=True)
    (tmp_path / "tool" / "defaults").mkdir(parents=True)
    (tmp_path / "trainer" / "__pycache__").mkdir(parents=True)
    for name in ("__main__.py", "curves.py", "__pycache__/curves.cpython-311.pyc"):
        (tmp_path / "trainer" / name).write_text("")
    assert [str(file.relative_to(tmp_path)) for file in one.made_of] == [
        *("tool.lock", "page.py", "trainer/__main__.py", "trainer/curves.py"),
        *("tool/package.json", "tool/package-lock.json", "tool/defaults/package.json"),
        "node_packages.py",
    ]
    stamps = set()
    for changed in (None, *one.made_of):
        for file in one.made_of:
            file.write_text("new" if file == changed else "as it was")
        stamps.add(frameworks.stamp(one, "python3", Path("/cm")))
    assert len(stamps) == 9


def test_a_module_that_is_a_folder_comes_whole_without_what_was_compiled_of_it(tmp_path: Path) -> None:
    (tmp_path / "trainer" / "__pycache__").mkdir(parents=True)
    (tmp_path / "trainer" / "page.py").write_text("folder")
    (tmp_path / "single.py").write_text("file")
    packages = tmp_path / "environment" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)

    add_modules(tmp_path / "environment", [tmp_path / "trainer", tmp_path / "single.py"])

    assert {path.relative_to(packages).as_posix() for path in packages.rglob("*")} == {
        *("single.py", "trainer", "trainer/page.py")
    }


@pytest.mark.parametrize("one", FOR_GPUS.values(), ids=FOR_GPUS)
def test_an_environment_for_gpus_brings_the_libraries_of_nvidia(one: Environment) -> None:
    names = {pin.name for pin in pins(one.lock.read_text())}
    assert any(name.startswith("nvidia-cudnn") for name in names)
    assert any(name.startswith("nvidia-cublas") for name in names)
    assert names & {"tensorflow", "torch", "jax-cuda13-plugin", "onnxruntime-gpu"}
    text = (MODULES / one.name / one.version).read_text()
    assert "It is built with: make environments GPU=1" in text
    assert one.disk_mib > one.download_mib


def test_those_for_gpus_are_built_when_they_are_asked_for(tmp_path: Path) -> None:
    def wanted(*options: str) -> list[str]:
        return list(frameworks.arguments([*options, "--cm", str(tmp_path)]).what)

    assert wanted("--gpu") == [*FOR_GPUS, "modulefiles"]
    assert not set(FOR_GPUS) & {*wanted(), *wanted("--all")}
    assert set(FOR_GPUS) < set(wanted("--all", "--gpu"))


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow-gpu"])
def test_a_module_finds_the_packages_of_whichever_python_its_environment_has(name: str) -> None:
    """On another Debian the same environment is built with another Python."""
    (file,) = (file for file in (MODULES / name).iterdir() if file.name != ".version")
    assert "3.11" not in file.read_text()


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow-gpu", "jax", "jax-gpu"])
def test_one_notebook_leaves_memory_of_a_gpu_to_the_next(name: str) -> None:
    (file,) = (file for file in (MODULES / name).iterdir() if file.name != ".version")
    grows = "TF_FORCE_GPU_ALLOW_GROWTH true" if "tensorflow" in name else "XLA_PYTHON_CLIENT_PREALLOCATE false"
    assert f"setenv {grows}\n" in file.read_text()
