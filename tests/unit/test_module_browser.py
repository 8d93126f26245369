"""What the module systems say of their modules, as Environment Modules 5.2.0 and Lmod 8.6.19 have said it."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.errors import KernelError, RequestError
from portal.modules import listing
from portal.modules.desk import KEPT_S, ModuleDesk
from portal.modules.listing import ListedModule
from portal.modules.shown import parse_show
from portal.session_settings import SETTINGS, SessionSettings
from tests.unit.module_command import Modules

AVAIL = """/cm/shared/modulefiles:
lonely/1
shared/py/3.11
shared/tf/2.9(default)
shared/tf/2.21
shared/tf/2.22 (default:newest)
"""
WHATIS = """---------------------------- /cm/shared/modulefiles -----------------------------
      shared/py/3.11: Python three
       shared/tf/2.9: TF old
      shared/tf/2.21: Description: TensorFlow, with Keras: both
"""
SPIDER = "gcc/\ngcc/12\nopenmpi/\nopenmpi/4\n"
BEFORE = """
----------------------------------------------------------------------------
  openmpi: openmpi/4
----------------------------------------------------------------------------

    You will need to load all module(s) on any one of the lines below before the "openmpi/4" module is available.

      compiler/gcc/12  hwloc/2
      intel/2025
"""
TCL = r"""-------------------------------------------------------------------
/cm/shared/modulefiles/shared/tf/2.21:

module-whatis	{TensorFlow, with Keras}
conflict	shared/pytorch shared/tf
prereq		lonely
module		load shared/py
module		use /more
setenv		TFHOME {/opt/with space}
prepend-path	-d : PATH /opt/tf/bin
append-path	LD_LIBRARY_PATH /opt/tf/lib
remove-path	PATH /old
unsetenv	OLD
pushenv		Q a\ b
set-alias	ll {ls -l}
set-function	f {echo hi}
family		mpi
-------------------------------------------------------------------
"""
LUA = """----------------------------------------------------------------------------
   /cm/shared/modulefiles/shared/tf/2.21.lua:
----------------------------------------------------------------------------
help([[Help of it,
in two lines
]])
whatis("TensorFlow, with Keras")
conflict("shared/pytorch","shared/tf")
prereq_any("lonely")
depends_on("shared/py")
setenv("TFHOME","/opt/with space")
setenv("CC","gcc "x"")
prepend_path{"PATH","/opt/tf/bin",priority="10"}
append_path("LD_LIBRARY_PATH","/opt/tf/lib")
remove_path("PATH","/old")
unsetenv("OLD","")
pushenv("Q","a, b")
set_alias("ll","ls -l")
execute{cmd="echo", modeA={"load"}}
family("mpi")
"""


def test_the_names_of_either_system_are_read_with_their_default() -> None:
    assert listing.parse_list(AVAIL) == (
        ListedModule("lonely/1"),
        ListedModule("shared/py/3.11"),
        ListedModule("shared/tf/2.9", is_default=True),
        ListedModule("shared/tf/2.21"),
        ListedModule("shared/tf/2.22", is_default=True),
    )
    assert [one.name for one in listing.parse_list(SPIDER)] == ["gcc/12", "openmpi/4"]
    assert listing.parse_list("") == ()


def test_what_modules_say_of_themselves_is_found_by_every_word() -> None:
    said = listing.parse_whatis(WHATIS)
    assert said["shared/tf/2.21"] == "TensorFlow, with Keras: both"
    modules = listing.with_summaries(listing.parse_list(AVAIL), said)
    assert [one.name for one in listing.matching(modules, "")] == [one.name for one in modules]
    assert [one.name for one in listing.matching(modules, " KERAS shared")] == ["shared/tf/2.21"]
    assert [one.name for one in listing.matching(modules, "tf")][:3] == [
        "shared/tf/2.9",
        "shared/tf/2.21",
        "shared/tf/2.22",
    ]
    assert listing.matching(modules, "tf nope") == []


def test_what_comes_before_a_module_of_a_hierarchy_is_known() -> None:
    assert listing.parse_before(BEFORE) == (["compiler/gcc/12", "hwloc/2"], ["intel/2025"])
    assert listing.parse_before("  openmpi: openmpi/4\n\n    This module can be loaded directly") == ()


def test_a_module_is_read_in_tcl() -> None:
    module = parse_show("shared/tf", TCL)
    assert module.file == "/cm/shared/modulefiles/shared/tf/2.21"
    assert module.summary == ("TensorFlow, with Keras",)
    assert module.conflicts == ("shared/pytorch", "other versions of shared/tf", "others of the family mpi")
    assert module.needs == ("lonely", "shared/py")
    assert module.sets == (
        *("MODULEPATH begins with /more", "TFHOME=/opt/with space", "PATH begins with /opt/tf/bin"),
        *("LD_LIBRARY_PATH ends with /opt/tf/lib", "PATH loses /old", "OLD is taken away", "Q=a b"),
        "ll is short for ls -l",
    )


def test_a_module_is_read_in_lua() -> None:
    module = parse_show("shared/tf", LUA)
    assert module.file == "/cm/shared/modulefiles/shared/tf/2.21.lua"
    assert module.help == "Help of it,\nin two lines"
    assert (module.summary, module.needs) == (("TensorFlow, with Keras",), ("lonely", "shared/py"))
    assert module.conflicts == ("shared/pytorch", "other versions of shared/tf", "others of the family mpi")
    assert module.sets == (
        *("TFHOME=/opt/with space", 'CC=gcc "x"', "PATH begins with /opt/tf/bin"),
        *("LD_LIBRARY_PATH ends with /opt/tf/lib", "PATH loses /old", "OLD is taken away", "Q=a, b"),
        "ll is short for ls -l",
    )


@pytest.mark.parametrize(
    "text", ["", "-----", "odd", "x(", "{", '""', "setenv", "prepend-path", "conflict", "whatis()"]
)
def test_what_is_none_of_either_is_passed_over(text: str) -> None:
    assert parse_show("a", text).conflicts == ()


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def session(modules: Modules) -> dict[str, str]:
    """The environment of a session whose hub has told it of these modules."""
    told = SessionSettings(module_command=str(modules.command), module_path=(str(modules.tree),))
    return {"HOME": "/nowhere", "PATH": "/usr/bin:/bin", SETTINGS: told.to_text()}


def answers(modules: Modules, text: str) -> None:
    """Say this for people, whatever is asked."""
    modules.says("_mlstatus = True", text.replace('"', ""))


async def test_the_list_is_asked_for_once_in_some_minutes(tmp_path: Path) -> None:
    modules = Modules(tmp_path)
    clock = Clock()
    desk = ModuleDesk(session(modules), clock)
    answers(modules, AVAIL)
    found = await desk.search("shared tf")
    assert ([one.name for one in found.modules], found.total) == (
        ["shared/tf/2.9", "shared/tf/2.21", "shared/tf/2.22"],
        3,
    )
    await desk.search("py")
    assert modules.asked.read_text().splitlines() == ["python -t avail", "python whatis"]
    answers(modules, "new/1")
    assert (await desk.search("new")).total == 0
    clock.now = KEPT_S + 1
    assert (await desk.search("new")).total == 1


async def test_a_module_that_is_broken_keeps_none_of_the_others_away(tmp_path: Path) -> None:
    modules = Modules(tmp_path)
    desk = ModuleDesk(session(modules), Clock())
    modules.says("_mlstatus = False", f"Horovod is not built on this cluster: build it.\n{AVAIL}{WHATIS}")
    found = await desk.search("keras")
    assert [one.name for one in found.modules] == ["shared/tf/2.21"]
    modules.says("_mlstatus = False", "ERROR: Magic cookie '#%Module' missing")
    with pytest.raises(KernelError, match="module -t avail failed: Magic cookie"):
        await ModuleDesk(session(modules), Clock()).search()


async def test_a_module_is_looked_at_once_and_one_that_is_missing_is_said(tmp_path: Path) -> None:
    modules = Modules(tmp_path)
    desk = ModuleDesk(session(modules), Clock())
    answers(modules, TCL)
    assert (await desk.show("shared/tf")).needs == ("lonely", "shared/py")
    assert (await desk.show("shared/tf")).needs == ("lonely", "shared/py")
    assert modules.times_asked == 1
    modules.says("_mlstatus = False", "ERROR: Unable to locate a modulefile for 'nope'")
    with pytest.raises(KernelError, match="module show nope failed: Unable to locate a modulefile for 'nope'"):
        await desk.show("nope")
    for name in ("--help", "", "a b"):
        with pytest.raises(RequestError, match=r"modules: .* is not possible here"):
            await desk.show(name)
    assert modules.times_asked == 2


async def test_lmod_is_asked_for_hierarchies_too(tmp_path: Path) -> None:
    modules = Modules(tmp_path)
    modules.command = tmp_path / "lmod"
    desk = ModuleDesk(session(modules), Clock())
    answers(modules, SPIDER)
    assert [one.name for one in (await desk.search("mpi")).modules] == ["openmpi/4"]
    answers(modules, BEFORE)
    assert (await desk.show("openmpi/4")).before == ("compiler/gcc/12", "hwloc/2")
    assert modules.asked.read_text().splitlines() == [
        *("python -t spider", "python -t spider openmpi/4", "python load compiler/gcc/12 hwloc/2"),
        "python show openmpi/4",
    ]


def test_the_command_prints_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from portal import cli

    modules = Modules(tmp_path)
    for name, value in session(modules).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MODULEPATH", raising=False)
    answers(modules, AVAIL)
    assert cli.main(["modules", "search", "tf"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "shared/tf/2.9 (default)"
    assert cli.main(["modules", "search", "nope"]) == 1
    answers(modules, TCL)
    assert cli.main(["modules", "show", "shared/tf"]) == 0
    assert "conflicts  shared/pytorch\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    ["/home/bob/m", "./m", "../m", "a/../../home/bob/m", "a/./m", "~/m", "~bob/m", ".", "..", "a/..", "", "-x", "a b"],
)
async def test_a_path_is_no_module_to_look_at(tmp_path: Path, name: str) -> None:
    modules = Modules(tmp_path)
    with pytest.raises(RequestError, match="names of modules"):
        await ModuleDesk(session(modules), Clock()).show(name)
    assert modules.times_asked == 0
