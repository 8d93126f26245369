"""A folder that was shared, and is one's own now: what others have left in it is still theirs."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import py_compile
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from portal.homes import own_folder
from portal.jobs.desk import JobDesk
from portal.jobs.order import order_of
from portal.jobs.submit import placed
from portal.kernels import other_starts, provisioner
from portal.kernels.provisioner import ModuleProvisioner
from portal.kernels.python_start import FIRST, IN_THEIRS, OWN, prepared
from portal.notebooks import run
from tests.unit.test_python_start import NOT_INSTALLED, REQUESTS, kernel, printed, started_by_a_session

SOMEBODY_ELSE = 4_000_000  # no account of this machine
IMPORTS = "try:\n    import optional\nexcept ImportError:\n    print('not there', flush=True)\n"
OF_BOTH = "import sys; sys.path.insert(0, sys.argv[1]); import own_place; print(own_place.is_alone(sys.argv[2]))"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to somebody else")


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o755)
    return folder


def left(place: Path, text: str = "") -> Path:
    """A file that somebody else has left."""
    place.write_text(text)
    os.chown(place, SOMEBODY_ELSE, -1)
    return place


def is_alone(folder: Path) -> bool:
    """What the portal says of a folder that nobody else can change, and what a kernel says, which are the same."""
    done = subprocess.run(
        [sys.executable, "-c", OF_BOTH, OWN.parent, folder], capture_output=True, text=True, check=True
    )
    found = not own_folder.of_others_in(folder)
    assert done.stdout.strip() == str(found)
    return found


def test_a_folder_is_a_persons_alone_where_all_that_lies_in_it_is_hers_or_roots(closed: Path, tmp_path: Path) -> None:
    (closed / "own.py").write_text("")
    (closed / "link").symlink_to(left(tmp_path / "theirs"))
    assert is_alone(closed)

    for make in (Path.touch, Path.mkdir, lambda place: place.symlink_to("own.py")):
        make(closed / "theirs")
        os.lchown(closed / "theirs", SOMEBODY_ELSE, -1)
        assert not is_alone(closed)
        assert own_folder.of_others_in(closed) == "theirs"
        assert not own_folder.of_others_in(closed, "own")
        (closed / "theirs").rename(tmp_path / f"theirs-{len(list(tmp_path.iterdir()))}")


@pytest.mark.parametrize(("number", "is_looked_at"), [(2000, True), (2001, False)])
def test_so_many_files_that_a_start_would_wait_for_them_may_be_of_others(
    closed: Path, number: int, is_looked_at: bool
) -> None:
    for one in range(number):
        (closed / f"{one}.log").touch()
    assert is_alone(closed) == is_looked_at
    assert own_folder.of_others_in(closed) == ("" if is_looked_at else own_folder.TOO_MANY)
    assert not own_folder.of_others_in(closed, "1"), "by name there is no such bound"


def test_what_cannot_be_seen_may_be_of_others(tmp_path: Path) -> None:
    assert own_folder.of_others_in(tmp_path / "none") == own_folder.UNSEEN


def test_tab_and_help_run_nothing_that_others_left_before_a_folder_was_closed(closed: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in ("jedi", "json", *NOT_INSTALLED):
        left(closed / f"{name}.py", f"open({str(ran)!r}, 'a').write('{name} ')\n")
    (closed / "lesson_words.py").write_text("words = 'beside'")

    with kernel(closed, tmp_path, "") as client:
        for asked, request in REQUESTS.items():
            request(client)
            assert not ran.exists(), asked
        assert printed(client, "import json, lesson_words; print(lesson_words.words)") == "beside"
    assert not ran.exists()


def test_of_a_module_of_ones_own_no_compiled_code_is_taken_that_others_left_beside_it(
    closed: Path, tmp_path: Path
) -> None:
    own = closed / "lesson_words.py"
    own.write_text("words = 'beside'")
    cached = Path(importlib.util.cache_from_source(str(own)))
    cached.parent.mkdir()
    os.chown(cached.parent, SOMEBODY_ELSE, -1)
    (tmp_path / "theirs.py").write_text("words = 'theirs'")
    py_compile.compile(str(tmp_path / "theirs.py"), cfile=str(tmp_path / "theirs.pyc"), doraise=True)
    compiled = bytearray((tmp_path / "theirs.pyc").read_bytes())
    compiled[8:16] = struct.pack("<II", int(own.stat().st_mtime), own.stat().st_size)
    cached.write_bytes(compiled)
    os.chown(cached, SOMEBODY_ELSE, -1)

    with kernel(closed, tmp_path, "") as client:
        assert printed(client, "import lesson_words; print(lesson_words.words)") == "beside"


@pytest.mark.parametrize(("uid", "mode", "is_led"), [(SOMEBODY_ELSE, 0o755, True), (0, 0o777, True), (0, 0o755, False)])
def test_a_folder_to_which_a_link_of_others_leads_is_as_theirs_whoever_it_belongs_to(
    closed: Path, tmp_path: Path, uid: int, mode: int, is_led: bool
) -> None:
    """A copy of something of theirs, say, which was never meant to run; also for what a cell starts there.

    And a link of one's own that they may have put where it is.
    """
    (closed / "brotli.py").write_text("theirs = True")
    (tmp_path / "project").mkdir()
    (tmp_path / "project").chmod(mode)
    link = tmp_path / "project" / "link"
    link.symlink_to(closed)
    os.lchown(link, uid, -1)
    asks = "import brotli; print(hasattr(brotli, 'theirs'))"

    made = started_by_a_session([sys.executable, "-m", "ipykernel_launcher"], "python", link, tmp_path)
    assert (IN_THEIRS.items() <= made["env"].items()) is is_led
    (tmp_path / "run").rename(tmp_path / "before")
    with kernel(link, tmp_path, "") as client:
        assert printed(client, asks) == str(not is_led)
        assert printed(client, f'!{sys.executable} -c "{asks}"').strip() == str(not is_led)


def test_so_is_one_that_others_have_put_in_its_place_when_a_kernel_has_been_prepared(
    closed: Path, tmp_path: Path
) -> None:
    """The person's own as well; and nobody has to have been quick."""
    project, packages = tmp_path / "project", tmp_path / "packages"
    for folder in (project, packages):
        folder.mkdir()
    project.chmod(0o777)
    (closed / "notebooks").mkdir()
    for folder in (closed, closed / "notebooks"):
        (folder / "optional.py").write_text("print('a copy of theirs')")
    (packages / "runner.py").write_text(
        f"import os, subprocess, sys\n{IMPORTS}subprocess.run([sys.executable, '-c', {IMPORTS!r}])\n"
        f"os.chdir('..')\nsubprocess.run([sys.executable, '-c', {IMPORTS!r}])\n"
    )
    (project / "work").mkdir()
    command = [sys.executable, "-m", "runner", str(tmp_path / "run/kernel.json")]
    made = started_by_a_session(command, "python", project / "work", tmp_path)
    (project / "work").rmdir()
    (project / "work").symlink_to(closed / "notebooks")

    env = made["env"] | {"PYTHONPATH": f"{made['env']['PYTHONPATH']}:{packages}"}
    done = subprocess.run(made["cmd"], env=env, cwd=project / "work", capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("not there\n" * 3, "")


@pytest.mark.parametrize(
    ("owner", "mode", "told", "runs"),
    [(0, 0o644, {}, True), (0, 0o664, {}, False), (SOMEBODY_ELSE, 0o644, {}, False), (0, 0o644, IN_THEIRS, False)],
)
def test_a_debugger_runs_a_file_of_a_closed_folder_that_nobody_else_made_can_change_or_has_led_to(
    closed: Path, tmp_path: Path, owner: int, mode: int, told: dict[str, str], runs: bool
) -> None:
    left(closed / "data.csv")
    (closed / ".pdbrc").write_text("n\n")
    (closed / ".pdbrc").chmod(mode)
    os.chown(closed / ".pdbrc", owner, -1)
    (tmp_path / "run").mkdir(mode=0o700)
    env = prepared([sys.executable], {"HOME": str(tmp_path)} | told, tmp_path / "run", debugger=False)

    code = "import pdb; print(pdb.Pdb().rcLines)"
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=closed, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ("['n\\n']" if runs else "[]")


def test_a_server_of_before_an_upgrade_that_has_not_put_the_new_file_starts_kernels_as_anywhere_else(
    closed: Path, tmp_path: Path
) -> None:
    (closed / "some_words.py").write_text("")
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / FIRST.name).write_bytes(FIRST.read_bytes())
    env = {"PYTHONPATH": f"{tmp_path}/startup"}

    done = subprocess.run(
        [sys.executable, "-c", "import some_words"], env=env, cwd=closed, capture_output=True, text=True
    )

    assert "No module named 'some_words'" in done.stderr
    assert "sitecustomize" not in done.stderr


@pytest.mark.parametrize("name", [".Rprofile", ".Renviron", ".RData", "data.csv"])
@pytest.mark.parametrize(("owner", "mode"), [(0, 0o644), (0, 0o666), (SOMEBODY_ELSE, 0o644)])
def test_r_reads_files_of_a_closed_folder_that_nobody_else_made_or_can_change(
    closed: Path, name: str, owner: int, mode: int
) -> None:
    (closed / name).write_text("")
    (closed / name).chmod(mode)
    os.chown(closed / name, owner, -1)
    command = ["R", "--slave"]

    started, env = other_starts.prepared_r(command, {"HOME": "/home/alice"}, str(closed))

    is_own = name == "data.csv" or (owner, mode) == (0, 0o644)
    assert started == (command if is_own else ["R", "--no-restore-data", "--slave"])
    assert env.get("R_PROFILE_USER") == (None if is_own else "/home/alice/.Rprofile")


@pytest.mark.parametrize(("links", "is_read"), [(1, True), (2, False)])
def test_a_file_that_a_group_may_write_is_ones_own_where_no_other_reaches_it(
    tmp_path: Path, links: int, is_read: bool
) -> None:
    home = tmp_path / "home"  # as with umask 002: somebody may have a link of before the home was closed
    home.mkdir(mode=0o700)
    (home / ".pdbrc").write_text("n\n")
    (home / ".pdbrc").chmod(0o664)
    if links == 2:
        os.link(home / ".pdbrc", tmp_path / "of before")
    (tmp_path / "run").mkdir(mode=0o700)
    env = prepared([sys.executable], {"HOME": str(tmp_path)}, tmp_path / "run", debugger=False)

    code = "import pdb; print(pdb.Pdb().rcLines)"
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=home, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ("['n\\n']" if is_read else "[]")
    assert own_folder.are_own(home, [".pdbrc"]) == is_read


@pytest.mark.parametrize("name", [".irbrc", "$irbrc", "data.csv"])
def test_ruby_reads_no_file_that_others_left_in_a_closed_folder(closed: Path, tmp_path: Path, name: str) -> None:
    left(closed / name)
    made = started_by_a_session(["iruby", "kernel"], "ruby", closed, tmp_path)
    assert made["env"].get("IRBRC") == (None if name == "data.csv" else os.devnull)
    assert ("RUBYOPT" in made["env"]) == (name != "data.csv")


@pytest.mark.parametrize("place", ["@.", "", ".", "sub"])
@pytest.mark.parametrize("left_there", ["Project.toml", "Manifest-v1.11.toml", "data.csv", ""])
def test_julia_takes_no_project_in_which_others_left_something(closed: Path, place: str, left_there: str) -> None:
    folder = closed / "sub" if place == "sub" else closed
    folder.mkdir(exist_ok=True)
    (folder / "Project.toml").write_text("")
    if left_there:
        left(folder / left_there)
    command, env = ["julia", f"--project={place}", "kernel.jl"], {"JULIA_PROJECT": place}

    started = other_starts.prepared_julia(command, env, str(closed))

    assert started == ((["julia", "kernel.jl"], {}) if left_there else (command, env))
    assert other_starts.prepared_julia(["julia", "kernel.jl"], env, str(closed))[1] == started[1]


@pytest.mark.parametrize(("mode", "is_taken"), [(0o1777, False), (0o755, True)])
def test_julia_takes_no_project_above_the_folder_where_all_people_write(
    closed: Path, mode: int, is_taken: bool
) -> None:
    own = closed / "own"
    own.mkdir()
    (closed / "Project.toml").write_text("")
    closed.chmod(mode)
    command = ["julia", "--project=@.", "kernel.jl"]
    assert (other_starts.prepared_julia(command, {}, str(own))[0] == command) == is_taken


def test_a_kernel_of_any_language_finds_nothing_by_chance_where_others_left_something(
    closed: Path, tmp_path: Path
) -> None:
    left(closed / "some_kernel.py")
    made = started_by_a_session(["sage", "--python"], "sage", closed, tmp_path)
    assert made["env"]["PYTHONPATH"].split(":")[0] == str(FIRST.parent)


async def test_the_session_goes_on_while_a_file_server_is_slow_to_say_whose_files_there_are(
    closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    went_on: list[bool] = []

    def look(_folder: str) -> str:
        went_on.append(goes_on.wait(5))
        return ""

    monkeypatch.setattr(provisioner, "of_others_in", look)
    manager = KernelManager(connection_file=str(tmp_path / "kernel.json"))
    started = ModuleProvisioner(parent=manager, kernel_spec=KernelSpec(argv=["sage"], language="sage"))

    starting = asyncio.create_task(started._private(["sage"], {"HOME": "/home/alice"}, str(closed)))
    await asyncio.sleep(0)
    goes_on.set()
    await starting

    assert went_on == [True]


def test_what_others_left_beside_a_template_comes_last(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", run.TEMPLATE):
        monkeypatch.delenv(name, raising=False)
    run._put_beside(closed)
    assert os.environ["PYTHONPATH"] == str(closed)

    left(closed / "json.py")
    monkeypatch.delenv("PYTHONPATH")
    run._put_beside(closed)
    assert (os.environ.get("PYTHONPATH"), os.environ[run.TEMPLATE]) == (None, str(closed))


@pytest.mark.parametrize("name", ["train.py", "train.ipynb"])
@pytest.mark.parametrize(("left_there", "is_beside"), [("train-4242.log", False), ("other-1.log", True)])
def test_a_job_writes_beside_its_file_unless_others_left_something_of_such_a_name(
    closed: Path, tmp_path: Path, name: str, left_there: str, is_beside: bool
) -> None:
    (closed / name).write_text("")
    (closed / "train-1.log").touch()
    (closed / left_there).symlink_to("/home/alice/.bashrc")
    os.lchown(closed / left_there, SOMEBODY_ELSE, -1)
    desk = JobDesk({"HOME": str(tmp_path), "PATH": ":/bin"})

    order = placed(order_of(closed / name, closed, {}), tmp_path)

    assert order.results == (None if is_beside else tmp_path / "jobs")
    assert desk._environ_for(order)["PATH"] == "/bin", "nothing there is found by chance"

    (tmp_path / "jobs").mkdir(exist_ok=True)
    left(tmp_path / "jobs" / "train-4242.log")
    order = placed(order_of(closed / name, closed, {}), tmp_path)
    assert order.results == (None if is_beside else tmp_path / "jobs-of-the-portal")
