"""Kernels from modules: what is read of a module system, what is kept of it, and the kernelspecs made of it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal import module_cache
from portal.errors import KernelError
from portal.kernels import main_list, main_sync, sync
from portal.module_output import in_one_line, parse
from portal.modules import ModuleSystem, applied, clean, difference, environment
from portal.run_kernel import Launch, main, program
from portal.site import Site
from portal.site import parse as parse_site

# Environment Modules 5.2.0, `modulecmd python load shared/base`.
TCL = r"""import os
os.environ['LD_LIBRARY_PATH'] = '/opt/tf/lib'
os.environ['GONE'] = ''
del os.environ['GONE']
os.environ['QUOTES'] = 'it\'s a "test" \ ü'
os.environ['LINES'] = 'one
two'
_mlstatus = True
"""
# Lmod 8.6.19, `lmod python load shared/base`.
LMOD = r"""import os
os.environ["LD_LIBRARY_PATH"] = "/opt/tf/lib";
os.environ["GONE"] = ''
del os.environ["GONE"]
os.environ["QUOTES"] = "it's a \"test\" \\ ü";
os.environ["LINES"] = "one\
two";
_mlstatus = True
"""


@pytest.mark.parametrize("text", [TCL, LMOD], ids=["tcl", "lmod"])
def test_both_module_systems_are_read(text: str) -> None:
    assert parse(text, "module load x") == (
        {
            "LD_LIBRARY_PATH": "/opt/tf/lib",
            "GONE": None,
            "QUOTES": 'it\'s a "test" \\ ü',
            "LINES": "one\ntwo",
        },
        True,
    )


def test_a_failed_load_is_seen_though_the_command_ended_well() -> None:
    assert parse("_mlstatus = False\n", "module load nosuch") == ({}, False)


def test_what_a_modulefile_prints_is_never_executed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    text = f"import os\nos.system('touch {trace}')\nopen({str(trace)!r}, 'w')\nos.environ['A'] = 'b'\n"
    assert parse(text, "module load x") == ({"A": "b"}, True)
    assert not trace.exists()


@pytest.mark.parametrize(
    "text",
    [
        "Welcome to the cluster!\n",
        "os.environ['A'] = open('/etc/passwd').read()\n",
        "os.environ['A'] = 1\n",
        "os.environ[name] = 'b'\n",
        "os.environ['A=B'] = 'c'\n",
        "os.environ[''] = 'c'\n",
        "os.environ['A'] = 'b\\0c'\n",
        "os.environ['A'] = 'b\0c'\n",
        "os.environ['A'] = '\udcff'\n",
        "(" * 100_000,
        "-" * 100_000 + "1",
    ],
)
def test_an_answer_that_is_no_list_of_variables_is_refused(text: str) -> None:
    with pytest.raises(KernelError, match="module load x printed something that is no list of variables"):
        parse(text, "module load x")


def test_other_statements_are_passed_over() -> None:
    text = "os.chdir('/tmp')\nother.environ['A'] = '1'\ndel other['B']\nos.environ['C'] = '2'\n"
    assert parse(text, "module load x") == ({"C": "2"}, True)


def test_the_words_of_a_fault_are_one_line_without_colours() -> None:
    assert in_one_line("\x1b[1;31mERROR:\x1b[0m Unable to\n\n  find it\n") == "Unable to find it"
    assert in_one_line("") == "it gave no reason."
    assert len(in_one_line("x" * 5000)) == 300


def test_changes_are_kept_as_what_they_put_around_a_value() -> None:
    before = {"PATH": "/usr/bin:/bin", "GONE": "1", "SAME": "s", "EDITOR": "vi"}
    after = {"PATH": "/opt/bin:/usr/bin:/bin:/opt/last", "SAME": "s", "NEW": "n", "EDITOR": "vim"}
    delta = difference(before, after)
    assert delta == {"PATH": ("/opt/bin:", ":/opt/last"), "NEW": "n", "GONE": None, "EDITOR": "vim"}
    assert applied(delta, before) == after
    assert applied(delta, {"PATH": "/bin"})["PATH"] == "/opt/bin:/bin:/opt/last"


@pytest.mark.parametrize(("old", "new"), [("/a", "/ab:/a"), ("/a", "/ab"), ("", "/a"), ("/a:/b", "/b:/a"), ("/a", "")])
def test_changes_lead_from_any_value_to_any_other(old: str, new: str) -> None:
    assert applied(difference({"P": old}, {"P": new}), {"P": old}) == {"P": new}


def test_a_kernel_sees_no_secret_of_the_portal(tmp_path: Path) -> None:
    secrets = ("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "DSPORTAL_SESSION", "CONFIGPROXY_AUTH_TOKEN")
    environ = dict.fromkeys([*secrets, "JPY_PARENT_PID", "JPY_SESSION_NAME", "SLURM_JOB_ID"], "1")
    assert clean(environ).keys() == {"JPY_PARENT_PID", "JPY_SESSION_NAME", "SLURM_JOB_ID"}


def test_a_kernel_does_not_find_the_portals_own_python(tmp_path: Path) -> None:
    own = tmp_path / "venv" / "bin"
    own.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    environ = {"PATH": f"{own}:/usr/bin", "VIRTUAL_ENV": str(own.parent)}
    assert clean(environ, python=str(own / "python")) == {"PATH": "/usr/bin"}
    assert clean({"PATH": "/usr/bin"}, python="/usr/bin/python3") == {"PATH": "/usr/bin"}


class Modules:
    """A module command that knows what a test tells it, and counts how often it is asked."""

    def __init__(self, folder: Path) -> None:
        self.command, self.asked = folder / "modulecmd", folder / "asked"
        self.tree = folder / "modulefiles"
        (self.tree / "shared").mkdir(parents=True)
        self.file = self.tree / "shared" / "tf"
        self.file.write_text("#%Module\n")
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.loads({"PATH": f"{self.bin}:$PATH", "TF": "1"})

    def says(self, text: str, words: str = "") -> None:
        """Answer with ``text``, and ``words`` for the person."""
        answer = f'echo "$*" >> {self.asked}\necho "{words}" >&2\ncat <<END\n{text}\nEND\n'
        self.command.write_text(f"#!/bin/sh\n{answer}")
        self.command.chmod(0o755)

    def loads(self, variables: dict[str, str]) -> None:
        """Answer with these variables and the modulefile as the one that was loaded."""
        lines = [f"os.environ['{name}'] = '{value}'" for name, value in variables.items()]
        self.says("\n".join([*lines, f"os.environ['_LMFILES_'] = '{self.file}'", "_mlstatus = True"]))

    @property
    def system(self) -> ModuleSystem:
        return ModuleSystem(str(self.command), (str(self.tree),))

    @property
    def times_asked(self) -> int:
        return len(self.asked.read_text().splitlines()) if self.asked.exists() else 0

    def program(self, name: str, script: str) -> Path:
        """Put a program into the module's PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(tmp_path)


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """The environment of a person with a home."""
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "USER": "person", "PATH": "/usr/bin:/bin"}


Load = Callable[[], dict[str, str]]


@pytest.fixture
def load(modules: Modules, person: dict[str, str]) -> Load:
    """Loads the module as a kernel start does."""
    return lambda: environment(("shared/tf",), modules.system, person, module_cache.folder_of(person))


def test_a_second_start_asks_the_module_system_nothing(modules: Modules, load: Load) -> None:
    first = load()
    assert first["TF"] == "1"
    assert first["PATH"] == f"{modules.bin}:/usr/bin:/bin"
    assert load() == first
    assert modules.times_asked == 1


@pytest.mark.parametrize("change", ["modulefile", "version file", "folder", "command"])
def test_a_change_of_the_modules_is_seen_at_the_next_start(modules: Modules, load: Load, change: str) -> None:
    load()
    if change == "modulefile":
        modules.file.write_text("#%Module\nsetenv TF 2\n")
    elif change == "version file":
        (modules.tree / "shared" / ".version").write_text("#%Module\n")
    elif change == "folder":
        (modules.tree / "shared" / "tf2").touch()
    else:
        modules.loads({"TF": "2", "MORE": "x"})
    load()
    assert modules.times_asked == 2


def test_another_base_environment_is_another_answer(modules: Modules, load: Load, person: dict[str, str]) -> None:
    load()
    person["PATH"] = "/bin"
    assert load()["PATH"] == f"{modules.bin}:/bin"
    assert modules.times_asked == 1, "what was put before PATH goes before any PATH"
    person["TF"] = "set before"
    load()
    assert modules.times_asked == 2, "a value that was replaced is part of what the answer was built upon"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"changes": {}, "replaced": {}}',
        b'{"changes": {"A": 1}, "replaced": {}, "signatures": []}',
        b'{"changes": {"A": ["x"]}, "replaced": {}, "signatures": []}',
        b'{"changes": [], "replaced": {}, "signatures": []}',
        b'{"changes": {}, "replaced": [], "signatures": []}',
        b'{"changes": {}, "replaced": {}, "signatures": [null]}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_cache_is_a_miss(modules: Modules, load: Load, person: dict[str, str], content: bytes) -> None:
    first = load()
    (entry,) = Path(person["HOME"], ".cache/dsportal/modules").iterdir()
    entry.write_bytes(content)
    assert load() == first
    assert modules.times_asked == 2
    assert load() == first
    assert modules.times_asked == 2, "the damaged entry was replaced by a good one"


def test_the_cache_is_private(load: Load, person: dict[str, str]) -> None:
    load()
    folder = Path(person["HOME"], ".cache/dsportal/modules")
    (entry,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def test_a_cache_that_others_can_write_is_not_believed(modules: Modules, load: Load, person: dict[str, str]) -> None:
    load()
    Path(person["HOME"], ".cache/dsportal/modules").chmod(0o777)
    load()
    assert modules.times_asked == 2


def test_a_home_that_cannot_be_written_costs_only_the_cache(
    modules: Modules, load: Load, person: dict[str, str]
) -> None:
    Path(person["HOME"], ".cache").write_text("a file where the folder should be")
    assert load()["TF"] == load()["TF"] == "1"
    assert modules.times_asked == 2


def test_the_cache_keeps_a_hundred_entries(modules: Modules, person: dict[str, str]) -> None:
    folder = module_cache.folder_of(person)
    assert folder is not None
    for number in range(103):
        base = {"MODULEPATH": str(number)}
        file = module_cache.file_of(folder, ("x",), modules.system, base)
        module_cache.write(file, base, base, "/bin/true")
    assert len(list(Path(folder).iterdir())) == 100


def test_modules_of_the_login_are_unloaded_first(modules: Modules, person: dict[str, str]) -> None:
    person["LOADEDMODULES"] = "pytorch/2"
    environment(("shared/tf",), modules.system, person)
    assert modules.asked.read_text().splitlines() == ["python purge", "python load shared/tf"]


@pytest.mark.parametrize("name", ["-h", "", "a b", "a\nb"])
def test_a_name_that_is_no_module_never_reaches_the_command(
    modules: Modules, person: dict[str, str], name: str
) -> None:
    with pytest.raises(KernelError, match="is no name of a module"):
        environment((name,), modules.system, person)
    assert modules.times_asked == 0


def test_a_missing_module_command_names_where_it_was_looked_for(person: dict[str, str]) -> None:
    with pytest.raises(KernelError, match=r"looked for /nowhere/lmod.*kernels\.module_command"):
        environment(("x",), ModuleSystem("/nowhere/lmod"), person)


def test_the_module_systems_own_words_are_in_the_error(modules: Modules, person: dict[str, str]) -> None:
    modules.says("_mlstatus = False", "ERROR: Unable to locate a modulefile for 'x'")
    with pytest.raises(KernelError, match="module load x failed: Unable to locate a modulefile for 'x'"):
        environment(("x",), modules.system, person)


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
    return parse_site(tables | {"kernel": kernels})


def states(site: Site) -> list[str]:
    return [f"{result.name} {result.state}" for result in sync(site)]


def spec_of(site: Site, name: str) -> Tables:
    spec: Tables = json.loads(Path(site.kernels.folder, "kernels", name, "kernel.json").read_text())
    return spec


def test_a_kernel_is_written_once_and_readable_for_all(tables: Tables) -> None:
    site = parse_site(tables)
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
    site = parse_site(tables)
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
    site = with_kernels(tables, {"name": "j", "title": "Julia", "modules": ("shared/tf",), "argv": argv})
    assert states(site) == ["j written"]
    assert spec_of(site, "j")["argv"][-3:] == list(argv)


def test_a_kernel_that_the_site_no_longer_has_is_removed(tables: Tables) -> None:
    sync(parse_site(tables))
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
    site = parse_site(tables)
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
    assert main_sync(parse_site(tables)) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("tf: faulty (")
    assert reason in line


def test_the_list_tells_which_kernels_are_there(tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    site = parse_site(tables)
    assert main_list(site) == 1
    assert main_sync(site) == 0
    assert main_list(site) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tf: TensorFlow [shared/tf] not written; run: portal kernels sync",
        "tf: written",
        "tf: TensorFlow [shared/tf] ready",
    ]


def test_a_folder_that_cannot_be_written_is_one_line(tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    Path(tables["kernels"]["folder"]).write_text("a file")
    assert main_sync(parse_site(tables)) == 1
    assert "cannot be written" in capsys.readouterr().out
