"""The private folder of a session on its node: what a killed server left goes with the next session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client.connect import write_connection_file

from portal.homes import temporary
from portal.singleuser import runtime

HOLDS_ONE = """
import os, time
from portal.singleuser.runtime import runtime_folder
print(runtime_folder(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary folders are made below a folder of the test, and looked for nowhere else."""
    monkeypatch.setattr(temporary, "USUAL", ())
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_the_folder_of_a_session_that_lives_stays_and_that_of_a_killed_one_goes(elsewhere: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS_ONE], stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout
        folder = Path(session.stdout.readline().strip())
        assert folder.parent == elsewhere
        assert folder.stat().st_mode & 0o777 == 0o700
        runtime.remove_leftovers()
        assert folder.is_dir(), "its session lives"
        write_connection_file(str(folder / "kernel.json"), transport="ipc")  # a kernel starts: the folder is sticky now
        session.kill()

    runtime.remove_leftovers()

    assert not folder.exists()


def test_what_is_not_a_sessions_folder_is_left_alone(elsewhere: Path) -> None:
    (elsewhere / "dsp-no__lock").mkdir(mode=0o700)
    (elsewhere / "dsp-file0000").write_text("x")
    other = elsewhere / "other"
    other.mkdir()
    (other / runtime.LOCK).write_bytes(runtime.MARK)
    (elsewhere / "dsp-link0000").symlink_to(other)
    for name in ("dsp-labs", "dsp-homework"):
        (elsewhere / name).mkdir(mode=0o700)
    (elsewhere / "dsp-labs" / runtime.LOCK).touch()
    (elsewhere / "dsp-homework" / runtime.LOCK).touch()  # as many a program has one
    before = sorted(elsewhere.rglob("*"))

    runtime.remove_leftovers()

    assert sorted(elsewhere.rglob("*")) == before


def test_a_folder_that_others_can_write_in_is_none_of_a_session(elsewhere: Path) -> None:
    moved = elsewhere / "dsp-moved000"
    moved.mkdir()
    moved.chmod(0o770)
    (moved / runtime.LOCK).write_bytes(runtime.MARK)
    (moved / "work.txt").write_text("hers")

    runtime.remove_leftovers()

    assert (moved / "work.txt").read_text() == "hers"
