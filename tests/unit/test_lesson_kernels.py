"""The kernels that lessons start take nothing out of the folder of the notebook, and leave nothing in it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from portal.lessons import lesson_folders
from tests.unit.test_container_lesson import written

LESSONS = Path(__file__).parents[2] / "notebooks/kernels"
NAMES = ("ipykernel_launcher", "traitlets", "multiprocessing")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the temporary files of a lesson are, behind a link, as on some nodes; short, as names of sockets are."""
    with tempfile.TemporaryDirectory() as short:
        (Path(short) / "real").mkdir(mode=0o700)
        (Path(short) / "tmp").symlink_to("real")
        yield Path(short) / "tmp"


@pytest.fixture
def place(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that others can change, in which they have left modules; the lesson is run there."""
    place = tmp_path / "shared"
    place.mkdir()
    for name in NAMES:
        text = f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\nraise SystemExit(1)\n"
        (place / f"{name}.py").write_text(text)
    place.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("HOME", str(tmp_path))
    factory = KernelProvisionerFactory.instance()  # of a lesson's own Python: not the one of a session
    monkeypatch.setattr(factory, "default_provisioner_name", "local-provisioner")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(place)
    return place


def own_environment(home: Path, _: pytest.MonkeyPatch, words: list[str]) -> dict[str, Any]:
    """The names that the lesson on environments has when it starts the kernel."""
    folder = home / ".local/share/jupyter/kernels/my-environment"
    folder.mkdir(parents=True)
    spec = {"argv": [*words, "-f", "{connection_file}"], "display_name": "My environment", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    return {"environment": "my-environment", "installed": [], "own": home}


def container(home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> dict[str, Any]:
    """Those of the lesson on containers, with a container that has the node's own files."""
    written(home, monkeypatch, home / "image")
    made = home / ".local/share/jupyter/kernels/my-container"
    made.parent.mkdir(parents=True)
    (home / "kernels/my-container").rename(made)
    script = made / "start"
    text = script.read_text()
    usual = " ".join([sys.executable, "-m", "ipykernel_launcher"])
    assert usual in text
    script.write_text(text.replace(usual, " ".join(words)))
    return {"kernel": "my-container", "title": "My container", "kernel_folder": made}


Lesson = Callable[[Path, pytest.MonkeyPatch, list[str]], dict[str, Any]]


def run_a_cell(lesson: Lesson, home: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    """Run the lesson's own cell; its names then."""
    notebook = json.loads((LESSONS / f"{lesson.__name__}.ipynb").read_text())
    cells = {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}
    names = lesson(home, monkeypatch, list(words)) | {
        "Path": Path, "json": json, "keep": True, "lesson_folders": lesson_folders, "os": os, "shutil": shutil,
        "time": time,
    }  # fmt: skip
    exec(cells["run-a-cell"], names)  # noqa: S102  the lesson's own code
    return names


@pytest.mark.parametrize("lesson", [own_environment, container])
def test_a_kernel_of_a_lesson_takes_nothing_out_of_the_notebooks_folder_and_leaves_nothing(
    tmp_path: Path, place: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, lesson: Lesson
) -> None:
    names = run_a_cell(lesson, tmp_path, monkeypatch, sys.executable, "-m", "ipykernel_launcher")

    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert names["answer"], "it has answered"
    assert sorted(one.name for one in place.iterdir()) == sorted(f"{name}.py" for name in NAMES)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("program", ["/bin/false", "/no/such/program"])
@pytest.mark.parametrize("lesson", [own_environment, container])
def test_a_kernel_of_a_lesson_that_does_not_start_leaves_nothing_either(
    tmp_path: Path, place: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, lesson: Lesson, program: str
) -> None:
    with pytest.raises((AssertionError, FileNotFoundError)):
        run_a_cell(lesson, tmp_path, monkeypatch, program)

    assert len(list(place.iterdir())) == len(NAMES)
    assert list(temporary.iterdir()) == []
