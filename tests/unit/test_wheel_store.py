"""The folder of fetched wheels, in which two programs may work at once: a wheel is in it whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import sys
from pathlib import Path

import pytest

from deploy.environments.wheels import Pip, missing

WHEEL = "one-1.0-py3-none-any.whl"
LOCK = f"one==1.0 --hash=sha256:{hashlib.sha256(b'whole').hexdigest()}\n"
HALF, END = "wh", "ole"
# Writes half of a wheel where pip is told to put it, asks who sees it, and writes the rest.
SLOW_PIP = f"""
import os, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("-d") + 1])
with (folder / "{WHEEL}").open("w") as file:
    file.write("{HALF}")
    file.flush()
    pathlib.Path(os.environ["SEEN"]).write_text(str(sorted(os.listdir(os.environ["STORE"]))))
    file.write("{END}")
"""


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    """A pip that is slow at writing."""
    program = tmp_path / "pip.py"
    program.write_text(SLOW_PIP)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("STORE", str(tmp_path / "store"))
    (tmp_path / "scratch").mkdir()
    return Pip((sys.executable, str(program)), Path(sys.executable), tmp_path / "scratch", print)


def test_a_wheel_is_in_the_store_when_it_is_whole(pip: Pip, tmp_path: Path) -> None:
    store = tmp_path / "store"

    pip.fetch(LOCK, store)

    assert (tmp_path / "seen").read_text() == "[]"
    assert [(file.name, file.read_text()) for file in store.iterdir()] == [(WHEEL, HALF + END)]


def test_so_it_is_where_the_store_is_on_another_disk(pip: Pip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(source: Path, target: Path) -> Path:
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return source.rename(target)

    monkeypatch.setattr(Path, "replace", replace)

    pip.fetch(LOCK, tmp_path / "store")

    assert [(file.name, file.read_text()) for file in (tmp_path / "store").iterdir()] == [(WHEEL, HALF + END)]


def test_what_a_run_left_that_was_killed_is_not_put_there(pip: Pip, tmp_path: Path) -> None:
    left = pip.scratch / "fetched"
    left.mkdir()
    (left / "two-1.0-py3-none-any.whl").write_text("half")

    pip.fetch(LOCK, tmp_path / "store")

    assert [file.name for file in (tmp_path / "store").iterdir()] == [WHEEL]


@pytest.mark.parametrize("comes_back", [False, True])
def test_one_that_another_program_has_taken_out_meanwhile_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    wheel = tmp_path / WHEEL
    wheel.write_text("cut short")
    digest = hashlib.file_digest

    def slowly(file: object, name: str) -> object:
        wheel.unlink()
        if comes_back:
            wheel.write_text("whole")
        return digest(file, name)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "file_digest", slowly)

    assert [pin.name for pin in missing(LOCK, tmp_path)] == ["one"]
    assert wheel.exists() is comes_back
