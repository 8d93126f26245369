"""The environment of a kernel is what the module system of this machine makes of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from portal.errors import KernelError
from portal.kernels import module_cache
from portal.kernels.modules import ModuleSystem, environment
from tests.session.session_server import write_module

MODULES = ["shared/tensorflow", "shared/tensorflow/2.21", "shared/jupyter", "shared/pytorch"]


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """The environment of a person with a home and a few values of their own."""
    return {
        "HOME": str(tmp_path),
        "USER": "person",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/opt/mine/lib",
        "LANG": "C.UTF-8",
    }


def in_a_shell(module: str, system: ModuleSystem, base: dict[str, str]) -> dict[str, str]:
    """The environment of bash after ``module load``, as a person would get it."""
    script = f'eval "$({system.command} bash load {module})"; env -0'
    done = subprocess.run(["/bin/bash", "-c", script], env=system.base(base), capture_output=True, check=True)
    pairs = (entry.partition("=") for entry in done.stdout.decode().split("\0") if entry)
    own = ("_", "SHLVL", "PWD", "OLDPWD")  # bash's, with or without modules
    return {name: value for name, _, value in pairs if name not in own}


@pytest.mark.parametrize("module", MODULES)
def test_an_environment_equals_that_of_a_shell(
    module: str, module_system: ModuleSystem, person: dict[str, str]
) -> None:
    """Asked for, and once more from the cache."""
    expected = in_a_shell(module, module_system, person)
    for _ in range(2):
        assert environment((module,), module_system, person, module_cache.folder_of(person)) == expected


def test_a_value_of_several_lines_is_whole(module_system: ModuleSystem, person: dict[str, str]) -> None:
    """In bash its second line is lost: Environment Modules 5.2 does not quote it."""
    assert environment(("shared/lines",), module_system, person)["LINES"] == 'one "two"\nit\'s three'


def test_a_new_default_version_is_taken_at_the_next_start(tmp_path: Path, person: dict[str, str]) -> None:
    write_module(tmp_path / "tree/app/1", "setenv APP 1")
    write_module(tmp_path / "tree/app/2", "setenv APP 2")
    system = ModuleSystem(ModuleSystem().find_command(os.environ), (str(tmp_path / "tree"),))

    def app(default: str) -> str:
        write_module(tmp_path / "tree/app/.version", f'set ModulesVersion "{default}"')
        return environment(("app",), system, person, module_cache.folder_of(person))["APP"]

    assert [app("1"), app("2"), app("1")] == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("setenv SCRATCH_LOCAL /scratch/$env(SLURM_JOB_ID)", ""),
        ("source {body}", "setenv SCRATCH_LOCAL /scratch/{job}"),
    ],
    ids=["asks for the job", "another file"],
)
def test_no_job_gets_the_values_of_another_one(tmp_path: Path, person: dict[str, str], line: str, body: str) -> None:
    file = tmp_path / "body.tcl"
    write_module(tmp_path / "tree/scratch", line.replace("{body}", str(file)))
    system = ModuleSystem(ModuleSystem().find_command(os.environ), (str(tmp_path / "tree"),))
    seen = []
    for job in ("16", "17", "17"):
        file.write_text(body.replace("{job}", job))
        env = person | {"SLURM_JOB_ID": job}
        seen.append(environment(("scratch",), system, env, module_cache.folder_of(person))["SCRATCH_LOCAL"])

    assert seen == ["/scratch/16", "/scratch/17", "/scratch/17"]


def test_modules_that_exclude_each_other_are_refused_in_the_module_systems_words(
    module_system: ModuleSystem, person: dict[str, str]
) -> None:
    with pytest.raises(KernelError, match=r"module load shared/pytorch shared/tensorflow failed: .*[Cc]onflict"):
        environment(("shared/pytorch", "shared/tensorflow"), module_system, person)


def test_modules_of_the_login_do_not_leak_into_a_kernel(module_system: ModuleSystem, person: dict[str, str]) -> None:
    logged_in = environment(("shared/pytorch",), module_system, person)
    kernel = environment(("shared/tensorflow",), module_system, logged_in)
    assert kernel["TENSORFLOW_MODULE"] == "2.21"
    assert "PYTORCH_MODULE" not in kernel


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("error {this is broken}", "module load odd failed: .*this is broken"),
        ("break", "module load odd failed"),
        ('puts stdout "Welcome!"', "A modulefile that writes to standard output does this"),
    ],
)
def test_a_broken_modulefile_is_an_error(tmp_path: Path, person: dict[str, str], line: str, words: str) -> None:
    write_module(tmp_path / "tree/odd", line, "setenv ODD 1")
    system = ModuleSystem(ModuleSystem().find_command(os.environ), (str(tmp_path / "tree"),))
    with pytest.raises(KernelError, match=words):
        environment(("odd",), system, person)
