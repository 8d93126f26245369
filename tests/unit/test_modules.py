"""Environments of modules: what is read of a module system, and what is kept of it for the next start."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.errors import KernelError
from portal.kernels import module_cache
from portal.kernels.delta import applied, difference
from portal.kernels.module_output import in_one_line, parse
from portal.kernels.modules import ModuleSystem, clean, environment
from tests.unit.module_command import Modules

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


@pytest.mark.parametrize("none", [{}, {"LD_LIBRARY_PATH": ""}])
def test_what_was_put_before_a_value_leaves_no_empty_word_where_there_is_none(
    modules: Modules, load: Load, person: dict[str, str], none: dict[str, str]
) -> None:
    """It is the folder that a program is started in: libraries of whoever writes there would be loaded."""
    modules.loads({"LD_LIBRARY_PATH": "/opt/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"})
    person["LD_LIBRARY_PATH"] = "/home/person/lib"
    assert load()["LD_LIBRARY_PATH"] == "/opt/lib:/home/person/lib"
    del person["LD_LIBRARY_PATH"]
    person.update(none)

    assert load()["LD_LIBRARY_PATH"] == "/opt/lib"


ASKING = [
    "setenv SCRATCH_LOCAL /scratch/$env(SLURM_JOB_ID)",
    "if {[info exists ::env(SLURM_JOB_ID)]} { setenv A b }",
    "setenv SCRATCH_LOCAL /scratch/[getenv SLURM_JOB_ID]",
    'setenv("SCRATCH_LOCAL", pathJoin("/scratch", os.getenv("SLURM_JOB_ID") or "0"))',
]


@pytest.mark.parametrize("line", ASKING)
def test_what_a_modulefile_asks_for_is_part_of_what_its_answer_was_built_upon(
    modules: Modules, load: Load, person: dict[str, str], line: str
) -> None:
    modules.file.write_text(f"#%Module\n{line}\n")
    for number, times in (("16", 1), ("16", 1), ("17", 2), ("17", 2), ("17", 2)):
        modules.loads({"SCRATCH_LOCAL": f"/scratch/{number}"})
        os.utime(modules.command, (1, 1))  # as an unchanged command
        person["SLURM_JOB_ID"] = number

        assert load()["SCRATCH_LOCAL"] == f"/scratch/{number}"
        assert modules.times_asked == times


OPAQUE = [
    "source /opt/site/body.tcl",
    "set now [clock seconds]",
    "setenv NODE [exec hostname]",
    "set file [open /proc/net/dev]",
    "source-sh bash /opt/conda/etc/profile.d/conda.sh",
    "setenv A $env($name)",
    "foreach {name value} [array get env] { setenv A $value }",
    'loadfile("/opt/site/body.lua")()',
    'source_sh("bash", "/opt/conda/etc/profile.d/conda.sh")',
    'local host = capture("hostname")',
    'setenv("DAY", os.date("%d"))',
    "setenv('A', os.getenv(name))",
    "inherit()",
]


COMMON = [
    'whatis("Description: an open source library, see https://example.org/os.html")\nload("GCC/12.3.0")\ndepends_on("zlib")',
    'if not ( isloaded("GCC/12.3.0") ) then\n    load("GCC/12.3.0")\nend\nprepend_path("PATH", pathJoin(root, "bin"))',
    'setenv("EBROOTA", root)\npushenv("CC", "gcc")\nfamily("compiler")\nlocal home = os.getenv("HOME")',
    "set root /cm/shared/apps\nif {![file isdirectory $root]} {\n    break\n}\nmodule load shared/datasets",
    "prepend-path --delim {:} PATH $root/bin\nsetenv OMP_NUM_THREADS 8\nsetenv H $env(HOME)/.a",
]


@pytest.mark.parametrize(("text", "times"), [*((text, 2) for text in OPAQUE), *((text, 1) for text in COMMON)])
def test_what_a_modulefile_usually_does_is_kept_and_what_may_be_another_one_next_time_is_not(
    modules: Modules, load: Load, text: str, times: int
) -> None:
    modules.file.write_text(f"#%Module\n{text}\n")
    load()
    load()

    assert modules.times_asked == times


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "TMPDIR"])
def test_a_value_of_the_job_is_not_kept_however_a_modulefile_came_to_it(
    modules: Modules, load: Load, person: dict[str, str], name: str
) -> None:
    person[name] = "/scratch/4711"
    modules.loads({"SCRATCH_LOCAL": "/scratch/4711/mine"})
    load()
    load()

    assert modules.times_asked == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"changes": {}, "replaced": {}}',
        b'{"changes": {}, "replaced": {}, "signatures": []}',
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
