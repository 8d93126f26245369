"""Where the output of `portal notebooks run` goes, in folders that others can change and in one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portal import cli
from portal.homes import own_folder
from portal.notebooks import run as run_module

SOMEBODY_ELSE = 4_000_000  # no account of this machine
EXCHANGED = """
import os, pathlib
place = pathlib.Path("add-run.ipynb")
seen = place.is_file() and not place.is_symlink()
place.unlink()
place.symlink_to({victim!r})
print("seen", seen)
"""
MOVED = """
import os
os.rename({place!r}, {place!r} + "-moved")
os.symlink({other!r}, {place!r})
print("moved")
"""
KILLED = "import os, signal\nprint('so far', flush=True)\nos.kill(os.getppid(), signal.SIGKILL)\nos._exit(0)"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which everybody can change; one kernel; and a file of the person's elsewhere."""
    spec = tmp_path / "jupyter/kernels/mine/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Mine", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))
    monkeypatch.setattr(run_module, "refuse_root", lambda: None)  # these tests may run as root
    folder = tmp_path / "project"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.chdir(folder)
    (tmp_path / "mine.ipynb").write_text("mine")
    return folder


def cell(name: str, source: str, **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code", "id": name, "metadata": metadata, "outputs": [], "execution_count": None, "source": source,
    }  # fmt: skip


def template(tmp_path: Path, *sources: str) -> Path:
    """A folder of templates with the notebook maths/add."""
    spec = {"name": "mine", "display_name": "Mine", "language": "python"}
    cells = [cell("parameters", "a = 1", tags=["parameters"])]
    cells += [cell(f"work-{number}", source) for number, source in enumerate(sources)]
    path = tmp_path / "templates/maths/add.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": spec}, "cells": cells}))
    return path.parent.parent


def run(folder: Path, *options: str) -> int:
    return cli.main(["notebooks", "run", "maths/add", "--folder", str(folder), *options])


def printed(output: Path) -> str:
    cells = json.loads(output.read_bytes())["cells"]
    return "".join("".join(one["text"]) for cell in cells for one in cell.get("outputs", ()) if "text" in one)


def test_a_link_of_others_at_the_output_is_not_written_through(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shared / "add-run.ipynb").symlink_to(tmp_path / "mine.ipynb")
    monkeypatch.setattr(own_folder, "ROOT", SOMEBODY_ELSE)
    monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)
    assert run(template(tmp_path, "print(a)")) == 1
    assert "cannot be written: add-run.ipynb is somebody else's link" in capsys.readouterr().err
    assert (tmp_path / "mine.ipynb").read_text() == "mine"


def test_a_link_of_ones_own_is_not_written_through_where_others_may_have_put_it(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shared / "add-run.ipynb").symlink_to(tmp_path / "mine.ipynb")
    assert run(template(tmp_path, "print(a)")) == 1
    assert "in a folder that others can change" in capsys.readouterr().err
    assert (tmp_path / "mine.ipynb").read_text() == "mine"


def test_a_link_that_is_put_there_meanwhile_is_replaced_by_the_output(shared: Path, tmp_path: Path) -> None:
    source = EXCHANGED.format(victim=str(tmp_path / "mine.ipynb"))
    assert run(template(tmp_path, source, "print('on')")) == 0
    assert (tmp_path / "mine.ipynb").read_text() == "mine"
    assert not (shared / "add-run.ipynb").is_symlink()
    assert printed(shared / "add-run.ipynb") == "seen True\non\n"
    assert [one.name for one in shared.iterdir()] == ["add-run.ipynb"]


def test_the_output_stays_in_the_folder_that_it_began_in(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/add-run.ipynb").write_text("mine")
    source = MOVED.format(place=str(shared), other=str(tmp_path / "other"))
    assert run(template(tmp_path, source, "raise ValueError('wrong')")) == 1
    assert (tmp_path / "other/add-run.ipynb").read_text() == "mine"
    assert printed(tmp_path / "project-moved/add-run.ipynb") == "moved\n"


def test_a_link_of_ones_own_in_ones_own_folder_is_followed(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "link.ipynb").symlink_to("mine.ipynb")
    (tmp_path / "mine.ipynb").chmod(0o600)
    assert run(template(tmp_path, "print(a)"), "--output", str(tmp_path / "link.ipynb")) == 0
    assert (tmp_path / "link.ipynb").is_symlink()
    assert printed(tmp_path / "mine.ipynb") == "1\n"
    assert (tmp_path / "mine.ipynb").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("mode", "of_output"), [(0o600, 0o600), (0o640, 0o640), (0o644, 0o644), (0o666, 0o644)])
def test_a_new_output_is_as_closed_as_its_source(shared: Path, tmp_path: Path, mode: int, of_output: int) -> None:
    """It has all of that in it; what is open is so as the umask has it."""
    folder = template(tmp_path, "print(a)")
    (folder / "maths/add.ipynb").chmod(mode)
    old = os.umask(0o022)
    try:
        assert run(folder) == 0
        assert run(folder) == 0  # over the first one
    finally:
        os.umask(old)
    assert (shared / "add-run.ipynb").stat().st_mode & 0o777 == of_output


def test_what_was_done_is_there_when_the_run_is_killed(shared: Path, tmp_path: Path) -> None:
    folder = template(tmp_path, "print('first')", KILLED)
    argv = ["notebooks", "run", "maths/add", "--folder", str(folder)]
    code = f"""
from portal import cli
from portal.notebooks import run
run.refuse_root = lambda: None
cli.DEFAULT_SITE = {cli.DEFAULT_SITE!r}
cli.main({argv!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=120, env=os.environ | {"PYTHONPATH": _root()}
    )
    assert done.returncode == -9
    assert printed(shared / "add-run.ipynb") == "first\n"
    assert [one.name for one in shared.iterdir()] == ["add-run.ipynb"]


def _root() -> str:
    return str(Path(cli.__file__).parents[1])


def test_a_kernel_that_dies_leaves_what_it_did(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(template(tmp_path, "print('first')", "import os; os._exit(1)")) == 1
    assert "What it did so far is in" in capsys.readouterr().err
    assert printed(shared / "add-run.ipynb") == "first\n"


@pytest.mark.filterwarnings("ignore:the file is not specified with any extension")
def test_an_output_that_nobody_wants_goes_nowhere(shared: Path, tmp_path: Path) -> None:
    assert run(template(tmp_path, "print(a)"), "--output", "/dev/null") == 0
    assert list(shared.iterdir()) == []


def test_a_name_in_braces_is_a_name(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "{a}").mkdir()
    monkeypatch.chdir(shared / "{a}")
    assert run(template(tmp_path, "print(a)"), "--set", "a=2") == 0
    assert printed(shared / "{a}/add-run.ipynb") == "2\n"


def test_a_folder_that_is_not_there_is_told(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(template(tmp_path, "print(a)"), "--output", "gone/add.ipynb") == 1
    assert f"There is no folder {shared}/gone: make it first" in capsys.readouterr().err


def test_an_output_that_is_a_folder_is_told(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shared / "add-run.ipynb").mkdir()
    assert run(template(tmp_path, "print(a)")) == 1
    assert "add-run.ipynb cannot be written: Is a directory" in capsys.readouterr().err
    assert [one.name for one in shared.iterdir()] == ["add-run.ipynb"]
