"""A person's environments as they are listed, begun, stopped and removed; the real ones are in the session ring."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portal.environments import look, notes, place
from portal.environments.desk import EnvironmentDesk, EnvironmentView
from portal.environments.maker import Task
from portal.environments.notes import EnvironmentNote, Maker, MakingState
from portal.environments.order import EnvironmentOrder, Tool, order_of
from portal.environments.place import EnvironmentRefused
from portal.errors import KernelError, RequestError, SiteError
from portal.kernels.run_kernel import Launch
from portal.modules import session_system
from portal.session_settings import SETTINGS, SessionSettings
from portal.site import parse
from tests.unit.module_command import Modules

DEADLINE_S = 60
ROOT = Path(__file__).parents[2]


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """A person's environment, whose PATH has no Python."""
    (tmp_path / "home").mkdir(mode=0o700)
    return {"HOME": str(tmp_path / "home"), "PATH": "/nowhere"}


@pytest.fixture
def desk(person: dict[str, str]) -> EnvironmentDesk:
    return EnvironmentDesk(person)


def note(person: dict[str, str], name: str = "vision", **more: Any) -> EnvironmentNote:
    """A note that is kept, of an environment that was asked for a minute ago."""
    path = f"{person['HOME']}/environments/{name}"
    made = replace(EnvironmentNote(order_of({"name": name}), path, MakingState.READY, int(time.time()) - 60), **more)
    notes.write(notes.folder_of(person), made)
    return made


def environment(person: dict[str, str], name: str = "vision") -> Path:
    """What a maker leaves: an environment, its kernel, its note."""
    path = Path(note(person, name).path)
    (path / "bin").mkdir(parents=True)
    (path / "bin/python").symlink_to(sys.executable)
    (path / "lib/python3.11/site-packages").mkdir(parents=True)
    spec = Path(person["HOME"], f".local/share/jupyter/kernels/env-{name}/kernel.json")
    spec.parent.mkdir(parents=True)
    spec.write_text("{}")
    return path


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks as a maker does: one that leads a group."""
    started = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield started
    started.kill()
    started.wait()


async def ended(desk: EnvironmentDesk, name: str) -> EnvironmentView:
    """An environment as soon as its making is over."""
    deadline_s = time.monotonic() + DEADLINE_S
    while (view := await desk.one(name)).state == "making":
        assert time.monotonic() < deadline_s
    return view


async def test_what_is_ready_is_shown_with_its_size_and_goes_with_its_kernel(
    person: dict[str, str], desk: EnvironmentDesk
) -> None:
    path = environment(person)
    (path / "lib/python3.11/site-packages/big").write_bytes(b"x" * 100_000)
    (view,) = await desk.all()
    assert (view.state, view.words, view.path) == ("ready", "", str(path))
    assert view.size_bytes >= 100_000

    await desk.remove("vision")

    assert await desk.all() == []
    assert not path.exists()
    assert not any(Path(person["HOME"], ".local/share/jupyter/kernels").iterdir())
    with pytest.raises(RequestError, match="your own environments: none, you have made none"):
        await desk.remove("vision")


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("environments/vision", "vision is gone"),
        ("environments/vision/bin/python", "the Python that it was made of is gone"),
        (".local/share/jupyter/kernels/env-vision/kernel.json", "its kernel is gone"),
    ],
)
async def test_one_that_cannot_be_used_any_more_says_so_and_can_be_removed(
    person: dict[str, str], desk: EnvironmentDesk, gone: str, words: str
) -> None:
    environment(person)
    there = Path(person["HOME"], gone)
    there.rename(there.with_name("elsewhere"))
    (view,) = await desk.all()
    assert view.state == "broken"
    assert view.words.endswith(f"{words}: remove it, and make it anew")

    await desk.remove("vision")
    assert await desk.all() == []


async def test_a_making_that_was_interrupted_is_broken_and_not_for_ever_under_way(
    person: dict[str, str], desk: EnvironmentDesk, process: subprocess.Popen[bytes]
) -> None:
    alive = look.this_process(process.pid)
    note(person, state=MakingState.MAKING, maker=alive)
    assert (await desk.one("vision")).state == "making"
    note(person, state=MakingState.MAKING, maker=replace(alive, ticks=alive.ticks + 1))
    assert (await desk.one("vision")).words.startswith("its making was interrupted"), "another process of that number"
    process.kill()
    process.wait()
    note(person, state=MakingState.MAKING, maker=alive)
    assert (await desk.one("vision")).state == "broken"
    note(person, state=MakingState.MAKING, maker=Maker("another-node", 1, 1))
    assert (await desk.one("vision")).words == "is being made on another-node"
    with pytest.raises(EnvironmentRefused, match="being made on another-node: remove it there"):
        await desk.remove("vision")
    for file in notes.folder_of(person).iterdir():
        os.utime(file, (0, 0))
    assert (await desk.one("vision")).state == "broken"


async def test_who_removes_what_is_being_made_ends_it(
    person: dict[str, str], desk: EnvironmentDesk, process: subprocess.Popen[bytes]
) -> None:
    environment(person)
    note(person, state=MakingState.MAKING, maker=look.this_process(process.pid))
    await desk.remove("vision")
    assert process.wait(DEADLINE_S) < 0
    assert await desk.all() == []


async def test_a_making_that_fails_says_why_and_leaves_nothing(person: dict[str, str], desk: EnvironmentDesk) -> None:
    view = await desk.make(order_of({"name": "vision"}))
    assert view.state == "making"
    view = await ended(desk, "vision")
    assert (view.state, view.path) == ("failed", "")
    assert view.words.startswith("The program 'python3' is not found and no module was loaded.")
    assert "It failed: The program" in (await desk.log("vision")).text
    assert not Path(person["HOME"], "environments/vision").exists()
    assert not Path(person["HOME"], ".local/share/jupyter").exists()

    await desk.make(order_of({"name": "vision"}))
    assert (await ended(desk, "vision")).state == "failed", "a name is free again after a failure"


def test_a_disk_that_is_full_leaves_nothing_half_made(person: dict[str, str], tmp_path: Path) -> None:
    """Not even what is printed has room."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    made = note(person, state=MakingState.MAKING)
    Path(made.path).mkdir(parents=True)
    folder = notes.folder_of(person)
    task = Task(made.order, str(folder), session_system.of({})).to_text()
    with Path("/dev/full").open("wb") as full:
        subprocess.run(
            [sys.executable, "-m", "portal.environments.maker"],
            input=task.encode(),
            env=person | {"PATH": str(tmp_path / "bin"), "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    (found,) = notes.read_all(folder)
    assert (found.state, found.words) == (MakingState.FAILED, "No space left on device")
    assert not Path(made.path).exists()


async def test_a_making_that_ends_while_it_is_looked_at_is_not_called_interrupted(
    person: dict[str, str], desk: EnvironmentDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(person, state=MakingState.MAKING, maker=Maker(socket.gethostname(), 1, 1))
    earlier = [notes.read(notes.folder_of(person), "vision")]
    note(person, state=MakingState.FAILED)
    read = notes.read
    monkeypatch.setattr(notes, "read", lambda folder, name: earlier.pop() if earlier else read(folder, name))

    assert (await desk.one("vision")).state == "failed"


async def test_names_that_are_taken_are_refused_before_anything_is_made(person: dict[str, str], tmp_path: Path) -> None:
    site = tmp_path / "jupyter"
    (site / "kernels/env-theirs").mkdir(parents=True)
    desk = EnvironmentDesk(person | {"JUPYTER_PATH": f"{site}:{tmp_path}"})
    environment(person)
    (Path(person["HOME"]) / "environments/folder").mkdir()
    for name, words in (
        ("vision", "You have an environment vision already"),
        ("theirs", "There is a kernel env-theirs in"),
        ("folder", "environments/folder is there already"),
    ):
        with pytest.raises(EnvironmentRefused, match=words):
            await desk.make(order_of({"name": name}))
    with pytest.raises(EnvironmentRefused, match="There is no uv on this node"):
        await desk.make(order_of({"name": "fast", "tool": "uv"}))
    assert desk.tools() == ["venv", "modules"]


async def test_only_some_are_made_at_a_time(
    person: dict[str, str], desk: EnvironmentDesk, process: subprocess.Popen[bytes]
) -> None:
    for name in ("a", "b", "c"):
        note(person, name, state=MakingState.MAKING, maker=look.this_process(process.pid))
    with pytest.raises(EnvironmentRefused, match="a, b, c are being made"):
        await desk.make(order_of({"name": "d"}))


async def test_a_kernel_out_of_modules_alone_is_listed_and_removed_like_the_others(
    person: dict[str, str], tmp_path: Path
) -> None:
    modules = Modules(tmp_path)
    modules.program("python3", "echo 7.1.0")
    told = SessionSettings(module_command=str(modules.command), module_path=(str(modules.tree),))
    desk = EnvironmentDesk(person | {SETTINGS: told.to_text()})
    order = order_of({"name": "tf", "title": "TF", "tool": "modules", "modules": ["shared/tf"]})

    view = await desk.make(order)

    assert (view.state, view.path, view.size_bytes) == ("ready", "", 0)
    spec = json.loads(Path(person["HOME"], ".local/share/jupyter/kernels/env-tf/kernel.json").read_text())
    launch = Launch.from_argv(spec["argv"])
    assert launch
    assert (launch.modules, launch.system) == (("shared/tf",), modules.system)
    await desk.remove("tf")
    assert await desk.all() == []

    modules.says("_mlstatus = False", "ERROR: Unable to locate a modulefile for 'shared/tf'")
    with pytest.raises(KernelError, match="Unable to locate a modulefile"):
        await desk.make(order)
    assert await desk.all() == []


@pytest.mark.parametrize("of_others", [False, True])
async def test_a_kernel_asks_no_tree_that_a_shell_had_added_and_others_can_change_but_for_a_module_of_it(
    person: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_others: bool
) -> None:
    """They could add a module of the same name there later."""
    modules, team = Modules(tmp_path), tmp_path / "team"
    modules.program("python3", "echo 7.1.0")
    team.mkdir()
    team.chmod(0o777)
    if of_others:  # found with that tree alone
        failed = "_mlstatus = False"
        modules.command.write_text(
            f'#!/bin/sh\ncase "$MODULEPATH" in *team*) exec {tmp_path}/known "$@";; esac\necho "{failed}"\n'
        )
        known = tmp_path / "known"
        known.write_text(f"#!/bin/sh\ncat <<END\nos.environ['PATH'] = '{modules.bin}:$PATH'\n_mlstatus = True\nEND\n")
        known.chmod(0o755)
    told = SessionSettings(module_command=str(modules.command), module_path=(str(modules.tree),))
    monkeypatch.setattr("portal.kernels.modules.USUAL_COMMANDS", (str(modules.command),))
    shell = {"MODULEPATH": f"{team}:{modules.tree}"}
    desk = EnvironmentDesk(person | {SETTINGS: told.to_text()} | shell)

    await desk.make(order_of({"name": "tf", "title": "TF", "tool": "modules", "modules": ["shared/tf"]}))

    spec = json.loads(Path(person["HOME"], ".local/share/jupyter/kernels/env-tf/kernel.json").read_text())
    launch = Launch.from_argv(spec["argv"])
    assert launch
    assert launch.system.path == ((str(team), str(modules.tree)) if of_others else (str(modules.tree),))


def test_trees_of_the_site_and_those_that_nobody_else_can_change_are_kept(tmp_path: Path) -> None:
    trees = {name: tmp_path / name for name in ("own", "of_site", "of_all")}
    for tree in trees.values():
        tree.mkdir()
    for name in ("of_site", "of_all"):
        trees[name].chmod(0o777)
    told = SessionSettings(module_command="x", module_path=(str(trees["of_site"]),))
    shell = {"MODULEPATH": ":".join(map(str, trees.values()))}

    found = session_system.of({SETTINGS: told.to_text()} | shell)

    assert found.system.path == tuple(map(str, trees.values()))
    assert found.lasting().path == (str(trees["own"]), str(trees["of_site"]))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to somebody else")
def test_a_folder_in_which_others_left_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "environments/theirs").mkdir(parents=True)
    (tmp_path / "environments").chmod(0o755)
    assert place.prepared("", tmp_path) == tmp_path / "environments"

    os.chown(tmp_path / "environments/theirs", 4_000_000, -1)
    with pytest.raises(EnvironmentRefused, match=r"environments holds something of others \(theirs\)"):
        place.prepared("", tmp_path)


def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "environments").mkdir(parents=True)
    (home / "environments").chmod(0o777)
    with pytest.raises(EnvironmentRefused, match="can be changed by others"):
        place.prepared("", home)
    with pytest.raises(EnvironmentRefused, match=r"is not there, on which environments\.folder stands"):
        place.prepared(f"{tmp_path}/scratch/{{uid}}/environments", home)


def test_a_full_disk_is_said_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "FREE_LEAST_MIB", 1 << 40)
    with pytest.raises(EnvironmentRefused, match=r"has \d+ MB free, and an environment needs"):
        place.prepared("", tmp_path)


def test_the_place_is_below_the_home_or_on_a_storage(tmp_path: Path) -> None:
    assert place.path_of("", tmp_path) == tmp_path / "environments"
    assert place.path_of("~/own/envs", tmp_path) == tmp_path / "own/envs"
    assert place.path_of("/scratch/{uid}/envs", tmp_path) == Path(f"/scratch/{os.getuid()}/envs")


@pytest.mark.parametrize("folder", ["~/environments", "~/own/envs", "/scratch/{user}/environments", "/a/{uid}"])
def test_a_site_says_where_they_lie(folder: str) -> None:
    assert SessionSettings.of(parse({"environments": {"folder": folder}}), "").environments == folder


@pytest.mark.parametrize(
    "folder", ["", "~", "~/", "~/../x", "environments", "/scratch", "/scratch/{user}x", "/a/../{uid}"]
)
def test_a_place_that_people_would_share_is_refused(folder: str) -> None:
    with pytest.raises(SiteError, match=r"environments\.folder: .* allowed: a path below the home, such as '~/environ"):
        parse({"environments": {"folder": folder}})


def test_no_link_is_followed_by_who_removes(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    (tmp_path / "link").symlink_to("mine")
    with pytest.raises(NotADirectoryError):
        place.remove(tmp_path / "link")
    (tmp_path / "mine/link").symlink_to(tmp_path)
    (tmp_path / "other").touch()
    place.remove(tmp_path / "mine")
    assert (tmp_path / "other").exists()
    (tmp_path / ".removed-x-1").mkdir()
    place.remove_leftovers(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "other"]


@pytest.mark.parametrize(
    "change",
    [
        {"path": "relative"},
        {"path": "/elsewhere/other"},
        {"state": "odd"},
        {"made_at": "1"},
        {"maker": {"host": "a", "pid": "1", "ticks": 1}},
        {"order": {"name": "../x"}},
        {"order": {"name": "other"}},
    ],
)
def test_a_note_that_is_none_is_passed_over(person: dict[str, str], change: dict[str, Any]) -> None:
    note(person)
    folder = notes.folder_of(person)
    file = folder / "vision.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert notes.read(folder, "vision") is None
    assert notes.read_all(folder) == []


def test_a_note_reads_back_as_what_it_was(person: dict[str, str]) -> None:
    order = EnvironmentOrder("vision", "Vision", Tool.CONDA, ("shared",), ("tqdm>=4",), "3.12")
    kept = note(person, order=order, words="x", maker=Maker("n", 2, 3), size_bytes=4, measured_ns=5)
    assert notes.read_all(notes.folder_of(person)) == [kept]
    (notes.folder_of(person) / "odd.json").mkdir()
    (notes.folder_of(person) / "link.json").symlink_to("vision.json")
    assert notes.read_all(notes.folder_of(person)) == [kept]


def test_the_module_system_is_that_of_the_shell_else_what_the_hub_told() -> None:
    told = SessionSettings(module_command="/m/lmod", module_path=("/m/tree",), module_environment={"LMOD_RC": "x"})
    found = session_system.of({SETTINGS: told.to_text()})
    assert (found.system.command, found.system.path, found.variables) == ("/m/lmod", ("/m/tree",), {"LMOD_RC": "x"})
    assert session_system.of({SETTINGS: told.to_text(), "MODULEPATH": "/a:/b"}).system.path == ("/a", "/b")
    assert session_system.of({SETTINGS: "[]"}).system.path == ()
