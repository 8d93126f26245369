"""What comes before the Python of a session's kernels: found first, gone at once, and readable for old Pythons."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import IPython
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from traitlets.config import Config

from portal.jobs import kept
from portal.kernels import other_starts
from portal.kernels.manager import PortalKernelSpecManager
from portal.kernels.provisioner import ModuleProvisioner, _left_in
from portal.kernels.python_start import (
    FIRST,
    FOLDERS,
    IN_THEIRS,
    LAUNCHER,
    NAMED,
    OWN,
    by_file,
    is_by_name,
    lasting,
    prepared,
    safe,
    without_folder,
)

SHOW = "import os, sys; print(os.environ.get('PYTHONPATH'), 'startup' in str(sys.path), getattr(sys, 'own', None))"
AVAILABLE = "import ipykernel.debugger as d; print(d._is_debugpy_available)"
START = "import ipykernel.debugger as d; print(d.Debugger.start(None))"
FULL = """
import errno, os, tempfile
def in_no_usual_place(path, *told, usual=os.open):
    if os.path.dirname(path) in ("/tmp", "/var/tmp", "/usr/tmp") or os.path.dirname(path).endswith("/run/tmp"):
        raise OSError(errno.ENOSPC, "full")
    return usual(path, *told)
os.open = in_no_usual_place
tempfile.tempdir = None
"""
FIRST_ONE = "import sys; print(sys.meta_path[0].find_spec.__code__.co_filename)"
HAS_DEBUGGER = "import ipykernel.debugger as d; print(d._is_debugpy_available, flush=True)\n"
KERNEL = [sys.executable]
JOB = Path(__file__).parents[2] / "templates" / "job" / "job.sh"
PORTALS = FIRST.parent  # the portal's own folder of these files
AS_KERNEL = f"import ipykernel.iostream; {SHOW}"


def run(code: str, env: dict[str, str], *told: str) -> str:
    """What a Python of this environment prints with ``env``."""
    done = subprocess.run([sys.executable, "-c", code, *told], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("file", [FIRST, LAUNCHER, NAMED, OWN])
def test_the_file_is_written_in_what_python_3_6_knows(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 6))
    assert "__future__" not in file.read_text(), "annotations came with 3.7"


@pytest.mark.parametrize(
    "before", [["python3"], ["/usr/bin/python3", "-X", "frozen_modules=off"], ["conda", "run", "-n", "own", "python"]]
)
def test_a_kernel_is_started_by_a_file_and_not_out_of_its_notebooks_folder(tmp_path: Path, before: list[str]) -> None:
    file = f"{tmp_path}/startup/ipykernel_launcher.py"
    command = [*before, "-m", "ipykernel_launcher", "-f", "x"]
    assert by_file(command, tmp_path) == [*before, file, "-f", "x"]


@pytest.mark.parametrize(
    "before", [["python3"], ["conda", "run", "-n", "own", "/own/bin/python3.6", "-u", "-X", "dev"]]
)
def test_a_kernel_of_any_name_that_is_a_python_program_is_started_so_too(tmp_path: Path, before: list[str]) -> None:
    command = [*before, "-m", "bash_kernel", "-f", "ipykernel_launcher"]
    assert is_by_name(command)
    assert by_file(command, tmp_path) == [*before, f"{tmp_path}/startup/named_module.py", *command[len(before) + 1 :]]


@pytest.mark.parametrize(
    "command",
    [["R", "-m", "a"], ["python3", "own.py", "-m", "a"], ["python3", "-c", "code", "-m", "a"], ["python3", "-m"]],
)
def test_another_command_stays_as_it_is(tmp_path: Path, command: list[str]) -> None:
    assert not is_by_name(command)
    assert by_file(command, tmp_path) == command


def test_a_module_beside_the_notebook_is_not_the_kernel(tmp_path: Path) -> None:
    packages, beside = tmp_path / "packages", tmp_path / "beside"
    for folder in (packages, beside):
        folder.mkdir()
        (folder / "some_kernel.py").write_text(f"import sys; print({folder.name!r}, sys.argv[1:], __name__)")
    env = prepared(KERNEL, {"PYTHONPATH": str(packages)}, tmp_path, debugger=False)

    command = by_file([sys.executable, "-m", "some_kernel", "-f", "x"], tmp_path)
    done = subprocess.run(command, env=env, cwd=beside, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "packages ['-f', 'x'] __main__"


AS_THEMSELVES = {
    "by a shell": ["/bin/sh", "-c", 'exec "$0" -m some_kernel', sys.executable],
    "with letters joined": [sys.executable, "-um", "some_kernel"],
    "without a space": [sys.executable, "-msome_kernel"],
    "by code": [sys.executable, "-c", "import some_kernel"],
}


@pytest.mark.parametrize("path", ["", ":", ":.:", "beside:"])
@pytest.mark.parametrize("way", AS_THEMSELVES)
def test_a_python_that_looks_there_by_itself_finds_nothing_beside_the_notebook(
    tmp_path: Path, way: str, path: str
) -> None:
    """Own kernels are often shell scripts; a PYTHONPATH with an empty part is the folder itself."""
    packages, beside = tmp_path / "packages", tmp_path / "beside"
    for folder in (packages, beside, beside / "beside"):
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(f"print({folder.name!r})")
        (folder / "some_kernel.py").write_text(f"print({folder.name!r})")
        folder.chmod(0o777)
    env = prepared(KERNEL, {"PYTHONPATH": f"{path}{packages}"}, tmp_path, debugger=False)

    done = subprocess.run(
        by_file(AS_THEMSELVES[way], tmp_path), env=env, cwd=beside, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["packages", "packages"], "its own, and the kernel"


@pytest.mark.parametrize(("mode", "path"), [(0o777, "{here}"), (0o755, ""), (0o755, ":")])
def test_a_kernel_without_ipython_imports_from_a_folder_that_is_named_or_its_persons_own(
    tmp_path: Path, mode: int, path: str
) -> None:
    (tmp_path / "some_kernel.py").write_text("print('here')")
    tmp_path.chmod(mode)
    env = prepared(KERNEL, {"PYTHONPATH": path.format(here=tmp_path)}, tmp_path, debugger=False)
    command = [sys.executable, "-c", "import some_kernel"]

    assert subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True).stdout.strip() == "here"


@pytest.mark.parametrize("given", [":/opt/a", "/opt/a:", "/opt/a::", ".:/opt/a", "${PYTHONPATH}:/opt/a:src"])
def test_elsewhere_no_list_of_folders_names_the_one_that_a_kernel_is_started_in(given: str) -> None:
    env = {"PYTHONPATH": given, "CPATH": given, "LD_LIBRARY_PATH": ":", "LIBRARY_PATH": ":", "HOME": "a:", "PS1": ""}
    assert without_folder(env) == {"PYTHONPATH": "/opt/a", "CPATH": "/opt/a", "HOME": "a:", "PS1": ""}


OF_LANGUAGES = (
    "CLASSPATH",
    "PKG_CONFIG_PATH",
    "R_LIBS_SITE",
    "NODE_PATH",
    "PERL5LIB",
    "PERLLIB",
    "RUBYLIB",
    "JUPYTER_PATH",
)


@pytest.mark.parametrize("name", [*OF_LANGUAGES, "JUPYTER_PATH", "JUPYTER_CONFIG_PATH"])
def test_elsewhere_no_list_of_another_languages_names_that_folder_either(name: str) -> None:
    assert without_folder({name: "/opt/a:.::src:/opt/b"}) == {name: "/opt/a:/opt/b"}


def test_elsewhere_a_list_in_which_an_empty_word_is_the_usual_folders_stays() -> None:
    env = {"JULIA_LOAD_PATH": "/opt/a:", "LUA_PATH": "/opt/?.lua;;", "MANPATH": ":/opt/man", "R_LIBS_SITE": "NULL"}
    assert without_folder(env) == env


@pytest.mark.parametrize("name", ["JULIA_LOAD_PATH", "JULIA_DEPOT_PATH"])
def test_elsewhere_julia_looks_into_no_project_of_that_folder(name: str) -> None:
    assert without_folder({name: "@.:@v1.10:src:./src:/opt/a:@stdlib:"}) == {name: "@v1.10:/opt/a:@stdlib:"}
    assert without_folder({name: "@."}) == {}


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("BASH_ENV", "$HOME/rc"),
        ("IPYTHONDIR", "~/i"),
        ("IRBRC", "~/rc"),
        ("JUPYTER_CONFIG_DIR", "/rc"),
        ("PYTHONSTARTUP", "/rc"),
        ("R_PROFILE", "~/R"),
    ],
)
def test_elsewhere_what_names_one_file_names_none_of_that_folder(name: str, home: str) -> None:
    assert without_folder({name: "own/rc", "PS1": "x"}) == {"PS1": "x"}
    assert without_folder({name: "/opt/rc"}) == {name: "/opt/rc"}
    assert without_folder({name: home}) == {name: home}


def test_elsewhere_a_folder_that_is_called_as_a_home_is_none_where_nothing_takes_it_for_one() -> None:
    assert without_folder({"PYTHONSTARTUP": "~/rc", "PYTHONUSERBASE": "~/base", "BASH_ENV": "~/rc"}) == {}


@pytest.mark.parametrize("given", ["/opt/a;/opt/b", "/opt/a;:/opt/b", "/opt/a:;/opt/b;", ";/opt/a;lib;/opt/b"])
def test_elsewhere_folders_of_libraries_are_told_apart_as_the_loader_does(given: str) -> None:
    assert without_folder({"LD_LIBRARY_PATH": given}) == {"LD_LIBRARY_PATH": "/opt/a:/opt/b"}


@pytest.mark.parametrize(("name", "blank"), [("LD_PRELOAD", " "), ("LD_PRELOAD", ":"), ("LD_AUDIT", ":")])
def test_elsewhere_no_library_out_of_that_folder_is_put_before_others(name: str, blank: str) -> None:
    """One without a slash is looked for where libraries are."""
    given = ["/opt/a.so", "./theirs.so", "libjemalloc.so.2", "lib/theirs.so"]
    assert without_folder({name: blank.join(given)}) == {name: "/opt/a.so:libjemalloc.so.2"}
    assert without_folder({name: "./theirs.so"}) == {}


@pytest.mark.parametrize("name", ["CPATH", "C_INCLUDE_PATH"])
def test_elsewhere_a_compiler_takes_nothing_out_of_the_folder_that_a_kernel_is_started_in(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "theirs.h").touch()
    command = ["gcc", "-E", "-x", "c", "-"]
    env = {"PATH": os.environ["PATH"], name: "/opt/a:"}
    how: Any = {"cwd": tmp_path, "input": b"#include <theirs.h>\n", "capture_output": True, "check": False}

    before = subprocess.run(command, env=env, **how)
    now = subprocess.run(command, env=without_folder(env), **how)

    assert (before.returncode, now.returncode) == (0, 1), now.stderr


def test_r_reads_the_files_of_the_home_in_a_folder_that_others_can_change(tmp_path: Path) -> None:
    command = ["/usr/bin/R", "--slave", "-e", "IRkernel::main()"]
    tmp_path.chmod(0o755)
    assert other_starts.prepared_r(command, {"HOME": "/home/alice"}, str(tmp_path)) == (
        command,
        {"HOME": "/home/alice"},
    )

    tmp_path.chmod(0o777)
    started, env = other_starts.prepared_r(command, {"HOME": "/home/alice", "R_ENVIRON_USER": "/set"}, str(tmp_path))
    assert started == ["/usr/bin/R", "--no-restore-data", "--slave", "-e", "IRkernel::main()"]
    assert (env["R_PROFILE_USER"], env["R_ENVIRON_USER"]) == ("/home/alice/.Rprofile", "/set")
    own = tmp_path / "own"  # others may put another folder in its place
    own.mkdir(0o755)
    assert other_starts.prepared_r(command, {}, str(own))[0] == started


@pytest.mark.parametrize(
    "before",
    [
        ["conda", "run", "-n", "own", "R"],
        ["conda", "run", "-n", "R", "--no-capture-output", "R"],
        ["docker", "run", "-e", "A=1", "r-base", "R"],
        ["apptainer", "exec", "/images/r.sif", "/usr/bin/R"],
        ["python", "-m", "nb_conda_kernels.runner", "/opt/conda", "/opt/conda/envs/r", "R"],
    ],
)
def test_r_behind_another_program_restores_nothing_of_such_a_folder_either(tmp_path: Path, before: list[str]) -> None:
    tmp_path.chmod(0o777)
    started, _ = other_starts.prepared_r([*before, "--slave", "-e", "R"], {"HOME": "/home/alice"}, str(tmp_path))
    assert started == [*before, "--no-restore-data", "--slave", "-e", "R"]


@pytest.mark.parametrize(
    "before", [["julia"], ["julia", "-i"], ["conda", "run", "/opt/julia/bin/julia", "--threads=2"]]
)
@pytest.mark.parametrize("project", [["--project=@."], ["--project"], ["--project=."], ["--project=sub"]])
def test_julia_takes_no_project_out_of_a_folder_that_others_can_change(
    tmp_path: Path, before: list[str], project: list[str]
) -> None:
    after = ["/opt/IJulia/kernel.jl", "{connection_file}", "--project=@."]
    env = {"JULIA_PROJECT": "@.", "HOME": "/home/alice"}
    tmp_path.chmod(0o755)
    assert other_starts.prepared_julia([*before, *project, *after], env, str(tmp_path)) == (
        [*before, *project, *after],
        env,
    )

    tmp_path.chmod(0o777)
    started, left = other_starts.prepared_julia([*before, *project, *after], env, str(tmp_path))
    assert started == [*before, *after], "what stands behind the program is the program's own"
    assert left == {"HOME": "/home/alice"}


@pytest.mark.parametrize("project", ["--project=/home/alice/own", "--project=@v1.11", "--project=@work"])
def test_a_project_of_julia_that_is_elsewhere_stays(tmp_path: Path, project: str) -> None:
    tmp_path.chmod(0o777)
    command, env = ["julia", project, "kernel.jl"], {"JULIA_PROJECT": project.removeprefix("--project=")}
    assert other_starts.prepared_julia(command, env, str(tmp_path)) == (command, env)


def started_by_a_session(command: list[str], language: str, folder: Path, tmp_path: Path) -> dict[str, Any]:
    """Command and environment of a kernel, as the provisioner makes them, also in a job of a kernel in theirs."""
    (tmp_path / "run").mkdir(mode=0o700)
    manager = KernelManager(connection_file=str(tmp_path / "run/kernel.json"))
    provisioner = ModuleProvisioner(parent=manager, kernel_spec=KernelSpec(argv=command, language=language))
    return asyncio.run(provisioner._private(command, {"HOME": "/home/alice", **IN_THEIRS}, str(folder)))


@pytest.mark.parametrize(
    ("language", "mode", "is_guarded"),
    [
        ("python", 0o777, True),
        ("python", 0o755, True),
        ("sage", 0o777, True),
        ("sage", 0o755, False),
        ("R", 0o777, False),
        ("julia", 0o777, False),
    ],
)
def test_whatever_starts_a_kernel_in_a_folder_of_others_its_python_looks_elsewhere_first(
    tmp_path: Path, language: str, mode: int, is_guarded: bool
) -> None:
    """``sage --python -m`` is a Python that no word of the command names; R and Julia are none."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    command = ["sage", "--python", "-m", "sage.repl.ipython_kernel", "-f", "x"]

    made = started_by_a_session(command, language, folder, tmp_path)

    assert made["cmd"] == (["env", "--chdir=/home/alice"] if language == "R" else []) + command
    assert made["env"].get("PYTHONPATH") == (str(PORTALS) if is_guarded else None)


@pytest.mark.parametrize("language", ["python", "bash", "R"])
@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_an_r_that_a_kernel_starts_reads_the_files_of_the_home(tmp_path: Path, language: str, mode: int) -> None:
    """As rpy2 does, or ``!Rscript``: an .Rprofile that others have left beside the notebook is not run."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)

    made = started_by_a_session(["kernel"], language, folder, tmp_path)

    assert made["env"].get("R_PROFILE_USER") == (None if mode == 0o755 else "/home/alice/.Rprofile")


@pytest.mark.parametrize("way", ["by the launcher", "of any name"])
def test_whoever_looks_upwards_from_a_kernels_program_meets_nothing_that_others_write(tmp_path: Path, way: str) -> None:
    """As GitPython does for a repository, which mlflow asks: the session's folder lies in /tmp."""
    packages = tmp_path / "packages"
    (packages / "ipykernel").mkdir(parents=True)
    (packages / "ipykernel" / "__init__.py").write_text("import sys; print(sys.argv[0])")
    show = "import sys; print(sys.argv[0], sys.modules['__main__'].__file__, sys.argv[1:])"
    (packages / "ipykernel" / "kernelapp.py").write_text(f"def launch_new_instance(): {show}")
    (packages / "ipykernel_launcher.py").write_text(f"import ipykernel; {show}")
    (packages / "some_kernel.py").write_text((packages / "ipykernel_launcher.py").read_text())
    module = "ipykernel_launcher" if way == "by the launcher" else "some_kernel"
    env = prepared(KERNEL, {"PYTHONPATH": str(packages)}, tmp_path, debugger=False)

    command = by_file([sys.executable, "-m", module, "-f", "x"], tmp_path)
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)

    file = f"{packages}/{module}.py"
    assert done.stdout.splitlines() == [file, f"{file} {file} ['-f', 'x']"], "as with Python's own -m"


def test_in_a_kernel_no_word_names_the_sessions_folder_as_that_of_the_program(tmp_path: Path) -> None:
    with kernel(tmp_path, tmp_path, "") as client:
        found = printed(client, "import sys; print(sys.argv[0], getattr(sys.modules['__main__'], '__file__', ''))")
    stock = importlib.util.find_spec("ipykernel_launcher")
    assert stock is not None
    assert found == stock.origin


@pytest.mark.parametrize(
    "other", [["/opt/Rscripts/start-r", "--slave"], ["sh", "-c", "module load R; R --slave -e 'x' {}"]]
)
def test_r_behind_words_that_take_no_option_starts_in_the_home_and_not_in_such_a_folder(
    tmp_path: Path, other: list[str]
) -> None:
    tmp_path.chmod(0o777)
    env = {"HOME": "/home/alice"}
    assert other_starts.prepared_r(other, env, str(tmp_path))[0] == ["env", "--chdir=/home/alice", *other]
    tmp_path.chmod(0o700)
    assert other_starts.prepared_r(other, env, str(tmp_path))[0] == other


@pytest.mark.parametrize(
    "other",
    [
        ["/usr/bin/Rscript", "-e", "x"],
        ["sh", "-c", "R --vanilla --slave -e 'x' {}"],
        ["sh", "-c", "module load R; Rscript -e 'x' {}"],
        ["/opt/start-r", "--no-restore"],
    ],
)
def test_r_that_restores_nothing_by_its_own_words_starts_in_the_folder(tmp_path: Path, other: list[str]) -> None:
    tmp_path.chmod(0o777)
    assert other_starts.prepared_r(other, {"HOME": "/home/alice"}, str(tmp_path))[0] == other


def test_julia_in_a_shells_words_with_a_project_starts_in_the_home_and_else_in_the_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    env = {"HOME": "/home/alice"}
    for words, before in (("julia --project=@. k.jl {}", ["env", "--chdir=/home/alice"]), ("julia k.jl {}", [])):
        command = ["sh", "-c", words]
        assert other_starts.prepared_julia(command, env, str(tmp_path))[0] == [*before, *command]


@pytest.mark.parametrize(
    "words", [["apptainer", "exec", "--pwd", "{}", "r.sif"], ["ch-run", "--cd={}", "r.sqfs", "--"]]
)
def test_so_does_one_in_an_image(tmp_path: Path, words: list[str]) -> None:
    tmp_path.chmod(0o777)
    started, home = ([word.format(place) for word in words] for place in (tmp_path, "/home/alice"))
    inside = ["sh", "-c", "exec R --slave {}"]
    assert other_starts.prepared_r([*started, *inside], {"HOME": "/home/alice"}, str(tmp_path))[0] == [
        *("env", "--chdir=/home/alice"),
        *home,
        *inside,
    ]


@pytest.mark.parametrize(
    ("command", "languages"),
    [
        (["/cm/julia/1.11/bin/julia", "-i", "--project=@.", "kernel.jl"], ["julia"]),
        (["sh", "-c", "module load julia; exec julia --project=@. kernel.jl {}"], ["julia"]),
        (["env", "JULIA_PROJECT=@.", "julia", "kernel.jl"], ["julia"]),
        (["iruby", "kernel"], ["ruby"]),
        (["sh", "-c", "exec iruby kernel {}"], ["ruby"]),
        (["apptainer", "exec", "x.sif", "/usr/bin/ruby3.1", "kernel.rb"], ["ruby"]),
        (["apptainer", "exec", "/images/python-and-more.sif", "iruby", "kernel"], ["ruby", "python"]),
        (["apptainer", "exec", "--bind", "/cm/python", "x.sif", "iruby", "kernel"], ["ruby", "python"]),
        (["conda", "run", "-n", "julia", "python", "-m", "ipykernel_launcher"], ["julia", "python"]),
        (["/usr/bin/R", "--slave", "-e", "IRkernel::main()"], ["r"]),
        (["conda", "run", "-n", "R", "own-kernel"], ["python"]),
        (["/opt/start"], ["python"]),
    ],
)
def test_a_sites_kernel_of_another_language_is_known_by_its_words(
    tmp_path: Path, command: list[str], languages: list[str]
) -> None:
    """The portal writes ``python`` into its kernelspec, where the site does not say it."""
    assert other_starts.languages_of(command, "python") == languages
    assert other_starts.languages_of(command, "ruby") == ["ruby"]
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o777)
    made = started_by_a_session(command, "python", folder, tmp_path)
    assert ("-rirb_of_home" in made["env"].get("RUBYOPT", "")) == ("ruby" in languages)
    assert not {"--project=@.", "JULIA_PROJECT=@."}.intersection(made["cmd"])
    assert ("--chdir=" in str(made["cmd"])) == ("--project=@." in command[-1])
    assert made["env"]["IRBRC"] == os.devnull, "a wrapper may start it"
    assert (FIRST.parent in map(Path, made["env"].get("PYTHONPATH", "").split(":"))) == ("python" in languages)
    assert ("PYTHONSAFEPATH" in made["env"]) == (languages == ["python"])


@pytest.mark.parametrize("words", ["export PYTHONPATH={}", "unset PYTHONPATH", "true"])
def test_a_kernel_whose_wrapper_sets_pythonpath_anew_takes_nothing_of_others_either(tmp_path: Path, words: str) -> None:
    """Nor one in an image whose environment does."""
    packages, beside, ran = tmp_path / "packages", tmp_path / "beside", tmp_path / "ran"
    for place in (packages, beside):
        place.mkdir()
    beside.chmod(0o777)
    for name in ("ipykernel_launcher", "storemagic", "json"):
        (beside / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    (beside / "mine.py").write_text("print('beside')")
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n{words.format(packages)}\nexec {sys.executable} -m ipykernel_launcher "$@"\n')
    wrapper.chmod(0o755)

    with kernel(beside, tmp_path, "", [str(wrapper)]) as client:
        said = printed(client, "import json, os; print('safe' if 'PYTHONSAFEPATH' in os.environ else 'as ever')")
        found = printed(client, "try:\n    import mine\nexcept ImportError:\n    print('none')")

    assert not ran.exists()
    is_reached = words == "true"
    assert (said, found) == (("as ever", "beside") if is_reached else ("safe", "none"))


RUNNER = """#!{python}
import os, subprocess, sys
sys.exit(subprocess.call(sys.argv[1:], env=dict(os.environ, PYTHONPATH={packages!r})))
"""


@pytest.mark.parametrize("before", [[], [sys.executable]])
def test_nor_one_whose_wrapper_is_a_python_itself(tmp_path: Path, before: list[str]) -> None:
    """As ``conda run`` is, and ``python -m nb_conda_kernels.runner``."""
    beside, ran = tmp_path / "beside", tmp_path / "ran"
    beside.mkdir()
    beside.chmod(0o777)
    for name in ("ipykernel_launcher", "storemagic", "json"):
        (beside / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    runner = tmp_path / "runner"
    runner.write_text(RUNNER.format(python=sys.executable, packages=str(tmp_path / "packages")))
    runner.chmod(0o755)

    command = [*before, str(runner), sys.executable, "-m", "ipykernel_launcher"]
    with kernel(beside, tmp_path, "", command) as client:
        assert printed(client, "print('done')") == "done"

    assert not ran.exists()


# What looked into the folder first until 7.31 and 8.0: in which file it is, and what stands there since.
OF_BEFORE = {
    "application.py": (
        """def _config_file_paths_default(self):
        return []""",
        """def _config_file_paths_default(self):
        return [os.getcwd()]""",
    ),
    "profiledir.py": ("paths = [ipython_dir]", "paths = [os.getcwd(), ipython_dir]"),
}


@pytest.mark.parametrize(("mode", "runs"), [(0o777, ""), (0o755, "config startup ")])
def test_an_old_ipython_runs_no_configuration_of_a_folder_that_others_can_change(
    tmp_path: Path, mode: int, runs: str
) -> None:
    beside, packages = tmp_path / "beside", tmp_path / "packages"
    (beside / "profile_default/startup").mkdir(parents=True)
    shutil.copytree(Path(IPython.__file__).parent, packages / "IPython")
    for name, (now, before) in OF_BEFORE.items():
        file = packages / "IPython/core" / name
        assert now in file.read_text()
        file.write_text(file.read_text().replace(now, before))
    (beside / "ipython_config.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('config ')\n")
    (beside / "profile_default/startup/0.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('startup ')\n")
    beside.chmod(mode)

    with kernel(beside, tmp_path, str(packages)) as client:
        assert printed(client, "import IPython; print(IPython.__file__)").startswith(str(packages))

    assert ((tmp_path / "ran").read_text() if (tmp_path / "ran").exists() else "") == runs


def test_a_launcher_of_any_name_finds_no_module_beside_the_notebook(tmp_path: Path) -> None:
    packages, beside = tmp_path / "packages", tmp_path / "beside"
    for place in (packages, beside):
        place.mkdir()
        (place / "some_kernel.py").write_text(f"print({place.name!r})")
    beside.chmod(0o777)
    sage = tmp_path / "sage"
    sage.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} "$@"\n')
    sage.chmod(0o755)

    made = started_by_a_session([str(sage), "--python", "-m", "some_kernel"], "sage", beside, tmp_path)
    env = made["env"] | {"PYTHONPATH": f"{made['env']['PYTHONPATH']}:{packages}"}
    done = subprocess.run(made["cmd"], env=env, cwd=beside, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "packages"


def test_the_folder_is_first_and_what_was_there_follows(tmp_path: Path) -> None:
    env = prepared(KERNEL, {"PYTHONPATH": "/a:/b"}, tmp_path, debugger=False)
    assert env == {"PYTHONPATH": f"{PORTALS}:/a:/b", FOLDERS: f"{tmp_path}:{PORTALS}"}
    image = prepared(["apptainer", "exec", "i.sif", "python3"], {}, tmp_path, debugger=False)
    assert image["PYTHONPATH"] == f"{PORTALS}:{tmp_path}/startup", "which may have no home"
    assert (tmp_path / "startup" / "sitecustomize.py").read_bytes() == FIRST.read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        ["/opt/start-kernel"],
        ["sh", "-c", "exec sage {}"],
        [sys.executable, "-m", "nb_conda_kernels.runner", "/opt/r", "R"],
        ["conda", "run", "-n", "python-tools", "iruby"],
        ["apptainer", "exec", "/images/python-and-more.sif", "iruby"],
    ],
)
def test_what_may_be_no_python_in_the_end_is_told_of_no_folder_that_goes_with_the_session(
    tmp_path: Path, command: list[str]
) -> None:
    """It takes nothing out, and a job that it submits would look there."""
    (tmp_path / "run").mkdir()
    env = prepared(command, {"HOME": str(tmp_path)}, tmp_path / "run", debugger=False)
    (in_home,) = (tmp_path / ".cache/dsportal").iterdir()
    assert env["PYTHONPATH"] == f"{PORTALS}:{in_home}"


def test_the_folder_in_the_home_is_whole_and_its_persons_own(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    _, in_home = map(Path, lasting(env))
    assert {file.name: file.read_bytes() for file in in_home.iterdir()} == {
        file.name: file.read_bytes() for file in PORTALS.glob("*.*")
    }
    (in_home / FIRST.name).write_text("")  # as a full disk leaves one
    assert lasting(env) == [str(PORTALS), str(in_home)]
    assert (in_home / FIRST.name).read_bytes() == FIRST.read_bytes()
    in_home.chmod(0o777)
    assert lasting(env) == [str(PORTALS)]


def test_a_home_that_takes_nothing_more_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("no folder")
    assert lasting({"HOME": str(tmp_path)}) == [str(PORTALS)]
    assert lasting({}) == [str(PORTALS)]


@pytest.mark.parametrize("is_seen", [True, False], ids=["the portal's folder", "in an image without it"])
def test_a_job_that_a_cell_submits_looks_for_nothing_in_the_sessions_folder(tmp_path: Path, is_seen: bool) -> None:
    """It may run on another node, or when the session is gone: then somebody else can have made one of that name."""
    beside, ran = tmp_path / "beside", tmp_path / "ran"
    beside.mkdir()
    beside.chmod(0o777)
    with kernel(beside, tmp_path, "", is_seen=is_seen) as client:
        handed_on = json.loads(printed(client, "import json, os; print(json.dumps(dict(os.environ)))"))
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run/startup").mkdir(parents=True)
    (tmp_path / "run/startup/sitecustomize.py").write_text(f"open({str(ran)!r}, 'w')")

    first = subprocess.run([sys.executable, "-c", FIRST_ONE], env=handed_on, capture_output=True, text=True, check=True)

    assert not ran.exists()
    assert str(tmp_path / "run") not in handed_on["PYTHONPATH"]
    assert handed_on[FOLDERS].startswith(":")
    (in_home,) = (tmp_path / ".cache/dsportal").iterdir()
    assert Path(first.stdout.strip()) == (PORTALS if is_seen else in_home) / FIRST.name
    portals = PORTALS if is_seen else "/none"
    assert handed_on["PYTHONPATH"] == f"{portals}:{in_home}", "an image that a cell starts has the home"


def test_a_python_that_is_no_ipykernel_hands_on_no_folder_of_the_session_either(tmp_path: Path) -> None:
    """As a kernel of another kind in an image that sees the home, or a program that starts one."""
    (tmp_path / "run").mkdir()
    told = prepared(["apptainer", "exec", "i", "python3"], {"HOME": str(tmp_path)}, tmp_path / "run", debugger=False)
    assert f"{tmp_path}/run/startup" in told["PYTHONPATH"]
    for python in (PORTALS, "/none"):
        env = told | {name: told[name].replace(str(PORTALS), str(python)) for name in ("PYTHONPATH", FOLDERS)}
        assert run("import os; print(os.environ['PYTHONPATH'])", env) == ":".join([str(python), *lasting(env)[1:]])


@pytest.mark.parametrize(("before", "after"), [({}, "None"), ({"PYTHONPATH": "/a:/b"}, "/a:/b")])
def test_a_kernel_does_not_hand_it_on_to_what_it_starts(tmp_path: Path, before: dict[str, str], after: str) -> None:
    env = prepared(KERNEL, before, tmp_path, debugger=True)
    assert run(AS_KERNEL, env) == f"{after} False None"


def test_a_program_that_starts_the_kernel_hands_it_on(tmp_path: Path) -> None:
    """`conda run` is a Python program, too."""
    env = prepared(KERNEL, {}, tmp_path, debugger=False)
    assert run(SHOW, env) == f"{PORTALS} False None"


def test_the_environments_own_sitecustomize_follows(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.own = 'yes'")
    assert run(SHOW, prepared(KERNEL, {"PYTHONPATH": str(own)}, tmp_path, debugger=False)).endswith(" yes")


def test_an_own_sitecustomize_that_fails_says_so_and_the_kernel_starts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import missing_in_this_test")
    env = prepared(KERNEL, {"PYTHONPATH": str(own)}, tmp_path, debugger=False)
    done = subprocess.run([sys.executable, "-c", AS_KERNEL], env=env, capture_output=True, text=True, check=True)
    assert "missing_in_this_test" in done.stderr


@pytest.mark.parametrize("wanted", [True, False])
def test_the_debugger_is_there_only_where_the_site_wants_it(tmp_path: Path, wanted: bool) -> None:
    env = prepared(KERNEL, {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}, tmp_path, debugger=wanted)
    assert run(AVAILABLE, env) == str(wanted)
    if not wanted:
        assert run(START, env) == "False"


DEADLINE_S = 60
NOT_INSTALLED = {"colorama", "ctags", "numpydoc"}  # what jedi would like to have, and looks for at the first Tab


def completed(client: BlockingKernelClient, code: str) -> list[str]:
    """What a kernel offers at the first Tab behind some code."""
    reply = client.complete(code, len(code), reply=True, timeout=DEADLINE_S)
    return list(reply["content"]["matches"])


REQUESTS: dict[str, Callable[[BlockingKernelClient], object]] = {
    "a completion": lambda client: completed(client, "impo"),
    "one of a module's names": lambda client: completed(client, "from os import p"),
    "one of what lies there": lambda client: completed(client, "from named_by_a_cell import "),
    "help": lambda client: client.inspect("print", 3, reply=True, timeout=DEADLINE_S),
    "the history": lambda client: client.history(hist_access_type="tail", n=9, reply=True, timeout=DEADLINE_S),
    "the widgets": lambda client: client.comm_info(reply=True, timeout=DEADLINE_S),
}


@contextmanager
def kernel(
    beside: Path, tmp_path: Path, path: str, wrapper: Sequence[str] = (), *, is_seen: bool = True
) -> Iterator[BlockingKernelClient]:
    """A kernel of this Python, started as a session starts it, in the folder ``beside``; or by a program.

    An image may not have the portal's own folder (``is_seen``).
    """
    (tmp_path / "run").mkdir(mode=0o700)
    file = tmp_path / "run/kernel.json"
    write_connection_file(str(file), transport="ipc", ip=str(tmp_path / "run/k"))
    settings = {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython"), "PYTHONPATH": path}
    command = by_file([*(wrapper or (sys.executable, "-m", "ipykernel_launcher")), "-f", str(file)], tmp_path / "run")
    env = safe(command, prepared(command, dict(os.environ) | settings, tmp_path / "run", debugger=False))
    env |= IN_THEIRS if _left_in(str(beside)) else {}
    if not is_seen:
        env |= {name: env[name].replace(str(PORTALS), "/none") for name in ("PYTHONPATH", FOLDERS)}
    silent: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=env, cwd=beside, start_new_session=True, **silent)
    client = BlockingKernelClient(connection_file=str(file))
    client.load_connection_file()
    client.start_channels(hb=False)  # a busy machine is late with beats
    try:
        client.wait_for_ready(timeout=DEADLINE_S)
        yield client
    finally:
        client.stop_channels()
        os.killpg(process.pid, signal.SIGKILL)  # the kernel that a wrapper has started, too
        process.wait()


@pytest.mark.parametrize(("mode", "language"), [(0o700, "scala"), (0o777, "scala"), (0o700, "R"), (0o777, "R")])
def test_a_program_that_a_kernel_of_another_language_starts_is_as_ever(
    tmp_path: Path, mode: int, language: str
) -> None:
    """It finds its neighbours, and its temporary files where they always are: it may be a job."""
    packages, beside = tmp_path / "packages", tmp_path / "beside"
    packages.mkdir()
    beside.mkdir()
    beside.chmod(mode)
    (packages / "runner.py").write_text("import os, sys\nos.execvp('sh', ['sh', '-c', sys.argv[1]])\n")
    (beside / "neighbour.py").touch()
    (beside / "train.py").write_text("import neighbour, tempfile; print(tempfile.gettempdir())")
    starts = {"R": [sys.executable, "-m", "runner"], "scala": ["sh", "-c"]}
    command = [*starts[language], f"{sys.executable} train.py", str(tmp_path / "run/kernel.json")]

    ready = started_by_a_session(command, language, beside, tmp_path)
    env = ready["env"] | {"PYTHONPATH": ":".join([ready["env"].get("PYTHONPATH", ""), str(packages)])}
    done = subprocess.run(ready["cmd"], env=env, cwd=beside, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("/tmp\n", "")


@pytest.mark.parametrize("language", ["R", "julia", "ruby", "scala"])
def test_a_kernel_that_is_a_python_is_guarded_whatever_its_language_is_called(tmp_path: Path, language: str) -> None:
    """One that runs R's cells by rpy2, say, or a program that starts R (``python -m nb_conda_kernels.runner``)."""
    packages, beside = tmp_path / "packages", tmp_path / "beside"
    packages.mkdir()
    beside.mkdir()
    beside.chmod(0o777)
    (packages / "runner.py").write_text(f"import subprocess, sys\n{HAS_DEBUGGER}subprocess.run(sys.argv[1:2])")
    (packages / "helper.py").write_text(
        "print('of the environment')\ntry:\n    import optional\nexcept ImportError:\n    pass"
    )
    for name in ("helper", "optional"):
        (beside / f"{name}.py").write_text("print('of a colleague')")
    (tmp_path / "run.sh").write_text(f"#!/bin/sh\nexec {sys.executable} -m helper\n")
    (tmp_path / "run.sh").chmod(0o700)
    command = [sys.executable, "-m", "runner", str(tmp_path / "run.sh"), str(tmp_path / "run/kernel.json")]

    ready = started_by_a_session(command, language, beside, tmp_path)
    env = ready["env"] | {"PYTHONPATH": ":".join([ready["env"].get("PYTHONPATH", ""), str(packages)])}
    done = subprocess.run(ready["cmd"], env=env, cwd=beside, capture_output=True, text=True)

    assert done.stdout == "False\nof the environment\n", done.stderr


def printed(client: BlockingKernelClient, code: str) -> str:
    """What a cell prints."""
    texts: list[str] = []

    def take(message: dict[str, Any]) -> None:
        texts.append(message["content"].get("text", ""))

    client.execute_interactive(code, timeout=DEADLINE_S, output_hook=take)
    return "".join(texts).strip()


SPAWN = """
from multiprocessing import get_context
process = get_context("{}").Process(target=print)
process.start()
process.join()
print("done" if process.exitcode == 0 else process.exitcode)
"""
HELPERS = {
    "that track what is shared": """
from multiprocessing import resource_tracker
resource_tracker.ensure_running()
resource_tracker._resource_tracker._stop()
print("done")
""",
    "that are spawned": SPAWN.format("spawn"),
    "of a server that forks": SPAWN.format("forkserver"),
    "of joblib": "import joblib; print(*joblib.Parallel(2)(joblib.delayed(str)(word) for word in ('done', '')))",
    "of %pip": "%pip --version",
    "of a shell": f"!{sys.executable} -m pip --version",
    "that are kernels": """
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel()
client.execute_interactive("import runpy; print('done')")
manager.shutdown_kernel(now=True)
""",
}


@pytest.mark.parametrize("what", HELPERS)
@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_pythons_that_libraries_start_in_a_kernel_take_nothing_of_others_before_the_environment(
    tmp_path: Path, what: str, mode: int
) -> None:
    beside, ran = tmp_path / "beside", tmp_path / "ran"
    beside.mkdir()
    for name in ("multiprocessing", "pip", "joblib", "runpy", "ipykernel_launcher"):
        (beside / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    beside.chmod(mode)
    with kernel(beside, tmp_path, "") as client:
        said = printed(client, HELPERS[what])
    assert mode == 0o755 or "done" in said or "pip" in said, said
    assert ran.exists() is (mode == 0o755), "in a folder of one's own all is as with any Python"


def test_what_a_kernel_starts_finds_what_lies_beside_the_notebook_as_well(tmp_path: Path) -> None:
    """And a program, which is somebody's own word, finds that first, as ever."""
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "mine.py").write_text("def more(number): return number + 1")
    (beside / "colorsys.py").write_text("print('beside')")
    (beside / "program.py").write_text("import mine, colorsys; print(mine.more(1))")
    beside.chmod(0o777)
    spawn = """
import mine, multiprocessing
with multiprocessing.get_context("spawn").Pool(1) as pool:
    print(pool.map(mine.more, [1]))
"""
    with kernel(beside, tmp_path, "") as client:
        assert printed(client, spawn) == "[2]"
        assert printed(client, f"!{sys.executable} program.py").split() == ["beside", "2"]
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        copy = kept.keep(tmp_path / "notes", beside / "program.py")
        job = f"env PATH={path} sh {JOB} python - - {copy.folder} {beside}/program.py"
        assert printed(client, f"!{job}").split() == ["beside", "2"]
        assert printed(client, f"!{sys.executable} -c 'import mine, colorsys; print(mine.more(1))'") == "2"
        assert printed(client, f"!{sys.executable} -m program") == "2"
        assert printed(client, f"!cd / && {sys.executable} -c 'import sys; print(sys.path[0])'") == ""


WANTED = {"jedi", "named_by_a_cell", *NOT_INSTALLED}
PACKAGES = {module.name for module in pkgutil.iter_modules()} | WANTED


@pytest.mark.parametrize(("path", "names"), [("", PACKAGES | set(sys.stdlib_module_names)), (":", WANTED)])
def test_where_others_may_have_left_files_tab_and_help_run_none_of_them(
    tmp_path: Path, path: str, names: set[str]
) -> None:
    """And a lesson there imports what lies beside it, behind what its Python has."""
    beside, ran = tmp_path / "beside", tmp_path / "ran"
    beside.mkdir()
    for name in names:
        (beside / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    (beside / "lesson_words.py").write_text("words = 'beside'")
    beside.chmod(0o777)

    with kernel(beside, tmp_path, path) as client:
        for asked, request in REQUESTS.items():
            request(client)
            assert not ran.exists(), asked
        assert "import" in completed(client, "impo")
        assert printed(client, "import lesson_words; print(lesson_words.words)") == "beside"
        assert printed(client, "import jedi; print('site-packages' in jedi.__file__)") == "True"
        assert not ran.exists()
        printed(client, "import named_by_a_cell")
        assert ran.read_text().split() == ["named_by_a_cell"], "what a cell imports it gets, as before"


def test_a_folder_that_others_can_put_another_in_place_of_is_none_of_ones_own(tmp_path: Path) -> None:
    """And a place where a cell goes later is looked at like the one where the notebook lies."""
    shared, ran = tmp_path / "shared", tmp_path / "ran"
    own, later = shared / "own", tmp_path / "later"
    for folder in (own, later):
        folder.mkdir(parents=True)
        for name in WANTED:
            (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    shared.chmod(0o777)
    later.chmod(0o777)

    with kernel(own, tmp_path, "") as client:
        for asked, request in REQUESTS.items():
            request(client)
            assert not ran.exists(), asked
        assert printed(client, "import sys; print(sys.path[-1] == '')") == "True"
        moved = shared / "moved"
        own.rename(moved)  # as another member of the project may
        for asked, request in REQUESTS.items():
            request(client)
            assert not ran.exists(), f"{asked}, after it was moved"
        printed(client, f"import os; os.chdir({str(later)!r})")
        for asked, request in REQUESTS.items():
            request(client)
            assert not ran.exists(), f"{asked}, in a folder where it went later"
        assert "import" in completed(client, "impo")


@pytest.mark.parametrize(("mode", "is_first"), [(0o1777, True), (0o777, False), (0o775, False), (0o755, True)])
def test_a_folder_is_ones_own_where_nobody_can_rename_it(tmp_path: Path, mode: int, is_first: bool) -> None:
    own = tmp_path / "shared" / "own"
    own.mkdir(parents=True)
    (own / "named_by_a_cell.py").touch()
    own.parent.chmod(mode)
    (tmp_path / "link").symlink_to(own)

    with kernel(tmp_path / "link", tmp_path, "") as client:
        assert printed(client, "import sys; print(sys.path.index('') == len(sys.path) - 1)") == str(not is_first)
        printed(client, "import named_by_a_cell")


@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_a_folder_is_none_of_ones_own_where_others_can_change_a_link_on_the_way(tmp_path: Path, mode: int) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    for folder in (own / "deep", shared):
        folder.mkdir(parents=True)
    (shared / "next").symlink_to(Path("../own"))
    shared.chmod(mode)
    (tmp_path / "link").symlink_to(shared / "next")
    code = "import importlib.util as u, sys; s = u.spec_from_file_location('first', sys.argv[1])\n"
    code += "m = u.module_from_spec(s); s.loader.exec_module(m); print([m.is_own(folder) for folder in sys.argv[2:]])"

    places = [tmp_path / "link", tmp_path / "link/deep", own / "deep"]
    done = subprocess.run([sys.executable, "-c", code, OWN, *places], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == str([mode == 0o755, mode == 0o755, True])


@pytest.mark.parametrize("length", [2, 1500])
def test_a_folder_is_none_of_ones_own_behind_links_that_others_exchange_meanwhile(tmp_path: Path, length: int) -> None:
    """A circle, or a row without an end, that is there once Python has found the folder."""
    for number in range(length):
        (tmp_path / f"link{number}").symlink_to(f"link{(number + 1) % length}")
    code = "import importlib.util as u, os, sys; s = u.spec_from_file_location('first', sys.argv[1])\n"
    code += "m = u.module_from_spec(s); s.loader.exec_module(m)\n"
    code += "own = os.stat(sys.argv[3]); os.stat = lambda *a, **k: own; print(m.is_own(sys.argv[2]))"

    place = [tmp_path / "link0", tmp_path]
    done = subprocess.run([sys.executable, "-c", code, OWN, *place], capture_output=True, text=True)

    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_in_a_folder_of_the_persons_own_what_lies_beside_a_notebook_is_found_where_ipython_has_it(
    tmp_path: Path,
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir(mode=0o755)
    (beside / "jedi.py").write_text("words = 'beside'")

    with kernel(beside, tmp_path, "") as client:
        assert printed(client, "import jedi; print(jedi.words)") == "beside"


@pytest.mark.parametrize(("folder", "has_own"), [("own", False), ("shared", False), ("shared", True)])
def test_ruby_reads_no_file_of_a_folder_that_others_can_change(tmp_path: Path, folder: str, has_own: bool) -> None:
    (tmp_path / "own").mkdir(0o700)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    if has_own:
        (tmp_path / ".irbrc").touch()

    command, env = other_starts.PREPARED["ruby"](["iruby", "kernel"], {"HOME": str(tmp_path)}, str(tmp_path / folder))

    assert command == ["iruby", "kernel"]
    named = {} if folder == "own" else {"IRBRC": f"{tmp_path}/.irbrc" if has_own else os.devnull}
    assert env == {"HOME": str(tmp_path)} | named


@pytest.mark.parametrize("named", ["local-provisioner", "dsportal-module"])
@pytest.mark.parametrize("is_wanted", [True, False])
def test_no_kernelspec_chooses_whether_there_is_a_debugger(tmp_path: Path, named: str, is_wanted: bool) -> None:
    (tmp_path / "theirs").mkdir()
    by_itself = {"kernel_provisioner": {"provisioner_name": named, "config": {"debugger": not is_wanted}}}
    spec = {"argv": ["x"], "display_name": "x", "language": "python", "metadata": by_itself}
    (tmp_path / "theirs" / "kernel.json").write_text(json.dumps(spec))
    manager = PortalKernelSpecManager(kernel_dirs=[str(tmp_path)])
    config = Config({"ModuleProvisioner": {"debugger": is_wanted}})
    factory = KernelProvisionerFactory(default_provisioner_name="dsportal-module")

    found = manager.get_kernel_spec("theirs")
    provisioner: Any = factory.create_provisioner_instance("1", found, KernelManager(config=config))

    assert isinstance(provisioner, ModuleProvisioner)
    assert provisioner.debugger == is_wanted


@pytest.mark.parametrize(("mode", "is_kept"), [(0o777, True), (0o700, False)])
def test_rubys_irb_is_kept_from_a_folder_that_others_can_change(tmp_path: Path, mode: int, is_kept: bool) -> None:
    """IRB 1.13 loads .irbrc of the present folder, too, whatever IRBRC says (``generate_current_dir_irbrc_files``)."""
    beside, runtime = tmp_path / "beside", tmp_path / "runtime"
    for folder in (beside, runtime):
        folder.mkdir()
    beside.chmod(mode)
    provisioner: Any = ModuleProvisioner()
    provisioner.kernel_spec = KernelSpec(language="Ruby")
    provisioner.parent = KernelManager(connection_file=str(runtime / "kernel.json"))
    given = {"HOME": str(tmp_path), "PATH": "/bin", "RUBYOPT": "-W0", "RUBYLIB": "/opt/ruby"}

    env = asyncio.run(provisioner._private(["iruby", "kernel"], given, str(beside)))["env"]

    first = runtime / "startup" / "irb_of_home.rb"
    assert first.is_file() == is_kept
    folders = ":".join(lasting(given))
    assert (env["RUBYOPT"], env["RUBYLIB"]) == (
        (f"-r{first.stem} -W0", f"{folders}:/opt/ruby") if is_kept else ("-W0", "/opt/ruby")
    )


@pytest.mark.parametrize(("mode", "runs"), [(0o777, ["home"]), (0o700, ["home", "beside"])])
def test_a_debugger_runs_no_file_of_a_folder_that_others_can_change(tmp_path: Path, mode: int, runs: list[str]) -> None:
    beside, ran = tmp_path / "beside", tmp_path / "ran"
    beside.mkdir()
    for folder, name in ((tmp_path, "home"), (beside, "beside")):
        (folder / ".pdbrc").write_text(f"import pathlib; pathlib.Path({str(ran)!r}).open('a').write('{name} ')\n")
    (tmp_path / ".pdbrc").chmod(0o600)
    beside.chmod(mode)

    with kernel(beside, tmp_path, "") as client:
        printed(client, "import io, sys\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    found = sys.exc_info()[2]")
        code = "from IPython.core.debugger import Pdb\nasked = Pdb(stdin=io.StringIO('q\\n'), stdout=io.StringIO())\n"
        printed(client, f"{code}asked.use_rawinput = 0\nasked.reset()\nasked.interaction(None, found)")

    assert ran.read_text().split() == runs


@pytest.mark.parametrize(("mode", "there"), [(0o777, "home"), (0o700, "home/beside")])
def test_where_tmp_is_full_no_temporary_file_lies_in_a_folder_that_others_can_change(
    tmp_path: Path, mode: int, there: str
) -> None:
    beside = tmp_path / "home" / "beside"
    beside.mkdir(parents=True)
    beside.chmod(mode)

    with kernel(beside, tmp_path / "home", "") as client:
        found = printed(client, f"{FULL}print(tempfile.gettempdir())")

    assert found == str(tmp_path / there)


@pytest.mark.parametrize("named", ["{all}", "{all}/", "/{all}", "{link}", "{all}/missing", "/tmp", ""])
def test_where_all_people_meet_a_kernel_keeps_nothing_for_a_while(named: str, tmp_path: Path) -> None:
    """TensorFlow imports what it writes there, by way of ``__pycache__``; PyTorch compiles headers there."""
    everybodys, link, runtime = tmp_path / "all", tmp_path / "link", tmp_path / "all" / "dsp-1"
    runtime.mkdir(parents=True)
    everybodys.chmod(0o1777)
    link.symlink_to(everybodys)
    env = prepared(KERNEL, {"TMPDIR": named.format(all=everybodys, link=link)}, runtime, debugger=False)

    code = "import tempfile; print(tempfile.gettempdir())"
    assert run(code, env, f"{runtime}/kernel.json") == f"{runtime}/tmp"
    assert (runtime / "tmp").stat().st_mode & 0o777 == 0o700


def test_a_folder_of_ones_own_for_temporary_files_is_the_one_that_a_kernel_uses(tmp_path: Path) -> None:
    runtime, own = tmp_path / "dsp-1", tmp_path / "own"
    runtime.mkdir()
    own.mkdir()
    env = prepared(KERNEL, {"TMPDIR": str(own)}, runtime, debugger=False)
    assert run("import tempfile; print(tempfile.gettempdir())", env) == str(own)
