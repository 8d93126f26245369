"""Kernelspecs made of the site's settings, and the start line that stands in them."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from portal.catalogue.specs import main_list, main_sync, sync
from portal.errors import KernelError, SiteError
from portal.kernels.modules import ModuleSystem
from portal.kernels.run_kernel import Launch, main, program
from portal.site import Site, parse
from tests.unit.module_command import Modules


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(tmp_path)


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """The environment of a person with a home."""
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "USER": "person", "PATH": "/usr/bin:/bin"}


def test_a_start_line_reads_back_as_what_it_was() -> None:
    launch = Launch("tf", ("shared", "shared/tf/1.0"), ModuleSystem("/m", ("/a", "/b")), ("python3", "--", "-f"))
    assert Launch.from_argv(launch.argv("/opt/python")) == launch
    bare = Launch("tf", ("shared",), ModuleSystem(), ("R",))
    assert Launch.from_argv(bare.argv()) == bare


@pytest.mark.parametrize(
    "argv", [[], ["python3", "-m", "ipykernel_launcher", "-f", "x"], ["p", "-I", "-S", "run_kernel.py"]]
)
def test_other_start_lines_are_left_alone(argv: list[str]) -> None:
    assert Launch.from_argv(argv) is None


def test_jupyter_does_not_replace_the_start_line_by_its_own_python() -> None:
    """jupyter_client puts its own interpreter in the place of "python", "python3" and "python3.11"."""
    first = Launch("tf", ("m",), ModuleSystem(), ("python3",)).argv()[0]
    assert Path(first).is_absolute()


def test_a_kernel_that_cannot_start_says_so_in_one_line(
    modules: Modules, person: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", person)
    modules.says("_mlstatus = False", "Unable to locate it")
    assert main(Launch("tf", ("x",), modules.system, ("python3",)).argv()[4:]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "portal: the kernel tf cannot start: module load x failed: Unable to locate it"
    ]


@pytest.mark.parametrize("options", [[], ["--"], ["--name"], ["--name", "x"], ["x", "--name", "y"]])
def test_a_broken_start_line_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options) == 2
    assert "run_kernel.py needs" in capsys.readouterr().err


def test_a_program_is_found_in_the_modules_path_only(modules: Modules) -> None:
    path = modules.program("python3", "")
    assert program("python3", {"PATH": f"/nowhere:{modules.bin}"}) == str(path)
    (modules.bin / "folder").mkdir()
    with pytest.raises(KernelError, match="'folder' is not found after loading the modules a, b"):
        program("folder", {"PATH": str(modules.bin), "LOADEDMODULES": "a:b"})


Tables = dict[str, Any]


@pytest.fixture
def tables(modules: Modules, tmp_path: Path) -> Tables:
    """The settings of a site with one kernel from a module."""
    modules.program("python3", "echo 7.4.0")
    return {
        "kernels": {
            "folder": str(tmp_path / "jupyter"),
            "module_path": (str(modules.tree),),
            "module_command": str(modules.command),
        },
        "kernel": ({"name": "tf", "title": "TensorFlow", "modules": ("shared/tf",)},),
    }


def with_kernels(tables: Tables, *kernels: Tables) -> Site:
    return parse(tables | {"kernel": kernels})


def states(site: Site) -> list[str]:
    return [f"{result.name} {result.state}" for result in sync(site)]


def spec_of(site: Site, name: str) -> Tables:
    spec: Tables = json.loads(Path(site.kernels.folder, "kernels", name, "kernel.json").read_text())
    return spec


def test_a_kernel_is_written_once_and_readable_for_all(tables: Tables) -> None:
    site = parse(tables)
    assert states(site) == ["tf written"]
    assert states(site) == ["tf unchanged"]
    folder = Path(site.kernels.folder, "kernels", "tf")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {
        "kernel.json": 0o644,
        "logo-svg.svg": 0o644,
    }


def test_a_kernelspec_starts_through_the_wrapper_and_hides_from_no_client(tables: Tables, modules: Modules) -> None:
    """A provisioner in the metadata would hide it from clients that have no such provisioner."""
    site = parse(tables)
    sync(site)
    spec = spec_of(site, "tf")
    launch = Launch.from_argv(spec["argv"])
    assert launch == Launch(
        "tf",
        ("shared/tf",),
        modules.system,
        ("python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"),
    )
    assert (spec["display_name"], spec["language"]) == ("TensorFlow", "python")
    assert spec["metadata"] == {"debugger": True, "dsportal": {"modules": ["shared/tf"]}}


def test_an_r_kernel_starts_r(tables: Tables, modules: Modules) -> None:
    modules.program("R", "echo 1.3.2")
    site = with_kernels(tables, {"name": "r", "title": "R", "language": "R", "modules": ("shared/tf",)})
    assert states(site) == ["r written"]
    argv = spec_of(site, "r")["argv"]
    assert argv[argv.index("--") + 1 :] == ["R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"]


def test_a_kernel_without_modules_is_started_by_its_whole_path(tables: Tables, modules: Modules) -> None:
    python = modules.program("python3", "echo 4.10.1")
    site = with_kernels(tables, {"name": "py2", "title": "Python 2", "python": str(python)})
    sync(site)
    spec = spec_of(site, "py2")
    assert spec["argv"][0] == str(python)
    assert spec["metadata"]["debugger"] is False, "ipykernel 4 has no debugger"


def test_a_kernel_with_its_own_start_line_keeps_it(tables: Tables, modules: Modules) -> None:
    modules.program("julia", "exit 1")
    argv = ("julia", "-i", "{connection_file}")
    told = {"name": "j", "title": "Julia", "language": "julia", "modules": ("shared/tf",)}
    site = with_kernels(tables, told | {"argv": argv})
    assert states(site) == ["j written"]
    spec = spec_of(site, "j")
    assert (spec["argv"][-3:], spec["language"]) == (list(argv), "julia")


def test_a_kernel_that_the_site_no_longer_has_is_removed(tables: Tables) -> None:
    sync(parse(tables))
    assert states(with_kernels(tables)) == ["tf removed"]
    assert list(Path(tables["kernels"]["folder"], "kernels").iterdir()) == []


def test_kernelspecs_of_others_are_left_alone(tables: Tables) -> None:
    foreign = Path(tables["kernels"]["folder"], "kernels", "theirs", "kernel.json")
    foreign.parent.mkdir(parents=True)
    foreign.write_text('{"argv": ["x"], "display_name": "Theirs", "language": "x", "metadata": {}}')
    site = with_kernels(tables, {"name": "theirs", "title": "Ours", "modules": ("shared/tf",)})
    (result,) = sync(site)
    assert (result.state, "was not made by the portal" in result.reason) == ("faulty", True)
    assert "Theirs" in foreign.read_text()
    assert states(with_kernels(tables)) == []


def test_a_faulty_kernel_keeps_its_last_good_kernelspec(tables: Tables, modules: Modules) -> None:
    site = parse(tables)
    sync(site)
    modules.says("_mlstatus = False", "ERROR: no such module")
    (result,) = sync(site)
    assert str(result) == "tf: faulty (module load shared/tf failed: no such module)"
    assert spec_of(site, "tf")["display_name"] == "TensorFlow"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo No module named ipykernel >&2; exit 1", "has no ipykernel; install it there"),
        (None, "'python3' is not found after loading"),
    ],
)
def test_an_interpreter_without_a_kernel_is_reported(
    tables: Tables, modules: Modules, script: str | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    modules.loads({"PATH": str(modules.bin), "LOADEDMODULES": "shared/tf"})
    if script is None:
        (modules.bin / "python3").unlink()
    else:
        modules.program("python3", script)
    assert main_sync(parse(tables)) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("tf: faulty (")
    assert reason in line


def test_the_list_tells_which_kernels_are_there(tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    site = parse(tables)
    assert main_list(site) == 1
    assert main_sync(site) == 0
    assert main_list(site) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tf: TensorFlow [shared/tf] not written; run: portal kernels sync",
        "tf: written",
        "tf: TensorFlow [shared/tf] ready, not tested since it was written",
    ]


def test_a_folder_that_cannot_be_written_is_one_line(tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    Path(tables["kernels"]["folder"]).write_text("a file")
    assert main_sync(parse(tables)) == 1
    assert "cannot be written" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["", "/opt/a:/opt/b"])
def test_modules_are_loaded_as_in_a_session_and_not_as_in_the_shell_that_asks(
    tables: Tables, modules: Modules, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A shell has a MODULEPATH and a command by its start-up files; a session reads none."""
    modules.says('$(test -n "$MODULEPATH" || echo "_mlstatus = False")', "No module path defined")
    monkeypatch.setenv("LMOD_CMD", "/nowhere")
    monkeypatch.setenv("MODULEPATH", path)
    tables["kernels"]["module_path"] = ()

    (result,) = sync(parse(tables))

    assert result.state == "faulty"
    assert "No module path defined kernels.module_path is empty, and a session has no MODULEPATH" in result.reason
    assert ('In the shell that asked it is ["/opt/a", "/opt/b"].' in result.reason) == bool(path)


def test_a_sites_variables_are_there_for_the_modules_and_in_the_kernelspec(tables: Tables, modules: Modules) -> None:
    modules.loads({"PATH": f"{modules.bin}:$PATH", "SEEN": "$LMOD_RC"})
    modules.program("python3", """test "$SEEN" = '/etc/$x' && echo 7.4.0""")
    tables["kernels"]["environment"] = {"LMOD_RC": "/etc/$x"}
    site = parse(tables)

    assert states(site) == ["tf written"]
    assert spec_of(site, "tf")["env"] == {"LMOD_RC": "/etc/$$x"}


@pytest.mark.parametrize(
    "given", [{"A B": "c"}, {"": "c"}, {"A": "c\nd"}, {"JUPYTERHUB_API_TOKEN": "c"}, {"DSPORTAL_SESSION": "c"}]
)
def test_a_variable_that_no_kernel_may_have_is_refused(tables: Tables, given: dict[str, str]) -> None:
    tables["kernels"]["environment"] = given

    with pytest.raises(SiteError, match=r"kernels\.environment"):
        parse(tables)


def test_the_programs_of_an_environment_come_before_those_of_its_modules(modules: Modules, tmp_path: Path) -> None:
    """``!pip install`` in a cell is that of the environment."""
    python = tmp_path / "vision" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    start = Launch("vision", ("shared/tf",), modules.system, (str(python), "-m", "ipykernel_launcher"))
    assert start.ready({"PATH": "/bin"})[1]["PATH"] == f"{modules.bin}:/bin"
    (tmp_path / "vision" / "pyvenv.cfg").touch()
    assert start.ready({"PATH": "/bin"})[1]["PATH"] == f"{python.parent}:{modules.bin}:/bin"
