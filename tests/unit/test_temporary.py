"""What a session, a job and `portal` make for a while lies where nobody else can exchange it."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from portal.gpus import start
from portal.homes import temporary
from portal.homes.held_place import is_own_all_the_way
from portal.singleuser import extension, runtime
from portal.webtools.routes import socket_folder

LONG = "x" * 120


def of_a_block() -> Path:
    """As of `portal notebooks run`, of a notebook's job, and of `portal tools test`."""
    with temporary.folder("own-") as folder:
        assert folder.is_dir()
    assert not folder.exists()
    return folder


def of_kernel_test() -> Path:
    """Of `portal kernels test`."""
    with start._folder() as folder:
        assert folder.is_dir()
    assert not folder.exists()
    return folder


MAKERS = [
    of_a_block,
    of_kernel_test,
    runtime.runtime_folder,
    lambda: extension.runtime_folder(f"/{LONG}"),
    lambda: socket_folder(Path(f"/{LONG}"), ["tool"]),
    lambda: temporary.made("own-"),
]


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a project: one works in it while /tmp is full, and everybody can change it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(temporary, "USUAL", ())
    monkeypatch.setattr(start, "LONGEST_FOLDER", 4096)  # folders of tests are deep
    return folder


@pytest.mark.parametrize("make", MAKERS)
def test_where_others_can_change_what_python_takes_the_home_is_taken(
    make: Callable[[], Path], shared: Path, tmp_path: Path
) -> None:
    made = make()
    assert made.parent == tmp_path / "home"
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize("make", MAKERS)
def test_before_that_it_is_looked_at_where_temporary_files_usually_are(
    make: Callable[[], Path], shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "usual"
    usual.mkdir()
    monkeypatch.setattr(temporary, "USUAL", (str(tmp_path / "none"), str(usual)))
    assert make().parent == usual


def test_where_python_finds_no_place_at_all_there_is_the_home(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert temporary.made("own-").parent == tmp_path / "home"


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_elsewhere_it_is_where_python_has_it(make: Callable[[], Path], mode: int, shared: Path) -> None:
    shared.chmod(mode)
    assert make().parent == shared


def test_what_is_made_is_for_the_person_alone(shared: Path) -> None:
    before = os.umask(0)
    try:
        assert is_own_all_the_way(temporary.made("own-"))
    finally:
        os.umask(before)


def test_a_killed_sessions_folder_in_the_home_goes_with_the_next_one(shared: Path) -> None:
    left = temporary.made(runtime.PREFIX)
    (left / runtime.LOCK).touch()
    runtime.remove_leftovers()
    assert not left.exists()


@pytest.fixture
def home(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Who filled /tmp: Python's folder for temporary files is then the one it works in, a session's home."""
    monkeypatch.delenv("TMPDIR")
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "home"))  # what gettempdir() found
    return tmp_path / "home"


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("named", ["", ".", "{home}", "{home}/tmp", "{linked}"])
def test_in_the_home_it_is_hidden_and_of_this_node(
    make: Callable[[], Path], named: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "tmp").mkdir()
    (tmp_path / "linked").symlink_to("home")
    monkeypatch.setenv("TMPDIR", named.format(home=home, linked=tmp_path / "linked"))
    assert re.fullmatch(rf"\.[a-z-]*-{os.uname().nodename.partition('.')[0]}-[a-z0-9_]{{8}}", make().name)


@pytest.mark.parametrize("named", ["", "{home}"])
@pytest.mark.parametrize("name", ["dsp-labs", "dsp-homework", ".dsp-{node}-labs", ".dsp-{node}-a-homework"])
def test_what_a_person_calls_so_in_the_home_stays(
    named: str, name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", named.format(home=home))
    labs = home / name.format(node=os.uname().nodename.partition(".")[0])
    labs.mkdir(mode=0o700)
    (labs / runtime.LOCK).touch()
    (labs / "thesis.txt").write_text("hers")
    runtime.remove_leftovers()
    assert (labs / "thesis.txt").exists()


@pytest.mark.parametrize("named", ["", "{home}"])
def test_what_a_killed_one_left_there_goes_when_there_is_room_elsewhere(
    named: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", named.format(home=home))
    left = temporary.made(runtime.PREFIX)
    (left / runtime.LOCK).write_bytes(runtime.MARK)
    roomy = tmp_path / "roomy"
    roomy.mkdir()
    monkeypatch.setenv("TMPDIR", str(roomy))
    monkeypatch.setattr(tempfile, "tempdir", str(roomy))
    runtime.remove_leftovers()
    assert not left.exists()


def test_a_disk_without_room_for_what_it_holds_is_left_and_nothing_stays_there(
    home: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tmpfs that is full of bytes new folders can be made, and nothing can be written into them."""
    shared.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.setattr(tempfile, "TemporaryFile", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    assert temporary.made("own-").parent == home
    assert list(shared.iterdir()) == []


def test_a_nodes_domain_makes_no_path_of_a_socket_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.uname", lambda: Mock(nodename="gpu01.cluster.example.org"))
    assert temporary.prefix_in_home("dsp-") == ".dsp-gpu01-"


def test_that_of_another_node_stays_whatever_its_lock_says_here(shared: Path, tmp_path: Path) -> None:
    other = tmp_path / "home" / f".{runtime.PREFIX}other-node-abc"
    other.mkdir(mode=0o700)
    (other / runtime.LOCK).touch()
    runtime.remove_leftovers()
    assert other.exists()


def test_what_others_may_have_moved_here_is_none_of_a_session(shared: Path) -> None:
    moved = shared / "dsp-moved000"
    moved.mkdir(mode=0o700)
    (moved / runtime.LOCK).write_bytes(runtime.MARK)
    runtime.remove_leftovers()
    assert (moved / runtime.LOCK).exists()
