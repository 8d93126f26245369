"""Set-up and builds wait for each other, and not for somebody else who may only look at their folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy import own_lock
from deploy.environments import frameworks, portal_venv
from deploy.environments.wheels import BuildError

NOBODY = 65534
# Takes a lock of everything below a folder that it may open, says how many these were, and keeps them.
HOLDS = """
import fcntl, os, sys
os.setgid(65534)
os.setuid(65534)
kept = []
for folder, _, files in os.walk(sys.argv[1]):
    for name in [folder, *(os.path.join(folder, file) for file in files)]:
        try:
            kept.append(os.open(name, os.O_RDONLY))
            fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
print(len(kept), flush=True)
sys.stdin.read()
"""


@contextmanager
def stranger(folder: Path) -> Iterator[None]:
    """Somebody else who holds what can be opened below a folder."""
    argv = [sys.executable, "-I", "-c", HOLDS, str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
        assert held.stdout
        assert held.stdin
        assert int(held.stdout.readline()), "the folder itself can be opened"
        yield
        held.stdin.close()


@pytest.fixture
def seen() -> Iterator[Path]:
    """A folder that everybody may look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_lock, "WAITS_S", 0.3)
    monkeypatch.setattr(own_lock, "STEP_S", 0.02)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else")
def test_nobody_else_holds_up_a_set_up_or_a_build(seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portal_venv, "CHECKOUT", seen)
    done = []
    for _ in range(2):  # before any file of a lock is there, and afterwards
        with stranger(seen):
            with portal_venv.alone():
                done.append("set up")
            with frameworks.alone(seen / "apps" / "tool"):
                done.append("built")
    assert done == ["set up", "built"] * 2


def test_the_file_of_a_lock_is_its_owners_alone(tmp_path: Path) -> None:
    with own_lock.alone(tmp_path / "lock", print):
        pass
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_two_builds_of_one_environment_exclude_each_other_and_the_second_says_who_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with frameworks.alone(tmp_path):
        with (
            pytest.raises(BuildError, match=r"^another one has been at work here.*: run this again"),
            frameworks.alone(tmp_path),
        ):
            pass
        assert f"process {os.getpid()}" in capsys.readouterr().out
    with frameworks.alone(tmp_path):
        pass


def test_one_that_waits_goes_on_when_the_other_ends(tmp_path: Path) -> None:
    first = own_lock.alone(tmp_path / "lock", print)
    first.__enter__()
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        first.__exit__(None, None, None)

    with own_lock.alone(tmp_path / "lock", say):
        assert len(said) == 1


def test_what_is_no_file_of_ones_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    names = ["link", "pipe", "folder"]
    if os.geteuid() == 0:
        (tmp_path / "theirs").touch()
        os.chown(tmp_path / "theirs", NOBODY, NOBODY)
        names.append("theirs")
    for name in names:
        with pytest.raises(BuildError, match=r"[Rr]emove it"), own_lock.alone(tmp_path / name, print):
            pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else")
def test_who_may_not_write_where_all_is_done_goes_on_as_before(seen: Path) -> None:
    code = f"""
import sys; sys.path.insert(0, {str(portal_venv.CHECKOUT)!r})
from pathlib import Path
from deploy import own_lock
import os; os.setgid({NOBODY}); os.setuid({NOBODY})
with own_lock.alone(Path({str(seen)!r}) / "lock", print):
    print("done")
"""
    with own_lock.alone(seen / "lock", print):
        done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else")
def test_who_may_write_there_does_not_go_on_without_a_lock(seen: Path) -> None:
    """In a folder of a group another member's lock cannot be opened."""
    seen.chmod(0o777)
    code = f"""
import sys; sys.path.insert(0, {str(portal_venv.CHECKOUT)!r})
from pathlib import Path
from deploy import own_lock
import os; os.setgid({NOBODY}); os.setuid({NOBODY})
with own_lock.alone(Path({str(seen)!r}) / "lock", print):
    print("done")
"""
    with own_lock.alone(seen / "lock", print):
        done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert "it is of root: let that account do this" in done.stderr


@pytest.mark.parametrize(
    ("locks", "words"),
    [
        ("1: FLOCK  ADVISORY  WRITE 4294967290 08:01:77 0 EOF\n", ", process 4294967290"),
        ("1: FLOCK  ADVISORY  WRITE 4294967290 08:01:78 0 EOF\n", ""),
        ("1: -> FLOCK  ADVISORY  WRITE 4294967290 08:01:77 0 EOF\n", ""),
        ("1: FLOCK  ADVISORY  WRITE -1 08:01:77 0 EOF\n", ""),
        ("", ""),
    ],
)
def test_who_holds_a_lock_is_told_where_linux_tells_it(locks: str, words: str) -> None:
    file = Namespace(st_dev=os.makedev(8, 1), st_ino=77)
    assert own_lock.holder(locks, file) == words  # type: ignore[arg-type]
